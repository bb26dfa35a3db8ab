//! Manifests: golden bytes, every cut and flip, and the writer on a real directory.

use super::*;
use crate::base::key::{LogPosition, SeqNo};
use crate::version::edit::{compaction_edit, flush_edit};
use crate::version::slice::KeyRange;
use crate::version::tests::table;
use proptest::prelude::*;

const DB: DatabaseId = DatabaseId(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
const NUMBER: FileNumber = FileNumber(3);

fn version() -> Version {
    let version = Version {
        next_file: FileNumber(70),
        log_floor: FileNumber(5),
        synced: LogPosition { log: FileNumber(5), offset: 112 },
        ..Version::default()
    };
    let edit = flush_edit(&version, &[table(4, "a", "m", (1, 9))], SeqNo(9));
    version.apply(&edit).expect("it fits")
}

/// The versions after each of two edits, and the edits.
fn history() -> Vec<(Version, Edit)> {
    let first = flush_edit(&version(), &[table(6, "k", "z", (10, 12))], SeqNo(12));
    let after = version().apply(&first).expect("it fits");
    let range = KeyRange { lo: Some(b"k".to_vec()), hi: None };
    let second = compaction_edit(&after, 0..2, &range, vec![]);
    let last = after.apply(&second).expect("it fits");
    vec![(version(), Edit::default()), (after, first), (last, second)]
}

/// The bytes of a manifest with those edits, and where each frame begins.
fn bytes() -> (Vec<u8>, Vec<usize>) {
    let mut header = Vec::new();
    put_u32(&mut header, FORMAT_VERSION);
    put_u128(&mut header, DB.0);
    put_u64(&mut header, NUMBER.0);
    let mut payloads = vec![header, snapshot_edit(&version()).encode()];
    payloads.extend(history()[1..].iter().map(|(_, edit)| edit.encode()));
    let (mut bytes, mut starts) = (Vec::new(), Vec::new());
    for (index, payload) in (0..).zip(&payloads) {
        starts.push(bytes.len());
        encode_frame(&mut bytes, NUMBER, DB, index, payload);
    }
    starts.push(bytes.len());
    (bytes, starts)
}

fn decoded(bytes: &[u8]) -> Result<ManifestRead> {
    decode(Path::new("3.manifest"), bytes, NUMBER, DB)
}

#[test]
fn golden_bytes_of_a_manifest() {
    let (bytes, _) = bytes();
    let text: Vec<String> = bytes
        .chunks(16)
        .map(|line| line.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" "))
        .collect();
    let golden = include_str!("golden.txt");
    assert_eq!(golden.lines().collect::<Vec<_>>(), text, "\n{}\n", text.join("\n"));
}

#[test]
fn the_last_frame_may_be_torn_and_no_other() {
    let (mut bytes, starts) = bytes();
    let history = history();
    bytes.resize(bytes.len() + 200, 0);
    let whole = decoded(&bytes).expect("whole");
    assert_eq!((&whole.version, whole.mark.index, whole.torn), (&history[2].0, 3, false));
    for frame in 0..4 {
        for at in starts[frame]..starts[frame + 1] {
            let mut bad = bytes.clone();
            bad[at] ^= 0x10;
            match decoded(&bad) {
                Ok(read) if frame == 3 && read.torn => {
                    assert_eq!((read.version, read.mark.index), (history[1].0.clone(), 2));
                }
                // Padding belongs to no checksum.
                Ok(read) => assert_eq!((read.version, bytes[at]), (history[2].0.clone(), 0)),
                Err(error) => assert!(frame < 3 && error.is_corruption(), "{at}: {error}"),
            }
        }
    }
}

#[test]
fn every_cut_is_a_prefix_or_corruption() {
    let (bytes, starts) = bytes();
    let history = history();
    for len in 0..bytes.len() {
        let mut zeroed = bytes.clone();
        zeroed[len..].fill(0);
        for cut in [&bytes[..len], &zeroed[..]] {
            match decoded(cut) {
                Ok(read) => {
                    let edits = read.mark.index as usize - 1;
                    assert_eq!(read.version, history[edits].0);
                    let end = starts[edits + 2];
                    // Lost zeros are no loss.
                    assert!(len + 7 >= end || cut[..end] == bytes[..end]);
                }
                Err(error) => assert!(error.is_corruption() && len < starts[2]),
            }
        }
    }
}

#[test]
fn misplaced_foreign_and_newer_manifests_are_refused() {
    let (bytes, starts) = bytes();
    // An edit torn, and a copy of it behind: something was damaged after a sync.
    let mut moved = bytes[..starts[3]].to_vec();
    moved.extend_from_slice(&[1; 24]);
    moved.extend_from_slice(&bytes[starts[3]..]);
    assert!(decoded(&moved).expect_err("moved").is_corruption());
    let elsewhere = |number, db| decode(Path::new("x"), &bytes, number, db);
    assert!(elsewhere(FileNumber(4), DB).expect_err("number").is_corruption());
    assert!(elsewhere(NUMBER, DatabaseId(1)).expect_err("database").is_corruption());
    let mut newer = Vec::new();
    encode_frame(&mut newer, NUMBER, DB, 0, &[9, 0, 0, 0, 1, 2, 3]);
    let error = decoded(&newer).expect_err("newer");
    assert!(matches!(error, Error::UnsupportedFormat { found: 9, supported: 0, .. }), "{error}");
    // An edit that is whole and does not fit.
    let mut wrong = bytes.clone();
    encode_frame(&mut wrong, NUMBER, DB, 4, &history()[2].1.encode());
    assert!(decoded(&wrong).expect_err("twice").is_corruption());
}

#[test]
fn the_writer_is_read_back_and_its_mark_follows_its_syncs() -> Result<()> {
    let dir = tempfile::tempdir().expect("a directory");
    let (env, dir) = (Env::os(), dir.path());
    let mark = |index| ManifestMark { number: NUMBER, index };
    let mut writer = ManifestWriter::install(&env, dir, NUMBER, DB, &version(), 600)?;
    assert_eq!((writer.number(), writer.synced(), writer.is_full()), (NUMBER, mark(1), false));
    for (i, (expected, edit)) in (2..).zip(&history()[1..]) {
        writer.append(edit)?;
        assert_eq!(writer.synced(), mark(i - 1));
        writer.sync()?;
        assert_eq!(writer.synced(), mark(i));
        let read = read_manifest(&env, dir, NUMBER, DB)?;
        assert_eq!((&read.version, read.mark, read.torn), (expected, mark(i), false));
        assert_eq!((read.end, read.format), (writer.bytes(), FORMAT_VERSION));
    }
    while !writer.is_full() {
        writer.append(&Edit::default())?;
        writer.sync()?;
    }
    assert!(writer.bytes() <= 600, "a new one begins before the space is used up");
    let current = super::current::read(&env, dir)?.expect("a current manifest");
    assert_eq!((current.manifest, current.db), (NUMBER, DB));
    // The next one.
    let next = FileNumber(8);
    ManifestWriter::install(&env, dir, next, DB, &history()[2].0, 0)?;
    unlink_old(&env, dir, NUMBER)?;
    unlink_old(&env, dir, NUMBER)?;
    assert_eq!(env.fs.list(dir).expect("a list"), ["000008.manifest", "CURRENT"]);
    assert_eq!(read_manifest(&env, dir, next, DB)?.version, history()[2].0);
    let gone = read_manifest(&env, dir, NUMBER, DB).expect_err("gone");
    assert!(gone.is_corruption() && gone.to_string().contains("missing"), "{gone}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read(
        patches in
            prop::collection::vec((0..500usize, prop::collection::vec(any::<u8>(), 1..40)), 0..5),
        len in 0..600usize,
    ) {
        let (mut bytes, _) = bytes();
        bytes.resize(600, 0);
        for (at, patch) in patches {
            for (i, byte) in patch.into_iter().enumerate() {
                bytes[at + i] = byte;
            }
        }
        let versions = history().into_iter().map(|(version, _)| version).collect::<Vec<_>>();
        match decoded(&bytes[..len]) {
            Ok(read) => prop_assert!(versions.contains(&read.version)),
            Err(error) => prop_assert!(error.is_corruption()),
        }
    }
}
