//! Fills the database: numbers `0..preload`, in the row's order, in buffered batches, then a sync,
//! a flush, and a wait until background work has come to rest.

use super::state::State;
use crate::engine::Engine;
use crate::plan::{Data, Layout};
use crate::random::Permutation;
use crate::records::Records;
use anyhow::Result;

/// Loads the row's records.
///
/// # Errors
/// The engine's own.
pub fn load(
    engine: &dyn Engine,
    data: &Data,
    records: &Records,
    state: &State,
    seed: u64,
) -> Result<()> {
    let permutation = Permutation::new(data.preload.max(1), seed);
    let numbers: Box<dyn Iterator<Item = u64>> = match data.layout {
        Layout::Normal => Box::new(0..data.preload),
        Layout::Shuffled => Box::new((0..data.preload).map(move |i| permutation.at(i))),
        Layout::Bulk => records.order(data.preload),
    };
    let mut batch: Vec<(Vec<u8>, Vec<u8>)> = vec![Default::default(); data.load_batch];
    let mut taken = Vec::with_capacity(data.load_batch);
    let mut numbers = numbers.peekable();
    while numbers.peek().is_some() {
        taken.clear();
        taken.extend(numbers.by_ref().take(data.load_batch));
        for (number, (key, value)) in taken.iter().zip(&mut batch) {
            records.key(*number, key);
            records.value(*number, 1, value);
        }
        let filled: Vec<(&[u8], &[u8])> =
            batch[..taken.len()].iter().map(|(key, value)| (&key[..], &value[..])).collect();
        engine.put_batch(&filled, false)?;
        taken.iter().for_each(|number| state.acknowledge(*number, 1));
    }
    engine.sync()?;
    engine.flush()
}
