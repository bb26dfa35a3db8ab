//! A small specification that a checker explores to the end: commit, rotate, failed sync, crash and
//! recovery, on a disk with its faults.
//!
//! - `disk`: what a power cut or a failed sync may leave.
//! - `commit`: the machine's steps, each between two points where a crash may fall.
//! - `judge`: the rule by which recovery decides, as a pure function.
//! - `promise`: what must hold in every state.
//!
//! It shares no code with the engine: it says the same thing a second time, small enough to be
//! explored whole within bounds. It is exhaustive only within them; `docs/TESTING.md` gives them
//! and the number of states.

pub mod commit;
pub mod disk;
pub mod judge;
mod promise;
#[cfg(test)]
mod tests;

use commit::{Action, Budget, Commit, Defect, State};
use stateright::{Checker, Expectation, HasDiscoveries, Model, Property};

const fn bounds(writes: u8, rotations: u8, marks: u8, crashes: u8, faults: u8) -> Budget {
    Budget { writes, rotations, marks, crashes, faults }
}

/// The bounds of the test command, each with its number of states.
pub const BOUNDS: [(Budget, usize); 4] = [
    (bounds(3, 1, 0, 1, 1), 387_920),
    (bounds(2, 1, 1, 1, 1), 446_171),
    (bounds(2, 1, 0, 2, 1), 219_247),
    (bounds(2, 1, 0, 1, 2), 206_760),
];

/// What a check found.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Distinct states.
    pub states: usize,
    /// How many steps the last state found is away.
    pub depth: usize,
    /// The promises that break, each with the shortest steps to it.
    pub broken: Vec<(&'static str, Vec<Action>)>,
    /// Cases that no state shows.
    pub unreached: Vec<&'static str>,
}

/// Explores every state within `budget`; with a defect, until the promise with that id is broken.
pub fn check(budget: Budget, defect: Option<(Defect, &str)>) -> Checked {
    let model = Commit { budget, defect: defect.map(|(defect, _)| defect) };
    let checker = match defect {
        None => model.checker().threads(2).spawn_bfs().join(),
        Some((_, id)) => {
            let names = model.properties().into_iter().map(|property| property.name);
            let enough = HasDiscoveries::AllOf(names.filter(|name| name.starts_with(id)).collect());
            // One thread finds the shortest steps first, always the same ones.
            model.checker().threads(1).finish_when(enough).spawn_bfs().join()
        }
    };
    let mut broken = Vec::new();
    let mut unreached = Vec::new();
    for property in checker.model().properties() {
        match (property.expectation, checker.discovery(property.name)) {
            (Expectation::Always, Some(path)) => broken.push((property.name, path.into_actions())),
            (Expectation::Sometimes, None) => unreached.push(property.name),
            _ => {}
        }
    }
    Checked { states: checker.unique_state_count(), depth: checker.max_depth(), broken, unreached }
}

impl Model for Commit {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.init()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.enabled(state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        Some(self.step(last, action))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        promise::properties()
    }
}
