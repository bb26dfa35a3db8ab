//! The engine's file system over a simulated disk.
//!
//! Invariants
//! - Each call has a scheduling point before its effect and one before its return, a sync also
//!   between its halves: `engine::switch`, which does nothing where nothing schedules.
//! - The disk's lock is held for no scheduling point.
//! - It decides nothing: what a call does and what goes wrong is the disk's.
//!
//! The file knows the engine only as `super::engine` (its `env` and `switch`), so that the checked
//! forms include this very file over their own copy of the traits.

use super::disk::{Disk, Fd, LockId, Ticket};
use super::engine::env::clock::Clock;
use super::engine::env::fs::{File, Fs, LockGuard, LockKind, Mapped, OpenMode};
use super::engine::env::sync::{Arc, Mutex};
use super::engine::switch;
use std::io;
use std::path::{Path, PathBuf};

/// A disk that an engine and a rig share.
#[derive(Clone)]
pub struct SimFs(Arc<Mutex<Disk>>);

impl SimFs {
    /// Gives `disk` to engines.
    #[must_use]
    pub fn new(disk: Disk) -> Self {
        Self(Arc::new(Mutex::new(disk)))
    }

    /// Runs `f` on the disk itself, without a scheduling point. `f` must not use the engine.
    pub fn with<R>(&self, f: impl FnOnce(&mut Disk) -> R) -> R {
        f(&mut self.0.lock())
    }

    fn call<R>(&self, f: impl FnOnce(&mut Disk) -> io::Result<R>) -> io::Result<R> {
        switch();
        let result = self.with(f);
        switch();
        result
    }

    fn sync(&self, begin: impl FnOnce(&mut Disk) -> io::Result<Ticket>) -> io::Result<()> {
        let ticket = self.call(begin)?;
        for _ in 0..ticket.rounds() {
            switch();
        }
        let result = self.with(|disk| disk.sync_end(ticket));
        switch();
        result
    }

    fn file(&self, fd: Fd, path: &Path) -> Arc<dyn File> {
        Arc::new(SimFile { fs: self.clone(), fd, path: path.to_path_buf() })
    }
}

struct SimFile {
    fs: SimFs,
    fd: Fd,
    path: PathBuf,
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.fs.with(|disk| disk.close(self.fd));
    }
}

struct SimLock {
    fs: SimFs,
    lock: LockId,
}

impl LockGuard for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.fs.with(|disk| disk.unlock(self.lock));
    }
}

impl Fs for SimFs {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.call(|disk| disk.create(path)).map(|fd| self.file(fd, path))
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let write = mode == OpenMode::ReadWrite;
        self.call(|disk| disk.open(path, write)).map(|fd| self.file(fd, path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(|disk| disk.rename(from, to))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(|disk| disk.link(from, to))
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        self.call(|disk| disk.unlink(path))
    }

    fn mkdir(&self, path: &Path) -> io::Result<()> {
        self.call(|disk| disk.mkdir(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.call(|disk| disk.list(dir))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.sync(|disk| disk.sync_dir_begin(dir))
    }

    fn lock(&self, path: &Path, kind: LockKind) -> io::Result<Box<dyn LockGuard>> {
        let lock = self.call(|disk| disk.lock(path, kind == LockKind::Exclusive))?;
        Ok(Box::new(SimLock { fs: self.clone(), lock }))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.call(|disk| disk.exists(path))
    }
}

impl File for SimFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.fs.call(|disk| disk.write_at(self.fd, offset, bytes))
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.fs.call(|disk| disk.read_at(self.fd, offset, buf))
    }

    fn map(&self, len: u64) -> io::Result<Mapped> {
        self.fs.call(|disk| disk.map(self.fd, len)).map(Mapped::Owned)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.fs.sync(|disk| disk.sync_begin(self.fd, false))
    }

    fn sync_all(&self) -> io::Result<()> {
        self.fs.sync(|disk| disk.sync_begin(self.fd, true))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.fs.call(|disk| disk.set_len(self.fd, len))
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        self.fs.call(|disk| disk.preallocate(self.fd, len))
    }

    fn len(&self) -> io::Result<u64> {
        self.fs.call(|disk| disk.len(self.fd))
    }
}

impl Clock for SimFs {
    fn now_ns(&self) -> u64 {
        self.with(|disk| disk.clock.now_ns())
    }

    fn sleep_ns(&self, duration_ns: u64) {
        self.with(|disk| disk.clock.sleep(duration_ns));
        switch();
    }
}
