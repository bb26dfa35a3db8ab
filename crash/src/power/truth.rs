//! What an image may show, from what the workload told and where in the log it told it.
//!
//! Invariants
//! - D3: what is shown is the fold of the writes up to one cut of their order; their order is that
//!   of their sequences.
//! - D1: the cut has every write that was acknowledged as durable before the power went.
//! - V1: it has every write that was read before the power went, where that write asked for a sync.
//! - D3 again: it has no write that had not been issued yet.
//! - A1: a cut lies between two writes, never inside one.
//! - D3 of a checkpoint: it has every write that had returned before it began, and none that was
//!   issued after it returned.
//! - P1: nothing that was issued after a failed sync of the log, the manifest or a directory was
//!   told, or after the handle had said that it is poisoned, is acknowledged in that life.
//! - Writes that failed have no sequence: they follow the last acknowledged one in any order, each
//!   whole or not at all.
//! - Where a file system gave up and went on to say yes, floors are those of the moment before.
//! - A device that lies about its syncs takes floors away, and nothing else.

use super::log::Entry;
use crate::kill::Fault;
use crate::kill::judge::{self, State, Write};
use crate::kill::plan::{self, Record, Step};
use crate::kill::tale;
use crate::kill::wire::{Kind, Note};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use xxhash_rust::xxh3::xxh3_64;

/// A hash of one entry of a state.
#[must_use]
pub fn entry_hash(key: u32, id: u64) -> u64 {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&key.to_le_bytes());
    bytes[4..].copy_from_slice(&id.to_le_bytes());
    xxh3_64(&bytes)
}

/// A hash of a state: equal states have equal ones, in whatever order they are added up.
#[must_use]
pub fn state_hash(state: &State) -> u64 {
    state.iter().fold(0, |hash, (key, id)| hash ^ entry_hash(*key, *id))
}

/// A position that never comes.
const NEVER: usize = usize::MAX;

/// A write, and where in the log it became what.
#[derive(Clone, Debug)]
struct Placed {
    write: Write,
    issued: usize,
    returned: usize,
    durable: usize,
    /// Where it was read, having asked for a sync.
    seen: usize,
}

/// A checkpoint that returned, and what it may show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The name of its directory.
    pub name: String,
    /// Hashes of states.
    pub states: Vec<u64>,
    begun: usize,
    /// Where in the log it returned.
    pub done: usize,
}

/// All that a workload told, over all of its lives.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// Acknowledged writes by sequence.
    order: Vec<Placed>,
    /// Writes that failed.
    doubt: Vec<Write>,
    /// The hashes of the cuts: of the first `n` writes.
    hashes: Vec<u64>,
    by_hash: BTreeMap<u64, Vec<usize>>,
    /// Checkpoints that returned, in that order.
    copies: Vec<Copied>,
    /// Calls that returned.
    pub done: u64,
    /// From this position on an acknowledgement proves nothing.
    trusted: Option<usize>,
    /// What failed, in words.
    pub failed: Vec<String>,
    /// Lives that closed.
    pub closed: usize,
}

/// A life's notes and their positions.
struct Told {
    notes: Vec<Note>,
    at: Vec<usize>,
}

fn lives(entries: &[Entry]) -> Vec<Told> {
    let mut lives: Vec<Told> = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        let Entry::Note(note) = entry else { continue };
        if note.kind == Kind::Opening || lives.is_empty() {
            lives.push(Told { notes: Vec::new(), at: Vec::new() });
        }
        let life = lives.last_mut().expect("one was just made");
        life.notes.push(note.clone());
        life.at.push(at);
    }
    lives
}

/// P1: see the module.
fn check_poison(seed: u64, number: u32, life: &Told) -> Result<(), Fault> {
    let mut cause: Option<&Note> = None;
    let mut late = BTreeSet::new();
    for note in &life.notes {
        let step = (note.writer, note.n);
        match note.kind {
            Kind::Failed if note.b == 1 => {
                cause.get_or_insert(note);
            }
            Kind::Copying if cause.is_some() => {
                late.insert(step);
            }
            Kind::Issued if cause.is_some() => {
                // A read goes on, and so does what merges nothing.
                let made = plan::step(seed, number, note.writer, note.n);
                if matches!(made, Step::Write(..) | Step::Sync | Step::Flush) {
                    late.insert(step);
                }
            }
            Kind::Done | Kind::Durable | Kind::Copied if late.contains(&step) => {
                let cause = cause.map_or("", |note| &*note.text);
                let got = format!("{note}, issued after \"{cause}\" was told");
                let expected = "no acknowledgement after a failed sync";
                return Err(Fault::new("P1", "a life of the workload", expected, got));
            }
            _ => {}
        }
    }
    Ok(())
}

impl Truth {
    /// Listens to a log. From life `faulty` on the device refuses something: calls may fail.
    ///
    /// # Errors
    /// A promise that the running engine broke, whatever an image shows.
    pub(crate) fn tell(seed: u64, entries: &[Entry], faulty: Option<u32>) -> Result<Self, Fault> {
        let mut truth = Self::default();
        let mut acked = 0;
        for (number, life) in (0..).zip(lives(entries)) {
            let is_faulty = faulty.is_some_and(|from| number >= from);
            truth.check_notes(&life, acked, is_faulty)?;
            check_poison(seed, number, &life)?;
            let tale = tale::tell_notes(seed, number, &life.notes)?;
            acked = acked.max(tale.acked);
            truth.done += tale.done;
            truth.place(&life, tale.writes);
            truth.place_copies(number, &life);
            if !is_faulty && let Some(write) = truth.doubt.first() {
                let got = format!("step {} of writer {} never returned", write.n, write.writer);
                return Err(Fault::new(
                    "B1",
                    "a life of the workload",
                    "an end of every call",
                    got,
                ));
            }
        }
        truth.order.sort_by_key(|placed| placed.write.seq);
        truth.fold();
        truth.judge_copies();
        truth.check_sequences()?;
        Ok(truth)
    }

    fn check_notes(&mut self, life: &Told, acked: u64, faulty: bool) -> Result<(), Fault> {
        let what = "a life of the workload";
        for note in &life.notes {
            match note.kind {
                Kind::Wrong => {
                    let (promise, text) = note.text.split_once(' ').unwrap_or(("-", &note.text));
                    return Err(Fault::new(promise, what, "what the promise says", text));
                }
                Kind::Failed if faulty => self.failed.push(note.text.clone()),
                Kind::Failed => {
                    return Err(Fault::new("B1", what, "no error on a healthy disk", &*note.text));
                }
                Kind::Opened if note.a < acked => {
                    let expected = format!("at least sequence {acked}, acknowledged before");
                    return Err(Fault::new("C2", "an open", expected, note.a.to_string()));
                }
                Kind::Ended => self.closed += 1,
                _ => {}
            }
        }
        Ok(())
    }

    fn place(&mut self, life: &Told, writes: Vec<Write>) {
        let ended = life.notes.iter().position(|note| note.kind == Kind::Ended);
        let ended = ended.map_or(NEVER, |note| life.at[note]);
        let (mut seen, mut returned) = (BTreeMap::new(), BTreeMap::new());
        for (note, at) in life.notes.iter().zip(&life.at) {
            let places = match note.kind {
                Kind::Seen => &mut seen,
                Kind::Done => &mut returned,
                _ => continue,
            };
            places.entry((note.writer, note.n)).or_insert(*at);
        }
        for write in writes {
            if write.seq.is_none() {
                self.doubt.push(write);
                continue;
            }
            // What is acknowledged is durable once the database is closed.
            let durable = write.durable.map_or(NEVER, |note| life.at[note]).min(ended);
            let step = (write.writer, write.n);
            let seen = seen.get(&step).copied().unwrap_or(NEVER);
            let returned = returned.get(&step).copied().unwrap_or(NEVER);
            let issued = life.at[write.issued];
            self.order.push(Placed { write, issued, returned, durable, seen });
        }
    }

    fn place_copies(&mut self, number: u32, life: &Told) {
        let mut begun = 0;
        for (note, &at) in life.notes.iter().zip(&life.at) {
            match note.kind {
                Kind::Copying => begun = at,
                Kind::Copied => {
                    let name = plan::copy_name(number, note.n);
                    self.copies.push(Copied { name, states: Vec::new(), begun, done: at });
                }
                _ => {}
            }
        }
    }

    /// What each checkpoint may show, now that the order is known.
    fn judge_copies(&mut self) {
        for copy in &mut self.copies {
            let before = |placed: &Placed| placed.returned < copy.begun;
            let least = self.order.iter().rposition(before).map_or(0, |index| index + 1);
            let behind = |placed: &Placed| placed.issued > copy.done;
            let most = self.order.iter().position(behind).unwrap_or(self.order.len());
            copy.states = self.hashes[least..=most.max(least)].to_vec();
        }
    }

    /// Checkpoints that had returned before `at`, in that order.
    #[must_use]
    pub fn copies_at(&self, at: usize) -> &[Copied] {
        &self.copies[..self.copies.partition_point(|copy| copy.done < at)]
    }

    fn fold(&mut self) {
        let mut state = State::new();
        let mut hash = 0;
        self.hashes.push(hash);
        for placed in &self.order {
            for (key, id) in &placed.write.records {
                let before = match id {
                    Some(id) => state.insert(*key, *id),
                    None => state.remove(key),
                };
                hash ^= before.map_or(0, |id| entry_hash(*key, id));
                hash ^= id.map_or(0, |id| entry_hash(*key, id));
            }
            self.hashes.push(hash);
        }
        for (cut, hash) in self.hashes.iter().enumerate() {
            self.by_hash.entry(*hash).or_default().push(cut);
        }
    }

    /// C2 and D3 of the running engine: no sequence twice, and an order that respects real time.
    fn check_sequences(&self) -> Result<(), Fault> {
        let what = "a sequence";
        let mut last = 0;
        let mut early = None;
        for placed in &self.order {
            let write = &placed.write;
            let seq = write.seq.expect("the order holds what was acknowledged");
            let first = (seq + 1).saturating_sub(write.records.len() as u64);
            let got = || format!("step {} of writer {}: {first} to {seq}", write.n, write.writer);
            if first <= last {
                let expected = format!("sequences above {last}, given before");
                return Err(Fault::new("C2", what, expected, got()));
            }
            if first <= write.after {
                let expected = format!("sequences above {}, acknowledged before", write.after);
                early.get_or_insert_with(|| Fault::new("D3", what, expected, got()));
            }
            last = seq;
        }
        early.map_or(Ok(()), Err)
    }

    /// From `at` on syncs said yes and proved nothing: what was acknowledged since is owed no more.
    pub fn trust_until(&mut self, at: usize) {
        self.trusted = Some(at);
        self.copies.retain(|copy| copy.done < at);
    }

    /// Writes that a cut at `at` must have, and the promise that says so.
    fn floor(&self, at: usize) -> (usize, &'static str) {
        let at = at.min(self.trusted.unwrap_or(NEVER));
        let last = |of: fn(&Placed) -> usize| {
            self.order.iter().rposition(|placed| of(placed) < at).map_or(0, |index| index + 1)
        };
        let (durable, seen) = (last(|placed| placed.durable), last(|placed| placed.seen));
        if seen > durable { (seen, "V1") } else { (durable, "D1") }
    }

    /// Writes that a cut at `at` may have.
    fn ceiling(&self, at: usize) -> usize {
        self.order.iter().position(|placed| placed.issued >= at).unwrap_or(self.order.len())
    }

    /// Writes that a cut at `at` must have.
    #[must_use]
    pub fn floor_at(&self, at: usize) -> usize {
        self.floor(at).0
    }

    /// Writes up to the last one that had been acknowledged before `at`.
    #[must_use]
    pub fn acknowledged_at(&self, at: usize) -> usize {
        self.order.iter().rposition(|placed| placed.returned < at).map_or(0, |index| index + 1)
    }

    /// How many writes there are.
    #[must_use]
    pub fn writes(&self) -> usize {
        self.order.len()
    }

    /// The last sequence of the first `cut` writes.
    #[must_use]
    pub fn last_sequence(&self, cut: usize) -> u64 {
        cut.checked_sub(1).and_then(|last| self.order[last].write.seq).unwrap_or(0)
    }

    /// The state of a cut.
    #[must_use]
    pub fn state(&self, cut: usize) -> State {
        let mut state = State::new();
        for placed in &self.order[..cut] {
            for (key, id) in &placed.write.records {
                match id {
                    Some(id) => state.insert(*key, *id),
                    None => state.remove(key),
                };
            }
        }
        state
    }

    /// Judges what an image of a cut at `at` shows; the cut that it is. `whole` gives the state
    /// itself where its hash is no cut's; `honest` is false where the device lied.
    pub(crate) fn judge(
        &self,
        at: usize,
        hash: u64,
        honest: bool,
        whole: impl FnOnce() -> Result<State, Fault>,
    ) -> Result<usize, Fault> {
        let (floor, promise) = if honest { self.floor(at) } else { (0, "D3") };
        let ceiling = self.ceiling(at).max(floor);
        let cuts = self.by_hash.get(&hash).map_or(&[][..], Vec::as_slice);
        // The lowest: a write that changes nothing may be there or not.
        if let Some(cut) = cuts.iter().find(|cut| (floor..=ceiling).contains(*cut)) {
            return Ok(*cut);
        }
        let what = "what a power cut left";
        let expected = format!("a cut from write {floor} to {ceiling} of {}", self.order.len());
        if let Some(cut) = cuts.last() {
            let promise = if *cut > ceiling { "D3" } else { promise };
            let must = floor.checked_sub(1).map(|last| &self.order[last].write);
            let must = must.map_or(String::new(), |write| {
                format!(
                    "; the last that must be there is step {} of writer {}",
                    write.n, write.writer
                )
            });
            let got = format!("the state after write {cut}");
            return Err(Fault::new(promise, what, expected + &must, got));
        }
        let shown = whole()?;
        if ceiling == self.order.len() && !self.doubt.is_empty() {
            return self.judge_doubt(&shown);
        }
        let (promise, got) = self.describe(&shown, floor, ceiling);
        Err(Fault::new(promise, what, expected, got))
    }

    /// All acknowledged writes are there, and some of those that failed may be.
    fn judge_doubt(&self, shown: &State) -> Result<usize, Fault> {
        let last = self.last_sequence(self.order.len());
        let doubt = self.doubt.iter().map(|write| Write { after: last, ..write.clone() });
        let life = judge::Life {
            before: self.state(self.order.len()),
            start: last,
            writes: doubt.collect(),
        };
        let what = "what a device error left";
        judge::judge(&life, shown)
            .map(|_| self.order.len())
            .map_err(|b| Fault::new(b.promise, what, b.expected, b.got))
    }

    /// Which cut is the nearest to a state that is none, and how they differ.
    fn describe(&self, shown: &State, floor: usize, ceiling: usize) -> (&'static str, String) {
        let differ = |cut: usize| -> Vec<u32> {
            let state = self.state(cut);
            let keys = state.keys().chain(shown.keys());
            let mut keys: Vec<u32> =
                keys.filter(|key| state.get(key) != shown.get(key)).copied().collect();
            keys.sort_unstable();
            keys.dedup();
            keys
        };
        let nearest = (floor..=ceiling).min_by_key(|cut| differ(*cut).len()).unwrap_or(floor);
        let keys = differ(nearest);
        let has_all = |write: &[Record]| keys.iter().all(|key| write.iter().any(|r| r.0 == *key));
        let next = self.order.get(nearest).map(|placed| &*placed.write.records);
        let promise =
            if next.is_some_and(|next| next.len() > 1 && has_all(next)) { "A1" } else { "D3" };
        let state = self.state(nearest);
        let mut got = format!("no cut; write {nearest} is the nearest, but for ");
        for key in keys.iter().take(3) {
            let (is, was) = (shown.get(key).copied(), state.get(key).copied());
            let (is, was) = (plan::describe(is), plan::describe(was));
            let _ = write!(got, "key {key}: {is} instead of {was}; ");
        }
        let _ = write!(got, "{} keys in all", keys.len());
        (promise, got)
    }
}

#[cfg(test)]
mod tests;
