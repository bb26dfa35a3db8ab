//! The disk itself: what a rig sets and asks, and the frame of every call.
//!
//! Invariants
//! - Every call goes through `enter` and `leave`: counted, logged, told to the observer before its
//!   effect and before its return, and asked of the fault plan once.
//! - A handle or a lock of another life of the process answers `EBADF`.
//!
//! The calls are in `calls`; what a change means is told in `file` and `tree`; what survives, in
//! `snapshot`.

use super::clock::SimClock;
use super::errno::Errno;
use super::fault::{Fault, FaultPlan, Op};
use super::file::{Content, FileNode, Stamp};
use super::record::{Call, Injected, Moment, Point, Violation};
use super::snapshot::Snapshot;
use super::tree::{Ino, Node, Tree};
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::{Arc, Weak};

/// An open file of one life of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fd {
    pub(super) slot: u32,
    life: u32,
}

/// A held lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockId(pub(super) u64);

/// A sync that began and has not ended.
#[derive(Debug)]
pub struct Ticket {
    pub(super) ino: Ino,
    pub(super) upto: Stamp,
    pub(super) op: Op,
    pub(super) fault: Option<Fault>,
    pub(super) index: u64,
    /// An earlier failed sync that this handle has not heard of.
    pub(super) owed: bool,
}

impl Ticket {
    /// How many scheduling rounds the sync takes.
    #[must_use]
    pub fn rounds(&self) -> u32 {
        if let Some(Fault::Slow(rounds)) = self.fault { rounds } else { 0 }
    }
}

/// Hears of every point. It sees the disk in the middle of a call and must call nothing.
pub type Observer = Box<dyn FnMut(&Point, &Disk) + Send>;

#[derive(Clone, Debug)]
pub(super) struct Handle {
    pub(super) ino: Ino,
    pub(super) write: bool,
    pub(super) path: Arc<str>,
    pub(super) errors_heard: u32,
}

pub(super) struct Lock {
    pub(super) id: u64,
    pub(super) ino: Ino,
    pub(super) exclusive: bool,
}

const INJECTED_MAX: usize = 4096;

/// A simulated disk. See the module for what it may do.
pub struct Disk {
    pub(super) tree: Tree,
    pub(super) handles: Vec<Option<Handle>>,
    pub(super) open_files: usize,
    open_files_peak: usize,
    life: u32,
    pub(super) locks: Vec<Lock>,
    pub(super) maps: Vec<(Ino, Weak<[u8]>)>,
    pub(super) calls: u64,
    stage: u8,
    pub(super) told: u64,
    log: VecDeque<Call>,
    log_max: usize,
    injected: Vec<Injected>,
    pub(super) violations: Vec<Violation>,
    observer: Option<Observer>,
    pub(super) evicting: bool,
    pub(super) off: bool,
    /// What goes wrong.
    pub plan: FaultPlan,
    /// The disk's own time.
    pub clock: SimClock,
}

impl Default for Disk {
    fn default() -> Self {
        Self::new()
    }
}

impl Disk {
    /// An empty disk: one directory, `/`, which bare names are in too.
    #[must_use]
    pub fn new() -> Self {
        Self::with_tree(Tree::new())
    }

    pub(super) fn with_tree(tree: Tree) -> Self {
        Self {
            tree,
            handles: Vec::new(),
            open_files: 0,
            open_files_peak: 0,
            life: 0,
            locks: Vec::new(),
            maps: Vec::new(),
            calls: 0,
            stage: 0,
            told: 0,
            log: VecDeque::new(),
            log_max: 64,
            injected: Vec::new(),
            violations: Vec::new(),
            observer: None,
            evicting: false,
            off: false,
            plan: FaultPlan::default(),
            clock: SimClock::new(),
        }
    }

    // What a rig sets and asks.

    /// Tags the calls from now on.
    pub fn set_stage(&mut self, stage: u8) {
        self.stage = stage;
    }

    /// The stage that was set last.
    #[must_use]
    pub fn stage(&self) -> u8 {
        self.stage
    }

    /// Who hears of points from now on.
    pub fn set_observer(&mut self, observer: Option<Observer>) {
        self.observer = observer;
    }

    /// Switches the power off (every call answers `EIO` and does nothing) or on.
    pub fn set_off(&mut self, off: bool) {
        self.off = off;
    }

    /// How many calls the log keeps.
    pub fn set_log_max(&mut self, log_max: usize) {
        self.log_max = log_max;
    }

    /// Calls so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// The last calls, oldest first.
    pub fn log(&self) -> impl Iterator<Item = &Call> {
        self.log.iter()
    }

    /// The faults injected so far (at most some thousands are kept).
    #[must_use]
    pub fn injected(&self) -> &[Injected] {
        &self.injected
    }

    /// What the engine did that no engine may do.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Files open now.
    #[must_use]
    pub fn open_files(&self) -> usize {
        self.open_files
    }

    /// The most files that were open at one time.
    #[must_use]
    pub fn open_files_peak(&self) -> usize {
        self.open_files_peak
    }

    /// All that the disk and the page cache hold now. Costs a count per file and directory.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.tree.clone(), self.calls)
    }

    /// A hash of every name, length and byte that can be read now.
    #[must_use]
    pub fn content_hash(&self) -> u64 {
        self.tree.hash()
    }

    /// The process dies and another begins: handles, locks and maps are gone, the page cache
    /// stays (class K).
    pub fn restart(&mut self) {
        self.handles.clear();
        self.locks.clear();
        self.maps.clear();
        self.open_files = 0;
        self.life += 1;
        self.tree.restart();
    }

    /// Counts on from another life's calls, so that pages are evicted when they were to be.
    pub(super) fn go_on(&mut self, calls: u64) {
        self.calls = calls;
        self.evicting = true;
    }

    // The frame of every call.

    pub(super) fn enter(
        &mut self,
        op: Op,
        path: &Arc<str>,
        offset: u64,
        len: u64,
    ) -> io::Result<Frame> {
        if self.off {
            return Err(Errno::EIO.into());
        }
        self.calls += 1;
        self.told = 0;
        let index = self.calls;
        self.clock.tick();
        if self.evicting {
            self.evicting = self.tree.evict(index);
        }
        let fault = self.plan.decide(op, self.stage, path);
        if let Some(fault) = fault
            && self.injected.len() < INJECTED_MAX
        {
            let path = path.clone();
            self.injected.push(Injected { call: index, stage: self.stage, op, path, fault });
        }
        if self.log.len() >= self.log_max {
            self.log.pop_front();
        }
        let (stage, path) = (self.stage, path.clone());
        self.log.push_back(Call { index, stage, op, path, offset, len, result: None, fault });
        let frame = Frame { op, index, fault };
        self.point(&frame, Moment::Before);
        match fault {
            Some(Fault::Error(errno)) if !matches!(op, Op::SyncData | Op::SyncAll) => {
                self.leave(&frame, Err(errno))
            }
            _ => Ok(frame),
        }
    }

    pub(super) fn leave<T>(&mut self, frame: &Frame, result: Result<T, Errno>) -> io::Result<T> {
        let result = match (result, frame.fault) {
            (Ok(_), Some(Fault::Landed(errno))) => Err(errno),
            (result, _) => result,
        };
        let told = result.as_ref().map(|_| self.told).map_err(|&errno| errno);
        let line = self.log.iter_mut().rev().find(|call| call.index == frame.index);
        if let Some(line) = line {
            line.result = Some(told);
        }
        self.point(frame, Moment::Return);
        result.map_err(io::Error::from)
    }

    pub(super) fn point(&mut self, frame: &Frame, moment: Moment) {
        if let Some(mut observer) = self.observer.take() {
            let &Frame { op, index: call, fault } = frame;
            observer(&Point { call, op, moment, stage: self.stage, fault }, self);
            self.observer = Some(observer);
        }
    }

    pub(super) fn at_path<T>(
        &mut self,
        op: Op,
        path: &Path,
        body: impl FnOnce(&mut Self, &str) -> Result<T, Errno>,
    ) -> io::Result<T> {
        let path: Arc<str> = Arc::from(path.to_str().ok_or(Errno::EINVAL)?);
        let frame = self.enter(op, &path, 0, 0)?;
        let result = body(self, &path);
        self.leave(&frame, result)
    }

    pub(super) fn at_file<T>(
        &mut self,
        op: Op,
        fd: Fd,
        (offset, len): (u64, u64),
        body: impl FnOnce(&mut Self, Handle, Option<Fault>) -> Result<T, Errno>,
    ) -> io::Result<T> {
        let handle = self.handle(fd)?.clone();
        let frame = self.enter(op, &handle.path, offset, len)?;
        let result = body(self, handle, frame.fault);
        if op == Op::Write {
            self.point(&frame, Moment::Inside);
        }
        self.leave(&frame, result)
    }

    pub(super) fn handle(&self, fd: Fd) -> Result<&Handle, Errno> {
        if fd.life != self.life {
            return Err(Errno::EBADF);
        }
        self.handles.get(fd.slot as usize).and_then(Option::as_ref).ok_or(Errno::EBADF)
    }

    pub(super) fn open_ino(&mut self, ino: Ino, write: bool, path: &str) -> Result<Fd, Errno> {
        let errors_heard = self.tree.file(ino)?.errors;
        let handle = Handle { ino, write, path: Arc::from(path), errors_heard };
        let free = self.handles.iter().position(Option::is_none);
        let slot = free.unwrap_or(self.handles.len());
        if slot == self.handles.len() {
            self.handles.push(None);
        }
        self.handles[slot] = Some(handle);
        self.open_files += 1;
        self.open_files_peak = self.open_files_peak.max(self.open_files);
        Ok(Fd { slot: slot as u32, life: self.life })
    }

    // Shortcuts of a rig: no call, no fault, durable at once.

    /// Puts a durable file there, with the directories that it needs.
    pub fn put_file(&mut self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let content = Arc::new(Content::new(bytes.to_vec()));
        let file = Node::File(Arc::new(FileNode::new(content, bytes.len() as u64)));
        self.tree.put(path, file).map_err(io::Error::from)
    }

    /// The bytes of a file as reads see them.
    pub fn get_file(&self, path: &str) -> io::Result<Vec<u8>> {
        let file = self.tree.file(self.tree.lookup(path)?)?;
        let mut bytes = vec![0; file.len() as usize];
        file.read(0, &mut bytes);
        Ok(bytes)
    }

    /// Paths of all directories but the root.
    #[must_use]
    pub fn dirs(&self) -> Vec<String> {
        let mut dirs = Vec::new();
        self.tree.walk(&mut |path, node| {
            if let Node::Dir(_) = node {
                dirs.push(path.to_owned());
            }
        });
        dirs
    }

    /// Whether a failed sync has left pages that memory drops later.
    #[must_use]
    pub fn evicts(&self) -> bool {
        self.tree.evicts()
    }

    /// Paths and lengths of all files, in the order of the names.
    #[must_use]
    pub fn files(&self) -> Vec<(String, u64)> {
        let mut files = Vec::new();
        self.tree.walk(&mut |path, node| {
            if let Node::File(file) = node {
                files.push((path.to_owned(), file.len()));
            }
        });
        files
    }
}

/// A call under way.
pub(super) struct Frame {
    pub(super) op: Op,
    pub(super) index: u64,
    pub(super) fault: Option<Fault>,
}

impl Frame {
    pub(super) fn ticket(self, ino: Ino, upto: Stamp, owed: bool) -> Ticket {
        Ticket { ino, upto, op: self.op, fault: self.fault, index: self.index, owed }
    }
}
