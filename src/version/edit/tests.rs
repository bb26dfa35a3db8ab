//! The bytes of edits.

use super::*;
use crate::version::tests::table;
use proptest::prelude::*;

fn full() -> Edit {
    let slice =
        TableSlice { meta: table(300, "a", "m", (128, 200)), lo: Some(b"b".to_vec()), hi: None };
    Edit {
        next_file: Some(FileNumber(301)),
        flushed_seq: Some(SeqNo(200)),
        log_floor: Some(FileNumber(7)),
        synced: Some(LogPosition { log: FileNumber(6), offset: 4096 }),
        new_runs: vec![
            NewRun { id: RunId(300), before: Some(RunId(9)), full_bytes: 0 },
            NewRun { id: RunId(1), before: None, full_bytes: 5 },
        ],
        removed: vec![Removed { run: RunId(9), number: FileNumber(9), lo: Some(b"".to_vec()) }],
        added: vec![Added { run: RunId(300), slice }],
    }
}

#[test]
fn golden_bytes_of_an_edit() {
    let bytes = full().encode();
    let text: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    let golden = "01ad0202c8010307040680200\
                  5ac0201090005010005060909010007ac02ac02\
                  2c010000000000000000000000000000e80701000000\
                  0161016d490080014801016200";
    assert_eq!(text, golden);
    assert_eq!(Edit::decode(&bytes), Ok(full()));
    assert_eq!(Edit::decode(b""), Ok(Edit::default()));
}

#[test]
fn unknown_misplaced_and_oversized_fields_are_refused() {
    for (bytes, why) in [
        (&[8, 0][..], "edit field 8, which this version lacks"),
        (&[0][..], "edit field 0"),
        (&[2, 1, 1, 1][..], "field 1 after field 2"),
        (&[1, 1, 1, 1][..], "field 1 after field 1"),
        (&[1][..], "cut short"),
        (&[0x80][..], "within a tag"),
        (&[5, 1, 2, 0][..], "out of range"),
        (&[6, 1, 1, 1, 200, 1][..], "cut short"),
    ] {
        let error = Edit::decode(bytes).expect_err(why);
        assert!(error.contains(why), "{error:?} instead of {why:?}");
    }
    // A sequence that leaves none for the next write.
    let last = Edit { flushed_seq: Some(SeqNo::MAX), ..Edit::default() };
    assert!(Edit::decode(&last.encode()).is_err());
    let long = "x".repeat(KEY_BYTES_MAX + 1);
    let slice = TableSlice::whole(table(3, "a", &long, (1, 2)));
    let edit = Edit { added: vec![Added { run: RunId(1), slice }], ..Edit::default() };
    assert!(Edit::decode(&edit.encode()).is_err());
}

#[test]
fn a_flush_of_nothing_only_advances_the_sequence() {
    let version = Version { flushed_seq: SeqNo(3), ..Version::default() };
    let edit = flush_edit(&version, &[], SeqNo(9));
    assert_eq!(edit, Edit { flushed_seq: Some(SeqNo(9)), ..Edit::default() });
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// What decodes is what its own encoding gives back; nothing panics.
    #[test]
    fn any_bytes_decode_to_an_edit_or_a_reason(
        noise in prop::collection::vec(any::<u8>(), 0..80),
        flips in prop::collection::vec((0..120usize, any::<u8>()), 0..4),
    ) {
        let mut bytes = full().encode();
        for (at, byte) in flips {
            if let Some(old) = bytes.get_mut(at) {
                *old = byte;
            }
        }
        for bytes in [noise, bytes] {
            if let Ok(edit) = Edit::decode(&bytes) {
                prop_assert_eq!(edit.encode(), bytes);
                let _ = Version::default().apply(&edit);
            }
        }
    }
}
