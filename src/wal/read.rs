//! Finds every frame in the bytes of one log.
//!
//! Invariants
//! - A frame is reported only if its header's checksum is right for this database, log and offset;
//!   `intact` only if its payload's is, too. Foreign and stale bytes are never frames.
//! - The search goes on beyond an invalid place, to the end of the file: a hole is told from an end
//!   by what lies behind it.
//! - Any bytes are read in linear time without panic: the payload of a valid header is not
//!   searched, and runs of zeros are skipped by comparison with a block of zeros.
//!
//! It judges nothing: `chain` does.

use super::frame::{self, ALIGN, FrameKind, HEADER_BYTES, LogHeader, MAGIC, Place};
use crate::base::coding::used_len;
use crate::base::key::{DatabaseId, FileNumber, LogPosition, SeqNo};
use crate::error::{Error, Result};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// One frame of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it is.
    pub kind: FrameKind,
    /// Its first byte in the file.
    pub offset: u64,
    /// Where the next frame starts.
    pub end: u64,
    /// The group's first sequence; for a mark the one that comes next.
    pub first: SeqNo,
    /// How many sequences it has.
    pub count: u32,
    /// The synced-up-to position that it carries.
    pub synced: LogPosition,
    /// Its payload in the file; empty unless intact.
    pub payload: Range<usize>,
    /// Whether all of it is as it was written. Otherwise the header alone is.
    pub intact: bool,
}

impl Frame {
    /// The last sequence issued up to this frame, its own included.
    #[must_use]
    pub fn last(&self) -> SeqNo {
        SeqNo(self.first.0 + u64::from(self.count) - 1)
    }
}

/// What follows the first unbroken stretch of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// The file's end, or zeros to it.
    Clean,
    /// Something else.
    Torn(&'static str),
}

/// What the bytes of one log hold.
#[derive(Clone, Debug)]
pub struct LogScan {
    /// The log's path, for errors.
    pub file: PathBuf,
    /// Its number.
    pub number: FileNumber,
    /// What its first frame says, if that is intact.
    pub header: Option<LogHeader>,
    /// Every frame whose header is valid, by offset, beyond holes too.
    pub frames: Vec<Frame>,
    /// How many of them are intact and follow each other without a gap from the file's start.
    pub unbroken: usize,
    /// Where that unbroken stretch ends.
    pub end: u64,
    /// What follows there.
    pub tail: Tail,
    /// The file up to its last byte that is not zero.
    pub used: u64,
    /// The largest sequence that any valid header shows to have been issued (C2).
    pub max_seq_seen: SeqNo,
    /// The highest synced-up-to position in any intact frame (C1).
    pub max_synced: LogPosition,
}

impl LogScan {
    /// The intact frames before the first gap.
    #[must_use]
    pub fn unbroken(&self) -> &[Frame] {
        &self.frames[..self.unbroken]
    }
}

/// Reads `bytes`, the whole of log `number`.
///
/// # Errors
/// `UnsupportedFormat` or `Corruption` if a frame with right checksums has fields that this
/// version does not write; never for damage, which is reported as what is missing.
pub fn scan(file: &Path, bytes: &[u8], db: DatabaseId, number: FileNumber) -> Result<LogScan> {
    let mut scan = LogScan {
        file: file.to_path_buf(),
        number,
        header: None,
        frames: Vec::new(),
        unbroken: 0,
        end: 0,
        tail: Tail::Clean,
        used: 0,
        max_seq_seen: SeqNo::ZERO,
        max_synced: LogPosition::default(),
    };
    let mut at = 0;
    while at < bytes.len() {
        let place = Place { db, log: number, offset: at as u64 };
        let Some(parsed) = frame::parse(&bytes[at..], place) else {
            at = next_candidate(bytes, at + ALIGN as usize);
            continue;
        };
        let payload = parsed.payload(&bytes[at..]);
        let bad = |what| Error::corruption(file, place.offset, what);
        if let (0, Some(payload)) = (at, payload) {
            // Before its fields are judged: a newer version may mean something else by them.
            scan.header = Some(LogHeader::decode(file, payload, db, number)?);
        }
        let head = parsed.head(place.offset, payload.is_some()).map_err(bad)?;
        let frame_bytes = frame::frame_bytes(parsed.payload_len as usize);
        scan.push(Frame {
            kind: head.kind,
            offset: place.offset,
            end: place.offset + frame_bytes,
            first: head.first,
            count: head.count,
            synced: head.synced,
            payload: payload.map_or(0..0, |p| at + HEADER_BYTES..at + HEADER_BYTES + p.len()),
            intact: payload.is_some(),
        });
        // The frame was appended here once, so the next one began at its end: its payload, whole
        // or torn, holds no frame.
        at = usize::try_from(frame_bytes).map_or(bytes.len(), |n| at.saturating_add(n));
    }
    scan.used = (used_len(bytes) as u64).max(scan.end);
    scan.tail = match scan.frames.get(scan.unbroken) {
        _ if scan.used == scan.end => Tail::Clean,
        Some(frame) if frame.offset == scan.end => Tail::Torn("a frame whose payload is torn"),
        Some(_) => Tail::Torn("a hole before a later frame"),
        None => Tail::Torn("bytes that are no frame"),
    };
    Ok(scan)
}

impl LogScan {
    fn push(&mut self, frame: Frame) {
        self.max_seq_seen = self.max_seq_seen.max(frame.last());
        if frame.intact {
            self.max_synced = self.max_synced.max(frame.synced);
            if frame.offset == self.end && self.unbroken == self.frames.len() {
                self.unbroken += 1;
                self.end = frame.end;
            }
        }
        self.frames.push(frame);
    }
}

/// What runs of zeros are compared with.
const ZEROS: [u8; 4096] = [0; 4096];

/// The first multiple of 8 from `at` on where the magic stands at its place; the length if there is
/// none.
fn next_candidate(bytes: &[u8], mut at: usize) -> usize {
    let magic_at = |at: usize| at + 22;
    while magic_at(at) + 2 <= bytes.len() {
        if bytes[magic_at(at)..].starts_with(&ZEROS) {
            // No magic can begin in the block: the candidates whose magic would lie in it are out.
            at += ZEROS.len() - ALIGN as usize;
            continue;
        }
        // The next 64 candidates one by one, before zeros are looked for again.
        for _ in 0..64 {
            let found = bytes.get(magic_at(at)..magic_at(at) + 2);
            if found.is_none_or(|found| found == MAGIC.to_le_bytes()) {
                return if found.is_some() { at } else { bytes.len() };
            }
            at += ALIGN as usize;
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests;
