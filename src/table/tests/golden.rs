//! The bytes of one small table, piece by piece. Whoever changes them changes the format: its
//! version, `docs/FORMAT.md` and this.

use super::*;

/// Piece by piece: what it is, and its bytes in hexadecimal.
const GOLDEN: &[(&str, &str)] = &[
    ("block 0: the value `red`", "726564"),
    ("block 0: put, 0 shared, 3 more, value of 3, sequence 300, `ant`", "01000303ac02616e74"),
    ("block 0: removal, 1 shared, 4 more, no value, sequence 2, `pple`", "000104000270706c65"),
    ("block 1: the values `green` and ``", "677265656e"),
    ("block 1: put, 0 shared, 5 more, value of 5, sequence 1, `apple`", "01000505016170706c65"),
    ("block 1: put, 0 shared, 3 more, value of 0, sequence 4, `bee`", "0100030004626565"),
    ("padding", "0000000000000000000000000000000000000000"),
    ("index: the heads `apple` and `bee`, padded and reversed", "000000656c7070610000000000656562"),
    (
        "index: sequence 2 of the separator, offset 0, length 21, checksum",
        "0200000000000000000000001500000089be5280",
    ),
    ("index: raw length 21, first restart 0, separator ends at 5", "150000000000000005000000"),
    (
        "index: sequence 4 of the separator, offset 21, length 23, checksum",
        "040000000000000015000000170000006d875698",
    ),
    ("index: raw length 23, first restart 1, separator ends at 8", "170000000100000008000000"),
    ("index: the separators `apple` and `bee`", "6170706c65626565"),
    (
        "padding",
        "0000000000000000000000000000000000000000000000000000000000000000\
         0000000000000000",
    ),
    (
        "restart 0: block 0, value at 0, key at 3, block ends at 21",
        "00000000000000000300000015000000",
    ),
    (
        "restart 1: block 1, value at 21, key at 26, block ends at 44",
        "01000000150000001a0000002c000000",
    ),
    ("padding", "0000000000000000000000000000000000000000000000000000000000000000"),
    (
        "point index: 16 bits each of three hashes, 13 unused",
        "8bcf1fcf5d700000000000000000000000000000000000000000000000000000",
    ),
    (
        "point index: their restarts 0, 0 and 1, 13 unused",
        "000000000100ffffffffffffffffffffffffffffffffffffffffffffffffffff",
    ),
    (
        "prefix filter: the bits of `a` and `b`",
        "0000000000000004000080008004800000000000000010000000000000000030\
         0010002000200000000000000000800000000000000004000500000000000100",
    ),
    ("properties: entries, removals, keys, sequences from 1 to 300, raw bytes", "04010301ac0218"),
    ("properties: restart interval 2, 2 blocks, 2 restarts, 0 common", "02020200"),
    ("properties: prefix length 1, plus 1; data ends at 44", "022c"),
    ("properties: codec 0, 0 filter probes, 8 prefix probes", "000008"),
    ("properties: the first key `ant` and the last key `bee`", "03616e7403626565"),
    ("properties: four sections", "04"),
    ("properties: the index at 64, 88 bytes, checksum", "024000000058000000d734b972"),
    ("properties: the restart points at 192, 32 bytes, checksum", "03c00000002000000067e16e50"),
    ("properties: the point index at 256, 64 bytes, checksum", "040001000040000000cf31c180"),
    ("properties: the prefix filter at 320, 64 bytes, checksum", "064001000040000000cc040d7a"),
    ("footer: table id", "7766554433221100efcdab8967452301"),
    ("footer: the properties at 384, 77 bytes, checksum", "800100004d000000fd7b409c"),
    ("footer: its own offset 461", "cd010000"),
    ("footer: reserved", "00000000000000000000000000000000"),
    ("footer: checksum, format version 0", "6d974e2400000000"),
    ("footer: `KibanTbl`", "4b6962616e54626c"),
];

/// Three keys, four entries, two blocks of which the second begins inside of a key's versions; a
/// point index and a prefix filter.
fn small() -> (MemFile, TableSummary, Vec<Owned>) {
    let removal = Owned { kind: Kind::Delete, ..put(b"apple", 2, b"") };
    let entries =
        vec![put(b"ant", 300, b"red"), removal, put(b"apple", 1, b"green"), put(b"bee", 4, b"")];
    let options = TableOptions {
        block_bytes: 45,
        restart_interval: 2,
        prefix_len: Some(1),
        ..TableOptions::default()
    };
    let (file, summary) = build(&entries, &options);
    (file, summary, entries)
}

#[test]
fn a_small_table_has_these_bytes() {
    let (file, _, _) = small();
    let bytes = file.bytes();
    let mut at = 0;
    for (what, expected) in GOLDEN {
        let end = at + expected.len() / 2;
        let got: String = bytes[at..end].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(&got, expected, "{what}, at offset {at}");
        at = end;
    }
    assert_eq!(at, bytes.len());
}

#[test]
fn these_bytes_are_read_as_the_table() {
    let (_, summary, entries) = small();
    let text: String = GOLDEN.iter().map(|(_, hex)| *hex).collect();
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
    let file = MemFile::new((0..text.len()).step_by(2).map(byte).collect());
    let keys: BTreeSet<Vec<u8>> = entries.iter().map(|e| e.key.clone()).collect();
    for backend in backends(&file) {
        let table = open(&file, &summary, backend).expect("the golden table");
        check_gets(&table, &entries, &keys);
        assert_eq!(table.verify().expect("the golden table"), summary);
    }
}
