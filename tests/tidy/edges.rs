//! Which module of the engine may know which: verbs import nouns, nouns never import verbs, and no
//! verb imports another; the front doors introduce them to each other.

use super::source::{demand, is_test_file, is_word, rust_files, scan};

/// Words that everything may use.
const WORDS: [&str; 3] = ["base", "env", "error"];
/// Parts: what exists.
const NOUNS: [&str; 11] = [
    "batch", "cache", "cursor", "engine", "listener", "memtable", "options", "stats", "table",
    "version", "wal",
];
/// Paths: what happens.
const VERBS: [&str; 4] = ["maintain", "read", "recover", "write"];
/// Front doors: they may use everything.
const DOORS: [&str; 9] =
    ["admit", "bin", "checkpoint", "kiban", "lib", "rig", "shared", "snapshot", "verify"];

/// The kind of a module, by its place in the order of knowledge.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Word,
    Noun,
    Verb,
    Door,
}

fn kind(module: &str) -> Option<Kind> {
    let lists: [(&[&str], Kind); 4] =
        [(&WORDS, Kind::Word), (&NOUNS, Kind::Noun), (&VERBS, Kind::Verb), (&DOORS, Kind::Door)];
    lists.into_iter().find(|(list, _)| list.contains(&module)).map(|(_, kind)| kind)
}

fn may_know(from: (&str, Kind), to: (&str, Kind)) -> bool {
    match (from.1, to.1) {
        _ if from.0 == to.0 => true,
        (Kind::Door, _) => true,
        (Kind::Word, to) => to == Kind::Word,
        (Kind::Noun, to) => matches!(to, Kind::Word | Kind::Noun),
        (Kind::Verb, to) => matches!(to, Kind::Word | Kind::Noun),
    }
}

/// The names right behind `crate::` in `code`, also in a braced list, with their lines.
fn named(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, path) in code.match_indices("crate::") {
        let line = code[..at].matches('\n').count() + 1;
        let rest = &code[at + path.len()..];
        let list = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let names = list.map_or(rest, |(inner, _)| inner).split(',').take(match list {
            Some(_) => usize::MAX,
            None => 1,
        });
        for name in names {
            let name: String = name.trim().chars().take_while(|c| is_word(*c)).collect();
            found.push((line, name));
        }
    }
    found
}

#[test]
fn verbs_know_nouns_and_nobody_knows_verbs() {
    let mut wrong = Vec::new();
    for file in rust_files() {
        let Some(below) = file.path.strip_prefix("src/") else { continue };
        if is_test_file(&file.path) {
            continue;
        }
        let module = below.split(['/', '.']).next().expect("a path has a first part");
        let Some(from) = kind(module) else {
            wrong.push(format!("{}: is {module} a noun, a verb or a door?", file.path));
            continue;
        };
        let rust = scan(&file);
        for (line, to) in named(&rust.code) {
            // A type of the crate root is reached through the front door's re-exports.
            let Some(kind) = kind(&to) else { continue };
            if !rust.is_test[line - 1] && !may_know((module, from), (&to, kind)) {
                wrong.push(format!("{}:{line}: {from:?} {module} knows {kind:?} {to}", file.path));
            }
        }
    }
    demand("verbs import nouns, nouns never verbs, no verb another", wrong);
}

#[test]
fn the_oracle_knows_nothing_of_the_engine() {
    let oracle = rust_files().into_iter().find(|file| file.path == "model/src/oracle.rs");
    let oracle = oracle.expect("model/src/oracle.rs");
    assert!(!scan(&oracle).code.contains("kiban"), "the oracle imports nothing from the engine");
    assert!(oracle.text.lines().count() <= 250, "the oracle is short enough to be obviously right");
}

#[test]
fn the_form_shows_only_in_env() {
    let mut wrong = Vec::new();
    for file in rust_files() {
        let engine = file.path.starts_with("src/") && !file.path.starts_with("src/env/");
        let rust = scan(&file);
        for (i, line) in rust.code.lines().enumerate() {
            let words = file.text.lines().nth(i).unwrap_or_default();
            let form = words.contains("\"loom\"") || words.contains("\"shuttle\"");
            if engine && line.contains("cfg") && form && !rust.is_test[i] {
                wrong.push(format!("{}:{}", file.path, i + 1));
            }
        }
    }
    demand("only src/env asks in which form it is compiled", wrong);
}
