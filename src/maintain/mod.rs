//! What happens to data after it is in memory: memory -> L0 -> levels -> nothing.
//!
//! 1. [`pick`]: what to merge next (pure).
//! 2. [`retain`]: what a merge keeps (pure).

pub mod pick;
pub mod retain;
