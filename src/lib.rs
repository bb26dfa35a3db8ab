//! Kiban is an embedded LSM key-value engine for Linux, checked in lockstep with a simple oracle.
//!
//! Start at [`Kiban`], or [`SharedKiban`] for many threads, and [`KibanOptions`].
#![deny(unsafe_code, missing_docs)]

#[doc(hidden)]
pub mod base;
#[doc(hidden)]
pub mod env;
#[doc(hidden)]
pub mod rig;

mod admit;
mod batch;
mod cache;
mod checkpoint;
mod cursor;
mod engine;
mod error;
mod kiban;
mod listener;
mod maintain;
mod memtable;
mod options;
mod read;
mod recover;
mod shared;
mod snapshot;
mod stats;
mod table;
mod verify;
mod version;
mod wal;
mod write;

pub use base::key::SeqNo;
pub use base::slice::Slice;
pub use batch::WriteBatch;
pub use error::{Error, ErrorKind, Result};
pub use kiban::{Kiban, restore};
pub use listener::{Listener, StallCause};
pub use maintain::MaintainStep;
pub use options::{Compression, KibanOptions, Reads};
pub use read::iter::Iter;
pub use recover::RecoveryReport;
pub use shared::{SharedKiban, WriteOptions};
pub use snapshot::Snapshot;
pub use stats::Stats;
pub use verify::VerifyReport;
pub use wal::Dropped;

/// The README's code, run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
