//! An image, outside of the schedule: recovered by the engine in its std form, compared, used.
//!
//! Invariants
//! - An image is whole only once it was recovered, compared with the cuts that its instant admits,
//!   verified, written to and closed; a share is opened once more and compared again.
//! - Equal images of one run are recovered once; what they show is judged for each instant.

use super::order::{Floor, Order};
use super::world::{World, options_of};
use crate::adapter::SimFs;
use crate::disk::Disk;
use crate::life::{Slip, caught};
use crate::sim::fold;
use kiban::Kiban;
use kiban::env::Env;
use kiban::env::random::SeededRandom;
use kiban_model::value::hash_pair;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a recovered image shows.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// The hash of its state.
    pub state: u64,
    /// Its last sequence.
    pub last: u64,
    /// Whether the recovery dropped the end of a log.
    pub dropped: bool,
    /// Runs in its version.
    pub runs: u64,
}

fn slip(promise: &str, what: &str, expected: String, got: String) -> Slip {
    Slip { promise: promise.to_owned(), what: what.to_owned(), expected, got }
}

/// Recovers `disk` in the directory `dir` and uses what it shows.
///
/// # Errors
/// A broken promise.
pub fn recover(disk: Disk, dir: &str, world: &World, hash: u64) -> Result<Shown, Slip> {
    caught(|| {
        let fs = SimFs::new(disk);
        fs.with(|disk| disk.set_log_max(0));
        let env = Env {
            fs: Arc::new(fs.clone()),
            clock: Arc::new(fs.clone()),
            random: Arc::new(SeededRandom::new(fold(world.seed, hash))),
            probe: None,
        };
        let options = || options_of!(kiban, &world.knobs).env(env.clone());
        let refused = |promise: &'static str, what: &'static str| {
            move |error: kiban::Error| slip(promise, what, "success".to_owned(), error.to_string())
        };
        let open =
            || Kiban::open(dir, options()).map_err(refused("D3", "the recovery of an image"));
        let mut db = open()?;
        let report = db.recovery_report();
        let (last, dropped) = (report.last_sequence, report.dropped.is_some());
        let state = state_of(&db)?;
        let runs = db.stats().runs;
        db.verify().map_err(refused("C1", "verify after a recovery"))?;
        let durable = hash.is_multiple_of(2);
        let put = if durable { db.put_durable(b"z", b"after") } else { db.put(b"z", b"after") };
        let seq = put.map_err(refused("B1", "a write after a recovery"))?;
        if seq.0 <= last {
            let expected = format!("more than {last}");
            return Err(slip("C2", "a sequence given twice", expected, seq.0.to_string()));
        }
        let got = db.get(b"z").map_err(refused("V2", "a read after a recovery"))?;
        if got.as_deref() != Some(&b"after"[..]) {
            return Err(slip("V2", "a read after a write", "it".to_owned(), format!("{got:?}")));
        }
        db.close().map_err(refused("D1", "the close after a recovery"))?;
        if hash % 4 < 2 {
            let db = open()?;
            let again = state_of(&db)?.wrapping_sub(hash_pair(b"z", b"after"));
            if again != state {
                let what = "an image recovered, used and opened again";
                return Err(slip("D4", what, "the same state".to_owned(), "another".to_owned()));
            }
        }
        let violation = fs.with(|disk| disk.violations().first().map(ToString::to_string));
        if let Some(violation) = violation {
            return Err(slip("C1", "a call that no engine may make", "none".to_owned(), violation));
        }
        fs.with(|disk| disk.set_off(true));
        Ok(Shown { state, last, dropped, runs })
    })
}

/// The hash of everything that a scan shows.
fn state_of(db: &Kiban) -> Result<u64, Slip> {
    let refused = |error: kiban::Error| {
        slip("C1", "a scan after a recovery", "every entry".to_owned(), error.to_string())
    };
    let mut hash = 0u64;
    for item in db.range::<&[u8]>(..).map_err(refused)? {
        let (key, value) = item.map_err(refused)?;
        hash = hash.wrapping_add(hash_pair(&key, &value));
    }
    Ok(hash)
}

/// The cut that is shown, if it may be.
///
/// # Errors
/// The promise that is broken.
pub fn admit(order: &Order, shown: &Shown, floor: &Floor, ceiling: usize) -> Result<usize, Slip> {
    if let Some(cut) = order.cut_of_state(shown.state, floor.cut, ceiling) {
        return Ok(cut);
    }
    let expected = format!("a cut from {} ({}) to {ceiling}", floor.cut, floor.why);
    let below = order.cut_of_state(shown.state, 0, floor.cut);
    let above = order.cut_of_state(shown.state, ceiling, usize::MAX);
    let what = "what recovery shows";
    Err(match (below, above) {
        (Some(cut), _) => slip(floor.promise, what, expected, format!("cut {cut}")),
        (None, Some(cut)) => slip("D3", what, expected, format!("cut {cut}, of the future")),
        (None, None) => {
            let got = format!("no cut at all, up to sequence {}", shown.last);
            slip("D3", what, expected, got)
        }
    })
}

/// What images of a run showed, by content.
pub type Known = BTreeMap<u64, Shown>;
