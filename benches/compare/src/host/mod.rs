//! The machine and the process: what the kernel says about both, and what is asked of it.
//!
//! - `process`: memory, files, bytes, run-queue wait of this process.
//! - `facts`: what stands at the head of a board.
//! - `clocks`: BOOTTIME beside MONOTONIC.
//! - `files`: sizes, residency, eviction of a database's files.
//! - `limit`: a memory limit by control group.
//! - `raw`: the system calls that no safe wrapper offers.

pub mod clocks;
pub mod facts;
pub mod files;
pub mod limit;
pub mod process;
pub mod raw;
