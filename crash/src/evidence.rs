//! What a shot and its image prove: the counters of [`crate::counters`] that lie on the disk.
//!
//! Invariants
//! - Everything here looks at bytes and names, never at what the rig meant to produce.
//! - Log frames are read by their published layout, not by the engine's reader.

use crate::counters::{Counter, Counters};
use crate::disk::{Axis, Choice, Disk, FAULTS, Op as Call, Pick, Rule, Snapshot};
use crate::sim::{DIR, STAGES, Shot};
use kiban::env::probe::Stage;
use kiban::rig::base::name::{CURRENT, FileKind, parse_file_name};
use kiban::rig::version::current::Current;
use kiban::rig::wal;
use kiban_model::generate::Source;
use std::collections::BTreeMap;
use std::path::Path;

/// Up to `count` faults at calls drawn at random, at least one.
pub fn random_faults(source: &mut impl Source, count: usize) -> Vec<Rule> {
    let count = 1 + source.below(count);
    (0..count).map(|_| random_fault(source)).collect()
}

fn random_fault(source: &mut impl Source) -> Rule {
    let (_, fault) = *source.pick(FAULTS);
    let mut rule = Rule::new(fault);
    match source.below(4) {
        0 => {}
        1 => {
            let calls: Vec<Call> =
                Call::ALL.iter().copied().filter(|&c| fault.applies(c)).collect();
            rule.op = Some(*source.pick(&calls));
        }
        _ => rule.stage = Some(source.below(STAGES) as u8),
    }
    // Most faults early, some late; a few last.
    rule.skip = match source.below(4) {
        0 => 0,
        1 => source.draw(3) as u32,
        _ => source.draw(40) as u32,
    };
    if source.chance(1, 6) {
        rule.times = 1 + source.draw(4) as u32;
    }
    rule
}

/// What the place of a crash proves.
pub fn of_stage(stage: u8, counters: &mut Counters) {
    const FLUSH: [Stage; 3] = [Stage::FlushSyncDir, Stage::FlushEdit, Stage::FlushSyncManifest];
    const COMPACT: [Stage; 3] =
        [Stage::CompactSyncDir, Stage::CompactEdit, Stage::CompactSyncManifest];
    const CURRENT: [Stage; 4] =
        [Stage::CurrentWrite, Stage::CurrentSync, Stage::CurrentRename, Stage::CurrentSyncDir];
    let is = |stages: &[Stage]| stages.iter().any(|&s| s as u8 == stage);
    for (stages, counter) in [
        (&FLUSH[..], Counter::InsideFlush),
        (&COMPACT[..], Counter::InsideCompact),
        (&CURRENT[..], Counter::InsideCurrent),
    ] {
        if is(stages) {
            counters.fire(counter);
        }
    }
}

/// What an image proves beside what the engine had left on the disk.
pub fn of_image(snapshot: &Snapshot, choice: &Choice, image: &Disk, counters: &mut Counters) {
    let axes = snapshot.choices();
    // The dirty set with nothing lost is what the engine had left.
    let left: BTreeMap<String, u64> = snapshot.killed().files().into_iter().collect();
    let shown: BTreeMap<String, u64> = image.files().into_iter().collect();
    for (name, len) in &shown {
        match left.get(name) {
            None => counters.fire(Counter::LateName),
            Some(had) if had != len => counters.fire(Counter::LengthLost),
            Some(_) => {}
        }
    }
    if left.keys().any(|name| !shown.contains_key(name)) {
        counters.fire(Counter::NameLost);
    }
    let is_stale = |pick: &Pick| matches!(pick, Pick::Stale(..));
    if choice.picks.iter().any(is_stale) {
        let mut without = choice.clone();
        for pick in without.picks.iter_mut().filter(|pick| is_stale(pick)) {
            *pick = Pick::Lost;
        }
        if snapshot.image(&without).content_hash() != image.content_hash() {
            counters.fire(Counter::StaleShown);
        }
    }
    let dirty_logs = axes.iter().filter(|axis| matches!(axis, Axis::Bytes { .. }));
    if dirty_logs.count() > 0 && has_dirty_rotated_log(snapshot, &left) {
        counters.fire(Counter::RotatedUnsynced);
    }
}

/// Whether bytes of a log that is not the newest are in the dirty set.
fn has_dirty_rotated_log(snapshot: &Snapshot, left: &BTreeMap<String, u64>) -> bool {
    let Some(newest) = left.keys().rfind(|name| name.ends_with(".log")) else {
        return false;
    };
    let text = snapshot.describe(&snapshot.none());
    text.lines()
        .filter_map(|line| line.split_once(" bytes "))
        .filter_map(|(_, range)| range.split_once('['))
        .any(|(name, _)| name.ends_with(".log") && name < newest.as_str())
}

/// Whether the choice cut the newest write in two, and that write is a commit's.
#[must_use]
pub fn is_newest_torn(shot: &Shot, choice: &Choice) -> bool {
    if ![Stage::CommitAppend, Stage::CommitSync].iter().any(|&stage| stage as u8 == shot.stage) {
        return false;
    }
    let torn = |pick: &Pick| matches!(pick, Pick::Prefix(_) | Pick::Suffix(_) | Pick::Pieces(_));
    let axes = shot.snapshot.choices();
    let writes = axes.iter().zip(&choice.picks).filter_map(|(axis, pick)| match axis {
        Axis::Bytes { stamp, .. } => Some((stamp, pick)),
        _ => None,
    });
    writes.max_by_key(|(stamp, _)| **stamp).is_some_and(|(_, pick)| torn(pick))
}

/// Whether one log of the image holds records both at or below and above `flushed`.
#[must_use]
pub fn is_between_flushes(image: &Disk, flushed: u64) -> bool {
    let files = image.files();
    let logs = files.iter().filter(|(name, _)| name.ends_with(".log"));
    logs.filter_map(|(name, _)| image.get_file(name).ok()).any(|bytes| {
        let spans = frame_spans(&bytes);
        spans.iter().any(|&(_, last)| last <= flushed)
            && spans.iter().any(|&(first, _)| first > flushed)
    })
}

/// The highest sequence of which a log of the image holds a trace: a frame header that parses,
/// whether its frame is whole, torn or behind a hole; 0 where a failed sync has left pages that may
/// be gone before a recovery reads them.
#[must_use]
pub fn highest_trace(image: &Disk) -> u64 {
    if image.evicts() {
        return 0;
    }
    let current = image.get_file(&format!("{DIR}/{CURRENT}")).unwrap_or_default();
    let files = image.files();
    let logs = files.iter().filter_map(|(path, _)| {
        let name = path.strip_prefix(DIR)?.strip_prefix('/')?;
        let is_log = matches!(parse_file_name(name), Some((FileKind::Log, _)));
        is_log.then(|| Some((name.to_owned(), image.get_file(path).ok()?))).flatten()
    });
    highest_trace_in(&current, logs)
}

/// The same, of the bytes of `CURRENT` and of logs with their names; 0 without a valid `CURRENT`.
#[must_use]
pub fn highest_trace_in(current: &[u8], logs: impl Iterator<Item = (String, Vec<u8>)>) -> u64 {
    let Ok(Current { db, .. }) = Current::decode(Path::new(CURRENT), current) else { return 0 };
    let traces = logs.filter_map(|(name, bytes)| {
        let (_, number) = parse_file_name(&name)?;
        let scan = wal::scan(Path::new(&name), &bytes, db, number).ok()?;
        Some(scan.max_seq_seen.0)
    });
    traces.max().unwrap_or(0)
}

/// First and last sequence of each group of a log, read by the layout in `docs/FORMAT.md`: a header
/// of 48 bytes (length at 4, first sequence at 8, count at 16, kind at 20), frames at multiples of
/// 8.
fn frame_spans(log: &[u8]) -> Vec<(u64, u64)> {
    const HEADER: usize = 48;
    const GROUP: u8 = 2;
    let u32_at = |at: usize| u32::from_le_bytes(log[at..at + 4].try_into().unwrap_or_default());
    let u64_at = |at: usize| u64::from_le_bytes(log[at..at + 8].try_into().unwrap_or_default());
    let mut spans = Vec::new();
    let mut at = 0;
    while at + HEADER <= log.len() && u32_at(at) != 0 {
        let (len, count) = (u32_at(at + 4) as usize, u64::from(u32_at(at + 16)));
        if log[at + 20] == GROUP && count > 0 {
            let first = u64_at(at + 8);
            spans.push((first, first.saturating_add(count - 1)));
        }
        at = (at + HEADER).saturating_add(len).next_multiple_of(8);
    }
    spans
}
