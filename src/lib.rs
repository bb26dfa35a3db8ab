//! Kiban is an embedded LSM key-value engine for Linux.
#![deny(unsafe_code, missing_docs)]

pub mod base;
pub mod env;
mod error;

pub use base::slice::Slice;
pub use error::{Error, ErrorKind, Result};
