//! A sync that fails because the device failed: what reads, retries and evictions show after it.
//!
//! Invariants
//! - Each byte that is read after the failed sync, before and after its pages were evicted, is the
//!   old or the new one: the simulated disk's variants of a failed sync (`Pages`) have no other.
//! - A retry proves nothing: the images of the moments after it are judged by a model in which the
//!   failed sync's bytes, or names, stay in doubt.
//! - What was seen is counted, so that it can be said which of the variants are real.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "outside the engine")]

use super::super::recorder::{Disk, On, Rule, Trouble};
use super::super::tap::Tap;
use super::steps::{dir_of, prepare};
use crate::report::ContainRow;
use kiban::env::fs::{File, Fs, OpenMode};
use kiban_model::generate::{Seed, Source};
use std::io;
use std::path::Path;
use std::sync::MutexGuard;

/// What the failed sync should have covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Bytes inside the file.
    Over,
    /// Bytes over its end.
    Longer,
    /// Bytes in a preallocated part.
    Filled,
    /// A new name.
    Name,
}

const CHANGES: [Change; 4] = [Change::Over, Change::Longer, Change::Filled, Change::Name];

/// What a session with a failed sync came to.
#[derive(Debug, Default)]
pub(super) struct Failed {
    /// Calls from the change on.
    pub(super) window: (usize, usize),
    /// Old and new contents of the file, where its sync failed.
    pub(super) contents: Option<(Vec<u8>, Vec<u8>)>,
    /// A new name's, where its directory's sync failed.
    pub(super) is_name: bool,
    /// What no variant of the model explains.
    pub(super) outside: Option<String>,
    /// Writes and flushes that the device refused.
    pub(super) hits: u64,
}

/// Makes a change, has its sync fail, and looks.
///
/// # Errors
/// The machine refused.
pub(super) fn fail<'a>(
    tap: &Tap,
    at: &Path,
    disk: &dyn Fn() -> MutexGuard<'a, Disk>,
    draw: u64,
    row: &mut ContainRow,
) -> io::Result<Failed> {
    let draw = &mut Seed(draw);
    let change = CHANGES[draw.below(CHANGES.len())];
    prepare(tap, at, 0)?;
    let dir = dir_of(at, 0);
    let a = tap.open(&dir.join("a"), OpenMode::ReadWrite)?;
    let other = tap.open(&dir.join("a"), OpenMode::ReadWrite)?;
    let mut failed = Failed { window: (tap.count(), 0), ..Failed::default() };
    let on = [On::Write, On::Flush, On::Either][draw.below(3)];
    let rule = |forever, nth| Rule { on, trouble: Trouble::Refuse, nth, forever };
    let rule = rule(draw.below(2) == 0, draw.below(3) as u64);
    // Healed before the retry, or after it.
    let healed = draw.below(2) == 0;
    let (old, new) =
        if change == Change::Name { (Vec::new(), Vec::new()) } else { write(&*a, change)? };
    let name = if change == Change::Name { Some(tap.create(&dir.join("b"))?) } else { None };
    disk().rule(Some(rule));
    let all = draw.below(2) == 0;
    let sync = |file: &dyn File| match (change, all) {
        (Change::Name, _) => tap.sync_dir(&dir),
        (_, true) => file.sync_all(),
        (_, false) => file.sync_data(),
    };
    let is_met = sync(&*a).is_err();
    if healed {
        failed.hits += disk().rule(None);
    }
    if is_met && change == Change::Name {
        count(row, "a directory's sync failed");
        let said = if sync(&*a).is_ok() { "ok" } else { "an error" };
        count(row, &format!("its retry said {said}"));
        failed.is_name = true;
    } else if is_met {
        failed.outside = look(&sync, (&*a, &*other), &dir.join("a"), (&old, &new), row);
        failed.contents = Some((old, new));
    }
    failed.hits += disk().rule(None);
    drop((a, other, name));
    failed.window.1 = tap.count();
    // What is written back meanwhile is in doubt, and an error is told in the calls.
    let _ = tap.sync_fs();
    Ok(failed)
}

/// Writes; the contents before and after.
fn write(a: &dyn File, change: Change) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut old = vec![b'a'; 700];
    if change == Change::Filled {
        a.preallocate(8192)?;
        a.sync_all()?;
        old.resize(8192, 0);
    }
    let (from, len) = match change {
        Change::Over => (100, 500),
        Change::Longer => (300, 900),
        _ => (0, 5000),
    };
    a.write_at(from, &vec![b'A'; len])?;
    let mut new = old.clone();
    new.resize(new.len().max(from as usize + len), 0);
    new[from as usize..from as usize + len].fill(b'A');
    Ok((old, new))
}

/// What the file shows after its sync failed, and again when its pages were evicted.
fn look(
    sync: &dyn Fn(&dyn File) -> io::Result<()>,
    (a, other): (&dyn File, &dyn File),
    path: &Path,
    (old, new): (&[u8], &[u8]),
    row: &mut ContainRow,
) -> Option<String> {
    count(row, "a file's sync failed");
    let mut outside = None;
    let mut see = |row: &mut ContainRow, when: &str| match std::fs::read(path) {
        Ok(bytes) => match kind(&bytes, old, new) {
            Ok(kind) => count(row, &format!("{when}: {kind}")),
            Err(at) => outside = Some(format!("{when}, byte {at} is neither old nor new")),
        },
        Err(_) => count(row, &format!("{when}: an error")),
    };
    see(row, "read after it");
    let said = if sync(a).is_ok() { "ok" } else { "an error" };
    count(row, &format!("its retry said {said}"));
    let said = if sync(other).is_ok() { "ok" } else { "an error" };
    count(row, &format!("another handle's sync said {said}"));
    let evicted = std::fs::File::open(path)
        .and_then(|file| Ok(rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?));
    if evicted.is_ok() {
        see(row, "read when evicted");
    }
    outside
}

/// What bytes are, or the first that is neither; their length where it is neither one.
pub(super) fn kind(bytes: &[u8], old: &[u8], new: &[u8]) -> Result<&'static str, usize> {
    if bytes == new {
        return Ok("new");
    }
    if bytes == old {
        return Ok("old");
    }
    if bytes.len() != old.len() && bytes.len() != new.len() {
        return Err(bytes.len());
    }
    let is = |from: &[u8], at: usize| from.get(at) == Some(&bytes[at]);
    // Where a file grew, zeros stand for what was not written yet.
    let grew = |at: usize| at >= old.len() && bytes[at] == 0;
    match (0..bytes.len()).find(|&at| !is(old, at) && !is(new, at) && !grew(at)) {
        Some(at) => Err(at),
        None => Ok("some of each"),
    }
}

pub(super) fn count(row: &mut ContainRow, what: &str) {
    *row.failed_syncs.entry(what.to_owned()).or_default() += 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_old_or_new_or_some_of_each() {
        let (old, new) = ([1, 1, 1], [2, 2, 2, 2]);
        assert_eq!(kind(&new, &old, &new), Ok("new"));
        assert_eq!(kind(&old, &old, &new), Ok("old"));
        assert_eq!(kind(&[1, 2, 1], &old, &new), Ok("some of each"));
        assert_eq!(kind(&[2, 1, 1, 0], &old, &new), Ok("some of each"), "it grew");
        for (bytes, at) in [(&[1, 3, 1][..], 1), (&[1, 0, 1], 1), (&[2, 2], 2), (&[2; 5], 5)] {
            assert_eq!(kind(bytes, &old, &new), Err(at), "{bytes:?}");
        }
    }
}
