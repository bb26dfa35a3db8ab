//! A world run twice with the same choices: nothing outside of the scheduler's control decides.
//!
//! Invariants
//! - The second run is offered the first one's choices; that other tasks can run then, or another
//!   number of choices is asked for, is a finding (shuttle's own check).
//! - Beyond that both runs must have done the same (stages, calls, commits, in their order) and
//!   left the same bytes.
//!
//! That both agree proves nothing: what differs once in a thousand runs takes as many worlds.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::actors;
use super::chooser::Chooser;
use super::watch::Watch;
use super::world::World;
use crate::pool::panic_text;
use shuttle::scheduler::UncontrolledNondeterminismCheckScheduler as Checked;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// What a run did, and the bytes that it left.
type Done = (u64, Option<u64>);

/// Runs `first`, then `second` with the choices of the first, and returns how many choices there
/// were. Any other `second` than the same world is one that must be found out.
///
/// # Errors
/// What differed, in words.
pub fn check(first: &World, second: &World) -> Result<u64, String> {
    actors::quiet();
    let (chooser, chosen) = Chooser::new(first.pace.clone(), first.seed);
    let runner = shuttle::Runner::new(Checked::new(chooser), actors::config());
    let worlds = [Arc::new(first.clone()), Arc::new(second.clone())];
    let done: Arc<Mutex<Vec<Done>>> = Arc::default();
    let told = done.clone();
    let ran = catch_unwind(AssertUnwindSafe(|| {
        runner.run(move || {
            let lock = || told.lock().unwrap_or_else(PoisonError::into_inner);
            let world = &worlds[lock().len().min(1)];
            let watch = Watch::new(world.seed, 0, actors::panic_of(world));
            let end = actors::life(world, &watch);
            let left = end.left.map(|left| left.killed().content_hash());
            lock().push((watch.take().hash, left));
        })
    }));
    ran.map_err(|panic| panic_text(&*panic))?;
    let done = done.lock().unwrap_or_else(PoisonError::into_inner);
    let [(did, left), (did_again, left_again)] = done[..] else {
        return Err(format!("{} of two runs came to their end", done.len()));
    };
    if did != did_again {
        return Err("the same choices, and other stages, calls or commits".to_owned());
    }
    if left != left_again {
        return Err("the same choices, and other bytes on the disk".to_owned());
    }
    Ok(chosen.lock().unwrap_or_else(PoisonError::into_inner).steps)
}
