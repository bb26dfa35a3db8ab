//! Judging chains of logs: single cases here, and in `model` one that writes and crashes at random.

mod model;

use super::*;
use crate::base::key::DatabaseId;
use crate::wal::frame::{self, FrameHead, LogHeader, Place};
use crate::wal::scan;

const DB: DatabaseId = DatabaseId(7);

/// A log as bytes, and how much of it is synced.
#[derive(Clone, Debug)]
struct MemLog {
    number: u64,
    bytes: Vec<u8>,
    end: usize,
    synced: usize,
    /// The largest sequence in it.
    last: u64,
}

impl MemLog {
    fn new(number: u64, next_seq: u64, header: LogHeader, synced: LogPosition) -> Self {
        let mut log = Self { number, bytes: vec![0; 4096], end: 0, synced: 0, last: 0 };
        let payload = header.encode(DB, FileNumber(number));
        log.push(FrameKind::Header, next_seq, 0, &payload, synced);
        log
    }

    fn push(&mut self, kind: FrameKind, first: u64, count: u32, payload: &[u8], w: LogPosition) {
        let offset = self.end as u64;
        let place = Place { db: DB, log: FileNumber(self.number), offset };
        let mut buf = Vec::new();
        let head = FrameHead { kind, first: SeqNo(first), count, synced: w };
        frame::encode(&mut buf, place, &head, &[payload]);
        let end = self.end + buf.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[self.end..end].copy_from_slice(&buf);
        self.end = end;
        self.last = self.last.max(first + u64::from(count) - 1);
    }

    fn position(&self) -> LogPosition {
        LogPosition { log: FileNumber(self.number), offset: self.end as u64 }
    }

    fn scan(&self) -> LogScan {
        let file = file_path(Path::new("db"), FileKind::Log, FileNumber(self.number));
        scan(&file, &self.bytes, DB, FileNumber(self.number)).expect("known frames only")
    }
}

fn at(log: u64, offset: u64) -> LogPosition {
    LogPosition { log: FileNumber(log), offset }
}

fn after(log: &MemLog) -> LogHeader {
    LogHeader { predecessor: log.position(), manifest: ManifestMark::default() }
}

fn first_header() -> LogHeader {
    LogHeader { predecessor: LogPosition::default(), manifest: ManifestMark::default() }
}

fn judged(logs: &[MemLog], start: &Start) -> Result<Replay> {
    let scans: Vec<LogScan> = logs.iter().map(MemLog::scan).collect();
    judge(Path::new("db"), &scans, start)
}

fn flushed(seq: u64) -> Start {
    Start { flushed: SeqNo(seq), ..Start::default() }
}

/// Log 3 with sequences 1..=6 in three groups of two, log 4 after it with 7..=8. Frames begin at
/// 0, 112, 168, 224 and end at 280; in log 4 at 0 and 112, ending at 168.
fn two_logs(synced: LogPosition) -> [MemLog; 2] {
    let none = LogPosition::default();
    let mut a = MemLog::new(3, 1, first_header(), none);
    for first in [1, 3, 5] {
        a.push(FrameKind::Group, first, 2, b"payload", none);
    }
    let mut b = MemLog::new(4, 7, after(&a), synced);
    b.push(FrameKind::Group, 7, 2, b"payload", synced);
    assert_eq!((a.end, b.end), (280, 168));
    [a, b]
}

fn lose(log: &mut MemLog, range: std::ops::Range<usize>) {
    log.bytes[range].fill(0);
}

#[test]
fn whole_logs_are_replayed_from_the_flushed_sequence_on() -> Result<()> {
    let logs = two_logs(LogPosition::default());
    for (flush, frames) in [(0, vec![(0, 1), (0, 2), (0, 3), (1, 1)]), (4, vec![(0, 3), (1, 1)])] {
        let replay = judged(&logs, &flushed(flush))?;
        assert_eq!(replay.frames, frames);
        assert_eq!((replay.end, replay.dropped), (at(4, 168), None));
        assert_eq!((replay.last_seq, replay.seq_floor), (SeqNo(8), SeqNo(8)));
    }
    // B10: everything is in tables; nothing is replayed again.
    assert_eq!(judged(&logs, &flushed(8))?.frames, []);
    assert_eq!(judged(&logs, &flushed(100))?.seq_floor, SeqNo(100));
    Ok(())
}

/// B01: the older log ends in a torn record, the newer one is whole.
#[test]
fn a_torn_end_in_an_older_log_stops_the_replay_for_good() -> Result<()> {
    let mut logs = two_logs(LogPosition::default());
    lose(&mut logs[0], 272..280);
    let replay = judged(&logs, &flushed(0))?;
    assert_eq!(replay.frames, [(0, 1), (0, 2)]);
    assert_eq!((replay.last_seq, replay.seq_floor), (SeqNo(4), SeqNo(8)));
    let dropped = replay.dropped.expect("a report");
    assert_eq!((dropped.file, dropped.offset), (Path::new("db/000003.log").into(), 224));
    assert_eq!((dropped.bytes, dropped.groups, dropped.what), (56 + 168, 1, "undecidable"));
    Ok(())
}

/// Checksums do not vouch for sense: a header may tell any length of the log before it.
#[test]
fn an_absurd_length_of_a_lost_log_is_counted_without_overflow() -> Result<()> {
    let [mut a, b] = two_logs(LogPosition::default());
    lose(&mut a, 272..280);
    let absurd = LogHeader { predecessor: at(3, u64::MAX), ..after(&a) };
    let mut c = MemLog::new(4, 7, absurd, LogPosition::default());
    c.push(FrameKind::Group, 7, 2, b"payload", LogPosition::default());
    let d = MemLog::new(5, 9, after(&b), LogPosition::default());
    let replay = judged(&[a, c, d], &flushed(0))?;
    assert_eq!(replay.dropped.map(|d| (d.offset, d.bytes)), Some((224, u64::MAX)));
    Ok(())
}

#[test]
fn the_same_torn_end_is_corruption_once_a_later_frame_knows_it_synced() {
    let mut logs = two_logs(at(3, 280));
    lose(&mut logs[0], 272..280);
    let error = judged(&logs, &flushed(0)).expect_err("known synced");
    let text = error.to_string();
    assert!(error.is_corruption() && text.contains("000003.log at offset 224"), "{text}");
    // The manifest may be the witness as well.
    let mut logs = two_logs(LogPosition::default());
    lose(&mut logs[0], 224..280);
    let start = Start { synced: at(3, 280), ..flushed(0) };
    assert!(judged(&logs, &start).expect_err("known synced").is_corruption());
    // Up to exactly where the replay ends, there is no contradiction.
    let start = Start { synced: at(3, 224), ..flushed(0) };
    assert_eq!(judged(&logs, &start).expect("in doubt only").last_seq, SeqNo(4));
}

/// B55's shadow: logs whose writes are in tables need no sync, and a crash makes holes in them.
#[test]
fn a_hole_in_what_is_flushed_is_harmless_even_below_the_watermark() -> Result<()> {
    for hole in [112..280, 168..280, 0..280, 0..4096, 168..224, 230..240] {
        let mut logs = two_logs(at(4, 112));
        lose(&mut logs[0], hole.clone());
        let replay = judged(&logs, &flushed(6))?;
        assert_eq!(replay.frames, [(1, 1)], "{hole:?}");
        assert_eq!((replay.last_seq, replay.dropped), (SeqNo(8), None));
        let gone = judged(&logs[1..], &flushed(6))?;
        assert_eq!((gone.frames, gone.last_seq), (vec![(0, 1)], SeqNo(8)));
    }
    // A later group of the log with the hole is shown too.
    let mut logs = two_logs(LogPosition::default());
    lose(&mut logs[0], 112..160);
    assert_eq!(judged(&logs, &flushed(2))?.frames, [(0, 1), (0, 2), (1, 1)]);
    Ok(())
}

/// The newer log has only its header: that alone says which sequences the older one had.
#[test]
fn a_header_alone_tells_what_a_hole_before_it_hides() -> Result<()> {
    let mut logs = two_logs(at(4, 112));
    lose(&mut logs[1], 112..168);
    lose(&mut logs[0], 168..280);
    let replay = judged(&logs, &flushed(6))?;
    assert_eq!((replay.last_seq, replay.end, replay.dropped), (SeqNo(6), at(4, 112), None));
    assert!(judged(&logs, &flushed(2)).expect_err("3..=6 were synced").is_corruption());
    Ok(())
}

#[test]
fn a_needed_log_that_is_not_there_is_corruption() {
    let logs = two_logs(LogPosition::default());
    let error = judged(&logs[1..], &flushed(2)).expect_err("log 3 is gone");
    assert!(error.to_string().contains("log 3"), "{error}");
    // Without the header nothing says that there ever was a log before it.
    let mut logs = two_logs(LogPosition::default());
    lose(&mut logs[1], 0..48);
    let replay = judged(&logs[1..], &flushed(2)).expect("in doubt");
    assert_eq!((replay.frames, replay.last_seq), (vec![], SeqNo(2)));
    assert_eq!(replay.dropped.map(|d| d.groups), Some(1));
}

#[test]
fn nothing_at_all_is_an_empty_replay() -> Result<()> {
    let replay = judged(&[], &flushed(5))?;
    assert_eq!((replay.last_seq, replay.seq_floor, replay.dropped), (SeqNo(5), SeqNo(5), None));
    let unused = MemLog { end: 0, ..MemLog::new(9, 1, first_header(), LogPosition::default()) };
    let unused = MemLog { bytes: vec![0; 4096], ..unused };
    assert_eq!(judged(&[unused], &flushed(5))?.dropped, None);
    // Unless it is known that there was something.
    let start = Start { synced: at(3, 280), ..flushed(5) };
    assert!(judged(&[], &start).expect_err("log 3 is gone").is_corruption());
    // After a recovery, the floor says that whatever it was is in tables.
    let start = Start { log_floor: FileNumber(4), ..start };
    assert!(judged(&[], &start).is_ok());
    Ok(())
}

#[test]
fn sequences_out_of_order_are_corruption_where_they_matter() {
    let none = LogPosition::default();
    let mut logs = two_logs(none);
    logs[1].push(FrameKind::Group, 8, 1, b"again", none);
    assert!(judged(&logs, &flushed(0)).expect_err("8 twice").is_corruption());
    assert!(judged(&logs, &flushed(8)).is_ok());
    assert!(judged(&logs, &flushed(7)).expect_err("half a group flushed").is_corruption());
}

/// A recovery that saw old bytes where a sync had failed gave up log 3; the device had the new
/// ones.
#[test]
fn a_log_below_the_floor_counts_for_nothing_whatever_it_holds() -> Result<()> {
    let start = Start { log_floor: FileNumber(4), ..flushed(4) };
    let replay = judged(&two_logs(LogPosition::default())[..1], &start)?;
    assert_eq!((replay.frames.len(), replay.last_seq), (0, SeqNo(4)));
    assert!(replay.seq_floor > SeqNo(4), "new sequences start above what is seen there (C2)");
    Ok(())
}

#[test]
fn a_torn_group_raises_the_floor_of_new_sequences() -> Result<()> {
    let mut logs = two_logs(LogPosition::default());
    lose(&mut logs[1], 160..168);
    let replay = judged(&logs, &flushed(0))?;
    assert_eq!((replay.last_seq, replay.seq_floor), (SeqNo(6), SeqNo(8)));
    assert_eq!(replay.dropped.map(|d| (d.offset, d.bytes, d.groups)), Some((112, 44, 0)));
    Ok(())
}

#[test]
fn a_manifest_older_than_the_logs_know_is_corruption() {
    let none = LogPosition::default();
    let mark = |number, index| ManifestMark { number: FileNumber(number), index };
    let header = LogHeader { predecessor: none, manifest: mark(2, 5) };
    let scans = [MemLog::new(3, 1, header, none).scan()];
    let check = |read| check_manifest(Path::new("db"), &scans, read);
    assert!(check(mark(2, 5)).is_ok() && check(mark(2, 9)).is_ok() && check(mark(6, 1)).is_ok());
    assert!(check(mark(2, 4)).expect_err("an edit is gone").is_corruption());
    assert!(check(mark(1, 9)).expect_err("CURRENT is stale").is_corruption());
}
