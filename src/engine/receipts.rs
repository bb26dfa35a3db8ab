//! Receipts: what is called once a buffered write is durable, or can no longer become so.
//!
//! Invariants
//! - V1: none is called with `Ok` before the sync that covers its write has succeeded.
//! - Each is called exactly once, in sequence order, by one thread, which holds no lock of the
//!   engine: a receipt may call the engine.
//! - A panic in a receipt is counted and goes no further.
//!
//! It makes no sync: `write::notify` does.

use super::queue::Receipt;
use crate::base::key::SeqNo;
use crate::env::sync::{Condvar, Mutex};
use crate::error::{Error, Result};
use std::collections::VecDeque;

#[derive(Default)]
struct State {
    waiting: VecDeque<(SeqNo, Receipt)>,
    /// Set when no receipt comes any more: what those that wait are told if they are not durable.
    ended: Option<Option<Error>>,
}

/// Receipts that wait for a sync.
#[derive(Default)]
pub(crate) struct Receipts {
    state: Mutex<State>,
    wake: Condvar,
}

/// What the notifier finds.
pub(crate) enum Waiting {
    /// The oldest receipt that waits.
    From(SeqNo),
    /// There is none, and none comes any more.
    Ended,
}

impl Receipts {
    /// Adds receipts of a group that begins at `first`. The caller is the group's leader, so that
    /// they come in sequence order.
    pub(crate) fn add(&self, first: SeqNo, receipts: Vec<(u64, Receipt)>) {
        if receipts.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        state.waiting.extend(receipts.into_iter().map(|(place, r)| (first.plus(place), r)));
        self.wake.notify_all();
    }

    /// Waits for a receipt, or the end.
    pub(crate) fn await_any(&self) -> Waiting {
        let mut state = self.state.lock();
        loop {
            if let Some((seq, _)) = state.waiting.front() {
                return Waiting::From(*seq);
            }
            if state.ended.is_some() {
                return Waiting::Ended;
            }
            state = self.wake.wait(state);
        }
    }

    /// Waits until none comes any more, and says what those above the synced sequence are told.
    pub(crate) fn await_end(&self) -> Error {
        let mut state = self.state.lock();
        loop {
            if let Some(error) = &state.ended {
                return error.clone().unwrap_or(Error::Closed);
            }
            state = self.wake.wait(state);
        }
    }

    /// No receipt comes any more; those that are not durable now are told `error`.
    pub(crate) fn end(&self, error: Option<Error>) {
        self.state.lock().ended.get_or_insert(error);
        self.wake.notify_all();
    }

    /// Calls the receipts up to `last`; returns how many panicked.
    pub(crate) fn call(&self, last: SeqNo, result: &Result<()>) -> u64 {
        let mut panics = 0;
        loop {
            let mut state = self.state.lock();
            if state.waiting.front().is_none_or(|(seq, _)| *seq > last) {
                return panics;
            }
            let (_, receipt) = state.waiting.pop_front().expect("it was looked at just now");
            drop(state);
            let result = result.clone();
            let called = std::panic::AssertUnwindSafe(|| receipt(result));
            panics += u64::from(std::panic::catch_unwind(called).is_err());
        }
    }
}
