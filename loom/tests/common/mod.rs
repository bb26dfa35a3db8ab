//! What every model shares: the set of all outcomes over all interleavings.
//!
//! A model compares this set with the list of those that are allowed: one too many is a defect of
//! the engine, one too few means that the model no longer reaches it. A thread that waits for ever
//! is loom's own finding (B1).
#![allow(clippy::disallowed_types, reason = "outcomes are gathered outside what loom explores")]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// Every outcome of `f` over every interleaving of at most `preemptions`, or of any number.
pub fn outcomes<T: Ord + Send + 'static>(
    preemptions: Option<usize>,
    f: impl Fn() -> T + Send + Sync + 'static,
) -> BTreeSet<T> {
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let all = seen.clone();
    let mut model = loom::model::Builder::new();
    model.preemption_bound = preemptions;
    model.check(move || {
        let outcome = f();
        seen.lock().expect("no outcome panics here").insert(outcome);
    });
    std::mem::take(&mut all.lock().expect("no outcome panics here"))
}
