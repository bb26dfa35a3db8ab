//! The files of a database: their sizes, what of them is in memory, and their eviction.

use super::raw;
use anyhow::{Context, Result, ensure};
use rustix::fs::Advice;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What a database takes, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Size {
    /// The sum of the lengths.
    pub logical: u64,
    /// The sum of the blocks.
    pub allocated: u64,
    /// Files.
    pub files: u64,
}

/// What of a database is in memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Residency {
    /// Bytes in memory.
    pub resident: u64,
    /// Bytes in all.
    pub total: u64,
}

impl Residency {
    /// More of the files than this in memory is no reduced cache.
    const REDUCED_PERCENT_MAX: u64 = 10;

    /// Refuses files whose pages were not dropped.
    ///
    /// # Errors
    /// Where more than a tenth of them is in memory.
    pub fn must_be_reduced(self) -> Result<()> {
        let Self { resident, total } = self;
        ensure!(
            u128::from(resident) * 100 <= u128::from(total) * u128::from(Self::REDUCED_PERCENT_MAX),
            "{resident} of {total} bytes stayed in memory after the drop, at most {} % may",
            Self::REDUCED_PERCENT_MAX
        );
        Ok(())
    }
}

/// Every file below `dir`. One that goes away meanwhile is left out.
///
/// # Errors
/// Where `dir` can't be listed.
pub fn below(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).with_context(|| dir.display().to_string())? {
            let entry = entry?;
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => dirs.push(entry.path()),
                Ok(_) => files.push(entry.path()),
                Err(_) => {}
            }
        }
    }
    files.sort();
    Ok(files)
}

/// What the files below `dir` take.
///
/// # Errors
/// As [`below`].
pub fn size(dir: &Path) -> Result<Size> {
    let mut size = Size::default();
    for path in below(dir)? {
        if let Ok(meta) = fs::metadata(&path) {
            size.logical += meta.len();
            size.allocated += meta.blocks() * 512;
            size.files += 1;
        }
    }
    Ok(size)
}

/// What of the files below `dir` is in memory.
///
/// # Errors
/// As [`below`], and where the kernel refuses.
pub fn residency(dir: &Path) -> Result<Residency> {
    let mut sum = Residency::default();
    for path in below(dir)? {
        let (resident, total) = raw::resident(&File::open(&path)?)?;
        sum.resident += resident;
        sum.total += total;
    }
    Ok(sum)
}

/// Asks the kernel to drop the pages of the files below `dir`. They must be synced.
///
/// # Errors
/// As [`below`], and where the kernel refuses.
pub fn evict(dir: &Path) -> Result<()> {
    for path in below(dir)? {
        let file = File::open(&path)?;
        file.sync_all()?;
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

/// Free bytes on the disk that `dir` is on.
///
/// # Errors
/// Where the kernel does not tell.
pub fn free_bytes(dir: &Path) -> Result<u64> {
    let fs = rustix::fs::statvfs(dir).with_context(|| dir.display().to_string())?;
    Ok(fs.f_bavail * fs.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eviction_is_seen_by_residency() -> Result<()> {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR"))?;
        fs::create_dir(dir.path().join("sub"))?;
        fs::write(dir.path().join("sub/a"), vec![7; 1 << 20])?;
        fs::write(dir.path().join("empty"), [])?;
        let size = size(dir.path())?;
        assert_eq!((size.logical, size.files), (1 << 20, 2));
        let before = residency(dir.path())?;
        assert_eq!(before, Residency { resident: 1 << 20, total: 1 << 20 });
        let refused = before.must_be_reduced().expect_err("nothing was dropped");
        assert!(refused.to_string().contains("stayed in memory"), "{refused}");
        assert!(Residency { resident: 101, total: 1000 }.must_be_reduced().is_err());
        Residency { resident: 100, total: 1000 }.must_be_reduced()?;
        evict(dir.path())?;
        assert!(residency(dir.path())?.resident < before.resident);
        Ok(())
    }
}
