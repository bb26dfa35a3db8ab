//! The verbs of the exclusive handle on a real directory.

use kiban::{Error, Kiban, KibanOptions, Reads, WriteBatch};

fn small() -> KibanOptions {
    KibanOptions::new().memtable_bytes(4096).log_bytes(4096).table_bytes_max(1024).block_bytes(64)
}

#[test]
fn what_is_written_is_read_back_across_flush_compaction_and_reopen() {
    for reads in [Reads::Mapped, Reads::Pread] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("db");
        let mut db = Kiban::open(&path, small().reads(reads)).expect("created");
        for i in 0..2000u32 {
            let key = format!("key{:05}", (i * 7919) % 500);
            if i % 11 == 3 {
                db.delete(&key).expect("deleted");
            } else {
                db.put(&key, format!("value{i}")).expect("put");
            }
        }
        let before: Vec<_> =
            db.range::<&[u8]>(..).expect("open").map(|item| item.expect("read")).collect();
        let mut backward: Vec<_> =
            db.range::<&[u8]>(..).expect("open").rev().map(|item| item.expect("read")).collect();
        backward.reverse();
        assert_eq!(before, backward, "S2");
        for (key, value) in &before {
            assert_eq!(db.get(key).expect("read").as_ref(), Some(value));
        }
        assert!(db.stats().flushes > 3, "{:?}", db.stats());
        db.verify().expect("whole");
        db.close().expect("closed");
        let mut db = Kiban::open(&path, small().reads(reads)).expect("reopened");
        let after: Vec<_> =
            db.range::<&[u8]>(..).expect("open").map(|item| item.expect("read")).collect();
        assert_eq!(before, after);
        db.compact_range::<&[u8]>(..).expect("compacted");
        let after: Vec<_> =
            db.range::<&[u8]>(..).expect("open").map(|item| item.expect("read")).collect();
        assert_eq!(before, after);
        db.verify().expect("whole");
        assert!(matches!(Kiban::open(&path, small()), Err(Error::Locked { .. })), "L1");
    }
}

#[test]
fn a_snapshot_a_checkpoint_and_a_backup_keep_their_moment() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| dir.path().join(name);
    let mut db = Kiban::open(at("db"), small()).expect("created");
    for i in 0..300u32 {
        db.put(format!("k{i:04}"), b"old").expect("put");
    }
    let snapshot = db.snapshot().expect("open");
    let mut batch = WriteBatch::new();
    batch.put(b"k0001", b"new").delete(b"k0002").put(b"", b"");
    db.write_durable(&batch).expect("written");
    db.checkpoint(at("checkpoint")).expect("linked");
    db.backup(at("backup")).expect("copied");
    db.compact_range::<&[u8]>(..).expect("compacted");
    assert_eq!(snapshot.get(b"k0001").expect("read").expect("there"), *b"old");
    assert_eq!(snapshot.get(b"k0002").expect("read").expect("there"), *b"old");
    assert_eq!(snapshot.prefix(b"k").expect("open").count(), 300, "S1");
    kiban::restore(at("backup"), at("restored"), small()).expect("restored");
    for name in ["checkpoint", "backup", "restored", "db"] {
        if name == "db" {
            db.put(b"later", b"x").expect("put");
            continue;
        }
        let copy = Kiban::open_read_only(at(name), small()).expect("opened");
        assert_eq!(copy.get(b"k0001").expect("read").expect("there"), *b"new", "{name}");
        assert_eq!(copy.get(b"k0002").expect("read"), None, "{name}");
        assert_eq!(copy.get(b"").expect("read").expect("there"), *b"", "{name}");
        assert_eq!(copy.range::<&[u8]>(..).expect("open").count(), 300, "{name}");
        copy.verify().expect("whole");
    }
}
