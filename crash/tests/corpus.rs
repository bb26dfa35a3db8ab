//! The committed fuzz corpora, replayed on the stable toolchain, and the fuzz workspace in step
//! with the targets.
#![allow(clippy::disallowed_methods)]

use kiban_crash::fuzz::{TARGETS, seeds};
use kiban_model::generate::Seed;
use std::path::{Path, PathBuf};

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz")
}

fn replay(target: &str) {
    let (_, body) = TARGETS.iter().find(|(name, _)| *name == target).expect("a target");
    let dir = fuzz().join("corpus").join(target);
    let mut paths: Vec<_> = std::fs::read_dir(&dir)
        .unwrap_or_else(|e| panic!("{}: {e}", dir.display()))
        .map(|entry| entry.expect("the corpus is readable").path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", dir.display());
    for path in paths {
        let bytes = std::fs::read(&path).expect("the corpus is readable");
        println!("{}", path.display());
        body(&bytes);
    }
    // A short blind search beside it, the same each time.
    let mut seed = Seed(17);
    for round in 0..300 {
        let len = seed.next_u64() as usize % (1 + round);
        body(&(0..len).map(|_| seed.next_u64() as u8).collect::<Vec<_>>());
    }
}

macro_rules! corpora {
    ($($target:ident)*) => {
        $(#[test] fn $target() { replay(stringify!($target)); })*

        const REPLAYED: &[&str] = &[$(stringify!($target)),*];
    };
}

corpora! { wal_reader table_open manifest batch ops ops_crash }

#[test]
fn every_target_has_a_file_a_corpus_a_dictionary_and_a_replay() {
    let manifest = std::fs::read_to_string(fuzz().join("Cargo.toml")).expect("fuzz/Cargo.toml");
    for (target, _) in TARGETS {
        assert!(REPLAYED.contains(&target), "{target} is not replayed");
        let file = fuzz().join(format!("fuzz_targets/{target}.rs"));
        let text = std::fs::read_to_string(file).expect("a target file");
        assert!(text.contains(&format!("::{target}(")), "{target}: one line over its body");
        assert!(manifest.contains(&format!("name = \"{target}\"")), "{target}: a [[bin]]");
        assert!(fuzz().join(format!("dict/{target}.dict")).exists(), "{target}: a dictionary");
    }
    let files = std::fs::read_dir(fuzz().join("fuzz_targets")).expect("fuzz_targets");
    assert_eq!(files.count(), TARGETS.len(), "a target file without a target");
}

#[test]
fn the_seeds_are_as_the_generator_makes_them() {
    for (target, _) in TARGETS {
        for (name, bytes) in seeds::seeds(target) {
            let path = fuzz().join("corpus").join(target).join(&name);
            if std::env::var_os("UPDATE_GOLDEN").is_some() {
                std::fs::create_dir_all(path.parent().expect("a folder")).expect("writable");
                std::fs::write(&path, &bytes).expect("writable");
            }
            let found = std::fs::read(&path).unwrap_or_default();
            let again = "UPDATE_GOLDEN=1 cargo test -p kiban-crash --test corpus";
            assert!(found == bytes, "{}: write it anew with {again}", path.display());
        }
    }
}
