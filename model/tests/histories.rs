//! Replays `histories/`: small histories that must hold, and ones that must not, each with the
//! promise that it breaks (V1, V2, A1, S1, S2, D3, C2, P1, W1).
// The test reads files of the repository, not of a database.
#![allow(clippy::disallowed_methods)]

use kiban_model::history::{History, Kind, check, exhaustive};
use std::path::Path;

/// Name, text and history of each file.
fn folder(name: &str) -> Vec<(String, String, History)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("histories").join(name);
    let entries = std::fs::read_dir(folder).expect("the folder is part of the repository");
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.expect("a readable folder").path();
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let history = History::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert!(text.starts_with("# "), "{} tells no story", path.display());
        found.push((path.display().to_string(), text, history));
    }
    assert!(!found.is_empty(), "nothing was replayed");
    found
}

#[test]
fn every_good_history_is_accepted() {
    for (path, _, history) in folder("good") {
        let passed = check(&history).unwrap_or_else(|e| panic!("{path}: {e}"));
        assert!(exhaustive::explains(&history), "{path}");
        assert!(passed.reads > 0, "{path} reads nothing");
    }
}

#[test]
fn every_bad_history_breaks_its_promise() {
    let mut broken = Vec::new();
    for (path, text, history) in folder("bad") {
        let said = check(&history).err().unwrap_or_else(|| panic!("{path} was accepted"));
        let breaks = text.lines().find_map(|line| line.strip_prefix("# breaks "));
        let kind = format!("{} {}", said.kind.promise(), said.kind.name());
        assert_eq!(breaks, Some(kind.as_str()), "{path}: {said}");
        assert!(!exhaustive::explains(&history), "{path}");
        broken.push(said.kind);
    }
    let at_fault = [Kind::Malformed, Kind::Undecided];
    let missing = Kind::ALL.iter().filter(|kind| !at_fault.contains(kind));
    let missing: Vec<_> = missing.filter(|kind| !broken.contains(kind)).collect();
    assert!(missing.is_empty(), "no bad history for {missing:?}");
}

#[test]
fn what_no_recorder_writes_is_refused() {
    for text in [
        "c0 2..1 get a -> !",
        "c0 1..4 get a -> !\nc0 2..3 get a -> !",
        "c0 1.. put a 1 -> 1",
        "c0 1.. get a -> !",
        "c0 1..2 get@0 a -> !\nc0 3..4 snapshot 0 -> ok",
        "c0 1..2 snapshot 0 -> ok\nc0 3..4 snapshot 0 -> ok",
    ] {
        let history = History::parse(text).expect("well-formed lines");
        let said = check(&history).expect_err(text);
        assert_eq!(said.kind, Kind::Malformed, "{text}: {said}");
    }
}

#[test]
fn a_malformed_line_is_named() {
    for (text, expected) in [
        ("get a -> 1", "a client"),
        ("c0 1..2 get a", "`->`"),
        ("c0 1..2 get a -> 1 2", "the end"),
        ("c0 1..2 put a 1 -> maybe", "a number"),
        ("c0 1..2 fetch a -> 1", "a call"),
        ("c0 1-2 get a -> 1", "`invoked..returned`"),
        ("at 1 sorted 1 put a 1", "`ordered`"),
    ] {
        let refused = History::parse(&format!("# story\n{text}")).expect_err(text);
        assert_eq!(refused.line, 2, "{text}");
        assert!(refused.expected.contains(expected), "{text}: {refused}");
    }
}
