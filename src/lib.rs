//! Kiban is an embedded LSM key-value engine for Linux.
#![deny(unsafe_code, missing_docs)]

pub mod base;
mod cache;
mod cursor;
pub mod env;
mod error;
mod maintain;
mod memtable;
#[doc(hidden)]
pub mod rig;
mod table;
mod version;
mod wal;

pub use base::slice::Slice;
pub use error::{Error, ErrorKind, Result};
