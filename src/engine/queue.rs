//! The commit queue: writers join a group, one of them leads it, each gets the group's result.
//!
//! Invariants
//! - One leader at a time. Order is given when a group is led, not when a writer joins.
//! - A writer's place in its group is its place in the commit order (W1).
//! - Every member gets the group's result; its leader hands it out, in a panic too (P1).
//! - The strictest wish for a sync wins for the whole group (V1).
//! - A writer that asked for no sync never waits for a cohort: durable writers gather in a group
//!   of their own, which holds no place in the log until it is led; buffered groups pass it.
//! - No lost wake-up (B1): of every open group one member, its first, keeps looking whether the
//!   group can be led; a leader that is done wakes it. The others sleep until they have a result.
//! - A lone writer leads at once, without waiting.
//!
//! Writers copy their records into the group under the queue's lock, so the leader has one buffer
//! to append. The queue knows nothing of logs and memtables: `lead` is a closure, so that loom can
//! check this module alone.

mod cohort;
mod group;

pub use group::{Group, Load, Receipt};

use crate::base::key::SeqNo;
use crate::env::clock::{self, Clock};
use crate::env::sync::{Arc, Condvar, Mutex, MutexGuard};
use crate::error::{Error, Result};
use cohort::Cohort;
pub use cohort::CohortWaits;
use group::Outcome;

/// Bytes beyond which a group takes no further member; a larger batch has a group of its own.
pub const GROUP_BYTES_MAX: usize = 1 << 20;

/// Should the clock stand still, a wait for a cohort ends after so many wake-ups.
const LOOKS_MAX: u32 = 64;

/// Writers that asked for no sync, and those that did.
const BUFFERED: usize = 0;
const DURABLE: usize = 1;

/// What a writer brings.
pub struct Write<'a> {
    /// The encoded records.
    pub records: &'a [u8],
    /// How many, at least one.
    pub count: u32,
    /// Whether they are to be durable when the write returns.
    pub sync: bool,
}

struct State {
    open: [Group; 2],
    next_id: u64,
    leading: bool,
    cohort: Cohort,
    waits: CohortWaits,
    /// What is led, and not applied yet.
    led: Load,
    /// The open durable group has waited for its cohort in vain.
    gave_up: bool,
    spare: Vec<u8>,
}

/// Where a writer sits.
struct Seat {
    lane: usize,
    group: u64,
    /// The place of its last record.
    last: u64,
    /// Whether it keeps looking for its group.
    is_first: bool,
}

enum Turn<'a> {
    Lead(MutexGuard<'a, State>),
    Follow(Arc<Outcome>),
}

/// Where writers meet.
pub struct CommitQueue {
    state: Mutex<State>,
    wake: Condvar,
    clock: Arc<dyn Clock>,
    group_bytes_max: usize,
}

impl CommitQueue {
    /// A queue without writers, whose groups take no further member beyond `group_bytes_max`, and
    /// whose leaders wait for a cohort no longer than `patience_ns_max`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, group_bytes_max: usize, patience_ns_max: u64) -> Self {
        let state = State {
            open: [Group::open(BUFFERED as u64, false), Group::open(DURABLE as u64, true)],
            next_id: 2,
            leading: false,
            cohort: Cohort::new(patience_ns_max),
            waits: CohortWaits::default(),
            led: Load::default(),
            gave_up: false,
            spare: Vec::new(),
        };
        Self { state: Mutex::new(state), wake: Condvar::new(), clock, group_bytes_max }
    }

    /// Writes in a group, which `lead` carries through the log and into the memtable. `lead` runs
    /// on this thread or on another member's; it returns the group's first sequence. Returns the
    /// last sequence of this writer's own records, or `None` if `may_join` said no: then nothing
    /// was done. It is asked under the queue's lock, alone and behind all that has joined. A
    /// `receipt` is taken only where it joined.
    ///
    /// # Errors
    /// The group's.
    pub fn commit(
        &self,
        write: &Write<'_>,
        receipt: &mut Option<Receipt>,
        may_join: impl Fn(Load) -> bool,
        lead: impl FnOnce(&mut Group) -> Result<SeqNo>,
    ) -> Option<Result<SeqNo>> {
        assert!(write.count > 0, "an empty batch has no place in the commit order");
        let (state, seat) = self.join(write, receipt, may_join)?;
        let first = match self.await_turn(state, &seat) {
            Turn::Lead(state) => self.lead(state, seat.lane, lead),
            Turn::Follow(outcome) => outcome.wait(),
        };
        Some(first.map(|first| first.plus(seat.last)))
    }

    fn join(
        &self,
        write: &Write<'_>,
        receipt: &mut Option<Receipt>,
        may_join: impl Fn(Load) -> bool,
    ) -> Option<(MutexGuard<'_, State>, Seat)> {
        let lane = usize::from(write.sync);
        let mut state = self.state.lock();
        loop {
            // Asked again after every wait: what was true before it may be so no longer.
            let joined = state.joined();
            if may_join(joined) {
                let open = &state.open[lane];
                let bytes = open.records.len() + write.records.len();
                if open.is_empty() || bytes <= self.group_bytes_max {
                    break;
                }
            } else if joined == Load::default() || !may_join(Load::default()) {
                return None;
            }
            // What has joined takes the room; when it is applied this writer is woken.
            state = self.wake.wait(state);
        }
        let open = &mut state.open[lane];
        let is_first = open.is_empty();
        let last = open.add(write.records, write.count, receipt.take());
        let seat = Seat { lane, group: open.id(), last, is_first };
        Some((state, seat))
    }

    /// Waits until this writer's group can be led by it, or is led by another.
    fn await_turn<'a>(&'a self, mut state: MutexGuard<'a, State>, seat: &Seat) -> Turn<'a> {
        if !state.leading && state.is_ready(seat.lane) {
            return Turn::Lead(state);
        }
        let outcome = state.open[seat.lane].outcome();
        if !seat.is_first {
            return Turn::Follow(outcome);
        }
        let (mut deadline, mut looks) = (None, 0);
        loop {
            if state.leading {
                state = self.wake.wait(state);
            } else {
                let now = self.clock.now_ns();
                let until = *deadline.get_or_insert_with(|| {
                    state.waits.begun += 1;
                    now.saturating_add(state.cohort.patience_ns())
                });
                let left = until.saturating_sub(now);
                let mut expired = left == 0;
                if !expired {
                    (state, expired) = clock::wait_timeout(&self.wake, &self.state, state, left);
                }
                looks += 1;
                if (expired || looks >= LOOKS_MAX) && state.open[seat.lane].id() == seat.group {
                    // Whoever leads next takes this group along, though it be incomplete.
                    state.give_up_waiting();
                }
            }
            if state.open[seat.lane].id() != seat.group {
                return Turn::Follow(outcome);
            }
            if !state.leading && state.is_ready(seat.lane) {
                return Turn::Lead(state);
            }
        }
    }

    fn lead(
        &self,
        mut state: MutexGuard<'_, State>,
        lane: usize,
        lead: impl FnOnce(&mut Group) -> Result<SeqNo>,
    ) -> Result<SeqNo> {
        assert!(!state.leading, "one leader at a time");
        state.leading = true;
        let led = state.take(lane);
        // A durable group that is ready goes along, and so does what is buffered: one append.
        let other = 1 - lane;
        let bytes = led.records.len() + state.open[other].records.len();
        let fits = bytes <= self.group_bytes_max;
        let joins = fits && !state.open[other].is_empty() && state.is_ready(other);
        let other = joins.then(|| state.take(other));
        for group in [Some(&led), other.as_ref()].into_iter().flatten() {
            state.led = state.led.and(group.load());
        }
        drop(state);
        let of_both = [Some(&led), other.as_ref()];
        let durable = of_both.into_iter().flatten().filter(|group| group.sync);
        let durable = durable.map(Group::members).sum();
        let mut led = Led { queue: self, group: led, passenger: None, durable, first: None };
        if let Some(other) = other {
            led.passenger = Some(led.group.absorb(other));
        }
        let first = lead(&mut led.group);
        led.first = Some(first.clone());
        first
    }

    /// What waiting for cohorts came to.
    #[must_use]
    pub fn cohort_waits(&self) -> CohortWaits {
        self.state.lock().waits
    }

    /// Wakes whoever waits here, as the passing of a deadline does.
    #[doc(hidden)]
    pub fn look_again(&self) {
        drop(self.state.lock());
        self.wake.notify_all();
    }
}

impl State {
    /// Everything that has joined and is not applied yet.
    fn joined(&self) -> Load {
        self.led.and(self.open[BUFFERED].load()).and(self.open[DURABLE].load())
    }

    /// Whether a group of this lane can be led now.
    fn is_ready(&self, lane: usize) -> bool {
        lane == BUFFERED || self.gave_up || self.cohort.is_complete(self.open[DURABLE].members())
    }

    /// The durable group is led without the rest of its cohort.
    fn give_up_waiting(&mut self) {
        let queued = self.open[DURABLE].members();
        if !std::mem::replace(&mut self.gave_up, true) {
            self.waits.in_vain += u64::from(self.cohort.waited(queued));
        }
    }

    fn take(&mut self, lane: usize) -> Group {
        if lane == DURABLE {
            let queued = self.open[DURABLE].members();
            self.cohort.leads(queued);
            self.gave_up = false;
        }
        let mut next = Group::open(self.next_id, lane == DURABLE);
        self.next_id += 1;
        next.records = std::mem::take(&mut self.spare);
        std::mem::replace(&mut self.open[lane], next)
    }
}

/// A group under its leader. Dropping it, in a panic too, hands out the result and wakes.
struct Led<'a> {
    queue: &'a CommitQueue,
    group: Group,
    /// The members of a group that was taken along, and the place of its first record.
    passenger: Option<(Arc<Outcome>, u64)>,
    /// How many members asked for a sync.
    durable: u32,
    /// `None` while the leader is at work.
    first: Option<Result<SeqNo>>,
}

impl Drop for Led<'_> {
    fn drop(&mut self) {
        let mut records = std::mem::take(&mut self.group.records);
        records.clear();
        let mut state = self.queue.state.lock();
        state.leading = false;
        state.led = Load::default();
        if self.durable > 0 {
            let queued = state.open[DURABLE].members();
            state.cohort.led(self.durable, queued, self.group.sync_ns);
        }
        if records.capacity() <= GROUP_BYTES_MAX {
            state.spare = records;
        }
        drop(state);
        let first = self.first.take().unwrap_or_else(|| {
            let cause = "the leader of this write's group panicked".to_string();
            Err(Error::Poisoned { cause: Arc::new(Error::Stalled { cause }) })
        });
        if let Some((outcome, offset)) = self.passenger.take() {
            outcome.set(first.clone().map(|first| first.plus(offset)));
        }
        if let Some(outcome) = self.group.take_outcome() {
            outcome.set(first);
        }
        self.queue.wake.notify_all();
    }
}

#[cfg(test)]
mod tests;
