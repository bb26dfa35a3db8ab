//! Exhaustive small scope: every sequence of a few operations, every point, every image.
//!
//! Eight operations on two keys, with logs and memtables so small that the second write of a
//! sequence rotates the log and freezes the memtable. All sequences of up to N operations are run;
//! at every point of a sequence's last operation every distinct image, up to 64, is examined. The
//! points of the operations before it are those of a shorter sequence, so they are not done twice.
//!
//! Invariants
//! - A sequence's result depends on its number alone (F1).
//! - Every image is recovered, compared, used and verified, and crashed once more at one point of
//!   its recovery, to depth 3.
//!
//! It injects no faults; the random campaign does.

use crate::check::{Broken, Examiner, Shares};
use crate::disk::{Choice, Disk};
use crate::life::{Birth, Life, Window};
use crate::scene::{Image, Scene};
use crate::sim::Look;
use crate::tally::Tally;
use kiban_model::config::Config;
use kiban_model::durable::CrashClass;
use kiban_model::generate::{Mix, Plan, Seed};
use kiban_model::ops::{Op, Record};
use kiban_model::value::Value;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Images of one point, at most.
pub const IMAGES_MAX: usize = 64;

/// How many operations there are to choose from.
pub const ALPHABET: u64 = 8;

/// The operation of that number.
#[must_use]
pub fn letter(number: u64) -> Op {
    let key = |n: u8| vec![b'k', n];
    // Two of these do not fit into one log or memtable of the sweep's options.
    let long = |seed| Value::Made { seed, len: 600 };
    match number {
        0 => Op::Put { key: key(1), value: long(1), durable: false },
        1 => Op::Put { key: key(2), value: long(2), durable: true },
        2 => Op::Delete { key: key(1), durable: false },
        3 => Op::Batch {
            records: vec![
                Record { key: key(1), value: Some(Value::Bytes(b"left".to_vec())) },
                Record { key: key(2), value: Some(Value::Bytes(b"right".to_vec())) },
            ],
            durable: true,
        },
        4 => Op::Sync,
        5 => Op::Flush,
        6 => Op::Compact { lo: Bound::Unbounded, hi: Bound::Unbounded },
        7 => Op::Reopen { by_drop: false, changes: Vec::new() },
        _ => unreachable!("the alphabet has {ALPHABET} letters"),
    }
}

/// The longest sequences that a sweep may have.
pub const OPS_MAX: u32 = 6;

/// How many sequences of one to `ops_max` operations there are.
#[must_use]
pub fn sequences(ops_max: u32) -> u64 {
    (1..=ops_max).map(|len| ALPHABET.pow(len)).sum()
}

/// The sequence of that number: shorter ones first.
#[must_use]
pub fn sequence(number: u64) -> Vec<Op> {
    let (mut rest, mut len) = (number, 1);
    while rest >= ALPHABET.pow(len) {
        rest -= ALPHABET.pow(len);
        len += 1;
    }
    (0..len).rev().map(|place| letter(rest / ALPHABET.pow(place) % ALPHABET)).collect()
}

/// How every sequence's database is opened.
#[must_use]
pub fn config() -> Config {
    Config { memtable_bytes: 1024, log_bytes: 1024, manifest_bytes_max: 512, ..Config::default() }
}

/// Runs the sequence of that number and examines the images of its last operation's points; for
/// the shortest sequences those of the database's creation too.
///
/// # Errors
/// The first broken promise.
pub fn run(number: u64, stage: Option<u8>, tally: &mut Tally) -> Result<(), Box<Broken>> {
    let ops = sequence(number);
    let mut plan = Plan::new(&mut Seed(number), Mix::Swarm);
    plan.config = config();
    let plan = crate::case::after_plan(&plan);
    let mut examiner = Examiner {
        tally,
        plan: &plan,
        shares: Shares::SWEEP,
        seed: number,
        known: BTreeMap::new(),
    };
    let birth = Birth { disk: Disk::new(), seed: 1, config: config(), faults: &[], after: None };
    let with_creation = ops.len() == 1;
    let look = if with_creation { Look::Always } else { Look::Away };
    let begun = Life::begin(birth, examiner.tally, |sim| sim.look(look));
    let mut life = begun.map_err(|slip| Broken::uncrashed(slip, &[], &[], None))?;
    if with_creation {
        images(&mut examiner, &Scene::new(&life, &Window::of_birth(), &[]), stage)?;
    }
    for done in 1..=ops.len() {
        let last = done == ops.len();
        life.sim.look(if last { Look::Always } else { Look::Away });
        let window = life.step(done as u32, &ops[done - 1], examiner.tally);
        let window =
            window.map_err(|slip| Broken::uncrashed(slip, &[], &ops[..done], Some(&life)))?;
        if last {
            images(&mut examiner, &Scene::new(&life, &window, &ops), stage)?;
        }
    }
    let tally = examiner.tally;
    tally.totals.cases += 1;
    tally.totals.ops += ops.len() as u64;
    tally.totals.points += life.sim.seen(|seen| seen.points);
    tally.mix(life.sim.seen(|seen| seen.schedule));
    tally.mix(life.sim.disk(|disk| disk.content_hash()));
    life.sim.disk(|disk| disk.set_off(true));
    Ok(())
}

/// Examines every image of every shot.
fn images(
    examiner: &mut Examiner<'_>,
    scene: &Scene<'_>,
    stage: Option<u8>,
) -> Result<(), Box<Broken>> {
    for shot in scene.life.sim.take() {
        if stage.is_some_and(|stage| stage != shot.stage) {
            continue;
        }
        let kill = Image::of(&shot, CrashClass::Kill, Choice::default());
        let cut = shot.snapshot.images(IMAGES_MAX, u64::from(shot.point));
        let cut = cut.map(|cut| Image {
            class: CrashClass::Power,
            choice: cut.choice,
            disk: cut.disk,
            hash: cut.hash,
        });
        for image in std::iter::once(kill).chain(cut) {
            scene.examine(&shot, image, examiner)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_584_sequences_of_up_to_three_and_each_is_another() {
        assert_eq!(sequences(3), 584);
        let all: std::collections::BTreeSet<String> =
            (0..584).map(|number| format!("{:?}", sequence(number))).collect();
        assert_eq!(all.len(), 584);
        assert_eq!(sequence(7).len(), 1);
        assert_eq!(sequence(8).len(), 2);
        assert_eq!(sequence(583).len(), 3);
    }
}
