//! The catalogue of seeded bugs, to be read.
//!
//! Invariant: nothing is run.

use super::catalog::Mutant;
use crate::runner::page::{Block, Page};

/// The catalogue as a page.
#[must_use]
pub fn page(mutants: &[Mutant]) -> Page {
    let mut page = Page {
        title: "seeded bugs".to_owned(),
        verdict: format!("{} seeded bugs.", mutants.len()),
        ..Page::default()
    };
    for mutant in mutants {
        let fact = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut files: Vec<String> =
            mutant.edits.iter().map(|edit| edit.file.display().to_string()).collect();
        files.dedup();
        let facts = vec![
            fact("origin", &mutant.origin),
            fact("promise", &mutant.promise),
            fact("layer", &mutant.layer),
            fact("changes", &files.join(" ")),
        ];
        page.section(&mutant.id, vec![Block::Facts(facts), Block::Verbatim(mutant.story.clone())]);
    }
    page
}

/// The catalogue as JSON.
#[must_use]
pub fn json(mutants: &[Mutant]) -> String {
    let list: Vec<_> = mutants
        .iter()
        .map(|mutant| {
            serde_json::json!({
                "id": mutant.id, "origin": mutant.origin, "promise": mutant.promise,
                "layer": mutant.layer, "story": mutant.story,
            })
        })
        .collect();
    serde_json::json!({"command": "mutants", "list": list}).to_string()
}
