//! Headers, lengths, words that must not be left behind, and where `unsafe` may stand.

use super::source::{Rust, Source, block_end, demand, is_word, line_of, rust_files, scan};

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;
const MOD_LINES_MAX: usize = 150;
/// What is still over a limit, with the size that it must not grow beyond. No line is added here.
const RATCHET: [(&str, usize); 3] = [
    ("crash/src/runner/mutants/mod.rs", 270),
    ("model/src/driver/mod.rs", 160),
    ("src/engine/mod.rs", 200),
];
const INLINE_TEST_LINES_MAX: usize = 200;
const COLUMNS_MAX: usize = 100;

/// The only files with unsafe code. Each says why in its header; those of the engine have a loom
/// model.
const UNSAFE_FILES: [&str; 7] = [
    "benches/compare/src/engines/lmdb.rs",
    "benches/compare/src/host/raw.rs",
    "benches/compare/src/sync_count.rs",
    "src/env/os.rs",
    "src/env/sync.rs",
    "src/memtable/arena.rs",
    "src/memtable/skiplist.rs",
];
/// Roots of crates in which some listed file lifts the ban.
const ROOTS_WITH_UNSAFE: [&str; 2] = ["benches/compare/src/lib.rs", "src/lib.rs"];

/// A file whose header says so may be as long as its table.
fn is_table(source: &Source) -> bool {
    source
        .text
        .lines()
        .take_while(|line| line.starts_with("//!"))
        .any(|line| line.contains("table of uniform stanzas"))
}

#[test]
fn every_file_says_what_it_is() {
    let bare = rust_files().into_iter().filter(|file| !file.text.starts_with("//! "));
    demand("a file begins with a `//!` header", bare.map(|file| file.path).collect());
}

#[test]
fn files_stay_small() {
    let mut wrong = Vec::new();
    for file in rust_files() {
        let rust = scan(&file);
        let lines = file.text.lines().count();
        let whole = super::source::is_test_file(&file.path);
        let tests = rust.is_test.iter().filter(|test| **test).count();
        if lines > FILE_LINES_MAX && !is_table(&file) {
            wrong.push(format!("{}: {lines} lines, at most {FILE_LINES_MAX}", file.path));
        }
        let kept = RATCHET.iter().find(|(path, _)| *path == file.path);
        let mod_max = kept.map_or(MOD_LINES_MAX, |(_, max)| *max);
        if file.path.ends_with("/mod.rs") && !whole && lines > mod_max {
            wrong.push(format!("{}: {lines} lines, at most {mod_max}", file.path));
        }
        if !whole && tests > INLINE_TEST_LINES_MAX {
            let path = &file.path;
            wrong.push(format!("{path}: {tests} lines of inline tests; move them next door"));
        }
        for (i, line) in file.text.lines().enumerate() {
            if line.chars().count() > COLUMNS_MAX && !line.contains("https://") {
                wrong.push(format!("{}:{}: over {COLUMNS_MAX} columns", file.path, i + 1));
            }
        }
    }
    demand("files stay small", wrong);
}

/// Each function's name, first line and number of lines.
fn functions(rust: &Rust) -> Vec<(String, usize, usize)> {
    let mut found = Vec::new();
    for (at, _) in rust.code.match_indices("fn ") {
        let name: String = rust.code[at + 3..].chars().take_while(|c| is_word(*c)).collect();
        if name.is_empty() || rust.code[..at].chars().next_back().is_some_and(is_word) {
            continue;
        }
        if let Some(end) = block_end(&rust.code, at) {
            let first = line_of(&rust.code, at);
            found.push((name, first + 1, line_of(&rust.code, end) - first + 1));
        }
    }
    found
}

#[test]
fn functions_stay_small() {
    let mut wrong = Vec::new();
    for file in rust_files().iter().filter(|file| !is_table(file)) {
        for (name, line, lines) in functions(&scan(file)) {
            if lines > FUNCTION_LINES_MAX {
                wrong.push(format!("{}:{line}: fn {name} has {lines} lines", file.path));
            }
        }
    }
    demand("a function has at most 70 lines", wrong);
}

#[test]
fn unsafe_stands_only_where_it_is_listed() {
    let mut wrong = Vec::new();
    for file in rust_files() {
        let rust = scan(&file);
        let listed = UNSAFE_FILES.contains(&file.path.as_str());
        let words = || rust.code.split(|c| !is_word(c));
        if !listed && words().any(|word| word == "unsafe") {
            wrong.push(format!("{}: unsafe code outside the list", file.path));
        }
        if listed && !file.text.contains("//! Why not safe: ") {
            wrong.push(format!("{}: the header does not say why it is not safe", file.path));
        }
        let is_root = file.path.ends_with("src/lib.rs") || file.path.ends_with("src/main.rs");
        let forbids = !ROOTS_WITH_UNSAFE.contains(&file.path.as_str());
        if is_root && forbids && !rust.code.contains("#![forbid(unsafe_code)]") {
            wrong.push(format!("{}: a crate of the rig forbids unsafe code", file.path));
        }
    }
    demand("unsafe code", wrong);
}

#[test]
fn nothing_is_left_behind() {
    let notes = [concat!("FIX", "ME"), concat!("X", "XX"), concat!("TO", "DO")];
    let banned = [concat!("#[ig", "nore"), concat!("#[should", "_panic"), concat!("to", "do!(")];
    let mut wrong = Vec::new();
    for file in rust_files() {
        let rust = scan(&file);
        for (i, (code, words)) in rust.code.lines().zip(rust.words.lines()).enumerate() {
            let mut hits =
                notes.iter().filter(|note| words.split(|c| !is_word(c)).any(|w| w == **note));
            let mut calls = banned.iter().filter(|call| code.contains(**call));
            if let Some(hit) = hits.next().or(calls.next()) {
                wrong.push(format!("{}:{}: {hit}", file.path, i + 1));
            }
        }
    }
    demand("no test is switched off, no note to self is merged", wrong);
}

#[test]
fn functions_are_measured_from_signature_to_closing_brace() {
    let text =
        "fn a() -> [u8; 2] { [1, 2] }\ntrait T { fn b(&self); }\nfn c()\nwhere\n{\n  \"}\";\n}\n";
    let file = Source { path: "a.rs".into(), text: text.into() };
    let lines: Vec<_> = functions(&scan(&file)).into_iter().map(|(name, _, n)| (name, n)).collect();
    assert_eq!(lines, [("a".to_string(), 1), ("c".to_string(), 5)]);
}
