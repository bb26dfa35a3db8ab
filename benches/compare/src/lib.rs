//! The side-by-side campaign: Kiban and other engines, the same work, in one run on one machine.
//!
//! - `plan` says what is measured; `supervise` runs it, one process for each trial; `trial` is what
//!   happens in such a process.
//! - `engine` is what is asked of an engine, `engines` the adapters, `fake` one without an engine.
//! - `report` makes the board of a campaign, `check` holds boards against targets.
//! - `kill` and `syncs` look at the adapters themselves.
//!
//! It stands outside the engine and imports its public API only.

pub mod check;
pub mod cli;
pub mod engine;
pub mod engines;
pub mod fake;
pub mod histogram;
pub mod host;
pub mod kill;
pub mod plan;
pub mod profile;
pub mod random;
pub mod records;
pub mod report;
pub mod supervise;
pub mod sync_count;
pub mod syncs;
pub mod trial;
