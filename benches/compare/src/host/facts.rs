//! What the machine is: facts for the head of a board, and how busy it is.
//!
//! A fact that can't be found out is the text "unknown".

use super::process;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The machine, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// Pairs of a name and a value, in the order of the board.
    pub facts: Vec<(String, String)>,
}

impl Facts {
    /// This machine, for databases in `data`.
    #[must_use]
    pub fn now(data: &Path) -> Self {
        let uname = rustix::system::uname();
        let text = |s: &std::ffi::CStr| s.to_string_lossy().into_owned();
        let (mount, device) = mount(data);
        let facts = [
            ("CPU", cpu_model()),
            ("CPU mask", cpu_mask()),
            ("CPUs", std::thread::available_parallelism().map_or(unknown(), |n| n.to_string())),
            ("memory", meminfo("MemTotal:")),
            ("swap", meminfo("SwapTotal:")),
            ("kernel", format!("{} {}", text(uname.sysname()), text(uname.release()))),
            ("virtual machine", hypervisor()),
            ("file system", mount),
            ("device", device.clone()),
            ("write cache", queue(&device, "write_cache")),
            ("FUA", queue(&device, "fua")),
            ("I/O scheduler", queue(&device, "scheduler")),
            ("governor", read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
            ("idle driver", read("/sys/devices/system/cpu/cpuidle/current_driver")),
            ("transparent huge pages", read("/sys/kernel/mm/transparent_hugepage/enabled")),
            ("Rust compiler", env!("COMPARE_RUSTC").into()),
            ("build", format!("{}, {}", env!("COMPARE_PROFILE"), env!("COMPARE_FLAGS"))),
            ("C++ compiler", first_line("c++", &["--version"])),
            ("clang", first_line("clang", &["--version"])),
        ];
        Self { facts: facts.map(|(name, value)| (name.to_string(), value)).to_vec() }
    }

    /// What is not as it was `then`, in words. Swap has no part in a figure that counts, and the
    /// compilers are in the binary.
    #[must_use]
    pub fn changes(&self, then: &Self) -> Vec<String> {
        const MAY_CHANGE: [&str; 5] = ["swap", "Rust compiler", "build", "C++ compiler", "clang"];
        let find = |facts: &Self, name: &str| {
            let fact = facts.facts.iter().find(|(other, _)| other == name);
            fact.map_or(unknown(), |(_, value)| value.clone())
        };
        let names = self.facts.iter().chain(&then.facts).map(|(name, _)| name.as_str());
        let names: BTreeSet<&str> = names.filter(|name| !MAY_CHANGE.contains(name)).collect();
        let was_and_is = names.into_iter().map(|name| (name, find(then, name), find(self, name)));
        let changed = was_and_is.filter(|(_, was, is)| was != is);
        changed.map(|(name, was, is)| format!("the {name} was {was} and is {is}")).collect()
    }
}

fn cpu_mask() -> String {
    let cpus = process::cpu_mask().unwrap_or_default();
    let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
    if cpus.is_empty() { unknown() } else { cpus.join(",") }
}

/// CPU time of the whole machine, in ticks of 10 ms, as /proc/stat counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Spent on tasks and kernel threads, but for what runs at a lower priority.
    pub busy: u64,
    /// Of it, kernel threads: writeback and the like, which the trial itself causes.
    pub kernel_threads: u64,
    /// Spent on interrupts.
    pub interrupts: u64,
    /// Spent at a lower priority.
    pub nice: u64,
    /// Idle, or waiting for a device.
    pub idle: u64,
    /// Taken by the hypervisor.
    pub steal: u64,
}

impl Load {
    /// Since boot.
    #[must_use]
    pub fn now() -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = text.lines().next().unwrap_or_default();
        let ticks: Vec<u64> =
            line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
        let at = |i: usize| ticks.get(i).copied().unwrap_or(0);
        Self {
            busy: at(0) + at(2),
            kernel_threads: kernel_thread_ticks(),
            interrupts: at(5) + at(6),
            nice: at(1),
            idle: at(3) + at(4),
            steal: at(7),
        }
    }

    /// What came since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            busy: self.busy.saturating_sub(earlier.busy),
            kernel_threads: self.kernel_threads.saturating_sub(earlier.kernel_threads),
            interrupts: self.interrupts.saturating_sub(earlier.interrupts),
            nice: self.nice.saturating_sub(earlier.nice),
            idle: self.idle.saturating_sub(earlier.idle),
            steal: self.steal.saturating_sub(earlier.steal),
        }
    }

    /// The ticks that other processes used, at whatever priority: all but the own CPU time, kernel
    /// threads and interrupts.
    #[must_use]
    pub fn foreign(self, own_cpu_ns: u64) -> u64 {
        (self.busy + self.nice).saturating_sub(own_cpu_ns / 10_000_000 + self.kernel_threads)
    }

    /// Their share of all CPUs.
    #[must_use]
    pub fn foreign_share(self, own_cpu_ns: u64) -> f64 {
        let all = self.busy + self.interrupts + self.nice + self.idle + self.steal;
        self.foreign(own_cpu_ns) as f64 / all.max(1) as f64
    }
}

/// CPU time of all kernel threads.
fn kernel_thread_ticks() -> u64 {
    const PF_KTHREAD: u64 = 0x0020_0000;
    let Ok(processes) = fs::read_dir("/proc") else { return 0 };
    let ticks = processes.flatten().filter_map(|process| {
        let text = fs::read_to_string(process.path().join("stat")).ok()?;
        let mut fields = text[text.rfind(')')? + 1..].split_whitespace();
        let flags: u64 = fields.nth(6)?.parse().ok()?;
        let user: u64 = fields.nth(4)?.parse().ok()?;
        let system: u64 = fields.next()?.parse().ok()?;
        (flags & PF_KTHREAD != 0).then_some(user + system)
    });
    ticks.sum()
}

/// CPU time of the process `pid` and all its threads; unknown once it is gone.
#[must_use]
pub fn process_cpu_ns(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text[text.rfind(')')? + 1..].split_whitespace();
    let user: u64 = fields.nth(11)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user + system) * 10_000_000)
}

/// Sectors of 512 bytes that the device under `dir` has written, for whomever, and its flushes;
/// unknown where the file system has no device of its own.
#[must_use]
pub fn device_writes(dir: &Path) -> Option<(u64, u64)> {
    let device = rustix::fs::stat(dir).ok()?.st_dev;
    let numbers = [rustix::fs::major(device), rustix::fs::minor(device)].map(|n| n.to_string());
    let text = fs::read_to_string("/proc/diskstats").ok()?;
    let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let words = lines.find(|words| words.len() > 18 && words[..2] == numbers)?;
    Some((words[9].parse().ok()?, words[18].parse().ok()?))
}

/// The load averages, as the kernel prints them.
#[must_use]
pub fn load_average() -> String {
    read("/proc/loadavg")
}

/// Microseconds during which some runnable task of the machine stood waiting for a CPU.
#[must_use]
pub fn pressure_us() -> Option<u64> {
    let text = fs::read_to_string("/proc/pressure/cpu").ok()?;
    text.lines().next()?.rsplit('=').next()?.parse().ok()
}

fn unknown() -> String {
    "unknown".into()
}

fn read(path: &str) -> String {
    fs::read_to_string(path).map_or(unknown(), |text| text.trim().to_string())
}

fn first_line(command: &str, args: &[&str]) -> String {
    let output = Command::new(command).args(args).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.ok().and_then(|text| text.lines().next().map(str::to_string)).unwrap_or(unknown())
}

fn cpu_model() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split(':').nth(1)).map_or(unknown(), |name| name.trim().into())
}

fn hypervisor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = text.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    let virtual_machine = flags.split_whitespace().any(|flag| flag == "hypervisor");
    if virtual_machine { "yes" } else { "no" }.into()
}

fn meminfo(field: &str) -> String {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(field));
    line.map_or(unknown(), |line| line[field.len()..].trim().into())
}

/// The mount that `dir` is on, in words, and its device's name.
fn mount(dir: &Path) -> (String, String) {
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf());
    let text = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut best: Option<(usize, String, String)> = None;
    for line in text.lines() {
        let mut words = line.split(' ');
        let (Some(device), Some(at), Some(kind), Some(options)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            continue;
        };
        let longer = best.as_ref().is_none_or(|(len, ..)| at.len() >= *len);
        if dir.starts_with(at) && longer {
            let name = device.rsplit('/').next().unwrap_or(device).to_string();
            best = Some((at.len(), format!("{kind} ({options})"), name));
        }
    }
    best.map_or((unknown(), unknown()), |(_, mount, device)| (mount, device))
}

fn queue(device: &str, attribute: &str) -> String {
    let whole = device.trim_end_matches(|c: char| c.is_ascii_digit());
    let paths = [device, whole].map(|name| format!("/sys/block/{name}/queue/{attribute}"));
    paths.iter().map(|path| read(path)).find(|text| text != "unknown").unwrap_or(unknown())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_of_the_machine_is_named() {
        let then = Facts::now(Path::new("."));
        assert_eq!(Facts::now(Path::new(".")).changes(&then), Vec::<String>::new());
        for name in ["CPU", "CPU mask", "CPUs", "memory", "kernel", "file system", "device"] {
            let mut now = then.clone();
            let fact = now.facts.iter_mut().find(|(other, _)| other == name).expect("a fact");
            fact.1.push('x');
            let changes = now.changes(&then);
            assert_eq!(changes.len(), 1, "{changes:?}");
            assert!(changes[0].starts_with(&format!("the {name} was ")), "{changes:?}");
        }
        let mut now = then.clone();
        now.facts.retain(|(name, _)| name != "write cache" && name != "swap");
        now.facts.push(("write cache".into(), "gone".into()));
        assert!(now.changes(&then)[0].contains("write cache"), "but not the swap");
        assert_eq!(now.changes(&then).len(), 1);
    }

    #[test]
    fn a_process_has_its_cpu_time() {
        assert!(process_cpu_ns(std::process::id()).is_some());
        assert_eq!(process_cpu_ns(u32::MAX), None);
    }
}
