//! What every adapter must do, asked of each one that was built in.
//!
//! - Databases stand under the target folder: a temporary one may be in memory, where a sync is
//!   nothing.
//! - The check with SIGKILL runs this test binary a second time, as the process that is killed.

use super::{built, locked_version, prefix_end};
use crate::engine::{Engine, Opener};
use crate::profile::{Filter, Profile, Tuning};
use crate::sync_count;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

const VICTIM: &str = "KIBAN_COMPARE_TEST_VICTIM";

fn scratch() -> tempfile::TempDir {
    let target = std::env::current_exe().expect("this binary has a path");
    let folder = target.parent().expect("a file has a folder");
    tempfile::tempdir_in(folder).expect("a directory beside this binary")
}

/// The engines under test with a profile that each takes part in.
fn profile() -> Profile {
    Profile { durable: true, map_bytes: 64 << 20, ..Profile::matched() }
}

fn each_engine(check: impl Fn(&dyn Opener, &Path)) {
    for opener in built() {
        let dir = scratch();
        check(opener, dir.path());
    }
}

fn all(engine: &dyn Engine) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut last = None;
    engine
        .for_each(&mut |key, value| {
            assert!(last.as_deref() < Some(key), "{}: out of order", engine.name());
            last = Some(key.to_vec());
            found.insert(key.to_vec(), value.to_vec());
            Ok(())
        })
        .expect("a walk over all keys");
    found
}

fn get(engine: &dyn Engine, key: &[u8]) -> Option<Vec<u8>> {
    let mut found = None;
    let mut reader = engine.reader().expect("a reader");
    let there = reader.get(key, &mut |value| found = Some(value.to_vec())).expect("a read");
    assert_eq!(there, found.is_some(), "{}", engine.name());
    found
}

/// Writes, overwrites and removes by each way of writing, and tells what must be there.
fn write(engine: &dyn Engine) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut expected = BTreeMap::new();
    let records: Vec<(Vec<u8>, Vec<u8>)> =
        (0..300u32).map(|i| (format!("a/{i:04}").into_bytes(), vec![i as u8; 100])).collect();
    let borrowed: Vec<(&[u8], &[u8])> =
        records.iter().map(|(key, value)| (key.as_slice(), value.as_slice())).collect();
    engine.put_batch(&borrowed[..150], false).expect("a buffered batch");
    engine.put_batch(&borrowed[150..], true).expect("a durable batch");
    expected.extend(records);
    for (i, durable) in [(1u32, false), (2, true), (3, false), (4, true)] {
        let (key, gone) = (format!("a/{i:04}").into_bytes(), format!("a/01{i:02}").into_bytes());
        engine.put(&key, b"newer", durable).expect("a write");
        engine.delete(&gone, durable).expect("a removal");
        expected.insert(key, b"newer".to_vec());
        expected.remove(&gone);
    }
    engine.put(b"b", b"", true).expect("an empty value");
    engine.put_then_sync(b"\xff\xff", b"last").expect("a write and a sync");
    engine.delete(b"nothing", true).expect("a removal of nothing");
    expected.insert(b"b".to_vec(), Vec::new());
    expected.insert(b"\xff\xff".to_vec(), b"last".to_vec());
    expected
}

/// Every way of reading against what must be there.
fn read(engine: &dyn Engine, expected: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let name = engine.name();
    assert_eq!(&all(engine), expected, "{name}");
    for key in ["a/0001", "a/0299", "a/0101", "nothing", "b"] {
        assert_eq!(get(engine, key.as_bytes()), expected.get(key.as_bytes()).cloned(), "{name}");
    }
    let mut reader = engine.reader().expect("a reader");
    for (prefix, n) in [("a/00", 10), ("a/029", 10), ("a/", 1000), ("c", 5), ("b", 1), ("a/", 0)] {
        let prefix = prefix.as_bytes();
        let wanted = expected.iter().filter(|(key, _)| key.starts_with(prefix)).take(n);
        let wanted: Vec<_> = wanted.map(|(key, value)| (key.clone(), value.clone())).collect();
        let mut found = Vec::new();
        let mut each = |key: &[u8], value: &[u8]| found.push((key.to_vec(), value.to_vec()));
        let count = reader.first_of_prefix(prefix, n, &mut each).expect("a prefix scan");
        assert_eq!((count, &found), (wanted.len(), &wanted), "{name}");
    }
    for start in [b"a/0100".as_slice(), b"a/029", b"\xff\xff", b"\xff\xff\xff"] {
        let wanted: Vec<_> = expected.range(start.to_vec()..).take(7).collect();
        let mut found = Vec::new();
        let mut each = |key: &[u8], value: &[u8]| found.push((key.to_vec(), value.to_vec()));
        let count = reader.scan_from(start, 7, &mut each).expect("a scan");
        let found: Vec<_> = found.iter().map(|(key, value)| (key, value)).collect();
        assert_eq!((count, &found), (wanted.len(), &wanted), "{name}");
    }
    let mut found = Vec::new();
    let mut each = |key: &[u8], _: &[u8]| found.push(key.to_vec());
    assert_eq!(reader.first_of_prefix(b"\xff\xff", 5, &mut each).expect("a scan"), 1, "{name}");
}

#[test]
fn what_is_written_is_read_before_and_after_a_reopen() {
    let durable = profile();
    let pread = Profile { mmap_reads: false, point_index: false, ..profile() };
    let defaults = Profile { tuning: Tuning::Defaults, ..profile() };
    let shared = Profile { connection_shared: true, scan_prefix_len: 2, ..profile() };
    let ribbon = Profile { filter: Filter::Ribbon, block_bytes: 16 << 10, ..profile() };
    let screened = Profile { total_order_seek: true, statistics: true, ..ribbon };
    for profile in [durable, pread, defaults, shared, screened] {
        each_engine(|opener, dir| {
            let engine = opener.open(dir, &profile).expect("a new database");
            let expected = write(&*engine);
            read(&*engine, &expected);
            engine.flush().expect("a flush");
            read(&*engine, &expected);
            engine.close().expect("a close");
            let engine = opener.open(dir, &profile).expect("the same database");
            read(&*engine, &expected);
            engine.close().expect("a close");
        });
    }
}

#[test]
fn no_knob_is_changed_by_its_engine() {
    let matched = profile();
    let ribbon = Profile { filter: Filter::Ribbon, scan_prefix_len: 18, ..profile() };
    let defaults = Profile { tuning: Tuning::Defaults, ..profile() };
    for profile in [matched, ribbon, defaults] {
        each_engine(|opener, dir| {
            let engine = opener.open(dir, &profile).expect("a new database");
            let options = engine.effective_options().expect("its options");
            assert!(!options.bytes.is_empty() && !options.file_name.is_empty());
            for knob in options.knobs {
                assert_eq!(knob.asked, knob.got, "{}: {}", opener.name(), knob.name);
            }
            engine.close().expect("a close");
        });
    }
}

#[test]
fn every_durable_write_is_synced() {
    each_engine(|opener, dir| {
        let engine = opener.open(dir, &profile()).expect("a new database");
        engine.put(b"first", b"value", true).expect("a durable write");
        let calls = |work: &dyn Fn()| {
            let before = sync_count::now();
            work();
            sync_count::now().since(&before).durable()
        };
        // Other tests sync at the same time, so what is known is a lower bound.
        let put = calls(&|| engine.put(b"key", b"value", true).expect("a durable write"));
        let delete = calls(&|| engine.delete(b"key", true).expect("a durable removal"));
        let batch = calls(&|| engine.put_batch(&[(b"a", b"1")], true).expect("a durable batch"));
        engine.put(b"key", b"newer", false).expect("a buffered write");
        let sync = calls(&|| engine.sync().expect("a sync"));
        assert!(put > 0 && delete > 0 && batch > 0 && sync > 0, "{}", opener.name());
        engine.close().expect("a close");
    });
}

#[test]
fn an_account_and_a_debt_are_told() {
    let profile = Profile { statistics: true, ..profile() };
    each_engine(|opener, dir| {
        let engine = opener.open(dir, &profile).expect("a new database");
        for i in 0..20_000u32 {
            engine.put(&i.to_le_bytes(), &[7; 500], i % 4000 == 0).expect("a write");
        }
        engine.flush().expect("a flush");
        let bound = std::time::Duration::from_secs(60);
        let (settled, _, debt) = crate::engine::settle(&*engine, bound).expect("its debt");
        assert!(settled, "{}: {debt:?}", opener.name());
        let account = engine.account().expect("its account");
        if ["kiban", "rocksdb"].contains(&opener.name()) {
            // A durable write after a rotation syncs the older log too.
            assert!(account.syncs >= Some(5), "{}: {account:?}", opener.name());
            let tables = account.flush_bytes.expect("bytes of flushes");
            assert!(tables > 9_000_000, "{}: {account:?}", opener.name());
            assert!(account.flushes > Some(1), "{}: {account:?}", opener.name());
        }
        engine.close().expect("a close");
    });
}

/// The process that is killed: writes durable records for ever and tells each one.
#[test]
fn victim() {
    let Ok(what) = std::env::var(VICTIM) else {
        return;
    };
    let (name, dir) = what.split_once(':').expect("an engine and its directory");
    let opener = built().into_iter().find(|opener| opener.name() == name).expect("it was built");
    let engine = opener.open(Path::new(dir), &profile()).expect("a new database");
    let mut out = std::io::stdout();
    for i in 0u64.. {
        engine.put(&i.to_be_bytes(), &i.to_le_bytes(), true).expect("a durable write");
        writeln!(out, "told {i}").and_then(|()| out.flush()).expect("the pipe");
    }
}

#[test]
fn what_was_told_survives_a_kill() {
    let this = std::env::current_exe().expect("this binary has a path");
    each_engine(|opener, dir| {
        let mut victim = Command::new(&this)
            .args(["--exact", "engines::tests::victim", "--nocapture"])
            .env(VICTIM, format!("{}:{}", opener.name(), dir.display()))
            .stdout(Stdio::piped())
            .spawn()
            .expect("a second process");
        let told = BufReader::new(victim.stdout.take().expect("a pipe")).lines();
        let mut told = told.map_while(Result::ok).filter_map(|line| {
            line.rsplit_once("told ").and_then(|(_, number)| number.parse::<u64>().ok())
        });
        // What was written to the pipe before the end counts too.
        let mut last = told.by_ref().nth(100);
        victim.kill().expect("SIGKILL");
        last = told.last().or(last);
        victim.wait().expect("its end");
        let last = last.expect("the victim told something");
        let engine = opener.open(dir, &profile()).expect("a recovery");
        let found = all(&*engine);
        for i in 0..=last {
            let value = found.get(i.to_be_bytes().as_slice());
            assert_eq!(value, Some(&i.to_le_bytes().to_vec()), "{}: {i}", opener.name());
        }
        // At most the one that was under way.
        assert!(found.len() as u64 <= last + 2, "{}: {} of {last}", opener.name(), found.len());
        engine.close().expect("a close");
    });
}

#[test]
fn versions_come_from_the_lock_file() {
    assert_eq!(locked_version("rocksdb"), "0.25.0");
    assert_eq!(locked_version("no such crate"), "unknown");
    for opener in built() {
        assert!(!opener.version().contains("unknown"), "{}", opener.version());
    }
}

#[test]
fn a_prefix_ends_before_the_next_one() {
    assert_eq!(prefix_end(b"ab"), Some(b"ac".to_vec()));
    assert_eq!(prefix_end(b"a\xff\xff"), Some(b"b".to_vec()));
    assert_eq!((prefix_end(b"\xff"), prefix_end(b"")), (None, None));
}
