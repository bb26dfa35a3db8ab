//! The load guard: what others do with the machine before and during a trial.
//!
//! - Before a campaign a busy machine is refused. Before each trial it is waited for, within a
//!   bound; where it stays busy, or becomes busy during the trial, the trial is invalid.
//! - "Others" are all tasks but the trial's own, kernel threads, whose writeback the trial itself
//!   causes, and those of low priority, such as the spinners that keep the cores awake.

use crate::host::facts::{Load, load_average, pressure_us};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

const LOOK: Duration = Duration::from_millis(500);
const QUIET_WAIT_MAX: Duration = Duration::from_secs(60);
/// The kernel counts in ticks of 10 ms, by samples, and rounds a process's own time down: in trials
/// of a fifth of a second on an idle machine two to five ticks were nobody's. No more than these
/// tell nothing of others; a load that lasts is seen before the trial.
const TICKS_LOST: u64 = 6;

/// What the machine did around one trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Around {
    /// The load averages before.
    pub load_average: String,
    /// The share of all CPUs that others used right before.
    pub foreign_before: f64,
    /// The share that they used during the trial.
    pub foreign_during: f64,
    /// The ticks of 10 ms that this share is made of.
    pub foreign_ticks: u64,
    /// Ticks of all CPUs during the trial.
    pub ticks: Load,
    /// Microseconds during the trial in which some task of the machine stood waiting for a CPU.
    pub pressure_us: Option<u64>,
}

impl Around {
    /// Why the trial does not count, if so.
    #[must_use]
    pub fn fault(&self, foreign_max: f64) -> Option<String> {
        let during = if self.foreign_ticks > TICKS_LOST { self.foreign_during } else { 0.0 };
        let worst = self.foreign_before.max(during);
        (worst > foreign_max).then(|| {
            format!(
                "others used {:.1} % of the machine, at most {:.1} % is allowed",
                worst * 100.0,
                foreign_max * 100.0
            )
        })
    }
}

/// A trial that is being watched.
#[derive(Debug)]
pub struct Watch {
    around: Around,
    load: Load,
    pressure_us: Option<u64>,
}

/// The share of all CPUs that is busy now.
#[must_use]
pub fn busy_share() -> f64 {
    let before = Load::now();
    std::thread::sleep(LOOK);
    Load::now().since(before).foreign_share(0)
}

/// Waits until the machine is quiet, within the bound; what it looked like last.
#[must_use]
pub fn await_quiet(foreign_max: f64, patient: bool) -> Watch {
    let start = Instant::now();
    let foreign_before = loop {
        let share = busy_share();
        if share <= foreign_max || !patient || start.elapsed() >= QUIET_WAIT_MAX {
            break share;
        }
    };
    let load_average = load_average();
    let around = Around { load_average, foreign_before, ..Around::default() };
    Watch { around, load: Load::now(), pressure_us: pressure_us() }
}

impl Watch {
    /// The trial is over; its processes took `own_cpu_ns`.
    #[must_use]
    pub fn end(self, own_cpu_ns: u64) -> Around {
        let ticks = Load::now().since(self.load);
        let pressure = pressure_us().zip(self.pressure_us);
        Around {
            foreign_during: ticks.foreign_share(own_cpu_ns),
            foreign_ticks: ticks.foreign(own_cpu_ns),
            ticks,
            pressure_us: pressure.map(|(now, then)| now.saturating_sub(then)),
            ..self.around
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_told_from_the_trial_itself() {
        let ticks = Load { busy: 150, nice: 40, idle: 5, interrupts: 5, ..Load::default() };
        assert!((ticks.foreign_share(1_300_000_000) - 0.1).abs() < 1e-9);
        let writeback = Load { kernel_threads: 20, ..ticks };
        assert!(writeback.foreign_share(1_300_000_000).abs() < 1e-9);
        assert_eq!(ticks.foreign(1_300_000_000), 20);
        let around = Around { foreign_during: 0.1, foreign_ticks: 20, ..Around::default() };
        assert!(around.fault(0.05).expect("busy").contains("10.0 %"));
        assert_eq!(around.fault(0.1), None);
        let short = Around { foreign_during: 0.1, foreign_ticks: 5, ..Around::default() };
        assert_eq!(short.fault(0.05), None, "what the kernel's counting loses is nobody's");
        let before = Around { foreign_before: 0.1, ..short };
        assert!(before.fault(0.05).is_some());
    }

    #[test]
    fn a_busy_machine_is_seen() {
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let share = busy_share();
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            let cpus = std::thread::available_parallelism().map_or(1, usize::from);
            assert!(share > 0.5 / cpus as f64, "{share}");
        });
    }
}
