//! The load guard: what others do with the machine before and during a trial.
//!
//! - Before a campaign a busy machine is refused. Before each trial it is waited for, within a
//!   bound; where it stays busy, or becomes busy during the trial, the trial is invalid.
//! - "Others" are all tasks, niced ones too, but the trial's own, kernel threads, whose writeback
//!   the trial itself causes, and the spinners that keep the cores awake.

use crate::host::facts::{Load, device_writes, load_average, pressure_us, process_cpu_ns};
use serde::{Deserialize, Serialize};
use std::path::Path;
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
    /// CPU time of the spinners, which is in no share.
    #[serde(default)]
    pub spinners_ns: u64,
    /// Bytes that the data directory's device wrote during the trial, for whomever.
    #[serde(default)]
    pub device_written: Option<u64>,
    /// Flushes that it made.
    #[serde(default)]
    pub device_flushes: Option<u64>,
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

/// A trial that is being watched. It begins once the spinners run and ends while they do, so that
/// their time is that of the same span.
#[derive(Debug)]
pub struct Watch<'a> {
    around: Around,
    data: &'a Path,
    device: Option<(u64, u64)>,
    spinners: Option<u32>,
    spinners_ns: u64,
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

/// Waits until the machine is quiet, within the bound; what it looked like last. No spinners run.
#[must_use]
pub fn await_quiet(foreign_max: f64, patient: bool) -> Around {
    let start = Instant::now();
    let foreign_before = loop {
        let share = busy_share();
        if share <= foreign_max || !patient || start.elapsed() >= QUIET_WAIT_MAX {
            break share;
        }
    };
    let load_average = load_average();
    Around { load_average, foreign_before, ..Around::default() }
}

impl<'a> Watch<'a> {
    /// The trial begins, its database in `data`; the process `spinners` keeps the cores awake.
    #[must_use]
    pub fn start(around: Around, data: &'a Path, spinners: Option<u32>) -> Self {
        let device = device_writes(data);
        let spinners_ns = spinners.and_then(process_cpu_ns).unwrap_or(0);
        let (load, pressure_us) = (Load::now(), pressure_us());
        Self { around, data, device, spinners, spinners_ns, load, pressure_us }
    }

    /// The trial is over; its processes took `own_cpu_ns`.
    #[must_use]
    pub fn end(self, own_cpu_ns: u64) -> Around {
        let ticks = Load::now().since(self.load);
        let spinners_ns = self.spinners.and_then(process_cpu_ns).unwrap_or(0);
        let spinners_ns = spinners_ns.saturating_sub(self.spinners_ns);
        let known_ns = own_cpu_ns + spinners_ns;
        let device = device_writes(self.data).zip(self.device);
        let pressure = pressure_us().zip(self.pressure_us);
        Around {
            foreign_during: ticks.foreign_share(known_ns),
            foreign_ticks: ticks.foreign(known_ns),
            spinners_ns,
            device_written: device.map(|(now, then)| now.0.saturating_sub(then.0) * 512),
            device_flushes: device.map(|(now, then)| now.1.saturating_sub(then.1)),
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
        let ticks = Load { busy: 110, nice: 40, idle: 45, interrupts: 5, ..Load::default() };
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

    #[test]
    fn a_niced_process_is_foreign_and_the_spinners_are_not() {
        let mut nice = std::process::Command::new("nice");
        nice.args(["-n", "1", "sh", "-c", "while :; do :; done"]);
        let mut child = nice.spawn().expect("a shell");
        std::thread::sleep(Duration::from_millis(100));
        let data = Path::new(".");
        let others = Watch::start(Around::default(), data, None);
        let spinners = Watch::start(Around::default(), data, Some(child.id()));
        std::thread::sleep(LOOK);
        let (others, spinners) = (others.end(0), spinners.end(0));
        let ended = child.kill().and_then(|()| child.wait());
        ended.expect("the child was there");
        let used = spinners.spinners_ns / 10_000_000;
        assert!(used > 0 && others.spinners_ns == 0, "{spinners:?}");
        assert!(others.ticks.nice > 0 && others.foreign_ticks + 10 >= used, "{others:?}");
        let with_them = spinners.ticks.foreign(0);
        assert_eq!(spinners.foreign_ticks, with_them.saturating_sub(used), "{spinners:?}");
    }
}
