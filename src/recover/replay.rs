//! The logs into memtables.
//!
//! Invariants
//! - O2: an incomplete record ends the replay, in whichever log it lies; `wal::chain` decides.
//! - Frames at or below the flushed sequence are skipped; the first above it is the next one.
//! - A frame whose checksum holds but whose records do not parse is damage, never skipped.

use super::ground::Ground;
use crate::base::key::{FileNumber, SeqNo};
use crate::base::name::{FileKind, file_path, parse_file_name};
use crate::batch::Records;
use crate::engine::view::Frozen;
use crate::env::Env;
use crate::env::fs::read_file;
use crate::env::probe::Stage;
use crate::error::{Error, Result};
use crate::memtable::{ARENA_BYTES_MAX, Memtable};
use crate::version::Version;
use crate::wal::{self, Dropped, Frame, Start};
use std::path::Path;

/// The longest log that is read: what the largest options and one largest batch can make.
const LOG_BYTES_MAX: u64 = 6 << 30;

/// Arena bytes at which a replay goes on in a next memtable.
const CHUNK_BYTES_MAX: usize = 256 << 20;

/// The shortest record: a removal of the empty key.
const RECORD_BYTES_MIN: usize = 3;

/// What the logs show.
pub(super) struct Replayed {
    /// Oldest first; one unless the logs hold very much.
    pub(super) memtables: Vec<Frozen>,
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
    let mut replay = Replay { next: flushed.next(), memtables: Vec::new(), records: 0 };
    let mut chunk = Chunk::default();
    for &(log, index) in &judged.frames {
        let frame = &scans[log].frames[index];
        let (path, _, bytes) = &logs[log];
        let item = Item { path, frame, records: &bytes[frame.payload.clone()] };
        item.check()?;
        if !chunk.items.is_empty() && chunk.arena_bytes_with(&item) > CHUNK_BYTES_MAX {
            replay.add(&std::mem::take(&mut chunk))?;
        }
        chunk.push(item);
    }
    if !chunk.items.is_empty() {
        replay.add(&chunk)?;
    }
    Ok(Replayed {
        memtables: replay.memtables,
        last: SeqNo(replay.next.0 - 1),
        floor: judged.seq_floor.max(flushed),
        records: replay.records,
        logs: logs.len() as u64,
        dropped: judged.dropped,
    })
}

/// One group to replay.
struct Item<'a> {
    path: &'a Path,
    frame: &'a Frame,
    records: &'a [u8],
}

impl Item<'_> {
    fn corruption(&self, what: impl Into<String>) -> Error {
        Error::corruption(self.path, self.frame.offset, what)
    }

    /// Refuses a group that no writer can have made, before memory is asked for.
    fn check(&self) -> Result<()> {
        let (entries, bytes) = (self.frame.count as usize, self.records.len());
        if entries > bytes / RECORD_BYTES_MIN
            || Memtable::room_for(entries, bytes) > ARENA_BYTES_MAX
        {
            return Err(self.corruption(format!("{entries} records in {bytes} bytes")));
        }
        Ok(())
    }
}

/// Groups that go into one memtable.
#[derive(Default)]
struct Chunk<'a> {
    items: Vec<Item<'a>>,
    entries: usize,
    bytes: usize,
}

impl<'a> Chunk<'a> {
    fn arena_bytes_with(&self, item: &Item<'_>) -> usize {
        let entries = self.entries + item.frame.count as usize;
        Memtable::room_for(entries, self.bytes + item.records.len())
    }

    fn push(&mut self, item: Item<'a>) {
        self.entries += item.frame.count as usize;
        self.bytes += item.records.len();
        self.items.push(item);
    }
}

/// What was replayed so far.
struct Replay {
    next: SeqNo,
    memtables: Vec<Frozen>,
    records: u64,
}

impl Replay {
    fn add(&mut self, chunk: &Chunk<'_>) -> Result<()> {
        let (mut writer, memtable) = Memtable::with_room_for(chunk.entries, chunk.bytes);
        for item in &chunk.items {
            assert_eq!(item.frame.first, self.next, "the judge leaves no gap (D3, O1)");
            let (mut records, last) = (Records::new(item.records), item.frame.last());
            while self.next <= last {
                let record = records.next().unwrap_or(Err("as many records as the header says"));
                let record = record.map_err(|what| item.corruption(what))?;
                writer.insert(record.key, self.next, record.kind, record.value);
                self.next = self.next.next();
            }
            if records.next().is_some() {
                return Err(item.corruption("no more records than the header says"));
            }
        }
        self.records += chunk.entries as u64;
        self.memtables.push(Frozen { memtable, last: SeqNo(self.next.0 - 1) });
        Ok(())
    }
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
