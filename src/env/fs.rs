//! The file system as the engine sees it, with a durability contract on every method.
//!
//! Invariants
//! - A call that returns an error may or may not have had its effect, whole or in part.
//! - Nothing is durable but what a contract here says is durable on return.
//! - Short reads and writes and `Interrupted` are passed up; [`write_all_at`] and
//!   [`read_full_at`] deal with them, so that a simulated file system can produce them.
//!
//! The traits hold no metrics, no caching and no retries. `crash` implements them over a simulated
//! disk, `env::os` over Linux.
#![allow(clippy::disallowed_types)]

use super::sync::Arc;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};

/// How [`Fs::open`] opens a file that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Reads only.
    Read,
    /// Reads and writes.
    ReadWrite,
}

/// Who may hold a lock file beside the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Other shared holders, in this process and in others.
    Shared,
    /// Nobody, in this process or in another.
    Exclusive,
}

/// A held lock; dropping it releases the lock.
pub trait LockGuard: Send + Sync {}

/// A file system. Paths are absolute or relative to the working directory, as in std.
pub trait Fs: Send + Sync + 'static {
    /// Creates a file that must not exist (`AlreadyExists` otherwise) and opens it for reading and
    /// writing. Atomic. The name is durable only after [`Fs::sync_dir`] of its directory; a crash
    /// before that may leave the name, no name, or the name with length 0.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Opens a file that exists (`NotFound` otherwise). Changes nothing.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>>;

    /// Makes `to` name what `from` names, replacing what `to` named. Atomic to readers. Durable
    /// after `sync_dir` of the directory; a crash before that leaves the old or the new name of
    /// `to`, with `from` still there or gone. It does not make the file's contents durable.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives the file `from` a second name `to`, which must not exist. Durable after `sync_dir`.
    /// `Unsupported` where the file system has no hard links.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a name. Durable after `sync_dir`; a crash before that may leave it. Open files and
    /// maps of it stay valid.
    fn unlink(&self, path: &Path) -> io::Result<()>;

    /// Creates one directory, whose parent must exist. Durable after `sync_dir` of the *parent*.
    fn mkdir(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory, in byte order, without `.` and `..`. Names that are not UTF-8 are
    /// left out: the engine makes none.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Makes every create, rename, link and unlink in `dir` that returned before this call began
    /// durable. After an error nothing may be assumed, not even by a retry that succeeds.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Takes the lock that the file `path` stands for, creating the file if it is missing.
    /// `WouldBlock` at once when another holder excludes it, in this process too. A shared lock
    /// of a file that exists needs no permission to write.
    fn lock(&self, path: &Path, kind: LockKind) -> io::Result<Box<dyn LockGuard>>;

    /// Whether a file or directory has this name now. An error is only an environment's refusal.
    fn exists(&self, path: &Path) -> io::Result<bool>;
}

/// An open file. Methods take `&self`; concurrent calls on distinct byte ranges are independent.
#[allow(clippy::len_without_is_empty)]
pub trait File: Send + Sync {
    /// The path under which the file was opened or created, for errors.
    fn path(&self) -> &Path;

    /// Writes a prefix of `bytes` at `offset` and returns how many bytes, at least 1 unless
    /// `bytes` is empty. Extends the file where it ends beyond the length. Not durable, not atomic:
    /// a crash leaves any mix of old and new bytes.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize>;

    /// Reads up to `buf.len()` bytes at `offset`; 0 at or beyond the end.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;

    /// Maps the first `len` bytes, which the file must have, as a read-only slice. The file must
    /// not be written, truncated or extended while the map lives.
    fn map(&self, len: u64) -> io::Result<Mapped>;

    /// Makes every byte written before this call began durable, and the length as far as reading
    /// them needs it. After an error nothing may be assumed about those bytes, ever again: the
    /// page may be clean and hold old or new bytes, so a retry proves nothing.
    fn sync_data(&self) -> io::Result<()>;

    /// As [`File::sync_data`], and all metadata of the file. Not the directory entry.
    fn sync_all(&self) -> io::Result<()>;

    /// Sets the length; bytes beyond the old one read as zero. Durable after a sync.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Reserves space and sets the length to at least `len`; new bytes read as zero while the
    /// machine runs. After a crash bytes never written and synced may be stale blocks of other
    /// files. `Unsupported` where the file system can't.
    fn preallocate(&self, len: u64) -> io::Result<()>;

    /// The length now. (A file is never "empty" in a way that matters here.)
    fn len(&self) -> io::Result<u64>;
}

/// A read-only view of a file's bytes.
pub enum Mapped {
    /// A mapping by the operating system. A device error or a truncation by others raises SIGBUS.
    Os(memmap2::Mmap),
    /// A copy, as the simulated disk gives.
    Owned(Arc<[u8]>),
}

impl Mapped {
    /// Has each fault bring in its own page alone, and not its neighbours too.
    ///
    /// # Errors
    /// What the operating system says of the advice.
    pub fn leave_neighbours(&self) -> io::Result<()> {
        match self {
            Self::Os(map) => map.advise(memmap2::Advice::Random),
            Self::Owned(_) => Ok(()),
        }
    }
}

impl Deref for Mapped {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Os(map) => map,
            Self::Owned(bytes) => bytes,
        }
    }
}

/// Writes all of `bytes` at `offset`, through short writes and interruptions.
///
/// # Errors
/// The first error that is not `Interrupted`; any part of the bytes may be written then.
/// `WriteZero` if the file takes nothing.
pub fn write_all_at(file: &dyn File, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(offset, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                bytes = &bytes[n..];
                offset += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Reads until `buf` is full or the file ends; returns the bytes read.
///
/// # Errors
/// The first error that is not `Interrupted`.
pub fn read_full_at(file: &dyn File, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buf.len() {
        match file.read_at(offset + filled as u64, &mut buf[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

/// Reads a whole file, as long as it is now. The caller bounds `len_max`; a longer file is
/// `FileTooLarge`, so that a damaged length allocates nothing.
///
/// # Errors
/// Those of opening and reading.
pub fn read_file(fs: &dyn Fs, path: &Path, len_max: u64) -> io::Result<Vec<u8>> {
    read_whole(&*fs.open(path, OpenMode::Read)?, len_max)
}

/// As [`read_file`], of an open file.
///
/// # Errors
/// Those of reading.
pub fn read_whole(file: &dyn File, len_max: u64) -> io::Result<Vec<u8>> {
    let len = file.len()?;
    if len > len_max {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = vec![0; usize::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?];
    let filled = read_full_at(file, 0, &mut bytes)?;
    bytes.truncate(filled);
    Ok(bytes)
}

/// The directory that holds `path`; the working directory for a bare name.
#[must_use]
pub fn parent_dir(path: &Path) -> PathBuf {
    match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p.to_path_buf(),
        _ => PathBuf::from("."),
    }
}
