//! Every seeded bug applies to the sources as they are, and says what it is.
#![allow(clippy::disallowed_methods, reason = "a test of files")]

use kiban_crash::runner::cases::PROMISES;
use kiban_crash::runner::mutants::{catalog, dir};
use std::path::Path;

/// Those that may never go.
const REQUIRED: &[&str] = &["B01", "B07", "B10", "B27", "B38", "B43", "B66", "B75", "B112", "B123"];
/// Invariants of the engine's own that a seeded bug may name in place of a promise.
const INVARIANTS: &[&str] = &["M1", "M2", "M3", "M4", "M5", "O1", "O2", "O3", "O4", "R2", "W3"];

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crash stands in the workspace")
}

fn all() -> Vec<catalog::Mutant> {
    catalog::read_all(&dir(workspace())).expect("every file is well-formed")
}

#[test]
fn every_seeded_bug_applies() {
    let mut failed = Vec::new();
    for mutant in all() {
        let read = |file: &Path| {
            std::fs::read_to_string(workspace().join(file))
                .map_err(|error| format!("{}: {}: {error}", mutant.id, file.display()))
        };
        failed.extend(catalog::mutate(&mutant, read).err());
    }
    assert!(failed.is_empty(), "\n{}", failed.join("\n"));
}

#[test]
fn seeded_bugs_change_the_engine_alone_and_tell_their_story() {
    let mutants = all();
    for id in REQUIRED {
        assert!(mutants.iter().any(|mutant| mutant.id == *id), "{id} is required");
    }
    for mutant in mutants {
        let id = &mutant.id;
        for edit in &mutant.edits {
            assert!(edit.file.starts_with("src"), "{id}: {}", edit.file.display());
        }
        let known = |name: &str| PROMISES.contains(&name) || INVARIANTS.contains(&name);
        assert!(known(&mutant.promise), "{id}: {} is no promise", mutant.promise);
        let ends = |word: &&str| word.trim_end_matches(['"', ')']).ends_with('.');
        let sentences = mutant.story.split_whitespace().filter(ends).count();
        assert!((3..=6).contains(&sentences), "{id}: {sentences} sentences, not three to six");
    }
}
