//! What is recorded of a concurrent run: who called what, when, and what came back.
//!
//! Invariants
//! - Instants come from one counter of the whole run: a call that returned at a smaller instant
//!   than another was invoked at came before it. Equal instants say nothing.
//! - A client makes one call at a time. Threads that share a handle are clients of their own.
//! - A read that failed, and a read that never returned, saw nothing and is left out.
//!
//! What stands for what
//! - An iterator is a snapshot taken when it is opened, and each walk a scan at it.
//! - A walk that stopped early is a scan of the span up to the last key that it showed.
//! - What a database held when the run began is one write that returned before everything.

use super::violation::{Kind, Violation};
use crate::ops::{Key, Record, Span};
use std::collections::BTreeSet;

/// The name of a snapshot, unique in its history.
pub type SnapshotId = u64;

/// How a write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded; its last record has this sequence.
    Done(u64),
    /// It failed alone, without effect: too large, too late, closed, poisoned before.
    Refused,
    /// It failed in a way that poisons the handle, or never returned: in doubt.
    Unknown,
}

/// What a read saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Saw {
    /// Some keys, each with its value or without one: `get` and `multi_get`.
    Keys(Vec<(Key, Option<Vec<u8>>)>),
    /// Exactly these entries of a span, in key order: a scan, from either end.
    Scan(Span, Vec<(Key, Vec<u8>)>),
}

/// A call and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// A batch; `put` and `delete` are batches of one.
    Write {
        /// What it wrote.
        records: Vec<Record>,
        /// Whether it asked for a sync.
        durable: bool,
        /// How it ended.
        outcome: Outcome,
    },
    /// A read of the newest state, or at a snapshot.
    Read {
        /// The snapshot.
        at: Option<SnapshotId>,
        /// What it saw.
        saw: Saw,
    },
    /// A snapshot was taken.
    Snapshot {
        /// Its name.
        id: SnapshotId,
        /// Its sequence, where the handle says it.
        seq: Option<u64>,
    },
    /// A sync.
    Sync {
        /// Whether it failed and poisoned the handle.
        poisoned: bool,
    },
}

/// A call of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Who called.
    pub client: u32,
    /// When it was invoked.
    pub invoked: u64,
    /// When it returned; `None` if it did not.
    pub returned: Option<u64>,
    /// What was called.
    pub call: Call,
}

impl Event {
    /// The instant of its return; the end of time where it did not return.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.returned.unwrap_or(u64::MAX)
    }
}

/// A piece of the commit order, as the engine told it: one batch, or several of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ordered {
    /// When it was told: after the invocation of its writes, before any of them was visible.
    pub at: u64,
    /// The sequence of the first record; the others follow.
    pub first: u64,
    /// The records.
    pub records: Vec<Record>,
}

/// What one client did; each thread fills its own.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    client: u32,
    events: Vec<Event>,
}

impl Recorder {
    /// One without calls, of `client`.
    #[must_use]
    pub fn new(client: u32) -> Self {
        Self { client, events: Vec::new() }
    }

    /// A call that returned. Take `invoked` right before the call and `returned` right after.
    pub fn returned(&mut self, invoked: u64, returned: u64, call: Call) {
        let returned = Some(returned);
        self.events.push(Event { client: self.client, invoked, returned, call });
    }

    /// A write or sync that had not returned when the recording ended.
    pub fn pending(&mut self, invoked: u64, call: Call) {
        self.events.push(Event { client: self.client, invoked, returned: None, call });
    }

    /// Runs a call between two instants of `now`, and records what `record` makes of its result.
    pub fn around<R>(
        &mut self,
        now: impl Fn() -> u64,
        run: impl FnOnce() -> R,
        record: impl FnOnce(&R) -> Call,
    ) -> R {
        let invoked = now();
        let result = run();
        let returned = now();
        self.returned(invoked, returned, record(&result));
        result
    }
}

/// All that was recorded of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The calls, in order of invocation.
    pub events: Vec<Event>,
    /// The whole order of commits, where it was recorded: each write that has a place is in it.
    pub ordered: Option<Vec<Ordered>>,
}

impl History {
    /// What all clients recorded as one history.
    #[must_use]
    pub fn merge(
        recorders: impl IntoIterator<Item = Recorder>,
        ordered: Option<Vec<Ordered>>,
    ) -> Self {
        let mut events: Vec<Event> = recorders.into_iter().flat_map(|one| one.events).collect();
        events.sort_by_key(|event| (event.invoked, event.client));
        Self { events, ordered }
    }

    /// What an observer at `instant` knows: later calls are gone; of those under way, writes and
    /// syncs are in doubt, and reads have seen nothing yet.
    #[must_use]
    pub fn until(&self, instant: u64) -> Self {
        let begun = self.events.iter().filter(|event| event.invoked <= instant);
        let known = begun.filter_map(|event| {
            if event.returned.is_some_and(|returned| returned <= instant) {
                return Some(event.clone());
            }
            let call = match &event.call {
                Call::Write { records, durable, .. } => Call::Write {
                    records: records.clone(),
                    durable: *durable,
                    outcome: Outcome::Unknown,
                },
                Call::Sync { .. } => Call::Sync { poisoned: false },
                Call::Read { .. } | Call::Snapshot { .. } => return None,
            };
            Some(Event { returned: None, call, ..*event })
        });
        let told = |ordered: &Vec<Ordered>| {
            ordered.iter().filter(|piece| piece.at <= instant).cloned().collect()
        };
        Self { events: known.collect(), ordered: self.ordered.as_ref().map(told) }
    }

    /// Refuses what no recorder writes down: the checks rely on it.
    pub(super) fn well_formed(&self) -> Result<(), Box<Violation>> {
        let wrong = |i: usize, what: &str| {
            Err(Violation::new(Kind::Malformed, [i], what.to_string(), self))
        };
        let mut last_of = std::collections::BTreeMap::<u32, u64>::new();
        let mut taken = BTreeSet::new();
        for (i, event) in self.events.iter().enumerate() {
            if event.end() < event.invoked {
                return wrong(i, "a call returned before it was invoked");
            }
            if i > 0 && event.invoked < self.events[i - 1].invoked {
                return wrong(i, "calls stand in order of invocation");
            }
            if last_of.insert(event.client, event.end()).is_some_and(|end| end > event.invoked) {
                return wrong(i, "a client makes one call at a time");
            }
            match &event.call {
                Call::Write { outcome: Outcome::Done(_) | Outcome::Refused, .. }
                    if event.returned.is_none() =>
                {
                    return wrong(i, "a write that did not return is in doubt");
                }
                Call::Read { .. } | Call::Snapshot { .. } if event.returned.is_none() => {
                    return wrong(i, "a read that did not return saw nothing");
                }
                Call::Snapshot { id, .. } if !taken.insert(*id) => {
                    return wrong(i, "a snapshot's name is used once");
                }
                _ => {}
            }
        }
        self.reads_follow_their_snapshots(wrong)
    }

    fn reads_follow_their_snapshots(
        &self,
        wrong: impl Fn(usize, &str) -> Result<(), Box<Violation>>,
    ) -> Result<(), Box<Violation>> {
        let taken: std::collections::BTreeMap<SnapshotId, u64> = (self.events.iter())
            .filter_map(|event| match event.call {
                Call::Snapshot { id, .. } => Some((id, event.end())),
                _ => None,
            })
            .collect();
        for (i, event) in self.events.iter().enumerate() {
            if let Call::Read { at: Some(id), .. } = &event.call
                && taken.get(id).is_none_or(|taken| *taken > event.invoked)
            {
                return wrong(i, "a read at a snapshot comes after the snapshot was taken");
            }
        }
        Ok(())
    }
}
