//! How threads tell one another that there is work, that some was done, and that the end is near.
//!
//! Invariants
//! - No lost wake-up (B1): every change is made under the lock that its waiters look under.
//! - Whoever waits for progress sees each end of a try after its wait began. A failure is the
//!   answer of those alone who wait for its lane; one that poisons is everybody's.
//! - Once stopped, nobody waits here.
//!
//! It decides nothing: what is due and what a failure means is `maintain`'s and `write`'s.

use crate::env::clock::{self, Clock};
use crate::env::sync::{Arc, AtomicBool, Condvar, Mutex, Ordering};
use crate::error::{Error, Result};

/// Which of two kinds of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Memtables into tables, and the next log.
    Flush,
    /// Runs into fewer runs, and files that nobody names.
    Compact,
}

/// The two lanes.
pub const LANES: [Lane; 2] = [Lane::Flush, Lane::Compact];

#[derive(Default)]
struct State {
    /// Whether a lane may find something to do.
    due: [bool; 2],
    /// Whether a worker is at it.
    busy: [bool; 2],
    /// Threads that build tables outside of every lock.
    builders: u32,
    stopped: bool,
    /// Grows with each end of a try.
    tries: u64,
    /// Of each lane the last try that failed, and how.
    failed: [Option<(u64, Error)>; 2],
}

/// The board that everybody looks at.
pub struct Signals {
    state: Mutex<State>,
    /// Changed under the lock; every write looks at it, so looking takes none.
    workers: AtomicBool,
    work: Condvar,
    progress: Condvar,
}

impl Default for Signals {
    fn default() -> Self {
        let state = State { due: [true; 2], ..State::default() };
        let workers = AtomicBool::new(false);
        Self { state: Mutex::new(state), workers, work: Condvar::new(), progress: Condvar::new() }
    }
}

/// Where a wait for progress began.
#[derive(Clone, Copy, Debug)]
pub struct Since(u64);

impl Signals {
    /// From now on workers do what is due.
    pub fn set_workers(&self, workers: bool) {
        let _state = self.state.lock();
        self.workers.store(workers, Ordering::Release);
    }

    /// Whether workers do what is due.
    #[inline]
    pub fn has_workers(&self) -> bool {
        self.workers.load(Ordering::Acquire)
    }

    /// Tells that `lane` may find something to do.
    pub fn tell_due(&self, lane: Lane) {
        let mut state = self.state.lock();
        if self.has_workers() && !state.due[lane as usize] {
            state.due[lane as usize] = true;
            self.work.notify_all();
        }
    }

    /// Waits until `lane` is due, and takes it on; false once stopped.
    pub fn await_due(&self, lane: Lane) -> bool {
        let mut state = self.state.lock();
        while !state.stopped && !state.due[lane as usize] {
            state = self.work.wait(state);
        }
        state.due[lane as usize] = false;
        state.busy[lane as usize] = !state.stopped;
        !state.stopped
    }

    /// Ends what [`Signals::await_due`] took on; a lane that failed is due again. A turn in which
    /// nothing was done is no progress: who waits for some would only ask for another.
    pub fn end_turn(&self, lane: Lane, did: &Result<bool>) {
        let mut state = self.state.lock();
        state.busy[lane as usize] = false;
        state.due[lane as usize] |= did.is_err();
        if !matches!(did, Ok(false)) {
            state.end_try(&[lane], did.as_ref().err());
        }
        self.progress.notify_all();
    }

    /// Tells that a step was done in one of `lanes`, or how it failed.
    pub fn tell_step(&self, lanes: &[Lane], error: Option<&Error>) {
        self.state.lock().end_try(lanes, error);
        self.progress.notify_all();
    }

    /// Waits for `duration_ns`, or until stopped.
    pub fn pause(&self, clock: &dyn Clock, duration_ns: u64) {
        let until = clock.now_ns().saturating_add(duration_ns);
        let mut state = self.state.lock();
        while !state.stopped {
            let left = until.saturating_sub(clock.now_ns());
            let expired;
            (state, expired) = clock::wait_timeout(&self.work, &self.state, state, left);
            if expired || left == 0 {
                return;
            }
        }
    }

    /// A mark for [`Signals::await_progress`]: take it before looking at what is waited for.
    pub fn now(&self) -> Since {
        Since(self.state.lock().tries)
    }

    /// Waits until a try has ended after `since`, or until a deadline by a clock; false if it has
    /// passed.
    ///
    /// # Errors
    /// That of a try in one of `lanes` which failed after `since`; `Closed` once stopped.
    pub fn await_progress(
        &self,
        since: Since,
        lanes: &[Lane],
        deadline: Option<(&dyn Clock, u64)>,
    ) -> Result<bool> {
        let mut state = self.state.lock();
        loop {
            if state.stopped {
                return Err(Error::Closed);
            }
            if state.tries > since.0 {
                return state.failed_since(since.0, lanes).map_or(Ok(true), Err);
            }
            let Some((clock, until)) = deadline else {
                state = self.progress.wait(state);
                continue;
            };
            // Wake-ups without progress do not make it longer.
            let left = until.saturating_sub(clock.now_ns());
            if left == 0 {
                return Ok(false);
            }
            let expired;
            (state, expired) = clock::wait_timeout(&self.progress, &self.state, state, left);
            if expired && state.tries <= since.0 && !state.stopped {
                return Ok(false);
            }
        }
    }

    /// Waits until no worker has anything to do; false if the time is up.
    ///
    /// # Errors
    /// That of a try which failed meanwhile; `Closed` once stopped.
    pub fn await_settled(&self, clock: &dyn Clock, timeout_ns: u64) -> Result<bool> {
        let until = clock.now_ns().saturating_add(timeout_ns);
        let mut state = self.state.lock();
        let since = state.tries;
        loop {
            if state.stopped {
                return Err(Error::Closed);
            }
            if let Some(error) = state.failed_since(since, &LANES) {
                return Err(error);
            }
            if state.due == [false; 2] && state.busy == [false; 2] {
                return Ok(true);
            }
            let left = until.saturating_sub(clock.now_ns());
            if left == 0 {
                return Ok(false);
            }
            (state, _) = clock::wait_timeout(&self.progress, &self.state, state, left);
        }
    }

    /// A builder begins; `None` once stopped. Drop what is returned when it is done.
    pub fn begin_build(self: &Arc<Self>) -> Option<Building> {
        let mut state = self.state.lock();
        if state.stopped {
            return None;
        }
        state.builders += 1;
        Some(Building(self.clone()))
    }

    /// Stops: nobody waits any more, no build begins. Returns when no builder is left.
    pub fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        self.work.notify_all();
        self.progress.notify_all();
        while state.builders > 0 {
            state = self.progress.wait(state);
        }
    }

    /// Whether it was stopped.
    pub fn is_stopped(&self) -> bool {
        self.state.lock().stopped
    }
}

impl State {
    fn end_try(&mut self, lanes: &[Lane], error: Option<&Error>) {
        self.tries += 1;
        if let Some(error) = error {
            for lane in lanes {
                self.failed[*lane as usize] = Some((self.tries, error.clone()));
            }
        }
    }

    fn failed_since(&self, since: u64, lanes: &[Lane]) -> Option<Error> {
        let failed = lanes.iter().filter_map(|lane| self.failed[*lane as usize].as_ref());
        let failed = failed.filter(|(at, _)| *at > since).max_by_key(|(at, _)| *at);
        failed.map(|(_, error)| error.clone())
    }
}

/// A build that is under way.
pub struct Building(Arc<Signals>);

impl Drop for Building {
    fn drop(&mut self) {
        self.0.state.lock().builders -= 1;
        self.0.progress.notify_all();
    }
}
