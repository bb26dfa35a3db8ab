//! What a victim does: a pure function of seed, life, writer and step, known to both processes.
//!
//! Invariants
//! - Values are different from one another, in all lives of a run: a value says which record of
//!   which step wrote it, and its length and every byte follow from that.
//! - Keys are few enough that writers overwrite each other's, and the empty key is one.
#![allow(clippy::disallowed_methods, reason = "outside the engine")]

use kiban::{KibanOptions, Reads, WriteBatch};
use kiban_model::generate::{Seed, Source};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Threads that write.
pub const WRITERS: u8 = 8;
/// Steps of each in a life.
pub const STEPS: u32 = 300;
/// Keys.
pub const KEYS: u32 = 1200;
/// The first keys, which are written most.
pub const HOT_KEYS: u32 = 24;

/// How a write is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Handed to the kernel before it returns.
    Buffered,
    /// Durable when it returns.
    Durable,
    /// Buffered, with a receipt.
    Receipt,
}

/// A record: the key, and the value's id or `None` for a delete.
pub type Record = (u32, Option<u64>);

/// One call of a writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A batch, of one record or several; later ones of a key win.
    Write(Vec<Record>, How),
    /// `sync`.
    Sync,
    /// `flush`.
    Flush,
    /// `compact_range` over these keys.
    Compact(u32, u32),
    /// `get` and a short scan.
    Read(u32),
}

fn source(seed: u64, life: u32, salt: u32) -> Seed {
    let place = u64::from(life) << 32 | u64::from(salt);
    Seed(xxh3_64_with_seed(&place.to_le_bytes(), seed))
}

/// Step `n` of `writer` in a life.
#[must_use]
pub fn step(seed: u64, life: u32, writer: u8, n: u32) -> Step {
    let source = &mut source(seed, life, u32::from(writer) << 24 | n);
    match source.below(200) {
        0..=1 => Step::Sync,
        2 => Step::Flush,
        3 => {
            let from = pick(source, KEYS);
            Step::Compact(from, from.saturating_add(pick(source, KEYS)))
        }
        4..=19 => Step::Read(key_number(source)),
        _ => {
            let records = match source.below(8) {
                0 => 2 + pick(source, 5),
                1 => 2,
                _ => 1,
            };
            let record = |i| {
                let key = key_number(source);
                let put = source.below(6) > 0;
                (key, put.then(|| value_id(life, writer, n, i)))
            };
            let records = (0..records).map(record).collect();
            let how = match source.below(16) {
                0..=1 => How::Durable,
                2 => How::Receipt,
                _ => How::Buffered,
            };
            Step::Write(records, how)
        }
    }
}

fn pick(source: &mut Seed, below: u32) -> u32 {
    u32::try_from(source.below(below as usize)).expect("below a u32")
}

fn key_number(source: &mut Seed) -> u32 {
    let below = if source.below(2) == 0 { HOT_KEYS } else { KEYS };
    pick(source, below)
}

/// The checkpoints of a life: how many milliseconds to wait before each.
pub fn copies(seed: u64, life: u32) -> impl Iterator<Item = u64> {
    let mut source = source(seed, life, u32::MAX - 1);
    let count = source.below(3);
    (0..count).map(move |_| source.below(60) as u64)
}

/// The directory of checkpoint `n` of a life, beside the database's.
#[must_use]
pub fn copy_name(life: u32, n: u32) -> String {
    format!("copy-{life}-{n}")
}

/// The batch that makes `records`.
#[must_use]
pub fn batch(records: &[Record]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for (number, value_id) in records {
        match value_id {
            Some(id) => batch.put(key(*number), value(*id)),
            None => batch.delete(key(*number)),
        };
    }
    batch
}

/// The bytes of a key.
#[must_use]
pub fn key(number: u32) -> Vec<u8> {
    match number {
        0 => Vec::new(),
        // Long shared prefixes beside short keys.
        n if n % 3 == 0 => format!("a/long/common/prefix/{n:06}").into_bytes(),
        n => format!("k{n}").into_bytes(),
    }
}

/// The key with these bytes, if it is one of ours.
#[must_use]
pub fn key_of(bytes: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(bytes).ok()?;
    let digits = text.trim_start_matches(|c: char| !c.is_ascii_digit());
    let number = if bytes.is_empty() { 0 } else { digits.parse().ok()? };
    (number < KEYS && key(number) == bytes).then_some(number)
}

/// The id of a value: who wrote it.
#[must_use]
pub fn value_id(life: u32, writer: u8, n: u32, record: u32) -> u64 {
    u64::from(life) << 40 | u64::from(writer) << 32 | u64::from(n) << 8 | u64::from(record)
}

/// The life, the writer and the step that a value's id names.
#[must_use]
pub fn origin(id: u64) -> (u32, u8, u32) {
    // Each part is masked to its width.
    ((id >> 40) as u32, (id >> 32 & 0xff) as u8, (id >> 8 & 0xff_ffff) as u32)
}

/// What a value's id says, in words.
#[must_use]
pub fn describe(id: Option<u64>) -> String {
    id.map_or("no value".to_owned(), |id| {
        let (life, writer) = (id >> 40, id >> 32 & 0xff);
        let (step, record) = (id >> 8 & 0xff_ffff, id & 0xff);
        format!("the value of round {life}, writer {writer}, step {step}.{record}")
    })
}

/// The bytes of a value: its id and a filler.
#[must_use]
pub fn value(id: u64) -> Vec<u8> {
    let hash = xxh3_64_with_seed(&id.to_le_bytes(), 1);
    let filler = match hash % 64 {
        // Most of a memtable, or more than one.
        0 => 2000 + hash % 3000,
        1..=8 => 0,
        _ => hash % 120,
    };
    let mut bytes = id.to_le_bytes().to_vec();
    bytes.extend((0..filler).map(|i| hash.rotate_left((i % 64) as u32) as u8 ^ i as u8));
    bytes
}

/// The id of a value, if it is one that a victim writes.
#[must_use]
pub fn id_of(bytes: &[u8]) -> Option<u64> {
    let id = u64::from_le_bytes(*bytes.first_chunk()?);
    (value(id) == bytes).then_some(id)
}

/// Tiny limits, so that logs, memtables, tables and runs come and go all the time; some of them
/// differ from life to life.
pub fn options(seed: u64, life: u32) -> KibanOptions {
    let source = &mut source(seed, life, u32::MAX);
    let kib = |source: &mut Seed, max: u32| u64::from(1 + pick(source, max)) << 10;
    KibanOptions::new()
        .memtable_bytes(usize::try_from(kib(source, 12)).expect("small"))
        .memtables_max(2 + usize::from(source.below(2) == 1))
        .log_bytes(kib(source, 12))
        .log_budget_bytes(64 << 10)
        .table_bytes_max(kib(source, 8))
        .block_bytes(256)
        .restart_interval(4)
        .cache_bytes(32 << 10)
        .open_files_max(16)
        .point_index(source.below(2) == 1)
        .reads(if source.below(2) == 1 { Reads::Pread } else { Reads::Mapped })
        .compaction_slice_bytes(kib(source, 64))
        .manifest_bytes_max(kib(source, 8))
        .cohort_wait_max_ns(u64::from(pick(source, 2)) * 100_000)
        .tier_runs(3)
        .runs_slow(6)
        .runs_stop(9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_and_values_say_what_they_are() {
        let keys: BTreeSet<_> = (0..KEYS).map(key).collect();
        assert_eq!(keys.len(), KEYS as usize);
        assert!((0..KEYS).all(|n| key_of(&key(n)) == Some(n)));
        assert!(key_of(b"k0").is_none() && key_of(b"x").is_none() && key_of(&key(KEYS)).is_none());
        let id = value_id(300, 7, STEPS, 5);
        assert_eq!(id_of(&value(id)), Some(id));
        let mut damaged = value(id);
        damaged.push(0);
        assert_eq!(id_of(&damaged), None);
        assert_eq!(describe(Some(id)), "the value of round 300, writer 7, step 300.5");
    }

    #[test]
    fn a_life_has_every_kind_of_step() {
        let steps: Vec<_> = (0..WRITERS)
            .flat_map(|writer| (0..STEPS).map(move |n| step(1, 2, writer, n)))
            .collect();
        let count = |of: fn(&Step) -> bool| steps.iter().filter(|step| of(step)).count();
        assert!(count(|s| matches!(s, Step::Sync)) > 5);
        assert!(count(|s| matches!(s, Step::Flush | Step::Compact(..))) > 5);
        assert!(count(|s| matches!(s, Step::Write(records, _) if records.len() > 2)) > 100);
        for how in [How::Buffered, How::Durable, How::Receipt] {
            let made = steps.iter().filter(|s| matches!(s, Step::Write(_, h) if *h == how));
            assert!(made.count() > 50, "{how:?}");
        }
    }
}
