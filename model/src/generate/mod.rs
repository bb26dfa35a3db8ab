//! Generators of cases: one body of code over a source of choices, so that a seed, proptest and
//! a fuzzer's bytes all draw from the same distributions.
//!
//! - [`source`]: where choices come from.
//! - [`keys`]: a pool of adversarial keys, and keys near them.
//! - [`sizes`]: value lengths at exact boundaries of the options.
//! - [`swarm`]: a plan for one run: options, weights, pool; and operations drawn from it.
//! - [`strategies`]: the same for proptest and `arbitrary`.
//!
//! What they can't produce, and who does: faults and crashes (the crash campaign), threads (the
//! schedules), malformed option sets (the options' own tests), values beyond 1 MiB and more than a
//! few thousand operations (the trace runner), and two handles on one directory beyond the refused
//! open.

pub mod keys;
pub mod sizes;
pub mod source;
pub mod strategies;
pub mod swarm;

pub use source::{Choices, Seed, Source};
pub use swarm::{Mix, Plan};
