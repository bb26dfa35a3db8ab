//! What the kernel counts for this process.
//!
//! - What can't be read is `None`, or an error where a figure of the board depends on it.
//! - Process write bytes are bytes that the process made dirty: not what the device wrote.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;

/// Resident memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// All of it.
    pub rss: u64,
    /// What no file backs.
    pub anon: u64,
    /// What a file backs: mapped tables, and the binary.
    pub file: u64,
    /// The most that `rss` was since the last [`reset_peak`].
    pub peak: u64,
}

impl Memory {
    /// Now.
    ///
    /// # Errors
    /// Where /proc does not tell.
    pub fn now() -> Result<Self> {
        let text = fs::read_to_string("/proc/self/status").context("/proc/self/status")?;
        let field = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).context("a field")?;
            let kib: u64 = line.split_whitespace().nth(1).context("a number")?.parse()?;
            anyhow::Ok(kib * 1024)
        };
        Ok(Self {
            rss: field("VmRSS:")?,
            anon: field("RssAnon:")?,
            file: field("RssFile:")? + field("RssShmem:")?,
            peak: field("VmHWM:")?,
        })
    }

    /// The greater of each field.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            rss: self.rss.max(other.rss),
            anon: self.anon.max(other.anon),
            file: self.file.max(other.file),
            peak: self.peak.max(other.peak),
        }
    }
}

/// Makes the peak what is resident now. Returns whether the kernel let us.
pub fn reset_peak() -> bool {
    fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// Bytes and calls of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Io {
    /// Bytes that the process made dirty, or wrote around the page cache.
    pub write_bytes: u64,
    /// Of these, bytes of pages that were thrown away before they were written.
    pub cancelled_write_bytes: u64,
    /// Bytes fetched from the device.
    pub read_bytes: u64,
    /// Bytes given to write calls.
    pub wchar: u64,
    /// Write calls.
    pub syscw: u64,
}

impl Io {
    /// Now.
    ///
    /// # Errors
    /// Where /proc does not tell.
    pub fn now() -> Result<Self> {
        let text = fs::read_to_string("/proc/self/io").context("/proc/self/io")?;
        let field = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).context("a field")?;
            anyhow::Ok(line[name.len()..].trim().parse::<u64>()?)
        };
        Ok(Self {
            write_bytes: field("write_bytes:")?,
            cancelled_write_bytes: field("cancelled_write_bytes:")?,
            read_bytes: field("read_bytes:")?,
            wchar: field("wchar:")?,
            syscw: field("syscw:")?,
        })
    }

    /// What came since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            write_bytes: self.write_bytes - earlier.write_bytes,
            cancelled_write_bytes: self.cancelled_write_bytes - earlier.cancelled_write_bytes,
            read_bytes: self.read_bytes - earlier.read_bytes,
            wchar: self.wchar - earlier.wchar,
            syscw: self.syscw - earlier.syscw,
        }
    }
}

/// Open files of the process.
#[must_use]
pub fn open_files() -> Option<u64> {
    // The listing holds one itself.
    fs::read_dir("/proc/self/fd").ok().map(|fds| (fds.count() as u64).saturating_sub(1))
}

/// User and system time of the process, in clock ticks of 10 ms.
#[must_use]
pub fn user_system_ns() -> Option<(u64, u64)> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = text[text.rfind(')')? + 1..].split_whitespace();
    let user: u64 = fields.nth(11)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user * 10_000_000, system * 10_000_000))
}

/// Time that the calling thread stood in the run queue, in nanoseconds.
#[must_use]
pub fn own_queue_wait_ns() -> Option<u64> {
    queue_wait("/proc/thread-self/schedstat")
}

/// The same for every living thread, by thread id.
#[must_use]
pub fn queue_waits() -> BTreeMap<String, u64> {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return BTreeMap::new() };
    let tids = tasks.flatten().map(|task| task.file_name().to_string_lossy().into_owned());
    tids.filter_map(|tid| {
        let wait = queue_wait(&format!("/proc/self/task/{tid}/schedstat"))?;
        Some((tid, wait))
    })
    .collect()
}

fn queue_wait(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.split_whitespace().nth(1)?.parse().ok()
}

/// The CPUs that this thread may run on.
///
/// # Errors
/// Where the kernel refuses.
pub fn cpu_mask() -> Result<Vec<usize>> {
    let set = rustix::thread::sched_getaffinity(None)?;
    Ok((0..1024).filter(|cpu| set.is_set(*cpu)).collect())
}

/// Keeps this thread, and those it starts, on `cpus`.
///
/// # Errors
/// Where there is no such CPU, or the kernel refuses.
pub fn set_cpu_mask(cpus: &[usize]) -> Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    for cpu in cpus {
        anyhow::ensure!(*cpu < rustix::thread::CpuSet::MAX_CPU, "there is no CPU {cpu}");
        set.set(*cpu);
    }
    rustix::thread::sched_setaffinity(None, &set).context("sched_setaffinity")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_what_the_board_needs() -> Result<()> {
        let memory = Memory::now()?;
        assert!(memory.rss > 0 && memory.anon > 0 && memory.peak >= memory.rss / 2);
        let (before, mask) = (Io::now()?, cpu_mask()?);
        fs::write("/proc/self/comm", "io").context("a write")?;
        assert!(Io::now()?.since(before).syscw >= 1);
        assert!(!mask.is_empty() && open_files() >= Some(3));
        assert!(own_queue_wait_ns().is_some() && !queue_waits().is_empty());
        assert!(user_system_ns().is_some());
        Ok(())
    }
}
