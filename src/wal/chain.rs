//! Decides which groups recovery shows, over all logs at once. Pure: no file is touched.
//!
//! The frames of all logs, by log number and offset, are evidence: each says which sequence comes
//! before it and which after it. Whatever lies between two neighbours (a torn frame, lost bytes, a
//! whole log that is gone) hides exactly the sequences between them. So a hole is judged by what
//! it hides, not by where it is:
//!
//! 1. It hides nothing, or only sequences that the tables hold: harmless, in whichever log. Logs
//!    whose writes were flushed need no sync, so a crash makes such holes every day.
//! 2. It hides a sequence that the tables lack: replay ends before it (O2, D3). All that follows is
//!    dropped, later logs included.
//! 3. Replay ended before a position that some intact frame, or the manifest, knows to be synced:
//!    that is damage, not a torn tail (C1). So is a log that must have been there and is not.
//!
//! Otherwise nobody can tell a torn tail from damage, and the report says so.
//!
//! Invariants
//! - The groups replayed have the sequences `flushed + 1 ..= last_seq`, each once (D3).
//! - Logs below the floor are not replayed, also where they come back after their unlink (D4).
//!   Nearly always they hold nothing above `flushed`, for recovery puts that past every sequence it
//!   saw; but a failed sync may have hidden from it what the device had.
//! - `seq_floor` is above no sequence that was never issued and below none of which a trace was
//!   found (C2).
//!
//! Rejected: comparing lengths with what the next log's header says of its predecessor. Sequences
//! decide; the lengths only tell how much is missing.

use super::frame::FrameKind;
use super::read::{Frame, LogScan};
use crate::base::key::{FileNumber, LogPosition, ManifestMark, SeqNo};
use crate::base::name::{FileKind, file_path};
use crate::error::{Error, Result};
use std::path::{Path, PathBuf};

/// What the manifest says of the logs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Start {
    /// Every surviving write at or below it is in tables.
    pub flushed: SeqNo,
    /// No log with a smaller number holds a write above `flushed`.
    pub log_floor: FileNumber,
    /// The synced-up-to position that the manifest knows.
    pub synced: LogPosition,
}

/// What is shown of the logs, and what is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// The groups to replay, in order: (index of the scan, index of the frame in it).
    pub frames: Vec<(usize, usize)>,
    /// Where the evidence that counts ends.
    pub end: LogPosition,
    /// The last sequence shown, in tables or here.
    pub last_seq: SeqNo,
    /// The largest sequence of which there is any trace: new ones start above it (C2).
    pub seq_floor: SeqNo,
    /// What was found beyond the end, if anything.
    pub dropped: Option<Dropped>,
}

/// Bytes beyond the end of the replay. They may be writes that were never acknowledged as durable,
/// torn by the crash, or damage within the last group that was: nobody can tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The first log with such bytes.
    pub file: PathBuf,
    /// Where in it they begin.
    pub offset: u64,
    /// How many bytes from there on were written, in this and later logs, as far as is known.
    pub bytes: u64,
    /// How many whole groups are among them.
    pub groups: u64,
    /// What is known of them: "undecidable".
    pub what: &'static str,
}

/// Where a frame stands towards the next sequence that is needed.
enum Verdict {
    /// All that it tells of is in tables already, or it tells of nothing.
    Passed,
    /// It is the group that comes next.
    Next,
    /// A needed sequence is missing before it, or is in it and torn.
    Missing,
}

/// Judges all logs of a database. `scans` are sorted by log number.
///
/// # Errors
/// `Corruption` where needed writes are missing that were known to be durable, where sequences are
/// out of order, or where a log contradicts the manifest.
pub fn judge(dir: &Path, scans: &[LogScan], start: &Start) -> Result<Replay> {
    assert!(scans.is_sorted_by(|a, b| a.number < b.number), "logs are judged in their order");
    assert!(start.flushed < SeqNo::MAX, "the manifest's reader refuses such a sequence");
    let mut next = start.flushed.next();
    let mut frames = Vec::new();
    let mut end = LogPosition::default();
    let mut missing_at = None;
    'evidence: for (log, scan) in scans.iter().enumerate() {
        for (index, frame) in scan.frames.iter().enumerate() {
            match judge_frame(scan, frame, start, next)? {
                Verdict::Passed => {}
                Verdict::Next => {
                    frames.push((log, index));
                    next = frame.last().next();
                }
                Verdict::Missing => {
                    missing_at = Some((log, index));
                    break 'evidence;
                }
            }
            end = LogPosition { log: scan.number, offset: frame.end };
        }
    }
    if let Some((log, index)) = missing_at {
        refuse_missing_log(scans, &scans[log], &scans[log].frames[index], next)?;
    }
    refuse_synced_beyond(dir, scans, start, end)?;
    let seen = scans.iter().map(|scan| scan.max_seq_seen).max().unwrap_or_default();
    let replay = Replay {
        frames,
        end,
        last_seq: SeqNo(next.0 - 1),
        seq_floor: seen.max(start.flushed),
        dropped: dropped(dir, scans, start, end, missing_at.is_some()),
    };
    assert!(start.flushed <= replay.last_seq && replay.last_seq <= replay.seq_floor);
    Ok(replay)
}

fn judge_frame(scan: &LogScan, frame: &Frame, start: &Start, next: SeqNo) -> Result<Verdict> {
    let bad = |what: String| Err(Error::corruption(&scan.file, frame.offset, what));
    // Below the floor nothing counts, whatever its sequence: a log whose failed sync left old bytes
    // in the page cache and new ones on the device shows writes after a power cut that the recovery
    // which gave up that log could not see, and its decision is final (D4).
    if frame.last() <= start.flushed || scan.number < start.log_floor {
        return Ok(Verdict::Passed);
    }
    if frame.first < next {
        return bad(format!(
            "sequences {}..={} where {} comes next",
            frame.first.0,
            frame.last().0,
            next.0
        ));
    }
    Ok(match (frame.first == next, frame.count, frame.intact) {
        (true, 0, _) => Verdict::Passed,
        (true, _, true) => Verdict::Next,
        _ => Verdict::Missing,
    })
}

/// Needed sequences are missing before `frame`. If it is the header of a log whose predecessor is
/// not there, they were in that log, or the manifest lost an edit: a log's name is durable before
/// its first group, and it is unlinked only after an edit that covers it is durable.
fn refuse_missing_log(scans: &[LogScan], scan: &LogScan, frame: &Frame, next: SeqNo) -> Result<()> {
    let Some(header) = scan.header.filter(|_| frame.kind == FrameKind::Header) else {
        return Ok(());
    };
    let before = header.predecessor.log;
    if scans.iter().any(|other| other.number == before) {
        return Ok(());
    }
    Err(Error::corruption(
        &scan.file,
        frame.offset,
        format!(
            "sequences {}..={} are in no table, and log {}, which this log follows, is missing",
            next.0,
            frame.first.0 - 1,
            before.0
        ),
    ))
}

fn refuse_synced_beyond(
    dir: &Path,
    scans: &[LogScan],
    start: &Start,
    end: LogPosition,
) -> Result<()> {
    let witness = scans.iter().max_by_key(|scan| scan.max_synced);
    let seen = witness.map(|scan| scan.max_synced).unwrap_or_default();
    let synced = seen.max(start.synced);
    // Positions in logs below the floor are of no account: what was there is in tables, and
    // recovery may have removed the log.
    if synced <= end || synced.log < start.log_floor {
        return Ok(());
    }
    let at =
        if end.log == FileNumber::default() { LogPosition { offset: 0, ..synced } } else { end };
    let by = match witness {
        Some(scan) if seen >= start.synced => scan.file.display().to_string(),
        _ => "the manifest".to_string(),
    };
    Err(Error::corruption(
        &file_path(dir, FileKind::Log, at.log),
        at.offset,
        format!(
            "the log ends here, but {by} knows it to be synced up to offset {} of log {}",
            synced.offset, synced.log.0
        ),
    ))
}

/// What lies beyond `end`. Logs below the floor are left out: nothing in them was needed.
fn dropped(
    dir: &Path,
    scans: &[LogScan],
    start: &Start,
    end: LogPosition,
    missing: bool,
) -> Option<Dropped> {
    let mut found: Option<Dropped> = None;
    for (i, scan) in scans.iter().enumerate() {
        if scan.number < end.log.max(start.log_floor) {
            continue;
        }
        let offset = if scan.number == end.log { end.offset } else { 0 };
        // The next log tells how long this one was, though its end may read as zeros now.
        let told = scans.get(i + 1).and_then(|next| next.header).map(|header| header.predecessor);
        let told = told.filter(|told| missing && told.log == scan.number).map_or(0, |t| t.offset);
        let bytes = scan.used.max(told).saturating_sub(offset);
        let group = |f: &&Frame| f.offset >= offset && f.intact && f.kind == FrameKind::Group;
        let groups = scan.frames.iter().filter(group).count() as u64;
        if bytes > 0 {
            let found = found.get_or_insert_with(|| Dropped {
                file: file_path(dir, FileKind::Log, scan.number),
                offset,
                bytes: 0,
                groups: 0,
                what: "undecidable",
            });
            // A header whose checksum is right may still tell any length of its predecessor.
            found.bytes = found.bytes.saturating_add(bytes);
            found.groups += groups;
        }
    }
    found
}

/// Checks that the manifest read is not older than what the logs know of it: its tail may look torn
/// or `CURRENT` may name a stale one (C1).
///
/// # Errors
/// `Corruption`.
pub fn check_manifest(dir: &Path, scans: &[LogScan], read: ManifestMark) -> Result<()> {
    for scan in scans {
        let Some(known) = scan.header.map(|header| header.manifest) else { continue };
        if known.number < read.number || known <= read {
            continue;
        }
        let what = format!(
            "manifest read up to frame {} of number {}, but {} knows frame {} of number {}",
            read.index,
            read.number.0,
            scan.file.display(),
            known.index,
            known.number.0
        );
        return Err(Error::corruption(&file_path(dir, FileKind::Manifest, read.number), 0, what));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
