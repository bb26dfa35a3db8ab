//! A memory limit for one process, page cache included, by a control group of its own.
//!
//! - Only a control group bounds the page cache; an rlimit bounds addresses, which says nothing
//!   about an engine that reads through it, so it is not used in its stead.
//! - The group is made without a limit; the trial in it sets that before what it measures, and
//!   lifts it before it reads everything back.
//! - The group is made under the one that the process is in, or under the one that is given, and
//!   removed when the limit is dropped.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// A control group with a limit.
#[derive(Debug)]
pub struct Limit {
    dir: PathBuf,
    /// Holds the limit.
    file: PathBuf,
}

impl Limit {
    /// Makes a group, under `parent` or this process's own group, where `bytes` can be the limit.
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
        let files = LIFTED.map(|(name, _)| dir.join(name));
        let file = files.into_iter().find(|file| file.exists());
        let limit = Self { file: file.clone().unwrap_or_default(), dir };
        let Some(file) = file else {
            bail!("{} has no memory controller", limit.dir.display());
        };
        set(&file, Some(bytes))?;
        set(&file, None)?;
        Ok(limit)
    }

    /// The file that [`set`] writes to.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
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

/// The file of each kind of control group, and its word for "no limit".
const LIFTED: [(&str, &str); 2] = [("memory.max", "max"), ("memory.limit_in_bytes", "-1")];

/// Sets the limit, or lifts it. What lies in the page cache above it is dropped.
///
/// # Errors
/// Where the kernel refuses.
pub fn set(file: &Path, bytes: Option<u64>) -> Result<()> {
    let lifted = LIFTED.iter().find(|(name, _)| file.ends_with(name)).map(|(_, word)| *word);
    let word = bytes.map_or_else(|| lifted.unwrap_or("max").to_string(), |bytes| bytes.to_string());
    fs::write(file, word).with_context(|| file.display().to_string())
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
