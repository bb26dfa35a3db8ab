//! What may not change between the parts of one campaign.
//!
//! The binary, the plan, the sources that went into the binary, the sources that analyse, the
//! engines' versions, the revision, and what the command asked for. A resume with any of them
//! changed is refused, by name; so is one on another machine (see `campaign`).

use crate::cli::Usage;
use crate::trial::hex;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// SHA-256 over every source that was compiled in.
pub const INPUTS_SHA256: &str = env!("COMPARE_INPUTS_SHA256");
/// SHA-256 over the sources that analyse.
pub const ANALYSIS_SHA256: &str = env!("COMPARE_ANALYSIS_SHA256");

/// Everything that is pinned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pins {
    /// SHA-256 of the binary.
    pub binary_sha256: String,
    /// SHA-256 of the plan's file.
    pub plan_sha256: String,
    /// SHA-256 of the compiled sources.
    pub inputs_sha256: String,
    /// SHA-256 of the analysing sources.
    pub analysis_sha256: String,
    /// Each engine's version.
    pub engines: BTreeMap<String, String>,
    /// The revision of the checkout; "unknown" where there is no git.
    pub revision: String,
    /// Whether the checkout had changes.
    pub dirty: bool,
    /// Trials of each row and contestant.
    pub trials: u32,
    /// The rows and contestants that run, in the plan's order.
    pub rows: Vec<(String, Vec<String>)>,
    /// Whether a busy machine was allowed.
    pub busy_allowed: bool,
}

impl Pins {
    /// The names of what differs.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        [
            ("the binary", self.binary_sha256 != other.binary_sha256),
            ("the plan", self.plan_sha256 != other.plan_sha256),
            ("the compiled sources", self.inputs_sha256 != other.inputs_sha256),
            ("the analysing sources", self.analysis_sha256 != other.analysis_sha256),
            ("an engine's version", self.engines != other.engines),
            ("the revision", self.revision != other.revision || self.dirty != other.dirty),
            ("the number of trials", self.trials != other.trials),
            ("the rows or engines", self.rows != other.rows),
            ("whether a busy machine is allowed", self.busy_allowed != other.busy_allowed),
        ]
        .into_iter()
        .filter_map(|(name, differs)| differs.then_some(name))
        .collect()
    }

    /// Refuses to go on with a campaign whose pins were `then`.
    ///
    /// # Errors
    /// [`Usage`], naming what changed.
    pub fn must_equal(&self, then: &Self) -> Result<()> {
        let changed = self.differences(then);
        if changed.is_empty() {
            return Ok(());
        }
        let what = changed.join(", ");
        Err(Usage(format!("this campaign can't be gone on with: {what} changed")).into())
    }
}

/// SHA-256 of a file.
///
/// # Errors
/// Where it can't be read.
pub fn file_sha256(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    Ok(hex(&Sha256::digest(bytes)))
}

/// The checkout's revision, and whether it has changes.
#[must_use]
pub fn revision() -> (String, bool) {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).current_dir(manifest_dir()).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_string())
    };
    let revision = git(&["rev-parse", "HEAD"]).unwrap_or_else(|| "unknown".into());
    // The engine's sources and the flags matter as much as the package; a board that was just
    // written, under `docs`, does not.
    let status = ["status", "--porcelain", ".", "../../src", "../../Cargo.toml", "../../.cargo"];
    (revision, git(&status).as_deref() != Some(""))
}

/// Where the package lies, or the current directory if the binary was carried elsewhere.
#[must_use]
pub fn manifest_dir() -> PathBuf {
    let built = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    if built.is_dir() { built } else { PathBuf::from(".") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pins() -> Pins {
        Pins {
            binary_sha256: "b".into(),
            plan_sha256: "p".into(),
            inputs_sha256: INPUTS_SHA256.into(),
            analysis_sha256: ANALYSIS_SHA256.into(),
            engines: [("fake".to_string(), "1".to_string())].into(),
            revision: "r".into(),
            dirty: false,
            trials: 3,
            rows: vec![("a/b".into(), vec!["fake".into()])],
            busy_allowed: false,
        }
    }

    #[test]
    fn each_pin_that_changes_is_refused_by_its_name() {
        type Change = fn(&mut Pins);
        let changes: [(&str, Change); 10] = [
            ("the binary", |pins| pins.binary_sha256.push('x')),
            ("the plan", |pins| pins.plan_sha256.push('x')),
            ("the compiled sources", |pins| pins.inputs_sha256.push('x')),
            ("the analysing sources", |pins| pins.analysis_sha256.push('x')),
            ("an engine's version", |pins| {
                pins.engines.insert("fake".into(), "2".into());
            }),
            ("the revision", |pins| pins.revision.push('x')),
            ("the revision", |pins| pins.dirty = true),
            ("the number of trials", |pins| pins.trials += 1),
            ("the rows or engines", |pins| pins.rows.clear()),
            ("a busy machine", |pins| pins.busy_allowed = true),
        ];
        for (name, change) in changes {
            let mut changed = pins();
            change(&mut changed);
            let refused = changed.must_equal(&pins()).expect_err(name);
            assert!(refused.is::<Usage>() && refused.to_string().contains(name), "{refused}");
        }
        assert!(pins().must_equal(&pins()).is_ok());
    }

    #[test]
    fn hashes_were_compiled_in() {
        assert_eq!((INPUTS_SHA256.len(), ANALYSIS_SHA256.len()), (64, 64));
        assert_ne!(INPUTS_SHA256, ANALYSIS_SHA256);
    }
}
