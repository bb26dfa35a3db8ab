//! Latencies: an HdrHistogram with bounded memory and a bounded error.
//!
//! - Two significant digits: a bucket is at most 1/128 wide, below the 3.125 % that the campaign
//!   allows.
//! - What is longer than the greatest value counts as that, and the exact maximum is kept beside.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

const LONGEST_NS: u64 = 1_000_000_000_000;
const DIGITS: u8 = 2;

/// A histogram of nanoseconds.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
    max_ns: u64,
    sum_ns: u128,
}

/// What is kept of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Percentiles {
    /// Calls.
    pub count: u64,
    /// Half were at most this long, in nanoseconds; and so on.
    pub p50_ns: u64,
    /// 95 %.
    pub p95_ns: u64,
    /// 99 %.
    pub p99_ns: u64,
    /// 99.9 %.
    pub p999_ns: u64,
    /// 99.99 %.
    pub p9999_ns: u64,
    /// The longest, exactly.
    pub max_ns: u64,
    /// The mean, exactly.
    pub mean_ns: f64,
}

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS);
        Self { histogram: histogram.expect("the bounds are constants"), max_ns: 0, sum_ns: 0 }
    }
}

impl Latencies {
    /// Notes one call.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.histogram.saturating_record(ns.max(1));
        self.max_ns = self.max_ns.max(ns);
        self.sum_ns += u128::from(ns);
    }

    /// Adds another thread's.
    pub fn add(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("the bounds are the same");
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns += other.sum_ns;
    }

    /// The figures; `None` if there was no call.
    #[must_use]
    pub fn percentiles(&self) -> Option<Percentiles> {
        let count = self.histogram.len();
        let at = |quantile| self.histogram.value_at_quantile(quantile).min(self.max_ns);
        (count > 0).then(|| Percentiles {
            count,
            p50_ns: at(0.5),
            p95_ns: at(0.95),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            p9999_ns: at(0.9999),
            max_ns: self.max_ns,
            mean_ns: self.sum_ns as f64 / count as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rng;

    #[test]
    fn the_error_of_a_bucket_is_below_the_bound() {
        let mut ns = 1u64;
        while ns < LONGEST_NS / 2 {
            for value in [ns, ns + 1, ns + ns / 3] {
                let mut one = Latencies::default();
                one.record(value);
                one.record(LONGEST_NS);
                let got = one.percentiles().expect("two calls").p50_ns;
                let error = got.abs_diff(value) as f64 / value as f64;
                assert!(error < 0.03125, "{value} became {got}");
            }
            ns = ns * 17 / 16 + 1;
        }
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_calls() {
        let (mut all, mut halves) = (Latencies::default(), [(); 2].map(|()| Latencies::default()));
        let mut rng = Rng::new(3, 3);
        let mut sorted: Vec<u64> = (0..10_000).map(|_| 100 + rng.below(1 << 20)).collect();
        for (i, ns) in sorted.iter().enumerate() {
            halves[i % 2].record(*ns);
        }
        halves.iter().for_each(|half| all.add(half));
        sorted.sort_unstable();
        let got = all.percentiles().expect("calls");
        for (quantile, got) in [(0.5, got.p50_ns), (0.95, got.p95_ns), (0.999, got.p999_ns)] {
            let want = sorted[(quantile * sorted.len() as f64) as usize - 1];
            assert!(got.abs_diff(want) as f64 / (want as f64) < 0.03125, "{quantile}: {got}");
        }
        assert_eq!((got.count, got.max_ns), (10_000, sorted[9_999]));
    }

    #[test]
    fn memory_is_bounded_and_the_longest_call_is_exact() {
        let mut one = Latencies::default();
        let before = one.histogram.distinct_values();
        one.record(3 * LONGEST_NS);
        assert_eq!(one.histogram.distinct_values(), before);
        assert!(before * 8 < 64 << 10, "{before} counters");
        assert_eq!(one.percentiles().expect("one").max_ns, 3 * LONGEST_NS);
    }

    #[test]
    fn no_call_has_no_percentile() {
        assert_eq!(Latencies::default().percentiles(), None);
    }
}
