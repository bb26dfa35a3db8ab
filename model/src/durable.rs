//! The states that a crash may leave (D1 to D4, A1).
//!
//! A state is admissible if it is the fold of the first n commits, in commit order, for some n
//! from a floor up to everything issued. The floor under power loss is the newest acknowledged
//! durable write; under a killed process it is the newest buffered write that returned `Ok`,
//! unless a sync has failed since.
//!
//! Invariants
//! - Cut n is the state after the first n commits ever; numbers are never reused, also after
//!   older cuts were folded away.
//! - Each cut keeps the hash of its whole state: the sum of its pairs' hashes, kept incrementally.
//!   A recovered state is compared with every admissible cut by one number.
//! - At most one commit is in doubt: issued, answered with an error, its fate unknown. On one
//!   handle nothing is ordered after it, since a failed append or sync poisons (P1).
//! - Floors never fall, but for the killed process's after a failed sync.
//!
//! The oracle keeps the states themselves; this file keeps which of them may come back.

use crate::ops::{Key, Record, Span};
use crate::oracle::{NEWEST, Oracle};
use crate::value::{Value, hash_pair};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What a crash takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CrashClass {
    /// K: the process dies, the page cache stays.
    Kill,
    /// P: power is lost.
    Power,
}

/// Which cuts a crash may leave, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The oldest cut that power loss may leave.
    pub floor: u64,
    /// The oldest cut that a killed process may leave.
    pub floor_kill: u64,
    /// The newest cut: everything issued.
    pub issued: u64,
}

impl Bounds {
    /// The bounds of a crash during a call: nothing that it promised yet, all that it issued.
    #[must_use]
    pub fn during(before: Self, after: Self) -> Self {
        Self { issued: after.issued.max(before.issued), ..before }
    }

    /// The oldest cut that `class` may leave.
    #[must_use]
    pub fn floor_of(&self, class: CrashClass) -> u64 {
        match class {
            CrashClass::Kill => self.floor_kill,
            CrashClass::Power => self.floor,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Cut {
    seq: u64,
    hash: u64,
}

/// The truth about one database: what it holds, and what of it a crash may take.
#[derive(Clone, Debug)]
pub struct Truth {
    /// What reads must answer.
    pub oracle: Oracle,
    /// Cut `base` and those after it that were acknowledged.
    cuts: Vec<Cut>,
    base: u64,
    floor: u64,
    floor_kill: u64,
    pending: Option<Pending>,
}

/// A commit that was issued and has not returned `Ok`.
#[derive(Clone, Debug)]
struct Pending {
    records: Vec<Record>,
    hash: u64,
}

impl Default for Truth {
    fn default() -> Self {
        Self {
            oracle: Oracle::default(),
            cuts: vec![Cut { seq: 0, hash: 0 }],
            base: 0,
            floor: 0,
            floor_kill: 0,
            pending: None,
        }
    }
}

impl Truth {
    /// The oldest cut that is still kept.
    #[must_use]
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The newest cut that readers may see.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.base + self.cuts.len() as u64 - 1
    }

    /// What a crash now may leave.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        let issued = self.acknowledged() + u64::from(self.pending.is_some());
        Bounds { floor: self.floor, floor_kill: self.floor_kill, issued }
    }

    /// The records issued and not acknowledged, if any.
    #[must_use]
    pub fn pending(&self) -> Option<&[Record]> {
        self.pending.as_ref().map(|pending| &*pending.records)
    }

    /// The hash of what readers see.
    #[must_use]
    pub fn state_hash(&self) -> u64 {
        self.cuts[self.cuts.len() - 1].hash
    }

    /// A write is about to be called. An older one in doubt was not written: had it been, the
    /// handle would be poisoned, and the caller retracts what a poisoned handle refuses.
    pub fn issue(&mut self, records: Vec<Record>) {
        let hash = self.state_hash().wrapping_add(self.delta(&records));
        self.pending = Some(Pending { records, hash });
    }

    fn delta(&self, records: &[Record]) -> u64 {
        let change = |record: &Record| {
            let hash = |value: &Value| value.hash_pair(&record.key);
            let old = self.oracle.get(&record.key, NEWEST).map_or(0, hash);
            record.value.as_ref().map_or(0, hash).wrapping_sub(old)
        };
        if let [only] = records {
            return change(only);
        }
        // The last record of a key decides.
        let last: BTreeMap<&Key, &Record> = records.iter().map(|r| (&r.key, r)).collect();
        last.values().fold(0, |sum, record| sum.wrapping_add(change(record)))
    }

    /// The write that was issued returned `Ok(seq)`.
    pub fn acknowledge(&mut self, seq: u64, durable: bool) {
        let pending = self.pending.take().expect("invariant: a write is issued before it returns");
        self.oracle.commit(seq, pending.records);
        self.cuts.push(Cut { seq, hash: pending.hash });
        self.floor_kill = self.acknowledged();
        if durable {
            self.floor = self.acknowledged();
        }
    }

    /// The write that was issued surely left no trace.
    pub fn retract(&mut self) {
        self.pending = None;
    }

    /// Everything acknowledged is durable: a sync or a close returned `Ok`.
    pub fn synced(&mut self) {
        self.floor = self.acknowledged();
        self.floor_kill = self.floor;
    }

    /// A sync may have failed: what only the page cache held may be gone even to a killed process.
    pub fn sync_failed(&mut self) {
        self.floor_kill = self.floor;
    }

    /// Which admissible cut has the state with this hash: the newest one.
    #[must_use]
    pub fn admit(&self, bounds: Bounds, class: CrashClass, hash: u64) -> Option<u64> {
        self.admit_to(bounds, class, hash, u64::MAX)
    }

    /// As [`Truth::admit`], of the cuts whose last sequence is at most `seq_max`: several may have
    /// one state, and the engine's last sequence tells which of them it can be.
    #[must_use]
    pub fn admit_to(
        &self,
        bounds: Bounds,
        class: CrashClass,
        hash: u64,
        seq_max: u64,
    ) -> Option<u64> {
        let mut cuts = (bounds.floor_of(class)..=bounds.issued).rev();
        cuts.find(|&cut| self.hash_at(cut) == Some(hash) && self.seq_at(cut) <= seq_max)
    }

    /// The last sequence of a cut: what is not known yet comes right after what is.
    fn seq_at(&self, cut: u64) -> u64 {
        let index = cut.checked_sub(self.base).and_then(|index| usize::try_from(index).ok());
        let pending = || self.pending.as_ref().map_or(0, |p| p.records.len() as u64);
        let known = index.and_then(|index| self.cuts.get(index)).map(|cut| cut.seq);
        known.unwrap_or_else(|| self.oracle.last_seq() + pending())
    }

    fn hash_at(&self, cut: u64) -> Option<u64> {
        let index = usize::try_from(cut.checked_sub(self.base)?).ok()?;
        match self.cuts.get(index) {
            Some(cut) => Some(cut.hash),
            None if index == self.cuts.len() => self.pending.as_ref().map(|p| p.hash),
            None => None,
        }
    }

    /// Recovery decided on `cut` and its decision is final (D4): later commits never were, all
    /// that is left is durable.
    pub fn decide(&mut self, cut: u64) {
        if cut > self.acknowledged() {
            let records = self.pending.as_ref().map_or(0, |p| p.records.len() as u64);
            self.acknowledge(self.oracle.last_seq() + records, true);
        }
        self.pending = None;
        let index = usize::try_from(cut - self.base).expect("invariant: cuts fit in memory");
        if index + 1 < self.cuts.len() {
            self.cuts.truncate(index + 1);
            self.oracle.truncate(self.cuts[index].seq);
        }
        self.synced();
    }

    /// Forgets cuts below the floor, and versions that neither they nor `seq_min` need.
    pub fn forget(&mut self, seq_min: u64) {
        let keep = usize::try_from(self.floor.min(self.floor_kill) - self.base);
        self.cuts.drain(..keep.expect("invariant: cuts fit in memory"));
        self.base = self.floor.min(self.floor_kill);
        self.oracle.forget_before(seq_min.min(self.cuts[0].seq));
    }

    /// Why `got` is not admissible: the nearest cut, and where it differs.
    #[must_use]
    pub fn explain(&self, bounds: Bounds, class: CrashClass, got: &State) -> Rejection {
        let floor = bounds.floor_of(class);
        let states = (floor..=bounds.issued).rev().map(|cut| (cut, self.state_at(cut)));
        let nearest =
            states.map(|(cut, want)| (differences(&want, got), cut)).min_by_key(|(d, _)| d.len());
        let (nearest, cut) = nearest.unwrap_or_default();
        let below = (self.base..floor).rev().find(|&cut| self.state_at(cut) == *got);
        Rejection { class, bounds, cut, nearest, below }
    }

    /// The state at a cut, whole.
    #[must_use]
    pub fn state_at(&self, cut: u64) -> State {
        let pending = self.pending.as_ref().filter(|_| cut > self.acknowledged());
        let index = (cut.min(self.acknowledged()) - self.base) as usize;
        let entries = self.oracle.scan(&Span::all(), self.cuts[index].seq);
        let mut state: State = entries.map(|(k, v)| (k.clone(), v.to_vec())).collect();
        for record in pending.iter().flat_map(|pending| &pending.records) {
            match &record.value {
                Some(value) => state.insert(record.key.clone(), value.to_vec()),
                None => state.remove(&record.key),
            };
        }
        state
    }
}

/// A whole state, as bytes.
pub type State = BTreeMap<Key, Vec<u8>>;

/// The hash of a whole state, as [`Truth::admit`] takes it.
#[must_use]
pub fn state_hash(state: &State) -> u64 {
    state.iter().fold(0, |sum, (key, value)| sum.wrapping_add(hash_pair(key, value)))
}

/// One key's difference: what was expected, and what was found.
pub type Difference = (Key, Option<Vec<u8>>, Option<Vec<u8>>);

/// Every key where two states differ.
#[must_use]
pub fn differences(want: &State, got: &State) -> Vec<Difference> {
    let missing = want.iter().filter(|(key, value)| got.get(*key) != Some(*value));
    let mut all: Vec<Difference> =
        missing.map(|(k, v)| (k.clone(), Some(v.clone()), got.get(k).cloned())).collect();
    let extra = got.iter().filter(|(key, _)| !want.contains_key(*key));
    all.extend(extra.map(|(k, v)| (k.clone(), None, Some(v.clone()))));
    all.sort();
    all
}

/// Why a recovered state is none that the crash may have left.
#[derive(Clone, Debug)]
pub struct Rejection {
    /// The crash.
    pub class: CrashClass,
    /// What it may have left.
    pub bounds: Bounds,
    /// The admissible cut that is nearest.
    pub cut: u64,
    /// Where the recovered state differs from it.
    pub nearest: Vec<Difference>,
    /// The cut below the floor that the recovered state equals, if it does.
    pub below: Option<u64>,
}

impl Rejection {
    /// The promise that is broken: D1 or D2 where acknowledged writes are lost from the end, D3
    /// where the state is no cut at all.
    #[must_use]
    pub fn promise(&self) -> &'static str {
        match (self.below, self.class) {
            (Some(below), _) if below < self.bounds.floor => "D1",
            (Some(_), CrashClass::Kill) => "D2",
            _ => "D3",
        }
    }

    /// What was expected, in words.
    #[must_use]
    pub fn expected(&self) -> String {
        let floor = self.bounds.floor_of(self.class);
        let mut text = format!("a cut of the commit order from {floor} to {}", self.bounds.issued);
        let _ = write!(text, "; nearest {}:", self.cut);
        self.list(&mut text, |(_, want, _)| want);
        text
    }

    /// What was found, in words.
    #[must_use]
    pub fn got(&self) -> String {
        let mut text = match self.below {
            Some(below) => format!("cut {below}:"),
            None => "no cut:".to_string(),
        };
        self.list(&mut text, |(_, _, got)| got);
        text
    }

    fn list(&self, text: &mut String, side: impl Fn(&Difference) -> &Option<Vec<u8>>) {
        const SHOWN_MAX: usize = 8;
        for difference in self.nearest.iter().take(SHOWN_MAX) {
            let value = side(difference).as_ref();
            let value = value.map_or("nothing".to_string(), |v| crate::text::brief(v));
            let _ = write!(text, " {}={value}", crate::text::brief(&difference.0));
        }
        if self.nearest.len() > SHOWN_MAX {
            let _ = write!(text, " and {} more", self.nearest.len() - SHOWN_MAX);
        }
    }
}

#[cfg(test)]
#[path = "durable/tests.rs"]
mod tests;
