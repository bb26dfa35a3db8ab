//! In which order trials run.
//!
//! - Within a row and repetition the contestants run one after another, in a random order; the next
//!   repetition runs them in the opposite order, so that each precedes the other equally often.
//! - Repetitions are outermost: what drifts on the machine meets every row alike.
//! - The same plan and seed give the same order, which is recorded with each trial.

use crate::random::{Rng, mix};

/// One trial's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The row's index.
    pub row: usize,
    /// The contestant's index in the row.
    pub contestant: usize,
    /// The repetition, from 0.
    pub repetition: u32,
    /// Whether statistics are on, outside the ratios.
    pub diagnostic: bool,
}

/// Every trial of a campaign: `rows` gives each row's contestants and diagnostic trials.
#[must_use]
pub fn order(rows: &[(usize, u32)], repetitions: u32, seed: u64) -> Vec<Slot> {
    let mut slots = Vec::new();
    for repetition in 0..repetitions {
        for (row, (contestants, _)) in rows.iter().enumerate() {
            let turn = permutation(*contestants, seed, row, repetition);
            slots.extend(turn.into_iter().map(|contestant| Slot {
                row,
                contestant,
                repetition,
                diagnostic: false,
            }));
        }
    }
    for (row, (contestants, diagnostics)) in rows.iter().enumerate() {
        for repetition in 0..*diagnostics {
            let turn = permutation(*contestants, mix(seed), row, repetition);
            slots.extend(turn.into_iter().map(|contestant| Slot {
                row,
                contestant,
                repetition,
                diagnostic: true,
            }));
        }
    }
    slots
}

fn permutation(n: usize, seed: u64, row: usize, repetition: u32) -> Vec<usize> {
    let mut turn: Vec<usize> = (0..n).collect();
    Rng::new(seed, mix(row as u64) ^ u64::from(repetition / 2)).shuffle(&mut turn);
    if repetition % 2 == 1 {
        turn.reverse();
    }
    turn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_trial_stands_once_and_the_order_is_that_of_the_seed() {
        let rows = [(3, 0), (2, 1)];
        let slots = order(&rows, 4, 9);
        assert_eq!(slots.len(), 4 * 5 + 2);
        for (i, slot) in slots.iter().enumerate() {
            assert!(!slots[..i].contains(slot));
        }
        assert_eq!(slots, order(&rows, 4, 9));
        assert!((0..50).any(|seed| order(&rows, 4, seed) != slots));
    }

    #[test]
    fn contestants_stand_together_and_the_order_flips() {
        for seed in 0..20 {
            let slots = order(&[(2, 0), (3, 0)], 2, seed);
            let turn = |repetition, row| -> Vec<usize> {
                let slots = slots.iter();
                let slots = slots.filter(|s| s.repetition == repetition && s.row == row);
                slots.map(|slot| slot.contestant).collect()
            };
            for row in 0..2 {
                let mut flipped = turn(1, row);
                flipped.reverse();
                assert_eq!(turn(0, row), flipped);
            }
            let of_row: Vec<usize> = slots.iter().map(|slot| slot.row).collect();
            assert_eq!(of_row, [0, 0, 1, 1, 1, 0, 0, 1, 1, 1]);
        }
    }

    #[test]
    fn both_orders_of_a_pair_occur_over_seeds() {
        let first = |seed| order(&[(2, 0)], 1, seed)[0].contestant;
        assert!((0..50).any(|seed| first(seed) == 0) && (0..50).any(|seed| first(seed) == 1));
    }
}
