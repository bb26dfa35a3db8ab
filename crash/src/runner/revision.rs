//! Which sources these are: the workspace's directory and its commit.
//!
//! Invariants
//! - Nothing here fails a run: without git, or outside a checkout, the revision is "unknown".
//! - A tree with changes is marked with a trailing "+", because its hash does not name it.
#![allow(clippy::disallowed_methods, reason = "the runner stands outside the engine")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The revision where none can be told.
pub const UNKNOWN: &str = "unknown";

/// The workspace that holds this crate's sources: where the seeded bugs and the corpus are.
/// `cargo run` tells where it is; a binary that was started by hand looks upwards from here, and
/// then where it was built.
#[must_use]
pub fn workspace() -> Option<PathBuf> {
    let told = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let here = std::env::current_dir().ok();
    let built = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    told.iter()
        .chain(&here)
        .chain([&built])
        .find_map(|start| start.ancestors().find(|dir| is_workspace(dir)).map(Path::to_path_buf))
}

fn is_workspace(dir: &Path) -> bool {
    dir.join("Cargo.toml").is_file() && dir.join("crash/src/runner").is_dir()
}

/// The commit's hash, "+" appended where the tree has changes.
#[must_use]
pub fn of(workspace: Option<&Path>) -> String {
    let Some(dir) = workspace else { return UNKNOWN.to_owned() };
    let Some(hash) = git(dir, &["rev-parse", "HEAD"]) else { return UNKNOWN.to_owned() };
    match git(dir, &["status", "--porcelain", "--untracked-files=no"]) {
        Some(changes) if changes.is_empty() => hash,
        _ => format!("{hash}+"),
    }
}

/// A seed made of a commit's hash.
#[must_use]
pub fn seed(revision: &str) -> Option<u64> {
    u64::from_str_radix(revision.get(..16)?, 16).ok()
}

/// What git prints, if it can; a checkout that belongs to a repository further up is not ours.
fn git(dir: &Path, arguments: &[&str]) -> Option<String> {
    if !dir.join(".git").exists() {
        return None;
    }
    let output = Command::new("git").arg("-C").arg(dir).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_makes_a_seed_with_or_without_changes() {
        assert_eq!(seed("00000000000000ff1234"), Some(255));
        assert_eq!(seed("00000000000000ff1234+"), Some(255));
        assert_eq!(seed(UNKNOWN), None);
        assert_eq!(seed("é0000000000000000"), None);
    }

    #[test]
    fn the_workspace_of_this_crate_is_found() {
        let found = workspace().expect("the test runs in the workspace");
        assert!(found.join("crash/src").is_dir(), "{}", found.display());
    }
}
