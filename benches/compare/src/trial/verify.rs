//! Reads everything back: every key in order with its value, and selected keys by point reads.
//!
//! - The walk must give exactly the keys that the state has, in byte order, each with the value of
//!   its last acknowledged generation.
//! - Point reads ask for keys that are there, by another path than the walk, and for keys that are
//!   not: they must be missing.

use super::outcome::Receipt;
use super::state::State;
use crate::engine::{Engine, Reader};
use crate::random::Rng;
use crate::records::{ABSENT, Records};
use anyhow::{Result, bail, ensure};
use sha2::{Digest, Sha256};

const POINTS_MAX: u64 = 10_000;

/// Reads everything back; the receipt, or what was wrong.
///
/// # Errors
/// The first difference, or the engine's own error.
pub fn receipt(
    when: &str,
    engine: &dyn Engine,
    records: &Records,
    state: &State,
    seed: u64,
) -> Result<Receipt> {
    let (keys, sha256) = walk(engine, records, state)?;
    let points = points(&mut *engine.reader()?, records, state, seed)?;
    Ok(Receipt { when: when.into(), keys, sha256, points })
}

fn walk(engine: &dyn Engine, records: &Records, state: &State) -> Result<(u64, String)> {
    let mut expected =
        records.order(state.keys()).filter(|number| state.generation(*number) != ABSENT);
    let (mut key_wanted, mut keys, mut sha) = (Vec::new(), 0u64, Sha256::new());
    engine.for_each(&mut |key, value| {
        let Some(number) = expected.next() else {
            bail!("key {} is one too many, after {keys} keys", show(key));
        };
        records.key(number, &mut key_wanted);
        ensure!(
            key == key_wanted,
            "key {} where {} was expected, after {keys} keys",
            show(key),
            show(&key_wanted)
        );
        let generation = state.generation(number);
        if !records.is_value(number, generation, value) {
            bail!(wrong_value(records, number, generation, value));
        }
        for part in [key, value] {
            sha.update((part.len() as u64).to_le_bytes());
            sha.update(part);
        }
        keys += 1;
        Ok(())
    })?;
    if let Some(number) = expected.next() {
        records.key(number, &mut key_wanted);
        bail!("the walk ended after {keys} keys, before {}", show(&key_wanted));
    }
    Ok((keys, sha.finalize().iter().map(|byte| format!("{byte:02x}")).collect()))
}

fn points(reader: &mut dyn Reader, records: &Records, state: &State, seed: u64) -> Result<u64> {
    let mut rng = Rng::new(seed, 0x706F_696E);
    let (mut key, mut points) = (Vec::new(), 0);
    let samples = POINTS_MAX.min(state.keys());
    for i in 0..samples {
        // The first and the last number always, the rest at random, all of them if they are few.
        let number = match i {
            _ if samples == state.keys() => i,
            0 => 0,
            1 => state.keys() - 1,
            _ => rng.below(state.keys()),
        };
        records.key(number, &mut key);
        check_point(reader, records, number, state.generation(number), &key)?;
        points += 1;
    }
    for number in state.keys()..state.keys() + 16 {
        records.key(number, &mut key);
        check_point(reader, records, number, ABSENT, &key)?;
        points += 1;
    }
    Ok(points)
}

/// A point read of `number`, whose key is `key`: its last value, or nothing where it has none.
///
/// # Errors
/// Another answer, or the engine's own error.
pub fn check_point(
    reader: &mut dyn Reader,
    records: &Records,
    number: u64,
    generation: u32,
    key: &[u8],
) -> Result<()> {
    let mut wrong = None;
    let found = reader.get(key, &mut |value| {
        if generation == ABSENT || !records.is_value(number, generation, value) {
            wrong = Some(wrong_value(records, number, generation, value));
        }
    })?;
    if let Some(wrong) = wrong {
        bail!(wrong);
    }
    ensure!(found == (generation != ABSENT), "key {} is missing", show(key));
    Ok(())
}

/// What is wrong with `value`, in words.
#[must_use]
pub fn wrong_value(records: &Records, number: u64, generation: u32, value: &[u8]) -> String {
    let old = records.generation(number, 1, generation.saturating_sub(1), value);
    let mut key = Vec::new();
    records.key(number, &mut key);
    match old {
        Some(old) => format!(
            "key {} has the value of its write {old}, and write {generation} was acknowledged",
            show(&key)
        ),
        None if generation == ABSENT => format!("key {} was never written", show(&key)),
        None => format!("key {} has a value that was never written", show(&key)),
    }
}

/// A key, for a message.
#[must_use]
pub fn show(key: &[u8]) -> String {
    if key.iter().all(u8::is_ascii_graphic) && !key.is_empty() {
        return String::from_utf8_lossy(key).into_owned();
    }
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}
