//! The logs into one memtable.
//!
//! Invariants
//! - O2: an incomplete record ends the replay, in whichever log it lies; `wal::chain` decides.
//! - Frames at or below the flushed sequence are skipped; the first above it is the next one.
//! - A frame whose checksum holds but whose records do not parse is damage, never skipped.

use super::ground::Ground;
use crate::base::key::{FileNumber, SeqNo};
use crate::base::name::{FileKind, file_path, parse_file_name};
use crate::batch::Records;
use crate::env::Env;
use crate::env::fs::read_file;
use crate::env::probe::Stage;
use crate::env::sync::Arc;
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::version::Version;
use crate::wal::{self, Dropped, Start};
use std::path::Path;

/// The longest log that is read: what the largest options and one largest batch can make.
const LOG_BYTES_MAX: u64 = 6 << 30;

/// What the logs show.
pub(super) struct Replayed {
    pub(super) memtable: Arc<Memtable>,
    /// The last sequence shown, flushed ones included.
    pub(super) last: SeqNo,
    /// Above or at every sequence found anywhere, dropped ones included.
    pub(super) floor: SeqNo,
    pub(super) records: u64,
    pub(super) logs: u64,
    pub(super) dropped: Option<Dropped>,
}

pub(super) fn replay(env: &Env, dir: &Path, ground: &Ground) -> Result<Replayed> {
    env.stage(Stage::RecoverLogs);
    let mut logs = Vec::new();
    for number in log_numbers(&ground.names) {
        let path = file_path(dir, FileKind::Log, number);
        let bytes = read_file(&*env.fs, &path, LOG_BYTES_MAX)
            .map_err(|e| Error::io(&path, "read log", e))?;
        logs.push((path, number, bytes));
    }
    let scans: Vec<_> = logs
        .iter()
        .map(|(path, number, bytes)| wal::scan(path, bytes, ground.db, *number))
        .collect::<Result<_>>()?;
    let flushed = ground.version.flushed_seq;
    let Version { log_floor, synced, .. } = ground.version;
    wal::check_manifest(dir, &scans, ground.mark)?;
    // O2: the judge ends the replay at the first thing missing, or finds damage.
    let judged = wal::judge(dir, &scans, &Start { flushed, log_floor, synced })?;
    let payloads = || judged.frames.iter().map(|&(log, frame)| (log, &scans[log].frames[frame]));
    let (mut entries, mut bytes) = (0, 0);
    for (_, frame) in payloads() {
        entries += frame.count as usize;
        bytes += frame.payload.len();
    }
    let (mut writer, memtable) = Memtable::with_room(Memtable::room_for(entries, bytes));
    let mut next = flushed.next();
    for (log, frame) in payloads() {
        let (path, _, bytes) = &logs[log];
        assert_eq!(frame.first, next, "the judge hands out frames without a gap (D3, O1)");
        for record in Records::new(&bytes[frame.payload.clone()]) {
            let record = record.map_err(|what| Error::corruption(path, frame.offset, what))?;
            if next > frame.last() {
                break;
            }
            writer.insert(record.key, next, record.kind, record.value);
            next = next.next();
        }
        if next != frame.last().next() {
            let what = format!("{} records, as the frame's header says", frame.count);
            return Err(Error::corruption(path, frame.offset, what));
        }
    }
    Ok(Replayed {
        memtable,
        last: SeqNo(next.0 - 1),
        floor: judged.seq_floor.max(flushed),
        records: entries as u64,
        logs: logs.len() as u64,
        dropped: judged.dropped,
    })
}

/// The numbers of the logs among `names`, ascending.
fn log_numbers(names: &[String]) -> Vec<FileNumber> {
    let mut numbers: Vec<_> = names
        .iter()
        .filter_map(|name| parse_file_name(name))
        .filter_map(|(kind, number)| (kind == FileKind::Log).then_some(number))
        .collect();
    numbers.sort_unstable();
    numbers
}
