//! A whole case without faults, from an empty directory to an audited reopen.

use super::{Driver, Mismatch, Outcome};
use crate::ops::{Case, Op};
use kiban::env::Env;
use std::fmt;
use std::path::PathBuf;

/// A case that broke a promise.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The index of the operation; the count of operations for the audit that follows them.
    pub at: usize,
    /// What differed.
    pub mismatch: Mismatch,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operation {}: {}", self.at, self.mismatch)
    }
}

impl std::error::Error for Failure {}

/// Runs every operation, reads everything in every way, closes, opens again and reads everything
/// once more. Returns the hash of the last state, which depends on the operations alone.
///
/// # Errors
/// The first mismatch.
pub fn run(env: Env, dir: impl Into<PathBuf>, case: &Case) -> Result<u64, Failure> {
    let failure = |at| move |mismatch| Failure { at, mismatch };
    let end = case.ops.len();
    let mut driver = Driver::create(env, dir, case.config.clone()).map_err(failure(0))?;
    for (at, op) in case.ops.iter().enumerate() {
        driver.step(op).map_err(failure(at))?;
    }
    let finish = |driver: &mut Driver| {
        driver.ensure_open()?;
        driver.audit()?;
        driver.settle()?;
        driver.step(&Op::Reopen { by_drop: false, changes: Vec::new() })?;
        driver.audit()?;
        driver.step(&Op::Close)
    };
    match finish(&mut driver).map_err(failure(end))? {
        Outcome::Done => Ok(driver.truth.state_hash()),
        Outcome::Failed(error) => {
            let mismatch =
                Mismatch::new("B1", "no error where nothing is injected", error.to_string());
            Err(Failure { at: end, mismatch })
        }
    }
}
