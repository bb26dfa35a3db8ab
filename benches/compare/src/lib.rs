//! The side-by-side campaign: Kiban and other engines, the same work, in one run on one machine.

pub mod engine;
pub mod engines;
pub mod profile;
pub mod sync_count;
