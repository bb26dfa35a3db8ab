//! One thread's calls: which numbers, the call itself, and the check of its answer.
//!
//! - Numbers, keys and values are worked out before a call is timed; the check of an answer lies
//!   inside, since it reads what the engine lends.
//! - A writer takes only numbers of its own (see `state`).

use super::outcome::Failure;
use super::state::State;
use super::verify::{check_point, show, wrong_value};
use crate::engine::{Engine, Reader};
use crate::plan::{Durability, Group, Pick};
use crate::random::{Rng, Zipf, mix};
use crate::records::{ABSENT, AGENT_PREFIX_BYTES, Records};
use anyhow::Result;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// What all threads of a group share.
pub struct Shared<'a> {
    /// The database.
    pub engine: &'a dyn Engine,
    /// The records.
    pub records: &'a Records,
    /// What must be there.
    pub state: &'a State,
    /// The group.
    pub group: &'a Group,
    /// Writes of the whole group so far, for `every-thousand`.
    pub written: &'a AtomicU64,
    /// Whether a synced write is a buffered one and a sync of its own.
    pub separate_sync: bool,
}

/// One thread's calls.
pub struct Caller<'a> {
    shared: &'a Shared<'a>,
    reader: Box<dyn Reader + 'a>,
    thread: u64,
    rng: Rng,
    zipf: Option<&'a Zipf>,
    key: Vec<u8>,
    prefix: Vec<u8>,
    batch: Vec<(u64, Vec<u8>, Vec<u8>)>,
    /// Generations right before a scan, in its order.
    before: Vec<u32>,
    wrong: Option<Failure>,
}

/// What one call did.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// Whether it wrote.
    pub wrote: bool,
    /// Records read and written.
    pub records: u64,
    /// Of them, those that were written.
    pub written: u64,
    /// When the engine was called.
    pub began: Instant,
    /// When it had answered.
    pub ended: Instant,
}

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Read,
    Write,
    Insert,
    Latest,
    Scan,
    ReadWrite,
}

impl<'a> Caller<'a> {
    /// The calls of `thread` of the group.
    ///
    /// # Errors
    /// The engine's, where it makes no reader.
    pub fn new(
        shared: &'a Shared<'a>,
        thread: u64,
        seed: u64,
        zipf: Option<&'a Zipf>,
    ) -> Result<Self> {
        let batch = vec![(0, Vec::new(), Vec::new()); shared.group.batch];
        let reader = shared.engine.reader()?;
        let rng = Rng::new(seed, thread);
        let (key, prefix, before) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { shared, reader, thread, rng, zipf, key, prefix, batch, before, wrong: None })
    }

    /// Reads records of the group's working set through this thread's own reader, untimed and
    /// before anybody writes: what a reader holds for itself (SQLite's map and page cache) no other
    /// reader's walk has warmed.
    ///
    /// # Errors
    /// A wrong answer, or the engine's error.
    pub fn warm(&mut self, reads: u64, seed: u64) -> Result<()> {
        let Shared { records, state, group, .. } = self.shared;
        let set = walked(group, state);
        // Numbers of their own: the timed calls are the same with and without.
        let mut rng = Rng::new(seed ^ 0x7761_726D, self.thread);
        for _ in 0..reads {
            let number = rng.below(set);
            records.key(number, &mut self.key);
            check_point(&mut *self.reader, records, number, state.generation(number), &self.key)?;
        }
        Ok(())
    }

    /// Makes the next call.
    ///
    /// # Errors
    /// A wrong answer, or the engine's error, as the trial's failure.
    pub fn next(&mut self) -> Result<Done, Failure> {
        let done = match self.kind() {
            Kind::Read => self.read(),
            Kind::Write => self.write(false),
            Kind::Insert => self.write(true),
            Kind::Latest => self.latest(),
            Kind::Scan => self.scan(),
            Kind::ReadWrite => self.read_write(),
        };
        match (done, self.wrong.take()) {
            (_, Some(wrong)) => Err(wrong),
            (Ok(done), None) => Ok(done),
            (Err(error), None) => {
                Err(Failure { step: "call".into(), what: format!("the engine failed: {error:#}") })
            }
        }
    }

    fn kind(&mut self) -> Kind {
        let mix = &self.shared.group.mix;
        let shares = [
            (Kind::Read, mix.read),
            (Kind::Write, mix.write),
            (Kind::Insert, mix.insert),
            (Kind::Latest, mix.latest),
            (Kind::Scan, mix.scan),
            (Kind::ReadWrite, mix.read_write),
        ];
        let mut at = self.rng.below(100) as u32;
        for (kind, share) in shares {
            if at < share {
                return kind;
            }
            at -= share;
        }
        unreachable!("the plan's check: the shares are 100 in all")
    }

    fn pick(&mut self) -> u64 {
        let Shared { group, state, .. } = self.shared;
        match (group.pick, self.zipf) {
            (Pick::Zipf, Some(zipf)) => {
                let rank = zipf.rank(&mut self.rng);
                mix(rank ^ 0x7363_6174) % group.working_set
            }
            (Pick::Newest, Some(zipf)) => {
                let newest = state.acknowledged().max(1) - 1;
                newest.saturating_sub(zipf.rank(&mut self.rng))
            }
            _ => self.rng.below(group.working_set),
        }
    }

    /// A number that only this thread writes.
    fn pick_own(&mut self) -> u64 {
        let number = self.pick();
        let threads = u64::from(self.shared.group.threads);
        let own = number - number % threads + self.thread;
        if own < self.shared.group.working_set { own } else { own - threads }
    }

    fn read(&mut self) -> Result<Done> {
        let number = self.pick();
        self.shared.records.key(number, &mut self.key);
        let began = Instant::now();
        self.checked_get(number)?;
        Ok(Done { wrote: false, records: 1, written: 0, began, ended: Instant::now() })
    }

    fn checked_get(&mut self, number: u64) -> Result<()> {
        let Shared { records, state, .. } = self.shared;
        let before = state.generation(number);
        let mut wrong = None;
        let found = self.reader.get(&self.key, &mut |value| {
            if before != ABSENT && records.is_value(number, before, value) {
                return;
            }
            let after = state.generation(number);
            if records.generation(number, before, after + 1, value).is_none() {
                wrong = Some(wrong_value(records, number, before, value));
            }
        })?;
        if !found && before != ABSENT {
            wrong = Some(format!("key {} is missing", show(&self.key)));
        }
        self.note("read", wrong);
        Ok(())
    }

    fn note(&mut self, step: &str, wrong: Option<String>) {
        if let Some(what) = wrong {
            self.wrong = Some(Failure { step: step.into(), what });
        }
    }

    fn write(&mut self, insert: bool) -> Result<Done> {
        let Shared { records, state, group, .. } = *self.shared;
        let first = if insert { Some(state.take(group.batch as u64)) } else { None };
        for i in 0..group.batch {
            let number = match first {
                Some(first) => first + i as u64,
                None => self.pick_own(),
            };
            let (slot, key, value) = &mut self.batch[i];
            *slot = number;
            records.key(number, key);
            records.value(number, state.generation(number) + 1, value);
        }
        let began = Instant::now();
        self.put()?;
        let ended = Instant::now();
        // A number that stands twice in a batch has the same generation, and value, both times.
        let next: Vec<u32> =
            self.batch.iter().map(|(number, ..)| state.generation(*number) + 1).collect();
        for ((number, ..), next) in self.batch.iter().zip(next) {
            state.acknowledge(*number, next);
        }
        if let Some(first) = first {
            state.inserted(first + group.batch as u64);
        }
        let records = group.batch as u64;
        Ok(Done { wrote: true, records, written: records, began, ended })
    }

    fn put(&mut self) -> Result<()> {
        let Shared { engine, group, written, separate_sync, .. } = *self.shared;
        let durable = group.durability == Durability::Each;
        match &self.batch[..] {
            [(_, key, value)] if durable && separate_sync => engine.put_then_sync(key, value)?,
            [(_, key, value)] => engine.put(key, value, durable)?,
            batch => {
                let batch: Vec<(&[u8], &[u8])> =
                    batch.iter().map(|(_, key, value)| (&key[..], &value[..])).collect();
                engine.put_batch(&batch, durable && !separate_sync)?;
                if durable && separate_sync {
                    engine.sync()?;
                }
            }
        }
        if group.durability == Durability::EveryThousand {
            let batch = group.batch as u64;
            let before = written.fetch_add(batch, Ordering::Relaxed);
            if before / 1000 != (before + batch) / 1000 {
                engine.sync()?;
            }
        }
        Ok(())
    }

    fn read_write(&mut self) -> Result<Done> {
        let Shared { records, state, .. } = *self.shared;
        let number = self.pick_own();
        records.key(number, &mut self.key);
        let generation = state.generation(number) + 1;
        let (slot, key, value) = &mut self.batch[0];
        *slot = number;
        records.key(number, key);
        records.value(number, generation, value);
        let began = Instant::now();
        self.checked_get(number)?;
        self.put()?;
        let ended = Instant::now();
        state.acknowledge(number, generation);
        Ok(Done { wrote: true, records: 2, written: 1, began, ended })
    }

    /// Notes the generations of `numbers`, as far as they exist.
    fn note_before(&mut self, numbers: impl Iterator<Item = u64>) {
        let state = self.shared.state;
        self.before.clear();
        let there = numbers.take_while(|number| *number < state.keys());
        self.before.extend(there.map(|number| state.generation(number)));
    }

    /// The newest records of one agent: from the newest acknowledged one or a newer one, without a
    /// gap.
    fn latest(&mut self) -> Result<Done> {
        let Shared { records, state, group, .. } = *self.shared;
        let agents = records.agents();
        let agent = self.rng.below(agents.min(state.acknowledged().max(1)));
        records.prefix(agent, &mut self.prefix);
        let newest = state.acknowledged().checked_sub(agent + 1).map(|past| past / agents);
        let rounds = newest.map_or(0, |newest| newest + 1).min(group.scan as u64);
        self.note_before((0..rounds).map(|back| (newest.unwrap_or(0) - back) * agents + agent));
        let (before, prefix) = (&self.before, &self.prefix);
        let (mut seen, mut last, mut wrong) = (0u64, None::<u64>, None);
        let began = Instant::now();
        let got = self.reader.first_of_prefix(prefix, group.scan, &mut |key, value| {
            let right = round_of(prefix, key).is_some_and(|round| {
                let follows = match last {
                    None => newest.is_none_or(|newest| round >= newest),
                    Some(last) => round + 1 == last,
                };
                last = Some(round);
                let back = newest.and_then(|newest| newest.checked_sub(round));
                let least = back.and_then(|back| before.get(back as usize)).copied();
                follows && is_current(records, state, round * agents + agent, least, value)
            });
            if !right && wrong.is_none() {
                wrong = Some(format!("key {} at place {seen} of its agent's latest", show(key)));
            }
            seen += 1;
        })?;
        let ended = Instant::now();
        if wrong.is_none() && (got as u64 != seen || seen < rounds || seen > group.scan as u64) {
            wrong = Some(format!("{seen} of an agent's latest records where {rounds} are there"));
        }
        self.note("read", wrong);
        Ok(Done { wrote: false, records: seen, written: 0, began, ended })
    }

    /// The numbers from a picked one on, without a gap.
    fn scan(&mut self) -> Result<Done> {
        let Shared { records, state, group, .. } = *self.shared;
        let start = self.pick();
        let there = state.acknowledged();
        records.key(start, &mut self.key);
        self.note_before(start..start + group.scan as u64);
        // The prefix's buffer is free here, and long enough after the first scan.
        let (before, want) = (&self.before, &mut self.prefix);
        let (mut seen, mut wrong) = (0u64, None);
        let began = Instant::now();
        let got = self.reader.scan_from(&self.key, group.scan, &mut |key, value| {
            let number = start + seen;
            records.key(number, want);
            let least = before.get(seen as usize).copied();
            let right = key == &want[..] && is_current(records, state, number, least, value);
            if !right && wrong.is_none() {
                wrong = Some(format!("key {} at place {seen} of a scan", show(key)));
            }
            seen += 1;
        })?;
        let ended = Instant::now();
        // Beside several inserters a number below `there` may still be on its way.
        let alone = group.mix.insert == 0 || group.threads == 1;
        let least = there.saturating_sub(start).min(group.scan as u64);
        if wrong.is_none() && (got as u64 != seen || (alone && seen < least)) {
            wrong = Some(format!("{seen} records of a scan where {least} are there"));
        }
        self.note("read", wrong);
        Ok(Done { wrote: false, records: seen, written: 0, began, ended })
    }
}

/// How many numbers, from 0, a group may pick.
pub fn walked(group: &Group, state: &State) -> u64 {
    if group.pick == Pick::Newest { state.keys() } else { group.working_set }
}

/// Whether `value` is of a generation from `least`, the one acknowledged before the call, up to the
/// one that may be on its way now.
fn is_current(
    records: &Records,
    state: &State,
    number: u64,
    least: Option<u32>,
    value: &[u8],
) -> bool {
    number < state.keys() && {
        let (first, last) = (least.unwrap_or(ABSENT), state.generation(number) + 1);
        records.generation(number, first, last, value).is_some()
    }
}

/// The number of an agent's record in the order of its writing, from its key.
fn round_of(prefix: &[u8], key: &[u8]) -> Option<u64> {
    let rest = key.strip_prefix(prefix)?;
    debug_assert_eq!(prefix.len(), AGENT_PREFIX_BYTES, "the whole prefix");
    Some(!u64::from_be_bytes(rest.try_into().ok()?))
}
