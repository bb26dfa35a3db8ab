//! Whether what a database shows after its process died is what it may show.
//!
//! Invariants
//! - D2, D1: every acknowledged write survives; the page cache outlives a process.
//! - D3: sequences are the order, respect real time, and have no hole: a sequence below an
//!   acknowledged one, and not acknowledged itself, belongs to a write that was in doubt.
//! - A1: a write in doubt survives whole or not at all.
//! - C2: no sequence is given twice, in this life or another.
//!
//! The question is answered exactly: is there an order in which the holes are filled with writes in
//! doubt, and any of the others follow the last acknowledged one, that gives what is shown?
//! Backwards from the end, a write may stand last if each of its keys shows its value or was
//! written again behind it. What may follow the last acknowledged write is taken greedily so: it
//! only takes conditions away from those before it. Holes are filled in every way that fits; each
//! writer has one write in doubt at the most, so that there are few.

use super::plan::{Record, describe};
use std::collections::{BTreeMap, BTreeSet};

/// Keys and the ids of their values.
pub type State = BTreeMap<u32, u64>;

/// A write of one life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Its writer.
    pub writer: u8,
    /// Its step.
    pub n: u32,
    /// Its records, in order.
    pub records: Vec<Record>,
    /// The sequence of its last record, if it was acknowledged.
    pub seq: Option<u64>,
    /// The note by which it was issued.
    pub issued: usize,
    /// The first note that acknowledged it as durable: its own, its receipt's or that of a sync
    /// after it.
    pub durable: Option<usize>,
    /// The highest sequence that had been acknowledged when it was issued.
    pub after: u64,
}

impl Write {
    fn count(&self) -> u64 {
        self.records.len() as u64
    }

    fn name(&self) -> String {
        format!("step {} of writer {}", self.n, self.writer)
    }

    /// What it leaves in each of its keys.
    fn effects(&self) -> BTreeMap<u32, Option<u64>> {
        self.records.iter().copied().collect()
    }
}

/// An acknowledged write, with its sequence.
type Acked<'a> = (u64, &'a Write);

/// All writes of a life.
#[derive(Clone, Debug, Default)]
pub struct Life {
    /// What the database showed when it was opened.
    pub before: State,
    /// Its last sequence then.
    pub start: u64,
    /// Those that were issued and not refused.
    pub writes: Vec<Write>,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Its id.
    pub promise: &'static str,
    /// What may be.
    pub expected: String,
    /// What is.
    pub got: String,
}

fn broken<T>(promise: &'static str, expected: impl Into<String>, got: String) -> Result<T, Broken> {
    Err(Broken { promise, expected: expected.into(), got })
}

/// A hole in the order: `count` sequences up to `last`.
#[derive(Clone, Copy, Debug)]
struct Hole {
    count: u64,
    last: u64,
}

/// Judges what a database shows after a life; returns how many writes in doubt survived, and how
/// many there were.
///
/// # Errors
/// The promise that is broken.
pub fn judge(life: &Life, shown: &State) -> Result<(usize, usize), Broken> {
    let mut acked: Vec<(u64, &Write)> =
        life.writes.iter().filter_map(|write| Some((write.seq?, write))).collect();
    acked.sort_by_key(|(seq, _)| *seq);
    let holes = holes(life.start, &acked)?;
    let doubt: Vec<&Write> = life.writes.iter().filter(|write| write.seq.is_none()).collect();
    let touched: BTreeSet<u32> =
        doubt.iter().flat_map(|write| write.records.iter().map(|record| record.0)).collect();
    acknowledged_survive(life, &acked, &doubt, shown)?;
    let relevant = acked.iter().filter(|(_, w)| w.records.iter().any(|r| touched.contains(&r.0)));
    let acked: Vec<(u64, &Write)> = relevant.copied().collect();
    let mut search =
        Search { life, acked, doubt, touched, shown, placed: Vec::new(), blind: false };
    match search.fill(&holes) {
        Some(survived) => Ok((survived, search.doubt.len())),
        None => search.complain(&holes),
    }
}

/// The holes below the highest acknowledged sequence, oldest first.
fn holes(start: u64, acked: &[(u64, &Write)]) -> Result<Vec<Hole>, Broken> {
    let mut holes = Vec::new();
    let mut end = start;
    for (seq, write) in acked {
        let before = seq.checked_sub(write.count()).filter(|before| *before >= end);
        let Some(before) = before else {
            let expected = format!("sequences above {end}, which were given before");
            return broken("C2", expected, format!("{} has sequence {seq}", write.name()));
        };
        if before < write.after {
            let expected = format!("a place behind sequence {}, acknowledged before", write.after);
            return broken("D3", expected, format!("{} has sequence {seq}", write.name()));
        }
        if before > end {
            holes.push(Hole { count: before - end, last: before });
        }
        end = *seq;
    }
    Ok(holes)
}

/// Each key by itself: it shows the newest acknowledged value, or one in doubt.
fn acknowledged_survive(
    life: &Life,
    acked: &[(u64, &Write)],
    doubt: &[&Write],
    shown: &State,
) -> Result<(), Broken> {
    let mut newest: BTreeMap<u32, (Option<u64>, Option<Acked<'_>>)> =
        life.before.iter().map(|(key, id)| (*key, (Some(*id), None))).collect();
    for (seq, write) in acked {
        for (key, id) in write.effects() {
            newest.insert(key, (id, Some((*seq, *write))));
        }
    }
    let may = |key: u32, got: Option<u64>| {
        doubt.iter().any(|write| write.effects().get(&key).is_some_and(|id| *id == got))
    };
    let keys: BTreeSet<u32> = newest.keys().chain(shown.keys()).copied().collect();
    for key in keys {
        let got = shown.get(&key).copied();
        let (want, by) = newest.get(&key).copied().unwrap_or_default();
        if got == want || may(key, got) {
            continue;
        }
        let written = life.writes.iter().any(|w| w.records.contains(&(key, got)));
        let known = got.is_none() || life.before.get(&key).copied() == got || written;
        let promise = match by {
            _ if !known => "D3",
            Some((_, write)) if write.durable.is_some() => "D1",
            Some(_) => "D2",
            // What the last recovery showed is final.
            None => "D4",
        };
        let by = by.map_or("an earlier life".to_owned(), |(seq, write)| {
            format!("{}, acknowledged with sequence {seq}", write.name())
        });
        let expected = format!("key {key}: {} ({by}), or one in doubt", describe(want));
        return broken(promise, expected, format!("key {key}: {}", describe(got)));
    }
    Ok(())
}

struct Search<'a> {
    life: &'a Life,
    /// Acknowledged writes of keys that writes in doubt touch, oldest first.
    acked: Vec<(u64, &'a Write)>,
    doubt: Vec<&'a Write>,
    touched: BTreeSet<u32>,
    shown: &'a State,
    /// Writes in doubt that fill holes, with their sequence.
    placed: Vec<(u64, usize)>,
    /// Whether only the holes count, not what is shown.
    blind: bool,
}

impl Search<'_> {
    /// Fills the holes from the newest on, so that what is shown explains the rest; how many writes
    /// in doubt survived.
    fn fill(&mut self, holes: &[Hole]) -> Option<usize> {
        let Some((hole, older)) = holes.split_last() else { return self.explains() };
        for i in 0..self.doubt.len() {
            let write = self.doubt[i];
            let used = self.placed.iter().any(|(_, other)| *other == i);
            let fits = write.count() <= hole.count && write.after <= hole.last - write.count();
            if used || !fits || self.is_the_same_in_order(hole.last, i) {
                continue;
            }
            self.placed.push((hole.last, i));
            let left = Hole { count: hole.count - write.count(), last: hole.last - write.count() };
            let found = if left.count == 0 {
                self.fill(older)
            } else {
                let mut rest = older.to_vec();
                rest.push(left);
                self.fill(&rest)
            };
            if found.is_some() {
                return found;
            }
            self.placed.pop();
        }
        None
    }

    /// Whether `i`, right before the write placed last, could as well stand behind it, which is
    /// tried elsewhere.
    fn is_the_same_in_order(&self, last: u64, i: usize) -> bool {
        let Some((seq, behind)) = self.placed.last() else { return false };
        let (one, other) = (self.doubt[i], self.doubt[*behind]);
        let apart = one.records.iter().all(|(key, _)| other.records.iter().all(|r| r.0 != *key));
        seq - other.count() == last && i < *behind && apart && one.after == other.after
    }

    /// Whether what is shown is the fold of what is placed, with whatever may follow.
    fn explains(&self) -> Option<usize> {
        let mut covered = BTreeSet::new();
        let following = self.follow(&mut covered);
        let mut acked = self.acked.iter().rev().peekable();
        let mut placed = self.placed.iter().peekable();
        loop {
            let acked_next = acked.peek().map_or(0, |(seq, _)| *seq);
            let write = match placed.next_if(|(seq, _)| *seq > acked_next) {
                Some((_, i)) => self.doubt[*i],
                None => match acked.next() {
                    Some((_, write)) => write,
                    None => break,
                },
            };
            if !self.may_be_last(write, &covered) {
                return None;
            }
            covered.extend(write.records.iter().map(|record| record.0));
        }
        let mut rest = self.touched.difference(&covered);
        let before = |key| self.shown.get(key) == self.life.before.get(key);
        let as_before = self.blind || rest.all(before);
        as_before.then_some(following + self.placed.len())
    }

    /// Takes the writes in doubt that may follow the last acknowledged one; how many.
    fn follow(&self, covered: &mut BTreeSet<u32>) -> usize {
        let mut left: Vec<usize> = (0..self.doubt.len())
            .filter(|i| self.placed.iter().all(|(_, placed)| placed != i))
            .collect();
        let before = left.len();
        while let Some(at) = left.iter().position(|i| self.may_be_last(self.doubt[*i], covered)) {
            let write = self.doubt[left.remove(at)];
            covered.extend(write.records.iter().map(|record| record.0));
        }
        before - left.len()
    }

    /// Whether each touched key of `write` that nothing behind it wrote shows its value.
    fn may_be_last(&self, write: &Write, covered: &BTreeSet<u32>) -> bool {
        write.effects().into_iter().all(|(key, id)| {
            covered.contains(&key)
                || self.blind
                || !self.touched.contains(&key)
                || self.shown.get(&key).copied() == id
        })
    }

    fn complain<T>(mut self, holes: &[Hole]) -> Result<T, Broken> {
        let shows = |(key, id): (u32, Option<u64>)| self.shown.get(&key).copied() == id;
        // A write that fills a hole may be written over by an acknowledged one.
        let over =
            |key: u32| self.acked.iter().any(|(_, write)| write.effects().contains_key(&key));
        let hidden = |key: u32| !holes.is_empty() && over(key);
        let torn = self.doubt.iter().find(|write| {
            let effects = write.effects();
            let puts = || effects.iter().filter(|(_, id)| id.is_some());
            puts().any(|(key, id)| shows((*key, *id)))
                && effects.iter().any(|(key, id)| !shows((*key, *id)) && !hidden(*key))
        });
        let doubt: Vec<String> = self.doubt.iter().map(|write| write.name()).collect();
        let text: Vec<String> =
            holes.iter().map(|hole| format!("{} up to {}", hole.count, hole.last)).collect();
        let expected = format!(
            "an order of the writes in doubt ({}) that fills the holes in the order ({})",
            doubt.join(", "),
            text.join(", ")
        );
        let torn = torn.map(|write| write.name());
        (self.blind, self.placed) = (true, Vec::new());
        match torn {
            _ if self.fill(holes).is_none() => {
                broken("D3", expected, "the holes can't be filled, whatever is shown".to_owned())
            }
            Some(name) => broken("A1", expected, format!("a part of {name}")),
            None => broken("D3", expected, "none explains what is shown".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests;
