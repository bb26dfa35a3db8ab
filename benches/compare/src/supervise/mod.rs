//! A campaign: one child process for each trial, under a supervisor that trusts nothing.
//!
//! - `campaign`: the order of trials, their records, and what is gone on with.
//! - `child`: a process group with a time-out, a heartbeat, and a reaping.
//! - `guard`: refuses a busy machine.
//! - `order`: who runs when.
//! - `pins`: what may not change between the parts of one campaign.
//! - `record`: what is kept of a trial.
//!
//! Invariants
//! - A trial is never run twice and never dropped: whatever happens to it leaves a record.
//! - Nothing runs before the plan, the engines, the disk and the machine were found good.

pub mod awake;
pub mod beat;
pub mod campaign;
pub mod child;
pub mod guard;
pub mod order;
pub mod pins;
pub mod record;
