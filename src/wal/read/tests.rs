//! Scanning: whole logs, holes, stale and foreign bytes, any bytes, and the golden bytes.

use super::*;
use crate::base::key::ManifestMark;
use crate::wal::frame::FrameHead;
use proptest::collection::vec;
use proptest::prelude::*;

const DB: DatabaseId = DatabaseId(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
const LOG: FileNumber = FileNumber(3);

fn push(bytes: &mut Vec<u8>, kind: FrameKind, first: u64, count: u32, payload: &[u8]) {
    let place = Place { db: DB, log: LOG, offset: bytes.len() as u64 };
    let synced = LogPosition { log: FileNumber(2), offset: first * 8 };
    let head = FrameHead { kind, first: SeqNo(first), count, synced };
    frame::encode(bytes, place, &head, &[payload]);
}

fn header() -> LogHeader {
    LogHeader {
        predecessor: LogPosition { log: FileNumber(2), offset: 4096 },
        manifest: ManifestMark { number: FileNumber(1), index: 9 },
    }
}

/// A header and groups of one record, with these payload lengths.
fn log(payloads: &[usize]) -> Vec<u8> {
    let mut bytes = Vec::new();
    push(&mut bytes, FrameKind::Header, 1, 0, &header().encode(DB, LOG));
    for (i, &len) in payloads.iter().enumerate() {
        push(&mut bytes, FrameKind::Group, i as u64 + 1, 1, &vec![0x5a; len]);
    }
    bytes
}

fn scanned(bytes: &[u8]) -> LogScan {
    scan(Path::new("3.log"), bytes, DB, LOG).expect("known frames only")
}

#[test]
fn golden_bytes_of_a_log() {
    let mut bytes = Vec::new();
    push(&mut bytes, FrameKind::Header, 5, 0, &header().encode(DB, LOG));
    push(&mut bytes, FrameKind::Group, 5, 2, b"golden");
    push(&mut bytes, FrameKind::Close, 7, 0, b"");
    let text: Vec<String> = bytes
        .chunks(16)
        .map(|line| line.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" "))
        .collect();
    let golden = include_str!("golden.txt");
    assert_eq!(golden.lines().collect::<Vec<_>>(), text, "\n{}\n", text.join("\n"));
}

#[test]
fn a_whole_log_comes_back_and_its_preallocated_rest_is_clean() {
    let mut bytes = log(&[0, 1, 7, 8, 100, 5000]);
    for room in [0, 1, 7, 48, 5000, 20_000] {
        bytes.resize(bytes.len() + room, 0);
        let scan = scanned(&bytes);
        assert_eq!((scan.header, scan.frames.len(), scan.unbroken), (Some(header()), 7, 7));
        assert_eq!((scan.tail, scan.used), (Tail::Clean, scan.end));
        assert_eq!((scan.max_seq_seen, scan.max_synced.offset), (SeqNo(6), 48));
        for (frame, len) in scan.frames[1..].iter().zip([0, 1, 7, 8, 100, 5000]) {
            assert!(frame.intact && frame.payload.len() == len);
            assert_eq!(bytes[frame.payload.clone()], vec![0x5a; len]);
        }
    }
}

#[test]
fn an_empty_or_unused_log_has_nothing() {
    for len in [0, 1, 47, 48, 4096, 100_000] {
        let scan = scanned(&vec![0; len]);
        assert_eq!((scan.frames.len(), scan.end, scan.tail, scan.used), (0, 0, Tail::Clean, 0));
    }
}

/// B07: whatever is torn, what stands before it keeps its place.
#[test]
fn every_cut_leaves_the_frames_before_it() {
    let bytes = log(&[3, 0, 40, 9]);
    let whole = scanned(&bytes);
    for len in 0..bytes.len() {
        let padding_only = |frame: &&Frame| {
            let end = if frame.kind == FrameKind::Header { 108 } else { frame.payload.end };
            end.max(frame.offset as usize + HEADER_BYTES) <= len
        };
        let expected = whole.frames.iter().take_while(padding_only).count();
        let mut zeroed = bytes.clone();
        zeroed[len..].fill(0);
        for scan in [scanned(&bytes[..len]), scanned(&zeroed)] {
            assert!(scan.unbroken >= expected, "{len}");
            assert_eq!(scan.frames[..expected], whole.frames[..expected]);
            assert_eq!(scan.end, scan.unbroken().last().map_or(0, |frame| frame.end));
        }
    }
}

#[test]
fn frames_beyond_a_hole_are_found_and_a_torn_one_tells_its_sequences() {
    let mut bytes = log(&[100, 100, 100]);
    let whole = scanned(&bytes);
    let second = whole.frames[2].offset as usize;
    bytes[second + 60] ^= 1;
    let scan = scanned(&bytes);
    assert_eq!((scan.unbroken, scan.end), (2, second as u64));
    assert_eq!(scan.tail, Tail::Torn("a frame whose payload is torn"));
    let intact: Vec<bool> = scan.frames.iter().map(|frame| frame.intact).collect();
    assert_eq!(intact, [true, true, false, true]);
    assert_eq!(scan.frames[2].last(), SeqNo(2));
    bytes[second..second + 24].fill(0);
    let scan = scanned(&bytes);
    assert_eq!((scan.frames.len(), scan.unbroken), (3, 2));
    assert_eq!(scan.tail, Tail::Torn("a hole before a later frame"));
    assert_eq!(scan.max_seq_seen, SeqNo(3));
}

/// B03, B04: bytes of another log, another database or another place are no frames.
#[test]
fn stale_and_foreign_frames_are_garbage() {
    let bytes = log(&[100, 100]);
    let elsewhere = |db, number| scan(Path::new("x"), &bytes, db, number).expect("no frames");
    for scan in [elsewhere(DB, FileNumber(4)), elsewhere(DatabaseId(1), LOG)] {
        assert_eq!((scan.frames.len(), scan.max_seq_seen), (0, SeqNo::ZERO));
        assert_eq!(scan.tail, Tail::Torn("bytes that are no frame"));
    }
    let mut shifted = vec![0; 8];
    shifted.extend_from_slice(&bytes);
    assert_eq!(scanned(&shifted).frames, []);
    // A frame of this log, copied to another place in it.
    let mut copied = bytes.clone();
    copied.extend_from_slice(&bytes[112..]);
    assert_eq!(scanned(&copied).frames.len(), 3);
}

#[test]
fn newer_formats_and_unknown_frames_are_typed_errors() {
    let mut payload = header().encode(DB, LOG);
    payload[0] = 1;
    payload.push(0);
    let mut bytes = Vec::new();
    push(&mut bytes, FrameKind::Header, 1, 0, &payload);
    let error = scan(Path::new("3.log"), &bytes, DB, LOG).expect_err("newer");
    assert!(matches!(error, Error::UnsupportedFormat { found: 1, supported: 0, .. }), "{error}");
    // A header where no header belongs: its checksums are right.
    let mut bytes = log(&[5]);
    push(&mut bytes, FrameKind::Header, 2, 0, b"");
    let error = scan(Path::new("3.log"), &bytes, DB, LOG).expect_err("unknown");
    assert!(error.is_corruption(), "{error}");
}

#[test]
fn a_mostly_empty_log_is_scanned_fast() {
    let mut bytes = log(&[100; 10]);
    bytes.resize(4 << 20, 0);
    let begin = crate::env::clock::OsClock::new();
    let clock: &dyn crate::env::clock::Clock = &begin;
    let best = (0..5)
        .map(|_| {
            let start = clock.now_ns();
            assert_eq!(scanned(&bytes).frames.len(), 11);
            clock.now_ns() - start
        })
        .min()
        .expect("five rounds");
    // It takes about 0.3 ms; the bound only excludes reading byte by byte.
    assert!(best < 20_000_000, "{best} ns for 4 MiB");
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_bytes_are_scanned(
        patches in vec((0..700usize, vec(any::<u8>(), 1..60)), 0..6),
        garbage in prop::collection::vec(any::<u8>(), 0..300),
        len in 0..900usize,
    ) {
        let mut bytes = log(&[3, 50, 0, 90]);
        bytes.extend_from_slice(&garbage);
        for (at, patch) in patches {
            for (i, byte) in patch.into_iter().enumerate() {
                if let Some(old) = bytes.get_mut(at + i) {
                    *old = byte;
                }
            }
        }
        bytes.truncate(len);
        if let Ok(scan) = scan(Path::new("3.log"), &bytes, DB, LOG) {
            prop_assert!(scan.unbroken <= scan.frames.len());
            prop_assert!(scan.frames.is_sorted_by(|a, b| a.end <= b.offset));
            prop_assert!(scan.frames.iter().all(|frame| frame.payload.end <= bytes.len()));
            prop_assert!(scan.used >= scan.end);
        }
    }
}
