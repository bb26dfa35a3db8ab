//! What the disk tells about its calls: points, the log of calls, injected faults, violations.
//!
//! Invariants
//! - A point is told with the disk as it is then; whoever hears it may take a snapshot and can
//!   change nothing.
//! - The log is bounded: it keeps the last calls.

use super::errno::Errno;
use super::fault::{Fault, Op};
use std::fmt;
use std::sync::Arc;

/// Where in a call a point lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Moment {
    /// Nothing of the call has happened.
    Before,
    /// Only writes and syncs: any part of it may have happened, and its caller knows nothing.
    Inside,
    /// The effect stands, and its caller knows nothing yet.
    Return,
}

/// A moment at which a crash may fall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Number of the call, from 1, in the life of this disk.
    pub call: u64,
    /// The call.
    pub op: Op,
    /// Where in it.
    pub moment: Moment,
    /// The stage that the caller had set.
    pub stage: u8,
    /// What goes wrong with the call.
    pub fault: Option<Fault>,
}

/// One call, for a failure report.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its number, from 1.
    pub index: u64,
    /// The stage that the caller had set.
    pub stage: u8,
    /// The call.
    pub op: Op,
    /// What it was about; `from -> to` for a rename or link.
    pub path: Arc<str>,
    /// First byte, where there is one.
    pub offset: u64,
    /// Bytes or length asked for.
    pub len: u64,
    /// Bytes done or the number answered; `None` while it runs.
    pub result: Option<Result<u64, Errno>>,
    /// What was injected.
    pub fault: Option<Fault>,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>6} {} {}", self.index, self.op.name(), self.path)?;
        match self.op {
            Op::Write | Op::Read => write!(f, " {}+{}", self.offset, self.len)?,
            Op::SetLen | Op::Preallocate | Op::Map => write!(f, " {}", self.len)?,
            _ => {}
        }
        match self.result {
            None => write!(f, " ...")?,
            Some(Ok(n)) => write!(f, " = {n}")?,
            Some(Err(errno)) => write!(f, " = {errno}")?,
        }
        match self.fault {
            Some(fault) => write!(f, " [{fault}]"),
            None => Ok(()),
        }
    }
}

/// A fault that was injected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injected {
    /// The number of the call.
    pub call: u64,
    /// The stage that the caller had set.
    pub stage: u8,
    /// The call.
    pub op: Op,
    /// What it was about, as in [`Call::path`].
    pub path: Arc<str>,
    /// The fault.
    pub fault: Fault,
}

/// Something that no engine may do, whatever the device does: it fails the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The number of the call.
    pub call: u64,
    /// The call.
    pub op: Op,
    /// The file.
    pub path: String,
    /// What was wrong with it.
    pub what: &'static str,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {}: {} {}: {}", self.call, self.op.name(), self.path, self.what)
    }
}
