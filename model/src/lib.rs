//! What the engine should do.
//!
//! Reading order: `ops` (what can be done), `text` (how it is written down), `oracle` (what must
//! be answered), `durable` (what a crash may leave), `generate` (what is tried), `driver` (engine
//! and oracle in lockstep).
//! `history` is the other oracle, for concurrent clients: does one order explain what they saw?
//! `unsynced` is what the lockstep tests stand on: real files, and syncs that do nothing.
//! `spec` stands apart: a small model of the commit protocol that a checker explores whole.
#![forbid(unsafe_code)]

pub mod config;
pub mod driver;
pub mod durable;
pub mod generate;
pub mod history;
pub mod ops;
pub mod oracle;
pub mod shrink;
pub mod spec;
pub mod text;
pub mod unsynced;
pub mod value;
