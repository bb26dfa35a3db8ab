//! A file system that writes down the calls made on a real one, and gives them to a simulated disk.
//!
//! Invariants
//! - A call is told in the recorder's log before it is made and after it returned, so that each
//!   position of that log lies between two calls or inside one.
//! - The simulated disk hears the same calls in the same order. A sync that failed fails there,
//!   too, so that what it should have covered stays in doubt whatever a retry says; any other call
//!   that failed may have had its effect, as far as power loss goes.
//! - One thread makes calls.
#![allow(clippy::disallowed_types, reason = "outside the engine")]

use crate::disk::{Disk, Errno, Fault, FaultPlan, Fd, Pages, Report, Rule, Snapshot};
use crate::kill::wire::{Kind, Note, Teller};
use kiban::env::fs::{File, Fs, LockGuard, LockKind, Mapped, OpenMode};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A call; files are numbered in the order in which they were opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Did {
    /// `create`, which opens.
    Create(usize, String),
    /// `open`, for writing or not.
    Open(usize, String, bool),
    /// A file was closed.
    Close(usize),
    /// `rename`.
    Rename(String, String),
    /// `link`.
    Link(String, String),
    /// `unlink`.
    Unlink(String),
    /// `mkdir`.
    Mkdir(String),
    /// `sync_dir`.
    SyncDir(String),
    /// `lock`, which may create.
    Lock(String),
    /// `write_at`.
    Write(usize, u64, Vec<u8>),
    /// `sync_all`, or else `sync_data`.
    Sync(usize, bool),
    /// `set_len`.
    SetLen(usize, u64),
    /// `preallocate`.
    Preallocate(usize, u64),
    /// Everything is written back: no call of the engine's.
    SyncFs,
}

impl fmt::Display for Did {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(file, path) => write!(f, "create {path} as #{file}"),
            Self::Open(file, path, _) => write!(f, "open {path} as #{file}"),
            Self::Close(file) => write!(f, "close #{file}"),
            Self::Rename(from, to) => write!(f, "rename {from} {to}"),
            Self::Link(from, to) => write!(f, "link {from} {to}"),
            Self::Unlink(path) => write!(f, "unlink {path}"),
            Self::Mkdir(path) => write!(f, "mkdir {path}"),
            Self::SyncDir(path) => write!(f, "sync_dir {path}"),
            Self::Lock(path) => write!(f, "lock {path}"),
            Self::Write(file, at, bytes) => write!(f, "write #{file} {at}+{}", bytes.len()),
            Self::Sync(file, true) => write!(f, "sync_all #{file}"),
            Self::Sync(file, false) => write!(f, "sync_data #{file}"),
            Self::SetLen(file, len) => write!(f, "set_len #{file} {len}"),
            Self::Preallocate(file, len) => write!(f, "preallocate #{file} {len}"),
            Self::SyncFs => write!(f, "syncfs"),
        }
    }
}

/// A call, and whether it returned without an error.
pub type Call = (Did, bool);

struct Shared {
    teller: Teller,
    calls: Mutex<Vec<Call>>,
    files: Mutex<usize>,
}

impl Shared {
    fn calls(&self) -> MutexGuard<'_, Vec<Call>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells a call, makes it, and tells that it returned.
    fn call<T>(&self, did: Did, make: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let n = u32::try_from(self.calls().len()).unwrap_or(u32::MAX);
        self.teller.tell(&Note::step(Kind::Issued, 0, n));
        let done = make();
        self.calls().push((did, done.is_ok()));
        self.teller.tell(&Note::step(Kind::Done, 0, n));
        done
    }

    fn file(&self) -> usize {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        *files += 1;
        *files - 1
    }
}

/// See the module.
pub struct Tap {
    inner: Arc<dyn Fs>,
    root: PathBuf,
    shared: Arc<Shared>,
}

impl Tap {
    /// Taps the calls on what lies below `root`; the notes go to `teller`.
    #[must_use]
    pub fn new(inner: Arc<dyn Fs>, root: &Path, teller: Teller) -> Self {
        let (calls, files) = (Mutex::default(), Mutex::default());
        let shared = Arc::new(Shared { teller, calls, files });
        Self { inner, root: root.to_owned(), shared }
    }

    /// The calls so far.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.shared.calls().clone()
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> usize {
        self.shared.calls().len()
    }

    /// Has the kernel write everything back.
    ///
    /// # Errors
    /// The device's.
    pub fn sync_fs(&self) -> io::Result<()> {
        self.shared.call(Did::SyncFs, || {
            let root = std::fs::File::open(&self.root)?;
            Ok(rustix::fs::syncfs(&root)?)
        })
    }

    /// As the simulated disk knows it.
    fn name(&self, path: &Path) -> String {
        let below = path.strip_prefix(&self.root).unwrap_or(path);
        format!("/{}", below.display())
    }

    fn tapped(&self, number: usize, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(Tapped { number, file, shared: self.shared.clone() })
    }
}

impl Fs for Tap {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let number = self.shared.file();
        let did = Did::Create(number, self.name(path));
        let file = self.shared.call(did, || self.inner.create(path))?;
        Ok(self.tapped(number, file))
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let number = self.shared.file();
        let did = Did::Open(number, self.name(path), mode == OpenMode::ReadWrite);
        let file = self.shared.call(did, || self.inner.open(path, mode))?;
        Ok(self.tapped(number, file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let did = Did::Rename(self.name(from), self.name(to));
        self.shared.call(did, || self.inner.rename(from, to))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let did = Did::Link(self.name(from), self.name(to));
        self.shared.call(did, || self.inner.link(from, to))
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        self.shared.call(Did::Unlink(self.name(path)), || self.inner.unlink(path))
    }

    fn mkdir(&self, path: &Path) -> io::Result<()> {
        self.shared.call(Did::Mkdir(self.name(path)), || self.inner.mkdir(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.shared.call(Did::SyncDir(self.name(dir)), || self.inner.sync_dir(dir))
    }

    fn lock(&self, path: &Path, kind: LockKind) -> io::Result<Box<dyn LockGuard>> {
        self.shared.call(Did::Lock(self.name(path)), || self.inner.lock(path, kind))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }
}

struct Tapped {
    number: usize,
    file: Arc<dyn File>,
    shared: Arc<Shared>,
}

impl Drop for Tapped {
    fn drop(&mut self) {
        let _ = self.shared.call(Did::Close(self.number), || Ok(()));
    }
}

impl File for Tapped {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let did = Did::Write(self.number, offset, bytes.to_vec());
        self.shared.call(did, || self.file.write_at(offset, bytes))
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buf)
    }

    fn map(&self, len: u64) -> io::Result<Mapped> {
        self.file.map(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.shared.call(Did::Sync(self.number, false), || self.file.sync_data())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.shared.call(Did::Sync(self.number, true), || self.file.sync_all())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.shared.call(Did::SetLen(self.number, len), || self.file.set_len(len))
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        self.shared.call(Did::Preallocate(self.number, len), || self.file.preallocate(len))
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

/// Makes the calls on a simulated disk: its state before the first and after each.
///
/// # Errors
/// A call that the real file system did and the simulated one refuses.
pub fn replay(calls: &[Call]) -> Result<Vec<Snapshot>, String> {
    let mut disk = Disk::new();
    let mut files = BTreeMap::new();
    let mut snapshots = vec![disk.snapshot()];
    for (number, (did, ok)) in calls.iter().enumerate() {
        if !ok {
            disk.plan.rules = failed_syncs();
        }
        let done = make(&mut disk, &mut files, did);
        disk.plan = FaultPlan::default();
        if let (Err(error), true) = (done, ok) {
            return Err(format!("call {number}, {did}: the simulated disk answers {error}"));
        }
        snapshots.push(disk.snapshot());
    }
    Ok(snapshots)
}

/// Every sync fails, and lies ever after.
fn failed_syncs() -> Vec<Rule> {
    let file = Fault::Sync(Errno::EIO, Pages::New, Report::Caller);
    [file, Fault::DirLie(Errno::EIO)].map(|fault| Rule::new(fault).times(u32::MAX)).to_vec()
}

fn make(disk: &mut Disk, files: &mut BTreeMap<usize, Fd>, did: &Did) -> io::Result<()> {
    let missing = || io::Error::from(io::ErrorKind::NotFound);
    let fd =
        |files: &BTreeMap<usize, Fd>, file: &usize| files.get(file).copied().ok_or_else(missing);
    match did {
        Did::Create(file, path) => {
            files.insert(*file, disk.create(Path::new(path))?);
            Ok(())
        }
        Did::Open(file, path, write) => {
            files.insert(*file, disk.open(Path::new(path), *write)?);
            Ok(())
        }
        Did::Close(file) => {
            if let Some(fd) = files.remove(file) {
                disk.close(fd);
            }
            Ok(())
        }
        Did::Rename(from, to) => disk.rename(Path::new(from), Path::new(to)),
        Did::Link(from, to) => disk.link(Path::new(from), Path::new(to)),
        Did::Unlink(path) => disk.unlink(Path::new(path)),
        Did::Mkdir(path) => disk.mkdir(Path::new(path)),
        Did::SyncDir(path) => disk.sync_dir(Path::new(path)),
        Did::Sync(file, all) => {
            let fd = fd(files, file)?;
            if *all { disk.sync_all(fd) } else { disk.sync_data(fd) }
        }
        Did::SyncFs => sync_all(disk),
        Did::Lock(path) => {
            // The lock's file matters, and nobody else takes it.
            let lock = disk.lock(Path::new(path), false)?;
            disk.unlock(lock);
            Ok(())
        }
        Did::Write(file, at, bytes) => disk.write_at(fd(files, file)?, *at, bytes).map(drop),
        Did::SetLen(file, len) => disk.set_len(fd(files, file)?, *len),
        Did::Preallocate(file, len) => disk.preallocate(fd(files, file)?, *len),
    }
}

/// Makes all that has a name durable.
fn sync_all(disk: &mut Disk) -> io::Result<()> {
    let mut failed = None;
    for (path, _) in disk.files() {
        let fd = disk.open(Path::new(&path), false)?;
        let synced = disk.sync_all(fd);
        disk.close(fd);
        failed = failed.or(synced.err());
    }
    for path in disk.dirs().iter().map(|path| &**path).chain(["/"]) {
        failed = failed.or(disk.sync_dir(Path::new(path)).err());
    }
    failed.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiban::env::os::OsFs;

    #[test]
    fn calls_on_a_real_directory_are_made_again_on_a_simulated_disk() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let notes = tempfile::tempfile().expect("a temporary file");
        let tap = Tap::new(Arc::new(OsFs), dir.path(), Teller::to(notes));
        let file = tap.create(&dir.path().join("a")).expect("a file");
        assert_eq!(file.write_at(3, b"xyz").expect("a write"), 3);
        file.sync_all().expect("a sync");
        drop(file);
        tap.rename(&dir.path().join("a"), &dir.path().join("b")).expect("a rename");
        assert!(tap.unlink(&dir.path().join("a")).is_err());
        let calls = tap.calls();
        let text: Vec<String> = calls.iter().map(|(did, _)| did.to_string()).collect();
        assert_eq!(text[..2], ["create /a as #0", "write #0 3+3"]);
        assert_eq!(text[2..], ["sync_all #0", "close #0", "rename /a /b", "unlink /a"]);
        let snapshots = replay(&calls).expect("both do the same");
        assert_eq!(snapshots.len(), 7);
        let last = snapshots.last().expect("there are seven");
        let disk = last.image(&last.all());
        assert_eq!(disk.get_file("/b").expect("it was renamed"), b"\0\0\0xyz");
    }
}
