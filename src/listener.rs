//! Events that an application may want to hear of.
//!
//! Invariants
//! - A listener is called with no lock of the engine held.
//! - Nothing of the engine depends on what it does; it should return soon, since a writer or a
//!   worker waits for it, and must neither close the database nor drop its last clone, which would
//!   wait for that worker.

use crate::error::Error;
use std::fmt;

/// Why a write waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum StallCause {
    /// There are as many memtables as there may be, and the last one is full.
    Memtables,
    /// There are as many runs as there may be.
    Runs,
    /// The logs hold more than their budget, or are too many.
    Logs,
    /// No reserved file number is left.
    FileNumbers,
}

impl fmt::Display for StallCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memtables => "memtables wait for a flush",
            Self::Runs => "runs wait for a compaction",
            Self::Logs => "logs wait for a flush",
            Self::FileNumbers => "file numbers wait for a reservation",
        })
    }
}

/// Hears of events. Every method does nothing unless it is written anew.
///
/// ```
/// use kiban::{KibanOptions, Listener, StallCause};
///
/// struct Log;
///
/// impl Listener for Log {
///     fn stall_ended(&self, cause: StallCause, nanos: u64) {
///         eprintln!("a write waited for {nanos} ns: {cause}");
///     }
/// }
///
/// let options = KibanOptions::new().listener(std::sync::Arc::new(Log));
/// # let _ = options;
/// ```
pub trait Listener: Send + Sync + 'static {
    /// A write begins to wait.
    fn stall_begun(&self, cause: StallCause) {
        let _ = cause;
    }

    /// A write waited for `nanos` nanoseconds and goes on, or was refused.
    fn stall_ended(&self, cause: StallCause, nanos: u64) {
        let _ = (cause, nanos);
    }

    /// A background flush or compaction failed. It is tried again, unless the error poisoned.
    fn maintenance_failed(&self, error: &Error) {
        let _ = error;
    }
}

impl fmt::Debug for dyn Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

/// Hears of nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Silent;

impl Listener for Silent {}
