//! Appends frames to one log.
//!
//! Invariants
//! - W1: a group's first sequence is the one that comes next; nothing else is accepted.
//! - One append is one write of header, payload and padding, at the end of what was appended.
//! - A log in which an append failed takes no more frames: what reached the file is unknown.
//! - Preallocation sets the size; where the file system can't, the log grows with each append.
//!
//! It neither syncs by itself nor poisons: the path that owns it does, and it knows what a failed
//! sync means (P1).

use super::frame::{self, FrameHead, FrameKind, LogHeader, Place};
use crate::base::key::{DatabaseId, FileNumber, LogPosition, ManifestMark, SeqNo};
use crate::base::name::{FileKind, file_path};
use crate::env::fs::{File, Fs, write_all_at};
use crate::env::sync::Arc;
use crate::error::{Error, Result};
use std::io;
use std::path::Path;

/// The buffer kept between appends; a larger group's buffer is given back.
const BUFFER_BYTES_KEPT_MAX: usize = 1 << 20;

/// What the first frame of a log says, known only when the log takes over.
#[derive(Clone, Copy, Debug)]
pub struct LogStart {
    /// The log before it and that one's final length; the default for the first log after a
    /// recovery or a creation.
    pub predecessor: LogPosition,
    /// The synced-up-to position.
    pub synced: LogPosition,
    /// A manifest frame that is synced, of a manifest that is durably current. A log must not
    /// start before its manifest is: recovery takes a log that knows a newer manifest than
    /// `CURRENT` does for damage.
    pub manifest: ManifestMark,
    /// The sequence that its first group will begin with.
    pub next_seq: SeqNo,
}

/// A log that exists, preallocated and empty, so that a rotation need not wait for it.
pub struct PreparedLog {
    file: Arc<dyn File>,
    number: FileNumber,
    db: DatabaseId,
}

/// A log that takes frames.
pub struct LogWriter {
    file: Arc<dyn File>,
    number: FileNumber,
    db: DatabaseId,
    offset: u64,
    next_seq: SeqNo,
    failed: bool,
    buffer: Vec<u8>,
}

impl PreparedLog {
    /// Creates log `number` in `dir` and reserves space for it. Nothing is durable: the caller
    /// syncs the log and then the directory before the first group is appended, so that a log
    /// which ever held a write has a name that a crash can't take.
    ///
    /// # Errors
    /// `Io`. The file may be there then; its number must not be used again.
    pub fn create(
        fs: &dyn Fs,
        dir: &Path,
        number: FileNumber,
        db: DatabaseId,
        preallocate_bytes: u64,
    ) -> Result<Self> {
        let path = file_path(dir, FileKind::Log, number);
        let file = fs.create(&path).map_err(|e| Error::io(&path, "create log", e))?;
        if preallocate_bytes > 0
            && let Err(e) = file.preallocate(preallocate_bytes)
            && e.kind() != io::ErrorKind::Unsupported
        {
            // Nothing is in it, and a full disk needs what it may have taken. Should it stay, it
            // is an unused log, which the next open removes.
            let _ = fs.unlink(&path);
            return Err(Error::io(&path, "preallocate log", e));
        }
        Ok(Self { file, number, db })
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> FileNumber {
        self.number
    }

    /// Makes its size durable (the bytes are zero or stale until they are written).
    ///
    /// # Errors
    /// `Io`.
    pub fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|e| Error::io(self.file.path(), "sync log", e))
    }

    /// Writes the first frame.
    ///
    /// # Errors
    /// `Io`.
    pub fn start(self, start: &LogStart) -> Result<LogWriter> {
        let payload = LogHeader { predecessor: start.predecessor, manifest: start.manifest }
            .encode(self.db, self.number);
        let mut writer = LogWriter {
            file: self.file,
            number: self.number,
            db: self.db,
            offset: 0,
            next_seq: start.next_seq,
            failed: false,
            buffer: Vec::new(),
        };
        writer.write(FrameKind::Header, 0, &[&payload], start.synced)?;
        Ok(writer)
    }
}

impl LogWriter {
    /// [`PreparedLog::create`] and [`PreparedLog::start`] in one.
    ///
    /// # Errors
    /// `Io`.
    pub fn create(
        fs: &dyn Fs,
        dir: &Path,
        number: FileNumber,
        db: DatabaseId,
        start: &LogStart,
        preallocate_bytes: u64,
    ) -> Result<Self> {
        PreparedLog::create(fs, dir, number, db, preallocate_bytes)?.start(start)
    }

    /// Appends one group: `count` records from sequence `first` on, encoded in `payload`.
    ///
    /// # Errors
    /// `Io`; any part of the frame may be in the file then, and the log takes no more.
    pub fn append(
        &mut self,
        first: SeqNo,
        count: u32,
        payload: &[u8],
        synced: LogPosition,
    ) -> Result<()> {
        self.append_parts(first, count, &[payload], synced)
    }

    /// As [`LogWriter::append`], of a payload in parts: the batches of a group.
    ///
    /// # Errors
    /// As [`LogWriter::append`].
    pub fn append_parts(
        &mut self,
        first: SeqNo,
        count: u32,
        parts: &[&[u8]],
        synced: LogPosition,
    ) -> Result<()> {
        assert_eq!(first, self.next_seq, "W1: log order is sequence order, without a hole");
        assert!(count > 0, "a group has records");
        self.write(FrameKind::Group, count, parts, synced)
    }

    /// Appends a frame that only carries the synced position: `Watermark` or `Close`.
    ///
    /// # Errors
    /// As [`LogWriter::append`].
    pub fn mark(&mut self, kind: FrameKind, synced: LogPosition) -> Result<()> {
        assert!(matches!(kind, FrameKind::Watermark | FrameKind::Close));
        self.write(kind, 0, &[], synced)
    }

    fn write(
        &mut self,
        kind: FrameKind,
        count: u32,
        parts: &[&[u8]],
        synced: LogPosition,
    ) -> Result<()> {
        assert!(!self.failed, "P1: nothing is appended to a log after an append failed");
        assert!(synced <= self.position(), "C1: nothing is known synced that was not appended");
        self.buffer.clear();
        let place = Place { db: self.db, log: self.number, offset: self.offset };
        let head = FrameHead { kind, first: self.next_seq, count, synced };
        frame::encode(&mut self.buffer, place, &head, parts);
        if let Err(e) = write_all_at(&*self.file, self.offset, &self.buffer) {
            self.failed = true;
            return Err(Error::io(self.file.path(), "append to log", e));
        }
        self.offset += self.buffer.len() as u64;
        self.next_seq = self.next_seq.plus(u64::from(count));
        if self.buffer.capacity() > BUFFER_BYTES_KEPT_MAX {
            self.buffer = Vec::new();
        }
        Ok(())
    }

    /// Makes every frame durable that was appended before this call. Before it, take
    /// [`LogWriter::position`]: that is what is synced afterwards, whatever is appended meanwhile.
    ///
    /// # Errors
    /// `Io`. No retry proves anything (P1).
    pub fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|e| Error::io(self.file.path(), "sync log", e))
    }

    /// The end of what was appended.
    #[must_use]
    pub fn position(&self) -> LogPosition {
        LogPosition { log: self.number, offset: self.offset }
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> FileNumber {
        self.number
    }

    /// The last sequence appended, here or in an older log.
    #[must_use]
    pub fn last_seq(&self) -> SeqNo {
        SeqNo(self.next_seq.0 - 1)
    }

    /// Its path, for errors.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The file, for a sync by someone who does not hold the writer.
    #[must_use]
    pub fn file(&self) -> &Arc<dyn File> {
        &self.file
    }
}

#[cfg(test)]
mod tests;
