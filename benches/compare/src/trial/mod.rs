//! One trial, in a process of its own: load, prepare, stages, settle, verify, close, reopen, and
//! verify again.
//!
//! 1. `load` fills the database; all of it is read back.
//! 2. `work` runs the stages; every read is checked as it is made.
//! 3. `flow` orders the steps, times them and takes the figures around them.
//! 4. `verify` reads everything back: after the load, after the run, after sync, close and reopen.
//! 5. `arrivals` sets the times of an open loop's calls.
//! 6. `floor` makes the calls of a row without an engine.
//!
//! Invariants
//! - A trial without its three receipts does not count; an answer that is wrong ends it at once.
//! - What verification takes is in no figure: it lies outside the timed spans.

mod arrivals;
mod call;
mod floor;
mod flow;
mod load;
mod outcome;
mod sample;
mod state;
mod verify;
mod work;

pub use flow::{Spec, hex, opener, run, write};
pub use outcome::{Failure, Figures, OptionsFile, Outcome, Receipt, Sample, Settle, StageFigures};
pub use state::State;
pub use verify::receipt;
