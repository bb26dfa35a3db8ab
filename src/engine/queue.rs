//! The commit queue: writers join a group, one of them leads it, each gets the group's result.
//!
//! Invariants
//! - One leader at a time; groups are led in the order in which they were opened.
//! - A writer's place in its group is its place in the commit order (W1).
//! - Every member gets the group's result; the group's leader hands it out, a panic included.
//! - No lost wake-up (B1): a writer sleeps only while a leader is at work, and each leader wakes
//!   all when it is done.
//! - A lone writer leads at once, without waiting.
//!
//! Writers copy their records into the group under the queue's lock, so the leader has one buffer
//! to append. The queue knows nothing of logs and memtables: `lead` is a closure, so that loom can
//! check this file alone.

use crate::base::key::SeqNo;
use crate::env::sync::{Arc, Condvar, Mutex};
use crate::error::{Error, Result};
use std::collections::VecDeque;

/// Bytes beyond which a group takes no further member; a larger batch has a group of its own.
const GROUP_BYTES_MAX: usize = 1 << 20;

/// Writes that go through the log together.
#[derive(Debug, Default)]
pub struct Group {
    /// The records of all members, in commit order.
    pub records: Vec<u8>,
    /// How many records.
    pub count: u32,
    /// Whether a member asked for a sync: the strictest wins.
    pub sync: bool,
    members: u32,
    id: u64,
}

struct Outcome {
    id: u64,
    first: Result<SeqNo>,
    /// Members that have not taken the result yet.
    left: u32,
}

#[derive(Default)]
struct State {
    open: Group,
    leading: bool,
    outcomes: VecDeque<Outcome>,
    spare: Vec<u8>,
}

impl State {
    /// The result of group `id`, if its leader is done.
    fn take_outcome(&mut self, id: u64) -> Option<Result<SeqNo>> {
        let at = self.outcomes.iter().position(|o| o.id == id)?;
        let outcome = &mut self.outcomes[at];
        outcome.left -= 1;
        let first = outcome.first.clone();
        if outcome.left == 0 {
            let _ = self.outcomes.remove(at);
        }
        Some(first)
    }
}

/// Where writers meet.
pub struct CommitQueue {
    state: Mutex<State>,
    wake: Condvar,
}

impl Default for CommitQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl CommitQueue {
    /// A queue without writers.
    #[must_use]
    pub fn new() -> Self {
        Self { state: Mutex::new(State::default()), wake: Condvar::new() }
    }

    /// Writes `records` (`count` of them, at least one) in a group, which `lead` carries through
    /// the log and into the memtable. `lead` runs on this thread or on another member's; it returns
    /// the group's first sequence. Returns the last sequence of this writer's own records.
    ///
    /// # Errors
    /// The group's.
    pub fn commit(
        &self,
        records: &[u8],
        count: u32,
        sync: bool,
        lead: impl FnOnce(&mut Group) -> Result<SeqNo>,
    ) -> Result<SeqNo> {
        assert!(count > 0, "an empty batch has no place in the commit order");
        let mut state = self.state.lock();
        while state.open.members > 0 && state.open.records.len() + records.len() > GROUP_BYTES_MAX {
            state = self.wake.wait(state);
        }
        let open = &mut state.open;
        let id = open.id;
        open.records.extend_from_slice(records);
        open.count += count;
        open.sync |= sync;
        open.members += 1;
        let last_in_group = u64::from(open.count) - 1;
        let first = loop {
            if let Some(first) = state.take_outcome(id) {
                break first;
            }
            if !state.leading {
                assert_eq!(state.open.id, id, "a group that is not open has a leader or a result");
                state.leading = true;
                let records = std::mem::take(&mut state.spare);
                let next = Group { records, id: id + 1, ..Group::default() };
                let group = std::mem::replace(&mut state.open, next);
                drop(state);
                break self.lead(group, lead);
            }
            state = self.wake.wait(state);
        };
        first.map(|first| first.plus(last_in_group))
    }

    fn lead(&self, group: Group, lead: impl FnOnce(&mut Group) -> Result<SeqNo>) -> Result<SeqNo> {
        let cause = "the leader of this write's group panicked".to_string();
        let panicked = Error::Poisoned { cause: Arc::new(Error::Stalled { cause }) };
        let mut led = Led { queue: self, group, first: Err(panicked) };
        led.first = lead(&mut led.group);
        led.first.clone()
    }
}

/// A group under its leader. Dropping it, in a panic too, hands out the result and wakes.
struct Led<'a> {
    queue: &'a CommitQueue,
    group: Group,
    first: Result<SeqNo>,
}

impl Drop for Led<'_> {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock();
        state.leading = false;
        let left = self.group.members - 1;
        if left > 0 {
            let first = self.first.clone();
            state.outcomes.push_back(Outcome { id: self.group.id, first, left });
        }
        self.group.records.clear();
        if self.group.records.capacity() <= GROUP_BYTES_MAX {
            state.spare = std::mem::take(&mut self.group.records);
        }
        drop(state);
        self.queue.wake.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_writer_leads_its_own_group_at_once() {
        let queue = CommitQueue::new();
        for n in 1..4u64 {
            let last = queue.commit(b"xy", 2, n == 2, |group| {
                assert_eq!((&group.records[..], group.count, group.sync), (&b"xy"[..], 2, n == 2));
                Ok(SeqNo(10 * n))
            });
            assert_eq!(last.expect("led"), SeqNo(10 * n + 1));
        }
    }

    #[test]
    fn a_failed_group_and_a_panicking_leader_leave_the_queue_usable() {
        let queue = CommitQueue::new();
        queue.commit(b"x", 1, false, |_| Err(Error::Closed)).expect_err("led to an error");
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = queue.commit(b"x", 1, false, |_| panic!("leader"));
        }));
        assert!(panic.is_err());
        assert_eq!(queue.commit(b"x", 1, false, |_| Ok(SeqNo(1))).expect("led"), SeqNo(1));
    }
}
