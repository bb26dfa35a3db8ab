//! Histories of concurrent clients, and whether one order of commits explains all that they saw.
//!
//! Reading order: `event` (what is recorded), `text` (how it is written down), `order` (in which
//! order the writes took effect), `fold` (what each cut of that order shows), `check` (which cut
//! each read saw), `violation` and `diagnose` (what is said when none fits), `exhaustive` (the same
//! question answered slowly, to check the answer).
//!
//! A history is plain data: calls with the instants of their invocation and return, taken from one
//! counter that every client shares. Nothing here knows the engine, threads or clocks.
//!
//! What holds of a history that passes
//! - V2: some instant between each call's invocation and return puts all calls into one order that
//!   a sequential map would have answered the same way.
//! - D3: sequences are that order, and it respects real time. C2: none was given twice.
//! - A1: every read saw a whole number of batches. S2: one read saw one cut.
//! - S1: all reads at one snapshot saw one cut, that of an instant while it was taken.
//! - P1: nothing that began after the handle was poisoned took effect.
//!
//! Why it need not search: a write that succeeded says its place in the order, so only the cut of
//! each read is open. Let `c(r)` be the number of writes that read `r` saw. One order of all calls
//! that keeps real time exists if and only if
//!
//! 1. no write stands before another that returned before it was invoked;
//! 2. `c(r)` includes every write that returned before `r` was invoked;
//! 3. `c(r)` includes no write that was invoked after `r` returned;
//! 4. `c(q) <= c(r)` where `q` returned before `r` was invoked.
//!
//! They are necessary, being what real time says of two calls. They suffice: order calls by number
//! of writes, each write before the reads that saw it last, such reads by invocation; each pair
//! that real time orders then stands in that order. Reads only push each other's cuts up, so giving
//! each read, in order of invocation, the smallest cut that fits finds an assignment if one exists.
//!
//! In doubt is a write that failed on a handle it poisoned, or that never returned. It took effect
//! between its invocation and its return, or never. Where the order of commits was recorded, its
//! place is known, and nothing behind it in the order is visible without it. Where not, every place
//! is tried, up to a limit. The answer is exact there too, only slower.
//!
//! What it does not do: durability. What a crash may leave is the business of `durable`, to which
//! [`History::until`] gives the calls that a crash at some instant had let return.

mod check;
mod diagnose;
mod event;
pub mod exhaustive;
mod fold;
mod order;
#[cfg(test)]
mod tests;
mod text;
mod violation;

pub use check::Passed;
pub use event::{Call, Event, History, Ordered, Outcome, Recorder, Saw, SnapshotId};
pub use violation::{Kind, Violation};

/// Whether one order of commits explains `history`.
///
/// # Errors
/// The first thing that none explains, with the promise that it breaks.
pub fn check(history: &History) -> Result<Passed, Box<Violation>> {
    history.well_formed()?;
    order::orders(history)?.explain(history)
}
