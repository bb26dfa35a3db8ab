//! A block device that writes down what it hears: a file of a file system in this process, under
//! a loop device.
//!
//! Invariants
//! - Every write, discard and flush that the loop device sends is in the log, in the order in
//!   which it was answered, before it is answered. One thread serves: there is one order.
//! - Notes of the workload are written to a second file beside it and stand in the same log: a
//!   note is written by a call that returns when it is there, so that it stands behind every flush
//!   that had returned before it was told, and before every write that its call causes.
//! - Neither file is cached by the kernel: what is exchanged here while nothing is mounted is
//!   what the next mount reads.
//! - A rule makes writes or flushes fail, or be lost and reported as done. A write that fails has
//!   no effect; a flush that fails makes nothing durable.
#![allow(clippy::disallowed_types, reason = "outside the engine")]

use super::log::{Entry, Image, Pages};
use crate::kill::wire::Note;
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, Session, WriteFlags,
};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

/// What a rule looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// Writes.
    Write,
    /// Flushes.
    Flush,
    /// Both.
    Either,
}

/// What it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Answers EIO.
    Refuse,
    /// Says that it is done, and forgets it.
    Forget,
}

/// A device error to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What it looks at.
    pub on: On,
    /// What it does.
    pub trouble: Trouble,
    /// Which of them, from 0.
    pub nth: u64,
    /// Whether all that follow have the same fate.
    pub forever: bool,
}

/// The device's state, shared with the thread that serves it.
#[derive(Debug, Default)]
pub struct Disk {
    size: u64,
    base: Arc<Pages>,
    top: Pages,
    log: Option<Vec<Entry>>,
    rule: Option<Rule>,
    /// Calls that the rule looked at, and those that it hit.
    looked: u64,
    hit: u64,
    hear: Option<Sender<Note>>,
}

impl Disk {
    /// Shows an image from now on; what is written goes over it. Nothing is mounted now.
    pub fn show(&mut self, image: Image) {
        (self.base, self.top) = (image.base, image.top);
    }

    /// Shows `pages` from now on.
    pub fn show_pages(&mut self, pages: Arc<Pages>) {
        (self.base, self.top) = (pages, Pages::default());
    }

    /// All that is on it.
    #[must_use]
    pub fn contents(&self) -> Pages {
        let mut pages = (*self.base).clone();
        pages.absorb(&self.top);
        pages
    }

    /// Lets go of what it shows: whoever made the images may change them in place again.
    pub fn forget(&mut self) {
        self.show_pages(Arc::default());
    }

    /// Begins a log.
    pub fn record(&mut self) {
        self.log = Some(Vec::new());
    }

    /// Ends the log, and returns it.
    pub fn recorded(&mut self) -> Vec<Entry> {
        self.log.take().unwrap_or_default()
    }

    /// How long the log is.
    #[must_use]
    pub fn position(&self) -> usize {
        self.log.as_ref().map_or(0, Vec::len)
    }

    /// Notes go here, too.
    pub fn tell(&mut self, to: Option<Sender<Note>>) {
        self.hear = to;
    }

    /// Sets a rule, or none; how often the last one hit.
    pub fn rule(&mut self, rule: Option<Rule>) -> u64 {
        (self.rule, self.looked) = (rule, 0);
        std::mem::take(&mut self.hit)
    }

    fn note(&mut self, entry: impl FnOnce() -> Entry) {
        if let Some(log) = &mut self.log {
            log.push(entry());
        }
    }

    fn trouble(&mut self, is: On) -> Option<Trouble> {
        let rule = self.rule.filter(|rule| rule.on == is || rule.on == On::Either)?;
        let nth = self.looked;
        self.looked += 1;
        let hits = nth == rule.nth || (rule.forever && nth > rule.nth);
        self.hit += u64::from(hits);
        hits.then_some(rule.trouble)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Errno> {
        match self.trouble(On::Write) {
            Some(Trouble::Refuse) => {
                self.note(|| Entry::Refused);
                return Err(Errno::EIO);
            }
            Some(Trouble::Forget) => return Ok(()),
            None => {}
        }
        self.note(|| Entry::Write { at, bytes: bytes.into() });
        self.top.write(&self.base, at, bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Errno> {
        match self.trouble(On::Flush) {
            Some(Trouble::Refuse) => {
                self.note(|| Entry::Refused);
                return Err(Errno::EIO);
            }
            Some(Trouble::Forget) => return Ok(()),
            None => {}
        }
        self.note(|| Entry::Flush);
        Ok(())
    }

    fn discard(&mut self, at: u64, len: u64) -> Result<(), Errno> {
        let len = len.min(self.size.saturating_sub(at));
        self.note(|| Entry::Discard { at, len });
        self.top.discard(&self.base, at, len);
        Ok(())
    }

    fn hear(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        let mut at = 0;
        while let Ok(Some((note, len))) = Note::decode(&bytes[at..]) {
            at += len;
            if let Some(to) = &self.hear {
                // Whoever listened may have seen enough.
                let _ = to.send(note.clone());
            }
            self.note(|| Entry::Note(note));
        }
        // A note is one write: a part of one comes from something else than a victim.
        if at == bytes.len() { Ok(()) } else { Err(Errno::EINVAL) }
    }
}

/// The file that is the device.
pub const DISK: &str = "disk";
/// The file that hears notes.
pub const NOTES: &str = "notes";

const ROOT: u64 = 1;
const DISK_ID: u64 = 2;
const NOTES_ID: u64 = 3;
/// Nothing about the files ever changes.
const LONG: Duration = Duration::from_secs(86_400);
/// What the loop device sends in one piece, at the most.
const WRITE_BYTES_MAX: u32 = 1 << 20;

/// A served device. It is served until this is dropped, which nothing may be mounted at.
#[derive(Debug)]
pub struct Recorder {
    disk: Arc<Mutex<Disk>>,
    at: PathBuf,
    session: Option<BackgroundSession>,
}

impl Recorder {
    /// Serves a device of so many bytes in the directory `at`.
    ///
    /// # Errors
    /// The machine refused.
    pub fn serve(at: &Path, size: u64) -> io::Result<Self> {
        let disk = Arc::new(Mutex::new(Disk { size, ..Disk::default() }));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("kiban-power".to_owned())];
        let session = Session::new(Served(disk.clone()), at, &config)?.spawn()?;
        Ok(Self { disk, at: at.to_owned(), session: Some(session) })
    }

    /// The device's state. The device stands still while it is held.
    pub fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // A loop device lets go of its file a little after its last close.
        let unmounted = super::place::unmount(&self.at);
        // Its thread ends with the mount; without that end it would be waited for in vain.
        let joined = self.session.take().map(|session| match unmounted {
            Ok(()) => session.join(),
            Err(error) => Err(error),
        });
        if let Some(Err(error)) = joined {
            eprintln!("warning: {} goes with the process: {error}", self.at.display());
        }
    }
}

struct Served(Arc<Mutex<Disk>>);

impl Served {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attributes(&self, id: u64) -> FileAttr {
        let size = if id == DISK_ID { self.disk().size } else { 0 };
        let is_root = id == ROOT;
        FileAttr {
            ino: INodeNo(id),
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_root { FileType::Directory } else { FileType::RegularFile },
            perm: if is_root { 0o700 } else { 0o600 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

/// Answers a call that has no result.
fn answer(done: Result<(), Errno>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

impl Filesystem for Served {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // The kernel's own limit stands where it is lower.
        if let Err(less) = config.set_max_write(WRITE_BYTES_MAX) {
            let _ = config.set_max_write(less);
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let id = match name.to_str() {
            Some(DISK) => DISK_ID,
            Some(NOTES) => NOTES_ID,
            _ => return reply.error(Errno::ENOENT),
        };
        reply.entry(&LONG, &self.attributes(id), Generation(0));
    }

    fn getattr(&self, _: &Request, id: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&LONG, &self.attributes(id.0));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let disk = self.disk();
        let len = u64::from(size).min(disk.size.saturating_sub(offset));
        let mut bytes = vec![0; len as usize];
        disk.top.read(&disk.base, offset, &mut bytes);
        drop(disk);
        reply.data(&bytes);
    }

    fn write(
        &self,
        _: &Request,
        id: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let done = match id.0 {
            DISK_ID => self.disk().write(offset, data),
            _ => self.disk().hear(data),
        };
        match done {
            Ok(()) => reply.written(data.len() as u32),
            Err(errno) => reply.error(errno),
        }
    }

    fn fsync(&self, _: &Request, id: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(if id.0 == DISK_ID { self.disk().flush() } else { Ok(()) }, reply);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // A descriptor was closed: nothing of the device's.
        reply.ok();
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        // A discard punches a hole; writing zeros asks for a range of them.
        const PUNCH_HOLE: i32 = 2;
        const ZERO_RANGE: i32 = 16;
        if mode & (PUNCH_HOLE | ZERO_RANGE) == 0 {
            return reply.error(Errno::EOPNOTSUPP);
        }
        answer(self.disk().discard(offset, length), reply);
    }

    fn setattr(
        &self,
        _: &Request,
        id: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<fuser::TimeOrNow>,
        _: Option<fuser::TimeOrNow>,
        _: Option<std::time::SystemTime>,
        _: Option<FileHandle>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        // Opening for writing may truncate the notes' file, which has no length.
        reply.attr(&LONG, &self.attributes(id.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kill::wire::Kind;

    fn disk(rule: Rule) -> Disk {
        let mut disk = Disk { size: 1 << 20, ..Disk::default() };
        disk.record();
        disk.rule(Some(rule));
        disk
    }

    #[test]
    fn a_refused_write_has_no_effect_and_a_forgotten_one_says_otherwise() {
        for (trouble, said) in [(Trouble::Refuse, false), (Trouble::Forget, true)] {
            let mut disk = disk(Rule { on: On::Write, trouble, nth: 1, forever: false });
            let done: Vec<bool> = (1..=3).map(|n| disk.write(0, &[n; 8]).is_ok()).collect();
            assert_eq!(done, [true, said, true]);
            let written = disk.recorded().iter().filter(|entry| entry.is_change()).count();
            assert_eq!((written, disk.rule(None)), (2, 1));
        }
    }

    #[test]
    fn a_rule_for_ever_hits_all_that_follow_of_its_kind() {
        let rule = Rule { on: On::Flush, trouble: Trouble::Refuse, nth: 1, forever: true };
        let mut disk = disk(rule);
        let done: Vec<bool> = (0..4).map(|_| disk.flush().is_ok()).collect();
        assert_eq!(done, [true, false, false, false]);
        assert!(disk.write(0, &[1]).is_ok());
        assert_eq!(disk.rule(None), 3);
        assert!(disk.flush().is_ok(), "the device is healed");
    }

    #[test]
    fn notes_stand_in_the_log_between_writes_and_are_passed_on() {
        let (to, from) = std::sync::mpsc::channel();
        let mut disk = Disk { size: 1 << 20, ..Disk::default() };
        disk.record();
        disk.tell(Some(to));
        assert!(disk.write(0, &[1]).is_ok());
        let note = Note::step(Kind::Done, 1, 2);
        assert!(disk.hear(&note.encode()).is_ok());
        assert!(disk.hear(&[1, 2, 3]).is_err(), "no note");
        assert_eq!(disk.recorded()[1], Entry::Note(note.clone()));
        assert_eq!(from.try_recv(), Ok(note));
    }
}
