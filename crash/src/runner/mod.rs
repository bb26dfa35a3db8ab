//! The `kiban-crash` command: from the command line to the exit code.
//!
//! The way: parse the flags (`cli`), try the places for results (`output`), run the subcommand,
//! which fills a [`Report`](crate::report::Report), show it (`view`, `page`, `cases`, `junit`), and
//! leave with the verdict's exit code.
//!
//! Invariants
//! - Exit code 2 means that nothing ran; 5, that the machine refused; all others are the report's.
//! - A subcommand holds no logic of its own that a test could not call without a process.

pub mod cases;
pub mod cli;
pub mod interrupt;
pub mod junit;
pub mod layer;
pub mod merge;
pub mod mutants;
pub mod output;
pub mod page;
pub mod progress;
pub mod revision;
pub mod trace;
pub mod view;

mod commands;

pub use commands::main;
