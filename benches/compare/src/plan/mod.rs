//! Plans: what is measured, as data. Every parameter stands in the file; an unknown one is refused.
//!
//! - `text`: the file's own words, [`text::PlanText`].
//! - `expand`: rows with their sweeps and variants worked out, checked, ready to run.
//!
//! A [`Plan`] is what a campaign runs; a [`Row`] with one contestant is what a trial runs.

mod expand;
mod text;

pub use expand::{Contestant, FLOOR, Plan, Row, all, all_rows};
pub use text::{Data, Durability, Group, Layout, Mix, Pick, PlanText, Prepare, Stage};

#[cfg(test)]
mod tests;
