//! What the engine asks of the operating system, seen from outside: maps and locks.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "the real outside")]

use kiban::{Error, Kiban, KibanOptions};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn maps_that_are_not_to_read_ahead_are_advised_so() {
    for read_ahead in [true, false] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("db");
        let mut db =
            Kiban::open(&path, KibanOptions::new().map_read_ahead(read_ahead)).expect("created");
        db.put(b"key", b"value").expect("put");
        db.flush().expect("flushed");
        assert!(db.get(b"key").expect("read").is_some());
        // Of each mapping: its line of addresses with the file's path, and later its flags.
        let smaps = std::fs::read_to_string("/proc/self/smaps").expect("Linux has it");
        let maps = smaps.split("VmFlags:").collect::<Vec<_>>();
        let of_tables = maps.windows(2).filter(|pair| {
            let file = pair[0].lines().find(|line| line.ends_with(".tbl"));
            file.is_some_and(|line| line.contains(path.to_str().expect("a path of letters")))
        });
        let flags: Vec<&str> =
            of_tables.map(|pair| pair[1].lines().next().unwrap_or_default()).collect();
        assert!(!flags.is_empty(), "the table is mapped");
        for flags in flags {
            let random = flags.split_whitespace().any(|flag| flag == "rr");
            assert_eq!(random, !read_ahead, "{flags}");
        }
    }
}

#[test]
fn a_closed_database_is_unlocked_though_a_child_was_being_spawned() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // A child holds copies of all open files until its program begins.
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                Command::new("true").status().expect("spawned");
            }
        });
        let mut locked = 0;
        for _ in 0..300 {
            match Kiban::open(dir.path().join("db"), KibanOptions::new()) {
                Ok(db) => db.close().expect("closed"),
                Err(Error::Locked { .. }) => locked += 1,
                Err(e) => panic!("{e}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert_eq!(locked, 0, "of 300 openings");
    });
}
