//! What must hold in every version.
//!
//! M2 says that for one key a newer run holds only newer sequences than an older one. No rule over
//! the sequence *ranges* of tables says the same: ranges are those of whole tables, and a merge of
//! one key range leaves runs whose ranges cross though no key's versions do. (Run 2 has a=21 d=29
//! n=20; a merge moves d down into run 1; a rewrite of run 2 then spans a..n with 20..=21, above a
//! table with 29.) So [`structure`] checks what metadata can show for certain, and [`entries`]
//! checks M2 itself over the entries, for `verify` and for tests. [`Version::apply`] checks that no
//! edit can break it.

use super::slice::TableSlice;
use super::state::{Run, Version};
use crate::base::key::SeqNo;
use crate::error::Result;
use std::collections::BTreeMap;
use std::iter::Peekable;

/// Checks everything about a version that can be seen without its tables: M1; M2 where two slices
/// surely share a key; numbers, ids and run ids unique; no part of a table visible twice; nothing
/// above `flushed_seq` or `next_file`.
///
/// # Errors
/// What does not hold.
pub fn structure(version: &Version) -> Result<(), String> {
    let mut by_table: BTreeMap<_, Vec<&TableSlice>> = BTreeMap::new();
    let mut ids = BTreeMap::new();
    let mut run_ids = BTreeMap::new();
    for run in &version.runs {
        Run::new(run.id(), run.slices().to_vec(), run.full_bytes())?;
        if run.slices().is_empty() {
            return Err(format!("run {} is empty", run.id().0));
        }
        if run_ids.insert(run.id(), ()).is_some() {
            return Err(format!("run {} is there twice", run.id().0));
        }
    }
    for slice in version.slices() {
        let number = slice.meta.number;
        if *ids.entry(slice.meta.id).or_insert(number) != number {
            return Err(format!("table {} has the id of another", number.0));
        }
        if slice.meta.seq_max > version.flushed_seq || number >= version.next_file {
            return Err(format!("table {} is beyond what the version has", number.0));
        }
        let others = by_table.entry(number).or_default();
        for other in others.iter() {
            if other.meta != slice.meta || other.overlaps_slice(slice) {
                return Err(format!("table {} is visible twice", number.0));
            }
        }
        others.push(slice);
    }
    for (newer_at, newer) in version.runs.iter().enumerate() {
        for older in &version.runs[newer_at + 1..] {
            newer_run_over_older(newer, older)?;
        }
    }
    Ok(())
}

fn newer_run_over_older(newer: &Run, older: &Run) -> Result<(), String> {
    for slice in newer.slices() {
        let from = older.first_reaching(slice.lower());
        for below in older.slices()[from..].iter().take_while(|s| s.overlaps_slice(slice)) {
            let (new, old) = (&slice.meta, &below.meta);
            let single = new.first_key == new.last_key && old.first_key == old.last_key;
            let wrong = (shares_a_key(slice, below) && new.seq_max <= old.seq_min)
                || (single && new.seq_min <= old.seq_max);
            if wrong {
                return Err(format!(
                    "M2: table {} is in a newer run than table {} and has older entries",
                    new.number.0, old.number.0
                ));
            }
        }
    }
    Ok(())
}

/// Whether a key is surely in both: a first or last key, visible, that both have.
fn shares_a_key(a: &TableSlice, b: &TableSlice) -> bool {
    let ends = |slice: &TableSlice| [slice.meta.first_key.clone(), slice.meta.last_key.clone()];
    let theirs = ends(b);
    ends(a).iter().any(|key| theirs.contains(key) && a.covers(key) && b.covers(key))
}

/// Two runs that break M2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The key.
    pub key: Vec<u8>,
    /// The place of the newer run, and its smallest sequence for the key.
    pub newer: (usize, SeqNo),
    /// The place of the older run, and its largest sequence for the key.
    pub older: (usize, SeqNo),
}

/// Checks M2 over the entries of all runs, newest run first, each in entry order.
///
/// # Errors
/// The first error of a run's iterator.
pub fn entries<I>(runs: Vec<I>) -> Result<Option<Violation>>
where
    I: Iterator<Item = Result<(Vec<u8>, SeqNo)>>,
{
    let mut runs: Vec<Peekable<I>> = runs.into_iter().map(Iterator::peekable).collect();
    loop {
        let mut key: Option<Vec<u8>> = None;
        for run in &mut runs {
            match run.peek() {
                Some(Ok((k, _))) if key.as_ref().is_none_or(|key| k < key) => key = Some(k.clone()),
                Some(Err(e)) => return Err(e.clone()),
                _ => {}
            }
        }
        let Some(key) = key else { return Ok(None) };
        let mut newer: Option<(usize, SeqNo)> = None;
        for (at, run) in runs.iter_mut().enumerate() {
            let mut of_key = std::iter::from_fn(|| {
                run.next_if(|next| next.as_ref().is_ok_and(|(k, _)| *k == key))
            });
            let Some(largest) = of_key.next().transpose()?.map(|(_, seq)| seq) else { continue };
            if let Some(newer) = newer.filter(|newer| newer.1 <= largest) {
                return Ok(Some(Violation { key, newer, older: (at, largest) }));
            }
            let smallest = of_key.last().transpose()?.map_or(largest, |(_, seq)| seq);
            newer = Some((at, smallest));
        }
    }
}

#[cfg(test)]
mod tests;
