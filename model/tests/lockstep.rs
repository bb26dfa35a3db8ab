//! Lockstep of the exclusive handle with the oracle, as proptest state machines: every public
//! operation, snapshots and iterators held across flushes, compactions and reopens, options changed
//! at a reopen. Promises: D2, D4, A1, V1, S1, S2, G1, G2, C1, C2, L1, B1.
//!
//! The reference machine's state is only the plan that operations are drawn from; the oracle lives
//! beside the engine in the driver, and every step compares.

mod support;

use kiban_model::driver::Driver;
use kiban_model::generate::{Mix, Plan, strategies};
use kiban_model::ops::Op;
use proptest::prelude::*;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};

/// The plan of one run; it does not change with the operations.
struct Standard;
struct Swarm;

macro_rules! machine {
    ($name:ident, $mix:expr) => {
        impl ReferenceStateMachine for $name {
            type State = Plan;
            type Transition = Op;

            fn init_state() -> BoxedStrategy<Plan> {
                strategies::plan($mix).boxed()
            }

            fn transitions(plan: &Plan) -> BoxedStrategy<Op> {
                strategies::op(plan.clone()).boxed()
            }

            fn apply(plan: Plan, _: &Op) -> Plan {
                plan
            }
        }

        impl StateMachineTest for $name {
            type SystemUnderTest = Sut;
            type Reference = Self;

            fn init_test(plan: &Plan) -> Sut {
                Sut::new(plan)
            }

            fn apply(mut sut: Sut, _: &Plan, op: Op) -> Sut {
                sut.step(&op);
                sut
            }

            fn teardown(sut: Sut, _: Plan) {
                sut.end();
            }
        }
    };
}

machine!(Standard, Mix::Standard);
machine!(Swarm, Mix::Swarm);

struct Sut {
    driver: Driver,
    // Removed when the run ends.
    _dir: tempfile::TempDir,
}

impl Sut {
    fn new(plan: &Plan) -> Self {
        let dir = support::dir();
        let driver = Driver::create(support::env(), dir.path().join("db"), plan.config.clone());
        Self { driver: held(driver), _dir: dir }
    }

    fn step(&mut self, op: &Op) {
        held(self.driver.step(op));
    }

    fn end(mut self) {
        held(self.driver.ensure_open());
        held(self.driver.audit());
        held(self.driver.settle());
        self.step(&Op::Reopen { by_drop: false, changes: Vec::new() });
        held(self.driver.audit());
    }
}

#[track_caller]
fn held<T>(result: Result<T, kiban_model::driver::Mismatch>) -> T {
    result.unwrap_or_else(|mismatch| panic!("{mismatch}"))
}

fn config(cases: u32) -> ProptestConfig {
    // Failing cases are kept as readable operations under `regressions`, not as seeds.
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

prop_state_machine! {
    #![proptest_config(config(150))]

    #[test]
    fn the_standard_mix_agrees_with_the_oracle(sequential 1..500 => Standard);
}

prop_state_machine! {
    #![proptest_config(config(400))]

    #[test]
    fn any_swarm_agrees_with_the_oracle(sequential 1..160 => Swarm);
}
