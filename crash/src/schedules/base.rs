//! The databases that a world may begin with: grown ones, so that compactions, obsolete logs and
//! tables are at hand from the first step.
//!
//! Invariants
//! - A base is a function of its number, made once in a process.
//! - All of it is durable, and its whole state is known.
#![allow(clippy::disallowed_types)]

use super::world::{Knobs, options_of};
use crate::adapter::SimFs;
use crate::disk::{Disk, Snapshot};
use crate::sim::DIR;
use kiban::Kiban;
use kiban::env::Env;
use kiban::env::random::SeededRandom;
use kiban_model::generate::{Seed, Source};
use kiban_model::ops::Key;
use kiban_model::value::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// How many there are.
pub const COUNT: u64 = 6;

/// A grown database.
pub struct Base {
    snapshot: Snapshot,
    /// What it holds.
    pub state: BTreeMap<Key, Value>,
    /// Its last sequence.
    pub last: u64,
    /// Operations since it was created.
    pub ops: u64,
}

impl Base {
    /// The base of this number.
    #[must_use]
    pub fn numbered(number: u64) -> &'static Self {
        static BASES: [OnceLock<Base>; COUNT as usize] =
            [const { OnceLock::new() }; COUNT as usize];
        BASES[(number % COUNT) as usize].get_or_init(|| grow(number))
    }

    /// Its disk.
    #[must_use]
    pub fn disk(&self) -> Disk {
        self.snapshot.image(&self.snapshot.all())
    }
}

/// Writes, flushes and merges; odd ones end in a clean close, even ones in a killed process.
fn grow(number: u64) -> Base {
    let fs = SimFs::new(Disk::new());
    let env = Env {
        fs: Arc::new(fs.clone()),
        clock: Arc::new(fs.clone()),
        random: Arc::new(SeededRandom::new(number)),
        probe: None,
    };
    let knobs = Knobs { tier_runs: 3, ..Knobs::default() };
    let options = options_of!(kiban, &knobs).env(env);
    let mut db = Kiban::open(DIR, options).expect("invariant: nothing fails here");
    let source = &mut Seed(number ^ 0x6261_7365);
    let (mut state, mut last, mut ops) = (BTreeMap::new(), 0, 0);
    for n in 0..50 + source.draw(20) as u32 {
        let key = format!("k{:02}", source.below(24)).into_bytes();
        ops += 1;
        if source.chance(1, 6) {
            state.remove(&key);
            last = db.delete(&key).expect("invariant: nothing fails here").0;
        } else {
            // Worlds number their values from 1: none is equal to one of these.
            let value = Value::Made { seed: 1_000_000 + n, len: 8 + source.draw(60) as u32 };
            last = db.put(&key, value.to_vec()).expect("invariant: nothing fails here").0;
            state.insert(key, value);
        }
        if source.chance(1, 16) {
            ops += 1;
            db.flush().expect("invariant: nothing fails here");
        }
    }
    if number % 2 == 1 {
        db.close().expect("invariant: nothing fails here");
        let snapshot = fs.with(|disk| disk.snapshot());
        return Base { snapshot, state, last, ops };
    }
    let snapshot = fs.with(|disk| disk.snapshot());
    Base { snapshot, state, last, ops }
}
