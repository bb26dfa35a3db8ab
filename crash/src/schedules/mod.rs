//! Schedules: the whole shared handle on the simulated disk under a controlled scheduler, with the
//! crash as one more event, against the order of commits.
//!
//! Reading order: `world` (who does what, drawn from a seed), `base` (the databases that a world
//! may begin with), `chooser` (who runs next), `watch` (what is seen and photographed while they
//! run), `actors` (the run itself), `order` (what an image of an instant may show), `image` (an
//! image recovered and judged outside of the schedule), `after` (the history, receipts, poison),
//! `case` (all of it as one function of a seed), `rows` and `place` (the matrix of groups, and
//! where in it a shot is), `groups` (one row of it exhaustively), `origin` (worlds by name), `cut`
//! (worlds with less in them),
//! `twice` (a world run again with the same choices), `campaign` (many of them).
//!
//! Invariants
//! - A case is a function of its seed: the world, every scheduling choice, every fault and every
//!   image follow from it (F1). Nothing of a case outlives it.
//! - The engine under the scheduler is the production source in its shuttle form. Images are
//!   recovered by its std form.
//! - A crash stops nobody: a shot is a copy of the disk and the number of the instant; what was
//!   known then is read off the record afterwards.
//! - Shuttle treats atomics as sequentially consistent: weak memory is loom's to check.

mod actors;
mod after;
pub mod base;
pub mod campaign;
pub mod case;
pub mod chooser;
pub mod cut;
pub mod groups;
mod image;
mod order;
pub mod origin;
mod place;
pub mod rows;
mod special;
pub mod twice;
mod watch;
pub mod world;

use crate::disk;

// The same file over the other form's traits, which are other types.
#[allow(clippy::duplicate_mod)]
#[path = "../adapter.rs"]
mod adapter;

/// The engine in shuttle form, as the adapter wants it.
mod engine {
    pub(super) use kiban_shuttle::env;

    /// A scheduling point.
    pub(super) fn switch() {
        shuttle::thread::yield_now();
    }
}
