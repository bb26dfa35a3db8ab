//! The generators for proptest and for `arbitrary`.
//!
//! Invariants
//! - A strategy's value is made of lists of numbers, a list for the plan and one for each
//!   operation, so that shrinking one operation leaves the others alone.

use super::source::{Choices, Seed};
use super::swarm::{Mix, Plan};
use crate::ops::{Case, Op};
use proptest::prelude::*;

/// Numbers that an operation draws at the most before only simplest choices follow. Large batches
/// end in simple records.
const DRAWS_MAX: usize = 40;

/// Plans of a mix.
pub fn plan(mix: Mix) -> impl Strategy<Value = Plan> {
    any::<u64>().prop_map(move |seed| Plan::new(&mut Seed(seed), mix))
}

/// Operations of a plan.
pub fn op(plan: Plan) -> impl Strategy<Value = Op> {
    numbers().prop_map(move |numbers| plan.op(&mut Choices::new(numbers)))
}

/// Whole cases of up to `ops_max` operations.
pub fn case(mix: Mix, ops_max: usize) -> impl Strategy<Value = Case> {
    let lists = proptest::collection::vec(numbers(), 1..=ops_max);
    (plan(mix), lists).prop_map(|(plan, lists)| Case {
        config: plan.config.clone(),
        ops: lists.into_iter().map(|list| plan.op(&mut Choices::new(list))).collect(),
    })
}

fn numbers() -> impl Strategy<Value = Vec<u64>> {
    proptest::collection::vec(any::<u64>(), DRAWS_MAX)
}

impl<'a> arbitrary::Arbitrary<'a> for Case {
    fn arbitrary(bytes: &mut arbitrary::Unstructured<'a>) -> arbitrary::Result<Self> {
        const OPS_MAX: usize = 2000;
        let plan = Plan::new(bytes, Mix::Swarm);
        Ok(plan.case(bytes, OPS_MAX))
    }
}
