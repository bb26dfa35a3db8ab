//! Every promise has a sentence in `docs/INVARIANTS.md`, a check in the code, and a test.
//!
//! - A check names the promise: in the words of an assertion, or in a comment at the place.
//! - A test names it in its header, a comment or a message.
//! - A row that says "planned" belongs to work not done yet, and needs neither.
//! - An id that no row explains is wrong too.

use super::source::{demand, documents, is_word, rust_files, scan};
use std::collections::BTreeMap;

const LETTERS: &str = "ABCDFGLMOPRSVW";

#[derive(Default)]
struct Places {
    planned: bool,
    checks: Vec<String>,
    tests: Vec<String>,
}

fn is_id(word: &str) -> bool {
    let mut chars = word.chars();
    let letter = chars.next().is_some_and(|c| LETTERS.contains(c));
    let digit = chars.next().is_some_and(|c| ('1'..='9').contains(&c));
    letter && digit && chars.next().is_none()
}

fn ids(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c| !is_word(c)).filter(|word| is_id(word))
}

/// The rows of the ledger: `| id | sentence | ... |`.
fn ledger() -> BTreeMap<String, Places> {
    let ledger = documents().into_iter().find(|file| file.path == "docs/INVARIANTS.md");
    let text = ledger.expect("docs/INVARIANTS.md").text;
    let rows = text.lines().filter_map(|line| {
        let id = line.strip_prefix('|')?.split('|').next()?.trim();
        is_id(id).then(|| {
            let places = Places { planned: line.contains("planned"), ..Places::default() };
            (id.to_string(), places)
        })
    });
    rows.collect()
}

#[test]
fn promises_checks_and_tests_are_in_step() {
    let mut ledger = ledger();
    let mut wrong = Vec::new();
    for file in rust_files().iter().filter(|file| !file.path.starts_with("tests/tidy/")) {
        let rust = scan(file);
        for (i, line) in rust.words.lines().enumerate() {
            for id in ids(line) {
                let place = format!("{}:{}", file.path, i + 1);
                match ledger.get_mut(id) {
                    None => wrong.push(format!("{place}: {id} is not in docs/INVARIANTS.md")),
                    Some(places) if rust.is_test[i] => places.tests.push(place),
                    Some(_) if line.trim_start().starts_with("//!") => {}
                    Some(places) => places.checks.push(place),
                }
            }
        }
    }
    for (id, places) in &ledger {
        if !places.planned && places.checks.is_empty() {
            wrong.push(format!("{id}: no assertion and no check in the code names it"));
        }
        if !places.planned && places.tests.is_empty() {
            wrong.push(format!("{id}: no test names it"));
        }
    }
    demand("docs/INVARIANTS.md, code and tests are in step", wrong);
}
