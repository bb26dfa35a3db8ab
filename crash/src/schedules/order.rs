//! What an image of an instant may show: the cuts of the commit order, and the least of them.
//!
//! Invariants
//! - D3, A1: only whole groups, in their order, and none that had no place yet at the instant.
//! - D1, D2: the least cut holds every durable write that had returned, every write that had
//!   returned before a `sync`, `flush` or `close` that returned `Ok`, and every one whose receipt
//!   had said `Ok`; after a process death every write that had returned, unless a sync has failed.
//! - V1: it holds every durable write that some reader had seen, and every durable write in front
//!   of what some reader had seen; after a process death all that was seen.
//!
//! Cut 0 is the database that the world began with; cut n is the state after the first n groups.

use super::actors::Run;
use super::base::Base;
use super::watch::{Done, What};
use super::world::{How, Step, World};
use crate::disk::{Fault, Op};
use kiban::rig::Records;
use kiban_model::durable::CrashClass;
use kiban_model::history::Saw;
use kiban_model::ops::{Key, Record};
use kiban_model::value::hash_pair;
use std::collections::BTreeMap;

/// A group, and what is known of it.
#[derive(Clone, Debug)]
pub struct Group {
    /// When it got its place.
    pub at: u64,
    /// Its first and last sequence.
    pub first: u64,
    /// The last.
    pub last: u64,
    /// The world's writes in it, as far as their values tell.
    pub members: Vec<usize>,
    /// Whether one of them asked for a sync.
    pub durable: bool,
    /// The task of its leader.
    pub leader: usize,
}

/// The commit order of a run.
pub struct Order {
    /// Groups in their order.
    pub groups: Vec<Group>,
    /// For each cut, the hash of its state.
    hashes: Vec<u64>,
    /// For each cut, the newest cut at or below it that a durable group made.
    durable_upto: Vec<usize>,
    /// The cut that first shows a pair, by the pair's hash.
    cut_of: BTreeMap<u64, usize>,
    /// How each write was made.
    hows: BTreeMap<usize, How>,
    /// Whether a sync failed, so that what it covered may be lost even without a power cut.
    sync_failed: bool,
}

/// The least cut that an image may show, and why.
#[derive(Clone, Debug)]
pub struct Floor {
    /// The cut.
    pub cut: usize,
    /// The promise that a lesser one breaks.
    pub promise: &'static str,
    /// Who was told or saw what.
    pub why: String,
}

/// Every write of a world by its number.
pub fn writes(world: &World) -> impl Iterator<Item = (usize, &Vec<Record>, How)> {
    world.clients.iter().flatten().enumerate().filter_map(|(id, step)| match step {
        Step::Write { records, how, .. } => Some((id, records, *how)),
        _ => None,
    })
}

impl Order {
    /// The order that `run` took.
    ///
    /// # Errors
    /// The leader's records can't be read: a story.
    pub fn of(world: &World, run: &Run) -> Result<Self, String> {
        let base = world.base.map(Base::numbered);
        let mut state: BTreeMap<Key, u64> = BTreeMap::new();
        let mut hash = 0u64;
        let mut cut_of = BTreeMap::new();
        if let Some(base) = base {
            for (key, value) in &base.state {
                let pair = value.hash_pair(key);
                hash = hash.wrapping_add(pair);
                state.insert(key.clone(), pair);
                cut_of.insert(pair, 0);
            }
        }
        let mut writer_of = BTreeMap::new();
        let mut hows = BTreeMap::new();
        for (id, records, how) in writes(world) {
            hows.insert(id, how);
            for record in records {
                if let Some(value) = &record.value {
                    writer_of.insert(value.hash_pair(&record.key), id);
                }
            }
        }
        let (mut groups, mut hashes) = (Vec::new(), vec![hash]);
        for ordered in &run.record.ordered {
            let mut count = 0;
            let mut members: Vec<usize> = Vec::new();
            for record in Records::new(&ordered.records) {
                let record = record.map_err(str::to_owned)?;
                count += 1;
                let pair = (record.kind == kiban::rig::base::key::Kind::Put)
                    .then(|| hash_pair(record.key, record.value));
                let old = match pair {
                    Some(pair) => state.insert(record.key.to_vec(), pair),
                    None => state.remove(record.key),
                };
                hash = hash.wrapping_sub(old.unwrap_or(0)).wrapping_add(pair.unwrap_or(0));
                if let Some(pair) = pair {
                    cut_of.entry(pair).or_insert(groups.len() + 1);
                    let writer = writer_of.get(&pair).copied();
                    members.extend(writer.filter(|id| !members.contains(id)));
                }
            }
            hashes.push(hash);
            let (first, last) = (ordered.first, ordered.first + count - 1);
            let (at, leader) = (ordered.at, ordered.leader);
            groups.push(Group { at, first, last, members, durable: false, leader });
        }
        let mut order = Self {
            groups,
            hashes,
            durable_upto: Vec::new(),
            cut_of,
            hows,
            sync_failed: sync_failed(run),
        };
        order.mark_durable();
        Ok(order)
    }

    fn mark_durable(&mut self) {
        self.durable_upto.push(0);
        let mut newest = 0;
        for (cut, group) in (1..).zip(&mut self.groups) {
            group.durable = group.members.iter().any(|id| self.hows.get(id) == Some(&How::Durable));
            if group.durable {
                newest = cut;
            }
            self.durable_upto.push(newest);
        }
    }

    /// The cut that shows the record of this sequence.
    #[must_use]
    pub fn cut_at(&self, seq: u64) -> Option<usize> {
        let at = self.groups.partition_point(|group| group.last < seq);
        self.groups.get(at).filter(|group| group.first <= seq).map(|_| at + 1)
    }

    /// The newest cut that could exist at `instant`.
    #[must_use]
    pub fn ceiling(&self, instant: u64) -> usize {
        self.groups.partition_point(|group| group.at <= instant)
    }

    /// The newest cut within these bounds whose state has this hash.
    #[must_use]
    pub fn cut_of_state(&self, hash: u64, from: usize, upto: usize) -> Option<usize> {
        (from..=upto.min(self.groups.len())).rev().find(|&cut| self.hashes[cut] == hash)
    }

    /// Whether the write asked for a receipt.
    #[must_use]
    pub fn is_receipt(&self, id: usize) -> bool {
        self.hows.get(&id) == Some(&How::Receipt)
    }

    /// The group that this write is in.
    #[must_use]
    pub fn group_of(&self, id: usize) -> Option<usize> {
        self.groups.iter().position(|group| group.members.contains(&id))
    }

    /// The least cut that an image of `instant` may show after a crash of this class.
    #[must_use]
    pub fn floor(&self, run: &Run, instant: u64, class: CrashClass) -> Floor {
        let mut floor = Floor { cut: 0, promise: "D3", why: "nothing was promised".to_owned() };
        let mut raise = |cut: usize, promise: &'static str, why: &dyn Fn() -> String| {
            if cut > floor.cut {
                floor = Floor { cut, promise, why: why() };
            }
        };
        let killed = class == CrashClass::Kill && !self.sync_failed;
        let returned = run.record.done.partition_point(|done| done.returned <= instant);
        let done = &run.record.done[..returned];
        for (n, one) in done.iter().enumerate() {
            match &one.what {
                What::Write { id, result: Ok(seq) } => {
                    let Some(cut) = self.cut_at(*seq) else { continue };
                    if self.hows.get(id) == Some(&How::Durable) {
                        raise(cut, "D1", &|| format!("durable write {id} had returned {seq}"));
                    } else if killed {
                        raise(cut, "D2", &|| format!("write {id} had returned {seq}"));
                    }
                }
                What::Barrier { verb, result: Ok(()) } => {
                    let cut = self.returned_before(&done[..n], one.invoked);
                    raise(cut, "D2", &|| format!("`{verb}` had returned at {}", one.returned));
                }
                What::Read { saw, .. } => {
                    let seen = self.seen(saw);
                    let cut = if killed { seen } else { self.durable_upto[seen] };
                    raise(cut, "V1", &|| format!("a read had seen cut {seen} at {}", one.returned));
                }
                _ => {}
            }
        }
        for told in run.record.told.iter().filter(|told| told.at <= instant && told.ok) {
            if let Some(at) = self.group_of(told.id) {
                raise(at + 1, "V1", &|| format!("the receipt of write {} was told", told.id));
            }
        }
        floor
    }

    /// The least cut that a copy may show whose call began at `invoked`: all that was visible then.
    #[must_use]
    pub fn floor_of_copy(&self, run: &Run, invoked: u64) -> Floor {
        let done = &run.record.done;
        let seen = done.iter().filter(|one| one.returned < invoked).filter_map(|one| {
            if let What::Read { at: None, saw } = &one.what { Some(self.seen(saw)) } else { None }
        });
        let cut = self.returned_before(done, invoked).max(seen.max().unwrap_or(0));
        Floor { cut, promise: "V2", why: "a call had returned it or seen it".to_owned() }
    }

    fn returned_before(&self, done: &[Done], instant: u64) -> usize {
        let seqs = done.iter().filter(|one| one.returned < instant).filter_map(|one| {
            if let What::Write { result: Ok(seq), .. } = one.what { Some(seq) } else { None }
        });
        seqs.filter_map(|seq| self.cut_at(seq)).max().unwrap_or(0)
    }

    /// The newest cut of which a read must have seen something.
    fn seen(&self, saw: &Saw) -> usize {
        let cut =
            |key: &Key, value: &[u8]| self.cut_of.get(&hash_pair(key, value)).copied().unwrap_or(0);
        match saw {
            Saw::Keys(keys) => {
                let found = keys.iter().filter_map(|(k, v)| v.as_ref().map(|v| cut(k, v)));
                found.max().unwrap_or(0)
            }
            Saw::Scan(_, entries) => entries.iter().map(|(k, v)| cut(k, v)).max().unwrap_or(0),
        }
    }
}

fn sync_failed(run: &Run) -> bool {
    run.end.injected.iter().any(|injected| {
        matches!(injected.op, Op::SyncData | Op::SyncAll)
            && !matches!(injected.fault, Fault::Slow(_) | Fault::Lie)
    })
}
