//! A memory limit for one process, page cache included, by a control group of its own.
//!
//! - Only a control group bounds the page cache; an rlimit bounds addresses, which says nothing
//!   about an engine that reads through it, so it is not used in its stead.
//! - The group is made under the one that the process is in, or under the one that is given, and
//!   removed when the limit is dropped.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// A control group with a limit.
#[derive(Debug)]
pub struct Limit {
    dir: PathBuf,
}

impl Limit {
    /// Makes a group that may use `bytes`, under `parent` or this process's own group.
    ///
    /// # Errors
    /// Where no group with a memory limit can be made; the text says why.
    pub fn new(parent: Option<&Path>, bytes: u64) -> Result<Self> {
        let parent = match parent {
            Some(parent) => parent.to_path_buf(),
            None => own_group()?,
        };
        let dir = parent.join(format!("kiban-compare-{}", std::process::id()));
        let _ = fs::remove_dir(&dir);
        fs::create_dir(&dir).with_context(|| format!("making {}", dir.display()))?;
        let limit = Self { dir };
        let files = ["memory.max", "memory.limit_in_bytes"].map(|name| limit.dir.join(name));
        let Some(file) = files.iter().find(|file| file.exists()) else {
            bail!("{} has no memory controller", limit.dir.display());
        };
        fs::write(file, bytes.to_string()).with_context(|| file.display().to_string())?;
        Ok(limit)
    }

    /// Puts the process `pid` into it.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn hold(&self, pid: u32) -> Result<()> {
        let file = self.dir.join("cgroup.procs");
        fs::write(&file, pid.to_string()).with_context(|| file.display().to_string())
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.dir);
    }
}

/// The group of this process that has the memory controller.
fn own_group() -> Result<PathBuf> {
    let text = fs::read_to_string("/proc/self/cgroup").context("/proc/self/cgroup")?;
    let mut unified = None;
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (id, controllers, path) = (parts.next(), parts.next(), parts.next());
        let path = path.unwrap_or_default().trim_start_matches('/');
        if controllers.is_some_and(|all| all.split(',').any(|one| one == "memory")) {
            return Ok(Path::new("/sys/fs/cgroup/memory").join(path));
        }
        if id == Some("0") {
            unified = Some(Path::new("/sys/fs/cgroup").join(path));
        }
    }
    unified.context("this process is in no control group")
}
