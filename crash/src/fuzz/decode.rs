//! Logs, manifests and batches from any bytes.
//!
//! - C1: a reader gives an answer or a typed error, and what it gives is not larger than what it
//!   was given.
//! - D3: what the judge hands out for replay has no gap.
//! - A1: what a batch encodes, it decodes.

use super::{Input, Mutated, env, mutate, typed, up_to, world};
use crate::adapter::SimFs;
use arbitrary::Unstructured;
use kiban::env::Env;
use kiban::env::probe::Probe;
use kiban::env::sync::{Arc, Mutex};
use kiban::rig::base::checksum::{Context, checksum};
use kiban::rig::base::key::{
    DatabaseId, FileNumber, Kind, LogPosition, ManifestMark, SeqNo, TableId,
};
use kiban::rig::version::{Edit, ManifestWriter, TableMeta, Version, flush_edit, read_manifest};
use kiban::rig::wal::{self, FrameKind, LogScan, LogStart, LogWriter, Start};
use kiban::rig::{Records, TableSummary, count_records};
use kiban::{Kiban, KibanOptions, WriteBatch};
use std::path::{Path, PathBuf};

/// The identity of every database made here; `fuzz/dict` and the raw seeds have it too.
pub const DB: DatabaseId = DatabaseId(0x6b69_6261_6e00_0000_0000_0000_0000_0001);
const LOG_HEADER_BYTES: usize = 48;
const MANIFEST_HEADER_BYTES: usize = 24;

fn dir() -> &'static Path {
    Path::new("/db")
}

fn path(name: &str) -> PathBuf {
    dir().join(name)
}

// Logs.

/// Reads up to three logs and judges them.
pub fn wal_reader(data: &[u8]) {
    match Input::new(data) {
        Input::Raw(bytes) => {
            let mut logs = vec![(FileNumber(1), bytes.to_vec())];
            let half = bytes.len() / 16 * 8;
            logs.push((FileNumber(2), bytes[half..].to_vec()));
            judge(&logs, Start::default());
        }
        Input::Made(mut u) => {
            let (mut logs, last) = make_logs(&mut u);
            let mut mutated = Mutated::No;
            for (number, bytes) in &mut logs {
                let number = *number;
                match mutate(&mut u, bytes, |bytes| seal_log(bytes, number)) {
                    Mutated::No => {}
                    other if mutated != Mutated::Sealed => mutated = other,
                    _ => {}
                }
            }
            let shown = judge(&logs, Start::default());
            if mutated == Mutated::No {
                assert_eq!(shown, Some(last), "whole logs come back whole");
            } else if mutated == Mutated::Damaged {
                assert!(shown.is_none_or(|shown| shown <= last), "D3: no invention");
            }
        }
    }
}

/// Whole logs of a chain, and the last sequence in them.
fn make_logs(u: &mut Unstructured<'_>) -> (Vec<(FileNumber, Vec<u8>)>, SeqNo) {
    let (fs, env) = world(1);
    let mut logs = Vec::new();
    let (mut next, mut predecessor) = (SeqNo(1), LogPosition::default());
    for number in (1..=1 + up_to(u, 2)).map(FileNumber) {
        let synced = if up_to(u, 1) == 0 { predecessor } else { LogPosition::default() };
        let manifest = ManifestMark::default();
        let start = LogStart { predecessor, synced, manifest, next_seq: next };
        let preallocate = 64 * up_to(u, 4);
        let log = LogWriter::create(&*env.fs, dir(), number, DB, &start, preallocate);
        let mut log = log.expect("an empty disk has room");
        for _ in 0..up_to(u, 4) {
            let records = records(u);
            let count = count_records(&records).expect("records of our own");
            let known = if up_to(u, 1) == 0 { synced } else { log.position() };
            if count > 0 {
                log.append(next, count, &records, known).expect("an empty disk has room");
                next = next.plus(count.into());
            } else {
                log.mark(FrameKind::Watermark, known).expect("an empty disk has room");
            }
        }
        predecessor = log.position();
        let name = format!("/db/{:06}.log", number.0);
        logs.push((number, fs.with(|disk| disk.get_file(&name)).expect("just written")));
    }
    (logs, SeqNo(next.0 - 1))
}

/// Records in the encoding of the log.
pub(super) fn records(u: &mut Unstructured<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..up_to(u, 3) {
        let (key, value) = (up_to(u, 20), up_to(u, 40));
        let put = up_to(u, 3) > 0;
        bytes.extend([if put { Kind::Put } else { Kind::Delete } as u8, 0, key as u8]);
        bytes.extend((0..key).map(|i| b'a' + i as u8));
        if put {
            bytes.push(value as u8);
            bytes.resize(bytes.len() + value as usize, b'v');
        }
    }
    bytes
}

/// Makes the checksums of whatever looks like a frame right.
pub(super) fn seal_log(bytes: &mut [u8], number: FileNumber) {
    for at in (0..bytes.len()).step_by(8) {
        let context = Context::Log(DB, number, at as u64);
        let Some(header) = bytes.get(at..at + LOG_HEADER_BYTES) else { break };
        if header[22..24] != 0x4c6b_u16.to_le_bytes() {
            continue;
        }
        let header_crc = checksum(context, &[&header[4..40]]);
        let len = u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
        bytes[at + 40..at + 44].copy_from_slice(&header_crc.to_le_bytes());
        let (header, rest) = bytes[at..].split_at(LOG_HEADER_BYTES);
        if let Some(payload) = rest.get(..len) {
            let crc = checksum(context, &[&header[4..40], &header[44..48], payload]);
            bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
        }
    }
}

/// Scans and judges; the last sequence shown, if nothing was refused.
fn judge(logs: &[(FileNumber, Vec<u8>)], start: Start) -> Option<SeqNo> {
    let mut scans: Vec<LogScan> = Vec::new();
    for (number, bytes) in logs {
        let file = path(&format!("{:06}.log", number.0));
        let scan = typed(wal::scan(&file, bytes, DB, *number))?;
        assert!(scan.frames.len() * LOG_HEADER_BYTES <= bytes.len(), "C1: no frame out of nothing");
        assert!(scan.end <= bytes.len().next_multiple_of(8) as u64);
        for frame in &scan.frames[..scan.unbroken] {
            assert!(frame.payload.end <= bytes.len());
        }
        scans.push(scan);
    }
    let replay = typed(wal::judge(dir(), &scans, &start))?;
    let mut next = start.flushed.next();
    for &(log, frame) in &replay.frames {
        let frame = &scans[log].frames[frame];
        assert_eq!(frame.first, next, "D3: no gap in what is replayed");
        next = frame.last().next();
        for record in Records::new(&logs[log].1[frame.payload.clone()]) {
            let _ = record;
        }
    }
    assert_eq!(replay.last_seq.next(), next);
    assert!(replay.seq_floor >= replay.last_seq, "C2: above every trace");
    Some(replay.last_seq)
}

// Manifests.

/// Reads a manifest, and opens a directory in which it is all there is.
pub fn manifest(data: &[u8]) {
    let (fs, world) = world(2);
    let number = FileNumber(5);
    let mut made = None;
    match Input::new(data) {
        Input::Raw(bytes) => {
            if let Ok(edit) = Edit::decode(bytes) {
                assert_eq!(edit.encode(), bytes, "an edit has one encoding");
            }
            put_file(&fs, "/db/000005.manifest", bytes);
            put_file(&fs, "/db/CURRENT", &bytes[..bytes.len().min(200)]);
        }
        Input::Made(mut u) => {
            let version = make_manifest(&mut u, &world, number);
            let mut bytes = get_file(&fs, "/db/000005.manifest");
            let seal = |bytes: &mut [u8]| seal_manifest(bytes, number);
            if mutate(&mut u, &mut bytes, seal) == Mutated::No {
                made = Some(version);
            }
            put_file(&fs, "/db/000005.manifest", &bytes);
        }
    }
    let read = typed(read_manifest(&world, dir(), number, DB));
    if let Some(read) = &read {
        kiban::rig::version::structure(&read.version).expect("M1: what was read is a version");
    }
    if let Some(version) = made {
        let read = read.expect("a whole manifest is read");
        assert_eq!(read.version.flushed_seq, version.flushed_seq);
        assert_eq!(read.version.runs.len(), version.runs.len());
        assert_eq!(read.version.tables(), version.tables());
    }
    // The tables that it may name are not there: any error will do, but no panic.
    let _ = Kiban::open_read_only(dir(), KibanOptions::new().env(env(&fs, 3)));
}

fn put_file(fs: &SimFs, path: &str, bytes: &[u8]) {
    fs.with(|disk| disk.put_file(path, bytes)).expect("an empty disk has room");
}

fn get_file(fs: &SimFs, path: &str) -> Vec<u8> {
    fs.with(|disk| disk.get_file(path)).expect("just written")
}

/// Writes a manifest of a few flushes and makes it current; the version that it says.
fn make_manifest(u: &mut Unstructured<'_>, env: &Env, number: FileNumber) -> Version {
    let mut version = Version { next_file: FileNumber(100), ..Version::default() };
    let install = ManifestWriter::install(env, dir(), number, DB, &version, 64 * up_to(u, 20));
    let mut writer = install.expect("an empty disk has room");
    for flush in 0..up_to(u, 5) {
        let seq = version.flushed_seq.next();
        let last = seq.plus(up_to(u, 9));
        let tables: Vec<_> =
            (0..up_to(u, 2)).map(|i| table_meta(flush * 3 + i, i, seq, last)).collect();
        let edit = flush_edit(&version, &tables, last);
        version = version.apply(&edit).expect("an edit of our own fits");
        writer.append(&edit).expect("an empty disk has room");
        writer.sync().expect("an empty disk has room");
    }
    version
}

fn table_meta(number: u64, place: u64, seq_min: SeqNo, seq_max: SeqNo) -> Arc<TableMeta> {
    let key = |end: u8| vec![b'k', place as u8, end];
    let summary = TableSummary {
        bytes: 4096,
        footer_crc: number as u32,
        first_key: key(0),
        last_key: key(9),
        entries: 10,
        tombstones: 1,
        seq_min,
        seq_max,
        raw_bytes: 200,
    };
    let id = TableId(u128::from(number) + 1);
    Arc::new(TableMeta::new(FileNumber(number + 10), id, summary))
}

/// Makes the checksums of whatever looks like a frame right.
fn seal_manifest(bytes: &mut [u8], number: FileNumber) {
    for at in (0..bytes.len()).step_by(8) {
        let Some(header) = bytes.get(at..at + MANIFEST_HEADER_BYTES) else { break };
        if header[16..20] != 0x4b6d_6601_u32.to_le_bytes() {
            continue;
        }
        let index = header[8..16].try_into().map_or(0, u64::from_le_bytes);
        let len = header[4..8].try_into().map_or(0, u32::from_le_bytes) as usize;
        let context = Context::Manifest(DB, number, index);
        let header_crc = checksum(context, &[&header[4..20]]);
        bytes[at + 20..at + 24].copy_from_slice(&header_crc.to_le_bytes());
        let (header, rest) = bytes[at..].split_at(MANIFEST_HEADER_BYTES);
        if let Some(payload) = rest.get(..len) {
            let crc = checksum(context, &[&header[4..20], payload]);
            bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
        }
    }
}

// Batches.

/// Hears how a batch is encoded.
struct Ear(Mutex<Vec<u8>>);

impl Probe for Ear {
    fn ordered(&self, _first: SeqNo, records: &[u8]) {
        *self.0.lock() = records.to_vec();
    }
}

/// Decodes records; or encodes a batch by writing it, and decodes what the log was given.
pub fn batch(data: &[u8]) {
    match Input::new(data) {
        Input::Raw(bytes) => {
            let whole: Result<Vec<_>, _> = Records::new(bytes).collect();
            assert_eq!(
                whole.as_ref().map(Vec::len).ok(),
                count_records(bytes).ok().map(|n| n as usize)
            );
            let Ok(records) = whole else { return };
            let mut again = WriteBatch::new();
            for record in records {
                match record.kind {
                    Kind::Put => again.put(record.key, record.value),
                    Kind::Delete => again.delete(record.key),
                };
            }
            assert_eq!(again.bytes(), bytes.len(), "records have one encoding");
        }
        Input::Made(mut u) => {
            let (fs, mut world) = world(4);
            let ear = Arc::new(Ear(Mutex::new(Vec::new())));
            world.probe = Some(ear.clone());
            let options = KibanOptions::new().memtable_bytes(4096).log_bytes(4096).env(world);
            let mut db = Kiban::open(dir(), options).expect("an empty disk has room");
            let mut batch = WriteBatch::new();
            let mut given = Vec::new();
            while !u.is_empty() && given.len() < 20 {
                let key: Vec<u8> = u.arbitrary().unwrap_or_default();
                let value: Option<Vec<u8>> = u.arbitrary().unwrap_or_default();
                match &value {
                    Some(value) => batch.put(&key, value),
                    None => batch.delete(&key),
                };
                given.push((key, value));
            }
            if given.is_empty() {
                return;
            }
            db.write(&batch).expect("a small batch is written");
            let bytes = ear.0.lock().clone();
            assert_eq!(bytes.len(), batch.bytes());
            let decoded = Records::new(&bytes).map(|record| {
                let record = record.expect("A1: what a batch encodes, it decodes");
                let value = (record.kind == Kind::Put).then(|| record.value.to_vec());
                (record.key.to_vec(), value)
            });
            assert_eq!(decoded.collect::<Vec<_>>(), given);
            drop((db, fs));
        }
    }
}

// Whole files, for seeds.

/// A log from some choices.
#[must_use]
pub fn whole_log(choices: &[u8]) -> Vec<u8> {
    make_logs(&mut Unstructured::new(choices)).0.remove(0).1
}

/// A manifest from some choices.
#[must_use]
pub fn whole_manifest(choices: &[u8]) -> Vec<u8> {
    let (fs, world) = world(2);
    make_manifest(&mut Unstructured::new(choices), &world, FileNumber(5));
    get_file(&fs, "/db/000005.manifest")
}

/// Records from some choices.
#[must_use]
pub fn whole_records(choices: &[u8]) -> Vec<u8> {
    records(&mut Unstructured::new(choices))
}
