//! Two clocks that differ by the time the machine was suspended.

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Both clocks at one moment, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clocks {
    /// Goes on while the machine is suspended.
    pub boottime_ns: u64,
    /// Does not.
    pub monotonic_ns: u64,
}

impl Clocks {
    /// Both, now.
    #[must_use]
    pub fn now() -> Self {
        Self { boottime_ns: read(ClockId::Boottime), monotonic_ns: read(ClockId::Monotonic) }
    }

    /// What passed since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            boottime_ns: self.boottime_ns.saturating_sub(earlier.boottime_ns),
            monotonic_ns: self.monotonic_ns.saturating_sub(earlier.monotonic_ns),
        }
    }

    /// How far the two are apart, as spans.
    #[must_use]
    pub fn gap_ns(self) -> u64 {
        self.boottime_ns.abs_diff(self.monotonic_ns)
    }
}

/// The CPU time of this process so far, all threads, in nanoseconds.
#[must_use]
pub fn cpu_ns() -> u64 {
    read(ClockId::ProcessCPUTime)
}

fn read(id: ClockId) -> u64 {
    let time = clock_gettime(id);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
