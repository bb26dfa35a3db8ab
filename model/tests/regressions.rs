//! Replays `regressions/*.ops`: cases that once failed, or that reach a corner by hand, as
//! readable operations. A new failure is shrunk and put there with a comment that tells its story.
// The test reads files of the repository, not of a database.
#![allow(clippy::disallowed_methods)]

mod support;

use kiban_model::driver;
use kiban_model::ops::Case;
use std::path::Path;

#[test]
fn every_regression_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    let mut replayed = 0;
    for entry in std::fs::read_dir(folder).expect("the folder is part of the repository") {
        let path = entry.expect("a readable folder").path();
        if path.extension().is_none_or(|extension| extension != "ops") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let case = Case::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert!(text.starts_with('#'), "{} tells no story", path.display());
        let dir = support::dir();
        if let Err(failure) = driver::run(support::env(), dir.path().join("db"), &case) {
            panic!("{}: {failure}", path.display());
        }
        replayed += 1;
    }
    assert!(replayed > 0, "nothing was replayed");
}
