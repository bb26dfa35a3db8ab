//! What the engine asks of the operating system, seen from outside: maps and locks.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "the real outside")]

use kiban::{Error, Kiban, KibanOptions};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

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
