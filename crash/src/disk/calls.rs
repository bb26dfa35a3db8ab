//! The calls: what an engine asks of the disk, with the answers that Linux gives.
//!
//! Invariants
//! - A sync has two halves and covers what was changed before the first; with one call they follow
//!   each other at once.
//! - A call that answers an error of its own (`ENOENT`, `EBADF`) changes nothing.
//!
//! The frame of a call (its number, points, fault and line in the log) is in `frame`.

use super::errno::Errno;
use super::fault::{Fault, Op, Report};
use super::file::{FileNode, Pages};
use super::frame::{Disk, Fd, Frame, Handle, Lock, LockId, Ticket};
use super::record::{Moment, Violation};
use super::tree::{Ino, Node, Tree};
use std::io;
use std::path::Path;
use std::sync::{Arc, Weak};

/// Longest file: a guard of the rig's own memory.
const FILE_BYTES_MAX: u64 = 1 << 32;

impl Disk {
    // Calls by path.

    /// Creates a file that must not exist and opens it.
    pub fn create(&mut self, path: &Path) -> io::Result<Fd> {
        let mut made = None;
        let result = self.at_path(Op::Create, path, |disk, path| {
            let file = FileNode::new(Arc::default(), 0);
            let ino = disk.tree.create(path, Node::File(Arc::new(file)))?;
            let fd = disk.open_ino(ino, true, path)?;
            made = Some(fd);
            Ok(fd)
        });
        // An error although the effect landed: the name is there, the handle is nobody's.
        if let (Err(_), Some(fd)) = (&result, made) {
            self.close(fd);
        }
        result
    }

    /// Opens a file that exists.
    pub fn open(&mut self, path: &Path, write: bool) -> io::Result<Fd> {
        self.at_path(Op::Open, path, |disk, path| {
            let ino = disk.tree.lookup(path)?;
            disk.open_ino(ino, write, path)
        })
    }

    /// Gives up a handle; an unknown one is nobody's.
    pub fn close(&mut self, fd: Fd) {
        if self.handle(fd).is_ok() {
            self.handles[fd.slot as usize] = None;
            self.open_files -= 1;
        }
    }

    /// Makes `to` name what `from` names.
    pub fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.at_two(Op::Rename, from, to, Tree::rename)
    }

    /// Gives a file a second name.
    pub fn link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.at_two(Op::Link, from, to, Tree::link)
    }

    fn at_two(
        &mut self,
        op: Op,
        from: &Path,
        to: &Path,
        change: impl FnOnce(&mut Tree, &str, &str) -> Result<(), Errno>,
    ) -> io::Result<()> {
        let (from, to) = (from.to_str().ok_or(Errno::EINVAL)?, to.to_str().ok_or(Errno::EINVAL)?);
        let frame = self.enter(op, &Arc::from(format!("{from} -> {to}")), 0, 0)?;
        let result = change(&mut self.tree, from, to);
        self.leave(&frame, result)
    }

    /// Removes a name of a file.
    pub fn unlink(&mut self, path: &Path) -> io::Result<()> {
        self.at_path(Op::Unlink, path, |disk, path| disk.tree.unlink(path))
    }

    /// Creates a directory.
    pub fn mkdir(&mut self, path: &Path) -> io::Result<()> {
        self.at_path(Op::Mkdir, path, |disk, path| {
            disk.tree.create(path, Node::Dir(Arc::default())).map(|_| ())
        })
    }

    /// The names in a directory, in byte order.
    pub fn list(&mut self, path: &Path) -> io::Result<Vec<String>> {
        self.at_path(Op::List, path, |disk, path| {
            let dir = disk.tree.dir(disk.tree.lookup(path)?)?;
            let named = dir.names.iter().filter(|(_, values)| values.now().is_some());
            let names: Vec<String> = named.map(|(name, _)| name.to_string()).collect();
            disk.told = names.len() as u64;
            Ok(names)
        })
    }

    /// Whether something has this name.
    pub fn exists(&mut self, path: &Path) -> io::Result<bool> {
        self.at_path(Op::Exists, path, |disk, path| match disk.tree.lookup(path) {
            Ok(_) => Ok(true),
            Err(Errno::ENOENT) => Ok(false),
            Err(errno) => Err(errno),
        })
    }

    /// Takes the lock that a file stands for, creating the file if it is missing.
    pub fn lock(&mut self, path: &Path, exclusive: bool) -> io::Result<LockId> {
        self.at_path(Op::Lock, path, |disk, path| {
            let ino = match disk.tree.lookup(path) {
                Err(Errno::ENOENT) => {
                    let file = FileNode::new(Arc::default(), 0);
                    disk.tree.create(path, Node::File(Arc::new(file)))?
                }
                found => found?,
            };
            disk.tree.file(ino)?;
            let held = |lock: &Lock| lock.ino == ino && (exclusive || lock.exclusive);
            if disk.locks.iter().any(held) {
                return Err(Errno::EAGAIN);
            }
            let id = disk.calls;
            disk.locks.push(Lock { id, ino, exclusive });
            Ok(LockId(id))
        })
    }

    /// Gives up a lock; an unknown one is nobody's.
    pub fn unlock(&mut self, lock: LockId) {
        self.locks.retain(|l| l.id != lock.0);
    }

    // Calls on an open file.

    /// Writes a prefix of `bytes`.
    pub fn write_at(&mut self, fd: Fd, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let range = (offset, bytes.len() as u64);
        self.at_file(Op::Write, fd, range, |disk, handle, fault| {
            disk.check_write(Op::Write, &handle)?;
            let n = match fault {
                Some(Fault::Short) => bytes.len().div_ceil(2),
                Some(Fault::Half(_)) => bytes.len() / 2,
                _ => bytes.len(),
            };
            if offset.saturating_add(n as u64) > FILE_BYTES_MAX {
                return Err(Errno::EFBIG);
            }
            if n > 0 {
                let stamp = disk.tree.next_stamp();
                disk.tree.file_mut(handle.ino)?.write(stamp, offset, &bytes[..n]);
            }
            disk.told = n as u64;
            if let Some(Fault::Half(errno)) = fault { Err(errno) } else { Ok(n) }
        })
    }

    /// Reads up to `buf.len()` bytes.
    pub fn read_at(&mut self, fd: Fd, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let range = (offset, buf.len() as u64);
        self.at_file(Op::Read, fd, range, |disk, handle, fault| {
            let short = buf.len().div_ceil(2);
            let buf = if fault == Some(Fault::Short) { &mut buf[..short] } else { buf };
            let n = disk.tree.file(handle.ino)?.read(offset, buf);
            disk.told = n as u64;
            Ok(n)
        })
    }

    /// The first `len` bytes. While the answer or a copy of it lives, a change of the file is a
    /// violation.
    pub fn map(&mut self, fd: Fd, len: u64) -> io::Result<Arc<[u8]>> {
        self.at_file(Op::Map, fd, (0, len), |disk, handle, _| {
            let file = disk.tree.file(handle.ino)?;
            if file.len() < len {
                return Err(Errno::EOF);
            }
            let mut bytes = vec![0; len as usize];
            file.read(0, &mut bytes);
            let map: Arc<[u8]> = Arc::from(bytes);
            disk.maps.retain(|(_, map)| map.strong_count() > 0);
            disk.maps.push((handle.ino, Arc::downgrade(&map)));
            Ok(map)
        })
    }

    /// Sets the length; new bytes read as zero.
    pub fn set_len(&mut self, fd: Fd, len: u64) -> io::Result<()> {
        self.at_file(Op::SetLen, fd, (0, len), |disk, handle, _| {
            if !handle.write {
                return Err(Errno::EINVAL);
            }
            disk.check_write(Op::SetLen, &handle)?;
            if len > FILE_BYTES_MAX {
                return Err(Errno::EFBIG);
            }
            let stamp = disk.tree.next_stamp();
            disk.tree.file_mut(handle.ino)?.set_len(stamp, len);
            Ok(())
        })
    }

    /// Reserves space and makes the length at least `len`.
    pub fn preallocate(&mut self, fd: Fd, len: u64) -> io::Result<()> {
        self.at_file(Op::Preallocate, fd, (0, len), |disk, handle, _| {
            if len == 0 {
                return Err(Errno::EINVAL);
            }
            disk.check_write(Op::Preallocate, &handle)?;
            if len > FILE_BYTES_MAX {
                return Err(Errno::EFBIG);
            }
            let stamp = disk.tree.next_stamp();
            disk.tree.file_mut(handle.ino)?.grow(stamp, len, true);
            Ok(())
        })
    }

    /// The length now.
    pub fn len(&mut self, fd: Fd) -> io::Result<u64> {
        self.at_file(Op::Len, fd, (0, 0), |disk, handle, _| {
            disk.told = disk.tree.file(handle.ino)?.len();
            Ok(disk.told)
        })
    }

    fn check_write(&mut self, op: Op, handle: &Handle) -> Result<(), Errno> {
        if !handle.write {
            return Err(Errno::EBADF);
        }
        let live = |(ino, map): &(Ino, Weak<[u8]>)| *ino == handle.ino && map.strong_count() > 0;
        if self.maps.iter().any(live) {
            let (call, path) = (self.calls, handle.path.to_string());
            let what = "changes a file with a live map";
            self.violations.push(Violation { call, op, path, what });
        }
        Ok(())
    }

    // Syncs, in one step or in two.

    /// Begins a sync of a file: `all` of it, or its data and what reading them needs.
    pub fn sync_begin(&mut self, fd: Fd, all: bool) -> io::Result<Ticket> {
        let op = if all { Op::SyncAll } else { Op::SyncData };
        let handle = self.handle(fd)?.clone();
        let frame = self.enter(op, &handle.path, 0, 0)?;
        let errors = self.tree.file(handle.ino)?.errors;
        let each = matches!(frame.fault, Some(Fault::Sync(_, _, Report::EachHandle)));
        if let Some(Some(own)) = self.handles.get_mut(fd.slot as usize) {
            own.errors_heard = errors + u32::from(each);
        }
        let owed = handle.errors_heard < errors;
        Ok(frame.ticket(handle.ino, self.tree.stamp, owed))
    }

    /// Begins a sync of a directory.
    pub fn sync_dir_begin(&mut self, path: &Path) -> io::Result<Ticket> {
        let path: Arc<str> = Arc::from(path.to_str().ok_or(Errno::EINVAL)?);
        let frame = self.enter(Op::SyncDir, &path, 0, 0)?;
        match self.tree.lookup(&path).and_then(|ino| self.tree.dir(ino).map(|_| ino)) {
            Ok(ino) => Ok(frame.ticket(ino, self.tree.stamp, false)),
            Err(errno) => self.leave(&frame, Err(errno)),
        }
    }

    /// Ends a sync; what was changed since it began stays dirty.
    pub fn sync_end(&mut self, ticket: Ticket) -> io::Result<()> {
        if self.off {
            return Err(Errno::EIO.into());
        }
        let frame = Frame { op: ticket.op, index: ticket.index, fault: ticket.fault };
        self.point(&frame, Moment::Inside);
        let result = match ticket.op {
            Op::SyncDir => self.end_dir(&ticket),
            _ => self.end_file(&ticket),
        };
        self.leave(&frame, result)
    }

    fn end_file(&mut self, ticket: &Ticket) -> Result<(), Errno> {
        let Ok(file) = self.tree.file_mut(ticket.ino) else { return Ok(()) };
        let failed = match ticket.fault {
            Some(Fault::Lie) => return Ok(()),
            Some(Fault::Sync(errno, pages, report)) => Some((errno, pages, report)),
            Some(Fault::Error(errno)) => Some((errno, Pages::New, Report::Caller)),
            _ => None,
        };
        if let Some((errno, pages, report)) = failed {
            file.errors += u32::from(report == Report::EachHandle);
            file.fail_sync(ticket.upto, pages, ticket.index);
            self.evicting |= matches!(pages, Pages::NewFor(_));
            return Err(errno);
        }
        file.sync(ticket.upto, ticket.op == Op::SyncAll);
        if let Some(Fault::Slow(rounds)) = ticket.fault {
            self.clock.jump(u64::from(rounds) * 1_000_000);
        }
        if ticket.owed { Err(Errno::EIO) } else { Ok(()) }
    }

    fn end_dir(&mut self, ticket: &Ticket) -> Result<(), Errno> {
        if let Some(Fault::DirLie(errno)) = ticket.fault {
            self.tree.fail_dir(ticket.ino, ticket.upto)?;
            return Err(errno);
        }
        self.tree.sync_dir(ticket.ino, ticket.upto)?;
        let (handles, locks, maps) = (&self.handles, &self.locks, &self.maps);
        self.tree.reap(|ino| {
            handles.iter().flatten().any(|handle| handle.ino == ino)
                || locks.iter().any(|lock| lock.ino == ino)
                || maps.iter().any(|(of, map)| *of == ino && map.strong_count() > 0)
        });
        Ok(())
    }

    /// Makes bytes and the length as far as reading needs it durable.
    pub fn sync_data(&mut self, fd: Fd) -> io::Result<()> {
        let ticket = self.sync_begin(fd, false)?;
        self.sync_end(ticket)
    }

    /// Makes the whole file durable; not its name.
    pub fn sync_all(&mut self, fd: Fd) -> io::Result<()> {
        let ticket = self.sync_begin(fd, true)?;
        self.sync_end(ticket)
    }

    /// Makes the names in a directory durable.
    pub fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        let ticket = self.sync_dir_begin(path)?;
        self.sync_end(ticket)
    }
}
