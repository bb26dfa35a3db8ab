//! The real file system, whose syncs do nothing.
//!
//! A database that is looked at once and thrown away needs no durability, and syncs are most of
//! what looking costs: the lockstep tests run thousands of them, and an image of a power cut that
//! is not cut again is one more.
//!
//! Invariant: every other call is the real file system's.

use kiban::env::Env;
use kiban::env::fs::{File, Fs, LockGuard, LockKind, Mapped, OpenMode};
use kiban::env::os::OsFs;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// An environment over real files, without syncs.
#[must_use]
pub fn env() -> Env {
    Env { fs: Arc::new(Unsynced), ..Env::os() }
}

/// See the module.
pub struct Unsynced;

struct UnsyncedFile(Arc<dyn File>);

fn wrap(file: Arc<dyn File>) -> Arc<dyn File> {
    Arc::new(UnsyncedFile(file))
}

impl Fs for Unsynced {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        OsFs.create(path).map(wrap)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        OsFs.open(path, mode).map(wrap)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        OsFs.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        OsFs.link(from, to)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        OsFs.unlink(path)
    }

    fn mkdir(&self, path: &Path) -> io::Result<()> {
        OsFs.mkdir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        OsFs.list(dir)
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, path: &Path, kind: LockKind) -> io::Result<Box<dyn LockGuard>> {
        OsFs.lock(path, kind)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        OsFs.exists(path)
    }
}

impl File for UnsyncedFile {
    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_at(offset, bytes)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, buf)
    }

    fn map(&self, len: u64) -> io::Result<Mapped> {
        self.0.map(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        self.0.preallocate(len)
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
}
