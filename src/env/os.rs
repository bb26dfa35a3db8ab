//! [`Fs`] over Linux, through std.
//!
//! Invariants
//! - Syncs go through std, hence through libc, so that an interposed counter sees each of them.
//! - Locks are `flock`s on an open description: a second one in the same process excludes too.
//!   They are released by hand, not by closing alone.
//! - A mapping is made only of files that the engine never changes after their first sync.
//!
//! Why not safe: a mapping of a file that another process truncates raises SIGBUS, which no safe
//! interface can exclude. That is stated in `docs/DURABILITY.md`; the pread backend avoids it.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, unsafe_code)]

use super::fs::{File, Fs, LockGuard, LockKind, Mapped, OpenMode};
use super::sync::Arc;
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The operating system's file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsFs;

struct OsFile {
    file: fs::File,
    path: PathBuf,
}

struct OsLock {
    file: fs::File,
}

impl LockGuard for OsLock {}

impl Drop for OsLock {
    fn drop(&mut self) {
        // Closing alone would not do: a child that another thread is spawning holds a copy of the
        // description until its program begins. Where this fails, closing is what is left.
        let _ = self.file.unlock();
    }
}

impl Fs for OsFs {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = fs::OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        Ok(Arc::new(OsFile { file, path: path.to_path_buf() }))
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let write = mode == OpenMode::ReadWrite;
        let file = fs::OpenOptions::new().read(true).write(write).open(path)?;
        Ok(Arc::new(OsFile { file, path: path.to_path_buf() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn mkdir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        fs::File::open(dir)?.sync_all()
    }

    fn lock(&self, path: &Path, kind: LockKind) -> io::Result<Box<dyn LockGuard>> {
        let file = match kind {
            LockKind::Exclusive => fs::OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(path)?,
            LockKind::Shared => match fs::File::open(path) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => fs::OpenOptions::new()
                    .read(true)
                    .write(true)
                    .create(true)
                    .truncate(false)
                    .open(path)?,
                other => other?,
            },
        };
        let taken = match kind {
            LockKind::Exclusive => file.try_lock(),
            LockKind::Shared => file.try_lock_shared(),
        };
        match taken {
            Ok(()) => Ok(Box::new(OsLock { file })),
            Err(fs::TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(fs::TryLockError::Error(e)) => Err(e),
        }
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        fs::exists(path)
    }
}

impl File for OsFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(buf, offset)
    }

    fn map(&self, len: u64) -> io::Result<Mapped> {
        if self.file.metadata()?.len() < len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if len == 0 {
            return Ok(Mapped::Owned(Arc::from(Vec::new())));
        }
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?;
        // SAFETY: the engine maps only table files, which it never writes, truncates or extends
        // after their first sync; a truncation by another process is the documented exception.
        let map = unsafe { memmap2::MmapOptions::new().len(len).map(&self.file) }?;
        Ok(Mapped::Os(map))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        // A signal ends a long one early; asked again it goes on. std's own calls do the same.
        let flags = rustix::fs::FallocateFlags::empty();
        rustix::io::retry_on_intr(|| rustix::fs::fallocate(&self.file, flags, 0, len))
            .map_err(io::Error::from)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}
