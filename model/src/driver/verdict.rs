//! What a difference is called, and which errors are none.

use crate::ops::Op;
use crate::text::brief;
use kiban::{Error, ErrorKind};
use std::fmt;

/// A broken promise.
#[derive(Clone, Debug)]
pub struct Mismatch {
    /// The promise's id.
    pub promise: &'static str,
    /// The operation, as text; empty outside of one.
    pub op: String,
    /// What should have come.
    pub expected: String,
    /// What came.
    pub got: String,
}

impl Mismatch {
    /// A difference found now.
    #[must_use]
    pub fn new(promise: &'static str, expected: impl Into<String>, got: impl Into<String>) -> Self {
        Self { promise, op: String::new(), expected: expected.into(), got: got.into() }
    }

    pub(super) fn value(
        promise: &'static str,
        expected: Option<&[u8]>,
        got: Option<&[u8]>,
    ) -> Self {
        Self::new(promise, value_text(expected), value_text(got))
    }

    pub(super) fn during(mut self, op: &Op) -> Self {
        if self.op.is_empty() {
            self.op = op.to_string();
        }
        self
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { promise, op, expected, got } = self;
        write!(f, "{promise} broken by `{op}`\n  expected {expected}\n  got      {got}")
    }
}

impl std::error::Error for Mismatch {}

fn value_text(value: Option<&[u8]>) -> String {
    value.map_or("nothing".into(), brief)
}

/// How an operation ended where nothing differed.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// As it should.
    Done,
    /// With an error that the tolerance admits.
    Failed(Error),
}

impl Outcome {
    /// The error, if there was one.
    #[must_use]
    pub fn error(&self) -> Option<&Error> {
        match self {
            Self::Done => None,
            Self::Failed(error) => Some(error),
        }
    }
}

/// Which errors are no mismatch: those that the rig injected the cause of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tolerance {
    /// Errors of the environment, poison and stalls after them.
    pub io: bool,
    /// Reported corruption.
    pub corruption: bool,
}

impl Tolerance {
    /// Whether `error` may come. A locked or closed handle is never the environment's doing.
    #[must_use]
    pub fn admits(&self, error: &Error) -> bool {
        if error.is_corruption() {
            return self.corruption;
        }
        match error.kind() {
            ErrorKind::Io | ErrorKind::Stalled => self.io,
            ErrorKind::Unavailable => self.io && error.is_poisoned(),
            _ => false,
        }
    }

    /// `result`, where an admitted error is an outcome and another one breaks `promise`.
    pub(super) fn sort<T>(
        &self,
        promise: &'static str,
        result: kiban::Result<T>,
    ) -> Result<Result<T, Outcome>, Mismatch> {
        match result {
            Ok(value) => Ok(Ok(value)),
            Err(error) if self.admits(&error) => Ok(Err(Outcome::Failed(error))),
            Err(error) => {
                // A false alarm about damage is C1's; any other error is the operation's own.
                let promise = if error.is_corruption() { "C1" } else { promise };
                Err(Mismatch::new(promise, "no error", error.to_string()))
            }
        }
    }
}

/// Unwraps what [`Tolerance::sort`] gives: returns from the caller with the outcome of an error.
macro_rules! admitted {
    ($sorted:expr) => {
        match $sorted? {
            Ok(value) => value,
            Err(outcome) => return Ok(outcome),
        }
    };
}
pub(super) use admitted;
