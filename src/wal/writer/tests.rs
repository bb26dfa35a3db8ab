//! Writing logs, on a real directory and on a file that refuses.

use super::*;
use crate::env::fs::{LockGuard, LockKind, Mapped, OpenMode, read_file};
use crate::env::os::OsFs;
use crate::env::sync::Mutex;
use crate::wal::{Frame, scan};

const DB: DatabaseId = DatabaseId(7);
const NUMBER: FileNumber = FileNumber(3);

fn start() -> LogStart {
    LogStart {
        predecessor: LogPosition { log: FileNumber(2), offset: 800 },
        synced: LogPosition { log: FileNumber(2), offset: 700 },
        manifest: ManifestMark { number: FileNumber(1), index: 4 },
        next_seq: SeqNo(10),
    }
}

fn frames(log: &LogWriter) -> Vec<Frame> {
    let bytes = read_file(&OsFs, log.path(), 1 << 24).expect("the log");
    let scan = scan(log.path(), &bytes, DB, NUMBER).expect("a log");
    assert_eq!(scan.end, log.position().offset);
    assert_eq!(scan.unbroken, scan.frames.len());
    assert_eq!(scan.header.map(|header| header.predecessor), Some(start().predecessor));
    scan.frames
}

#[test]
fn what_is_appended_is_read_back() -> Result<()> {
    let dir = tempfile::tempdir().expect("a directory");
    let mut log = LogWriter::create(&OsFs, dir.path(), NUMBER, DB, &start(), 1 << 16)?;
    assert_eq!((log.number(), log.last_seq()), (NUMBER, SeqNo(9)));
    log.append_parts(SeqNo(10), 3, &[b"one", b"", b"two"], start().synced)?;
    let captured = log.position();
    log.sync()?;
    log.mark(FrameKind::Watermark, captured)?;
    let large = vec![1; 3 << 20];
    log.append(SeqNo(13), 1, &large, captured)?;
    assert!(log.buffer.capacity() <= BUFFER_BYTES_KEPT_MAX, "a large buffer is given back");
    log.append(SeqNo(14), 1, b"", captured)?;
    log.mark(FrameKind::Close, captured)?;
    assert_eq!(log.last_seq(), SeqNo(14));
    let frames = frames(&log);
    let said: Vec<_> =
        frames.iter().map(|f| (f.kind, f.first.0, f.count, f.payload.len())).collect();
    let expected = [
        (FrameKind::Header, 10, 0, 60),
        (FrameKind::Group, 10, 3, 6),
        (FrameKind::Watermark, 13, 0, 0),
        (FrameKind::Group, 13, 1, 3 << 20),
        (FrameKind::Group, 14, 1, 0),
        (FrameKind::Close, 15, 0, 0),
    ];
    assert_eq!(said, expected);
    assert_eq!((frames[1].synced, frames[2].synced), (start().synced, captured));
    // Its number is taken.
    let again = LogWriter::create(&OsFs, dir.path(), NUMBER, DB, &start(), 0);
    assert!(matches!(again, Err(Error::Io { operation: "create log", .. })));
    Ok(())
}

/// A file system whose files can't preallocate, and whose next write may fail after a few bytes.
#[derive(Clone)]
struct Poor(Arc<Mutex<Option<usize>>>);

struct PoorFile(Arc<dyn File>, Poor);

impl Fs for Poor {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(PoorFile(OsFs.create(path)?, self.clone())))
    }
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        OsFs.open(path, mode)
    }
    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn link(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn unlink(&self, path: &Path) -> io::Result<()> {
        OsFs.unlink(path)
    }
    fn mkdir(&self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn list(&self, _: &Path) -> io::Result<Vec<String>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn lock(&self, _: &Path, _: LockKind) -> io::Result<Box<dyn LockGuard>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        OsFs.exists(path)
    }
}

impl File for PoorFile {
    fn path(&self) -> &Path {
        self.0.path()
    }
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let mut budget = self.1.0.lock();
        let Some(left) = budget.as_mut() else { return self.0.write_at(offset, bytes) };
        if *left == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let n = self.0.write_at(offset, &bytes[..bytes.len().min(*left)])?;
        *left -= n;
        Ok(n)
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, buf)
    }
    fn map(&self, len: u64) -> io::Result<Mapped> {
        self.0.map(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }
    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_all()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
    fn preallocate(&self, _: u64) -> io::Result<()> {
        let full = self.1.0.lock().is_some();
        let kind = if full { io::ErrorKind::StorageFull } else { io::ErrorKind::Unsupported };
        Err(kind.into())
    }
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
}

#[test]
fn without_preallocation_the_log_grows_and_a_failed_append_ends_it() -> Result<()> {
    let dir = tempfile::tempdir().expect("a directory");
    let fs = Poor(Arc::new(Mutex::new(None)));
    let mut log = LogWriter::create(&fs, dir.path(), NUMBER, DB, &start(), 1 << 16)?;
    log.append(SeqNo(10), 1, b"kept", start().synced)?;
    assert_eq!(frames(&log).len(), 2);
    assert_eq!(log.file().len().expect("a length"), log.position().offset);
    let before = log.position();
    *fs.0.lock() = Some(20);
    let error = log.append(SeqNo(11), 1, b"lost", start().synced).expect_err("the disk is full");
    assert!(error.to_string().starts_with("append to log"), "{error}");
    assert!(log.failed && log.position() == before && log.last_seq() == SeqNo(10));
    let bytes = read_file(&OsFs, log.path(), 1 << 24).expect("the log");
    let scan = scan(log.path(), &bytes, DB, NUMBER).expect("a log");
    assert_eq!((scan.unbroken, scan.end), (2, before.offset));
    Ok(())
}

#[test]
fn a_log_for_which_there_is_no_room_leaves_nothing_behind() {
    let dir = tempfile::tempdir().expect("a directory");
    let fs = Poor(Arc::new(Mutex::new(Some(0))));
    let error = PreparedLog::create(&fs, dir.path(), NUMBER, DB, 1 << 16).err();
    assert!(matches!(error, Some(Error::Io { operation: "preallocate log", .. })));
    assert_eq!(OsFs.list(dir.path()).expect("a list"), [""; 0]);
}
