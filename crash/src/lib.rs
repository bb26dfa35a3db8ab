//! What the disk may do.
#![forbid(unsafe_code)]

pub mod report;
