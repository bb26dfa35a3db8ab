//! A file system that is one file in memory: every open gives the bytes as they are.

use crate::env::fs::{File, Fs, LockGuard, LockKind, Mapped, OpenMode};
use crate::env::sync::{Arc, Mutex};
use std::io;
use std::path::{Path, PathBuf};

/// A file in memory. Its clones and its file system share the bytes.
#[derive(Clone)]
pub struct MemFile {
    path: PathBuf,
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Lengths of the reads so far.
    pub reads: Arc<Mutex<Vec<usize>>>,
    /// Reads to come that succeed; those after them fail.
    pub reads_left: Arc<Mutex<usize>>,
}

impl MemFile {
    pub fn new(bytes: Vec<u8>) -> Self {
        Self {
            path: PathBuf::from("000007.tbl"),
            bytes: Arc::new(Mutex::new(bytes)),
            reads: Arc::new(Mutex::new(Vec::new())),
            reads_left: Arc::new(Mutex::new(usize::MAX)),
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().clone()
    }

    pub fn file(&self) -> Arc<dyn File> {
        Arc::new(self.clone())
    }

    pub fn fs(&self) -> Arc<dyn Fs> {
        Arc::new(self.clone())
    }
}

impl File for MemFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let mut all = self.bytes.lock();
        assert_eq!(offset, all.len() as u64, "a table is written front to back");
        all.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut left = self.reads_left.lock();
        *left = left.checked_sub(1).ok_or_else(|| io::Error::other("the disk is away"))?;
        let all = self.bytes.lock();
        let rest = all.get(offset as usize..).unwrap_or_default();
        let len = rest.len().min(buf.len());
        self.reads.lock().push(len);
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn map(&self, len: u64) -> io::Result<Mapped> {
        let all = self.bytes.lock();
        let bytes = all.get(..len as usize).ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(Mapped::Owned(Arc::from(bytes)))
    }

    fn sync_data(&self) -> io::Result<()> {
        unreachable!("a table never syncs itself")
    }

    fn sync_all(&self) -> io::Result<()> {
        unreachable!("a table never syncs itself")
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        unreachable!("a table only grows by writing")
    }

    fn preallocate(&self, _len: u64) -> io::Result<()> {
        unreachable!("a table is not preallocated")
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().len() as u64)
    }
}

impl Fs for MemFile {
    fn create(&self, _path: &Path) -> io::Result<Arc<dyn File>> {
        unreachable!("tables are created by their paths")
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        assert!(path.ends_with(&self.path) && mode == OpenMode::Read);
        Ok(self.file())
    }

    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        unreachable!("tables are not renamed")
    }

    fn link(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        unreachable!("tables are linked by checkpoints")
    }

    fn unlink(&self, _path: &Path) -> io::Result<()> {
        unreachable!("tables are removed by their paths")
    }

    fn mkdir(&self, _path: &Path) -> io::Result<()> {
        unreachable!("tables make no directories")
    }

    fn list(&self, _dir: &Path) -> io::Result<Vec<String>> {
        unreachable!("tables list no directories")
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        unreachable!("tables sync no directories")
    }

    fn lock(&self, _path: &Path, _kind: LockKind) -> io::Result<Box<dyn LockGuard>> {
        unreachable!("tables take no locks")
    }

    fn exists(&self, _path: &Path) -> io::Result<bool> {
        unreachable!("tables look for no files")
    }
}
