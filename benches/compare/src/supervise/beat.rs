//! The heartbeat: a child prints both clocks and its progress several times a second, and the
//! supervisor judges the gaps.
//!
//! A trial is invalid where the clocks drift apart (the machine was suspended) or where no beat
//! came for too long (the machine, or the process, stood still).

use crate::host::clocks::Clocks;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::time::Duration;

/// The time between two beats.
pub const EVERY: Duration = Duration::from_millis(200);
/// The longest gap between two beats, by either clock.
pub const GAP_MAX: Duration = Duration::from_secs(5);
/// How far the clocks may drift apart over a trial.
pub const DRIFT_MAX: Duration = Duration::from_millis(50);

/// What the beats of one trial said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beats {
    /// How many came.
    pub count: u64,
    /// The longest gap by BOOTTIME, in nanoseconds.
    pub gap_boottime_ns: u64,
    /// The longest gap by MONOTONIC.
    pub gap_monotonic_ns: u64,
    /// How far the two clocks' spans are apart, first beat to last.
    pub drift_ns: u64,
    #[serde(skip)]
    first: Option<Clocks>,
    #[serde(skip)]
    last: Option<Clocks>,
}

impl Beats {
    /// One more beat.
    pub fn beat(&mut self, now: Clocks) {
        self.count += 1;
        if let (Some(first), Some(last)) = (self.first, self.last) {
            let gap = now.since(last);
            self.gap_boottime_ns = self.gap_boottime_ns.max(gap.boottime_ns);
            self.gap_monotonic_ns = self.gap_monotonic_ns.max(gap.monotonic_ns);
            self.drift_ns = self.drift_ns.max(now.since(first).gap_ns());
        }
        self.first.get_or_insert(now);
        self.last = Some(now);
    }

    /// Why the trial is invalid, if it is.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let ms = |ns: u64| ns / 1_000_000;
        if self.count == 0 {
            return Some("no heartbeat came".into());
        }
        if u128::from(self.drift_ns) > DRIFT_MAX.as_nanos() {
            let drift = ms(self.drift_ns);
            return Some(format!("BOOTTIME and MONOTONIC are {drift} ms apart: suspended"));
        }
        let gap = self.gap_boottime_ns.max(self.gap_monotonic_ns);
        if u128::from(gap) > GAP_MAX.as_nanos() {
            return Some(format!("no heartbeat for {} ms", ms(gap)));
        }
        None
    }
}

/// A beat's line.
#[must_use]
pub fn line(now: Clocks) -> String {
    format!("beat {} {}", now.boottime_ns, now.monotonic_ns)
}

/// A line's beat, if it is one.
#[must_use]
pub fn parse(line: &str) -> Option<Clocks> {
    let mut words = line.strip_prefix("beat ")?.split(' ');
    let boottime_ns = words.next()?.parse().ok()?;
    let monotonic_ns = words.next()?.parse().ok()?;
    Some(Clocks { boottime_ns, monotonic_ns })
}

/// Prints beats from a thread of its own until the process ends.
pub fn start() {
    std::thread::spawn(|| {
        loop {
            let mut out = std::io::stdout().lock();
            // Nobody listens: the supervisor is gone, and with it the reason to go on.
            if writeln!(out, "{}", line(Clocks::now())).and_then(|()| out.flush()).is_err() {
                std::process::exit(3);
            }
            drop(out);
            std::thread::sleep(EVERY);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beats(clocks: &[(u64, u64)]) -> Beats {
        let mut beats = Beats::default();
        for (boottime_ms, monotonic_ms) in clocks {
            let at = |ms: &u64| ms * 1_000_000;
            let now = Clocks { boottime_ns: at(boottime_ms), monotonic_ns: at(monotonic_ms) };
            beats.beat(parse(&line(now)).expect("a beat"));
        }
        beats
    }

    #[test]
    fn steady_beats_are_valid() {
        assert_eq!(beats(&[(100, 50), (300, 250), (500, 450), (720, 669)]).fault(), None);
    }

    #[test]
    fn a_suspended_machine_is_seen_by_the_clocks() {
        let fault = beats(&[(100, 50), (300, 250), (2500, 450)]).fault().expect("a fault");
        assert!(fault.contains("suspended"), "{fault}");
        // Also where it woke and slept often, a little each time.
        let many: Vec<(u64, u64)> = (0..100).map(|i| (i * 201, i * 200)).collect();
        assert!(beats(&many).fault().expect("a fault").contains("suspended"));
    }

    #[test]
    fn a_machine_that_stood_still_is_seen_by_the_gap() {
        let fault = beats(&[(100, 50), (300, 250), (8300, 8250)]).fault().expect("a fault");
        assert!(fault.contains("no heartbeat for 8000 ms"), "{fault}");
        assert!(beats(&[]).fault().is_some());
    }

    #[test]
    fn other_lines_are_no_beats() {
        for line in ["", "beat", "beat 1", "beat x 2", "heart 1 2"] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
