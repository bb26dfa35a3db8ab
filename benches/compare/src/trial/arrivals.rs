//! An open loop's arrivals: when each call is to begin, and how many were due.
//!
//! - The times are set by the rate alone, before the stage: a slow engine delays none of them.
//! - A call is made only once its time has come, so a latency is never negative.

use crate::histogram::Latencies;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// When the calls of one thread of an open loop are to begin; without a rate none ever is due.
#[derive(Clone, Copy, Debug)]
pub struct Arrivals {
    /// The stage's start.
    pub start: Instant,
    /// Of all threads together; 0 for a closed loop.
    pub rate_per_s: f64,
    /// Which thread: they take the arrivals in turn.
    pub thread: u64,
    /// How many there are.
    pub threads: u64,
}

impl Arrivals {
    /// When call `i` of the thread arrives.
    pub fn at(self, i: u64) -> Instant {
        let after = (i * self.threads + self.thread) as f64 / self.rate_per_s;
        self.start + Duration::from_secs_f64(after)
    }

    /// How many of the thread arrive before `end`.
    pub fn due(self, end: Instant) -> u64 {
        let of_all = end.saturating_duration_since(self.start).as_secs_f64() * self.rate_per_s;
        ((of_all - self.thread as f64) / self.threads as f64).ceil().max(0.0) as u64
    }
}

/// Sleeps until `intended`, and records how late it woke; false if `stop` was set before that time.
pub fn sleep_until(intended: Instant, stop: &AtomicBool, lag: &mut Latencies) -> bool {
    const STEP: Duration = Duration::from_millis(50);
    let mut left = intended.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return true;
    }
    while !left.is_zero() && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(left.min(STEP));
        left = intended.saturating_duration_since(Instant::now());
    }
    if left.is_zero() {
        lag.record(Instant::now().saturating_duration_since(intended).as_nanos() as u64);
    }
    left.is_zero()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_whose_time_the_stop_forestalled_is_not_made() {
        let (stop, mut lag) = (AtomicBool::new(true), Latencies::default());
        let later = Instant::now() + Duration::from_secs(60);
        assert!(!sleep_until(later, &stop, &mut lag), "its time never came");
        assert!(sleep_until(Instant::now(), &stop, &mut lag), "its time had come");
        stop.store(false, Ordering::Relaxed);
        assert!(sleep_until(Instant::now() + Duration::from_millis(2), &stop, &mut lag));
        assert_eq!(lag.percentiles().map(|lag| lag.count), Some(1));
    }

    #[test]
    fn arrivals_are_due_before_the_end_and_none_at_it() {
        let start = Instant::now();
        let due = |thread, rate_per_s, ms| {
            let arrivals = Arrivals { start, rate_per_s, thread, threads: 2 };
            arrivals.due(start + Duration::from_millis(ms))
        };
        // Thread 0 at 0, 200, 400 ms, thread 1 at 100, 300, 500 ms.
        assert_eq!((due(0, 10.0, 0), due(0, 10.0, 1), due(0, 10.0, 401)), (0, 1, 3));
        assert_eq!((due(1, 10.0, 99), due(1, 10.0, 101), due(1, 10.0, 501)), (0, 1, 3));
        assert_eq!(due(0, 0.0, 1000), 0, "a closed loop has no arrivals");
    }
}
