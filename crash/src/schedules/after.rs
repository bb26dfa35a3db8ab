//! What is judged once a world has ended: the history, the receipts, what a fault did to the
//! handle, and how the close went.
//!
//! Invariants
//! - V2, A1, S1, S2, D3, C2: one order of commits explains all that the clients saw.
//! - Each receipt of a write that returned `Ok` is called once, in sequence order; of a write that
//!   failed, never.
//! - P1: a fault that leaves a log, a manifest or a name in doubt poisons; `close` then returns the
//!   first error; reads go on; once anybody was told, nothing new is installed or deleted.
//! - B1: a world ends. Only what was asked for panics, and on a healthy disk nothing fails.

use super::actors::Run;
use super::base::Base;
use super::order::{Order, writes};
use super::watch::{Befell, SEEDED_PANIC, What, Woe};
use super::world::{How, World};
use crate::counters::{Counter, Counters};
use crate::disk::{Errno, Fault, Injected, Op};
use crate::life::Slip;
use crate::sim::stage_name;
use kiban_model::history::{self, Call, Event, History, Ordered, Outcome};
use kiban_model::ops::{Key, Record};
use kiban_model::value::Value;
use kiban_shuttle::env::probe::Stage;
use std::collections::BTreeMap;

/// Stages in which tables are built: nothing of it is in the database yet.
pub const BUILDS: [Stage; 2] = [Stage::FlushBuild, Stage::CompactBuild];

/// Stages that make something part of the database, or take it away.
pub const INSTALLS: [Stage; 5] = [
    Stage::FlushEdit,
    Stage::CompactEdit,
    Stage::ManifestCreate,
    Stage::CollectLog,
    Stage::CollectTable,
];

/// The stages in which a failed call leaves a log, a manifest or a name in doubt.
const IN_DOUBT: [Stage; 17] = [
    Stage::CommitAppend,
    Stage::CommitSyncRotated,
    Stage::CommitSync,
    Stage::Rotate,
    Stage::LogSync,
    Stage::LogSyncDir,
    Stage::FlushSyncDir,
    Stage::FlushEdit,
    Stage::FlushSyncManifest,
    Stage::CompactSyncDir,
    Stage::CompactEdit,
    Stage::CompactSyncManifest,
    Stage::ManifestSync,
    Stage::ManifestSyncDir,
    Stage::CurrentSyncDir,
    Stage::CheckpointSyncDir,
    Stage::CloseSync,
];

/// Evidence for the counters that must fire.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evidence {
    /// Writes that waited for room and went on, or were refused.
    pub stalls_ended: u64,
    /// Writes that waited for room and were told of the poison.
    pub stalled_poisoned: u64,
    /// Rotations to a log that was prepared.
    pub prepared_logs: u64,
}

/// Counts what the run is evidence of.
pub fn count(run: &Run, order: &Order, counters: &mut Counters) {
    let seen = run.record.evidence;
    counters.add(Counter::SharedStall, seen.stalls_ended);
    counters.add(Counter::StalledPoisoned, seen.stalled_poisoned);
    counters.add(Counter::PreparedLog, seen.prepared_logs);
    let shared = order.groups.iter().filter(|group| group.members.len() > 1).count();
    counters.add(Counter::SharedGroup, shared as u64);
    count_poison(run, counters);
    let told = |ok| run.record.told.iter().filter(|told| told.ok == ok).count() as u64;
    counters.add(Counter::ReceiptTold, told(true));
    counters.add(Counter::ReceiptFailed, told(false));
    for done in &run.record.done {
        let What::Write { id, result: Err(failed) } = &done.what else { continue };
        let Some(group) = order.group_of(*id).map(|at| &order.groups[at]) else { continue };
        let leads = run.record.clients.get(&group.leader) == Some(&done.client);
        if !leads && failed.poisoned {
            counters.fire(Counter::FollowerFailed);
            counters.add(Counter::LeaderPanicked, u64::from(run.record.panicked));
        }
    }
}

/// Counts what failed calls of maintenance are evidence of.
fn count_poison(run: &Run, counters: &mut Counters) {
    let Some(told) = first_told(run) else { return };
    for befell in run.record.befell.iter().filter(|befell| leaves_doubt(befell)) {
        let Woe::Fault(op, fault) = befell.woe else { continue };
        let is = |stages: &[Stage]| stages.iter().any(|&stage| stage as u8 == befell.stage);
        let landed = matches!(fault, Fault::Landed(_));
        let append = is(&[Stage::FlushEdit, Stage::CompactEdit]) && op == Op::Write;
        let sync = is(&[Stage::FlushSyncManifest, Stage::CompactSyncManifest]);
        let counter = match (append, sync, op == Op::SyncDir, landed) {
            (true, _, _, false) => Counter::SharedManifestAppend,
            (true, _, _, true) => Counter::SharedManifestAppendLanded,
            (_, true, _, false) => Counter::SharedManifestSync,
            (_, true, _, true) => Counter::SharedManifestSyncLanded,
            (_, _, true, false) => Counter::SharedDirSync,
            (_, _, true, true) => Counter::SharedDirSyncLanded,
            _ => continue,
        };
        counters.fire(counter);
    }
    let last = |stages: &[Stage]| {
        let those = run.record.maintained.iter().filter(|(_, stage)| stages.contains(stage));
        those.map(|(at, _)| *at).max().unwrap_or(0)
    };
    let (built, installed) = (last(&BUILDS), last(&INSTALLS));
    let stopped = built > installed && built < told && !run.end.injected.is_empty();
    counters.add(Counter::BuildNotInstalled, u64::from(stopped));
}

/// When somebody was told first that the handle is poisoned.
fn first_told(run: &Run) -> Option<u64> {
    let told = run.record.done.iter().filter_map(|done| match &done.what {
        What::Write { result: Err(failed), .. }
        | What::Barrier { result: Err(failed), .. }
        | What::Copy { result: Err(failed), .. }
        | What::Other { result: Err(failed), .. } => failed.poisoned.then_some(done.returned),
        _ => None,
    });
    told.min()
}

/// P1: once anybody was told, nothing new is installed or deleted. What had begun may come to its
/// end: its edit was on the way before.
fn nothing_is_installed(run: &Run) -> Result<(), Slip> {
    let Some(told) = first_told(run) else { return Ok(()) };
    let copied =
        run.record.done.iter().find(|done| {
            done.invoked > told && matches!(done.what, What::Copy { result: Ok(()), .. })
        });
    if let Some(done) = copied {
        let got = format!("a copy asked for at {}, and told at {told}", done.invoked);
        return Err(slip("P1", "a poisoned handle", "nothing is checkpointed", got));
    }
    let mut late = run.record.maintained.iter().filter(|(at, _)| *at > told);
    match late.find(|(_, stage)| INSTALLS.contains(stage)) {
        Some((at, stage)) => {
            let got = format!("{} begun at {at}, and told at {told}", stage.name());
            Err(slip("P1", "a poisoned handle", "nothing is installed or deleted", got))
        }
        None => Ok(()),
    }
}

/// Whether P1 says that what befell poisons.
fn leaves_doubt(befell: &Befell) -> bool {
    let Woe::Fault(op, fault) = befell.woe else { return true };
    let harmless = is_harmless(fault);
    let in_doubt = IN_DOUBT.iter().any(|&stage| stage as u8 == befell.stage);
    let calls = matches!(op, Op::Write | Op::SyncData | Op::SyncAll | Op::SyncDir);
    !harmless && in_doubt && calls
}

fn slip(promise: &str, what: &str, expected: &str, got: String) -> Slip {
    let (promise, what) = (promise.to_owned(), what.to_owned());
    Slip { promise, what, expected: expected.to_owned(), got }
}

/// Judges the run.
///
/// # Errors
/// The first broken promise.
pub fn judge(world: &World, run: &Run, order: &Order) -> Result<(), Slip> {
    if let Some((promise, story)) = run.record.slips.first() {
        return Err(slip(promise, "a schedule", "none of this", story.clone()));
    }
    if let Some(violation) = run.end.violations.first() {
        return Err(slip("C1", "a call that no engine may make", "none", violation.clone()));
    }
    panics(world, run)?;
    nothing_fails_in_health(world, run)?;
    receipts(run, order)?;
    poison(run)?;
    nothing_is_installed(run)?;
    let history = history_of(world, run, order);
    if let Err(violation) = history::check(&history) {
        let promise = violation.kind.promise();
        let promise = if promise.is_empty() { "-" } else { promise };
        return Err(slip(promise, "a history", "one order explains it", violation.to_string()));
    }
    Ok(())
}

fn panics(world: &World, run: &Run) -> Result<(), Slip> {
    for done in &run.record.done {
        let What::Write { result: Err(failed), .. } = &done.what else { continue };
        if failed.panicked && !(world.panic.is_some() && failed.text.contains(SEEDED_PANIC)) {
            return Err(slip("-", "a panic in a call", "none", failed.text.clone()));
        }
    }
    for done in &run.record.done {
        if let What::Other { verb, result: Err(failed) }
        | What::Barrier { verb, result: Err(failed) } = &done.what
            && failed.panicked
        {
            return Err(slip("-", "a panic in a call", "none", format!("{verb}: {}", failed.text)));
        }
        // Reads go on, whatever fails; only a close ends them. No world makes reads fail.
        if let What::Other { verb: "get" | "range" | "snapshot", result: Err(failed) } = &done.what
            && !failed.closed
        {
            return Err(slip("P1", "a read", "an answer", failed.text.clone()));
        }
    }
    if run.record.panicked && run.end.poisoned.is_none() {
        let got = "the handle goes on".to_owned();
        return Err(slip("P1", "a leader's panic", "it poisons", got));
    }
    Ok(())
}

/// Where nothing was made to fail nothing does: a call is refused for a close, or a write for want
/// of room in its time.
fn nothing_fails_in_health(world: &World, run: &Run) -> Result<(), Slip> {
    let harmless = run.end.injected.iter().all(|injected| is_harmless(injected.fault));
    if !harmless || world.panic.is_some() {
        return Ok(());
    }
    if let Some(first) = &run.end.poisoned {
        return Err(slip("P1", "a healthy disk", "no poison", first.clone()));
    }
    if let Some(Err(told)) = &run.end.closed {
        return Err(slip("B1", "a close on a healthy disk", "Ok", told.clone()));
    }
    for done in &run.record.done {
        let (failed, may_stall) = match &done.what {
            What::Write { result: Err(failed), .. } => (failed, true),
            What::Barrier { result: Err(failed), .. }
            | What::Copy { result: Err(failed), .. }
            | What::Other { result: Err(failed), .. } => (failed, false),
            _ => continue,
        };
        let is_excused = failed.closed || failed.stalled && may_stall;
        if !is_excused {
            return Err(slip("B1", "a call on a healthy disk", "an answer", failed.text.clone()));
        }
    }
    Ok(())
}

fn receipts(run: &Run, order: &Order) -> Result<(), Slip> {
    let mut told: BTreeMap<usize, u64> = BTreeMap::new();
    for one in &run.record.told {
        *told.entry(one.id).or_default() += 1;
    }
    let mut seqs: BTreeMap<usize, u64> = BTreeMap::new();
    for done in &run.record.done {
        let What::Write { id, result } = &done.what else { continue };
        let times = told.get(id).copied().unwrap_or(0);
        match result {
            Ok(seq) => {
                seqs.insert(*id, *seq);
                if order.is_receipt(*id) && times != 1 {
                    let got = format!("write {id}: called {times} times");
                    return Err(slip("V1", "a receipt", "one call", got));
                }
            }
            // A leader that panicked had perhaps handed the receipts over already.
            Err(failed) if times > 1 || times == 1 && !run.record.panicked => {
                let got = format!("write {id}: a call, though it failed: {}", failed.text);
                return Err(slip("V1", "a receipt", "none of a failed write", got));
            }
            Err(_) => {}
        }
    }
    let in_order = run.record.told.iter().filter_map(|one| seqs.get(&one.id));
    let in_order: Vec<u64> = in_order.copied().collect();
    if !in_order.is_sorted() {
        return Err(slip("V1", "receipts", "in sequence order", format!("{in_order:?}")));
    }
    Ok(())
}

fn poison(run: &Run) -> Result<(), Slip> {
    let end = &run.end;
    let Some(closed) = &end.closed else { return Ok(()) };
    match (&end.poisoned, closed) {
        (Some(first), Err(told)) if !told.contains(first.as_str()) && first != told => {
            return Err(slip("P1", "the close of a poisoned handle", first, told.clone()));
        }
        (Some(first), Ok(())) => {
            return Err(slip("P1", "the close of a poisoned handle", first, "Ok".to_owned()));
        }
        _ => {}
    }
    if let Some(injected) = end.injected.iter().find(|injected| must_poison(injected))
        && closed.is_ok()
    {
        let got = format!("a close without an error after {injected:?}");
        return Err(slip("P1", "a failed append or sync", "the handle is poisoned", got));
    }
    // What fails in a copy is the copy's alone, but for the sync of a directory.
    let elsewhere = |injected: &Injected| {
        !injected.path.starts_with(crate::sim::DIR) && injected.op != Op::SyncDir
    };
    if let Some(befell) = run.record.befell.iter().find(|befell| leaves_doubt(befell))
        && !run.end.injected.iter().any(elsewhere)
        && closed.is_ok()
    {
        let got = format!("a close without an error after {befell:?}");
        let stage = stage_name(befell.stage);
        return Err(slip("P1", &format!("a failure in {stage}"), "the handle is poisoned", got));
    }
    Ok(())
}

/// Whether who meets it goes on, or is never told.
fn is_harmless(fault: Fault) -> bool {
    matches!(fault, Fault::Short | Fault::Slow(_) | Fault::Lie | Fault::Error(Errno::EINTR))
}

/// Whether P1 says that this fault poisons, whoever met it.
fn must_poison(injected: &Injected) -> bool {
    let harmless = is_harmless(injected.fault);
    // A checkpoint's log is a copy: nothing was acknowledged out of it.
    let of_log = injected.path.ends_with(".log") && injected.path.starts_with(crate::sim::DIR);
    let op = injected.op;
    !harmless && of_log && matches!(op, Op::Write | Op::SyncData | Op::SyncAll)
}

/// The run as the history checker takes it.
fn history_of(world: &World, run: &Run, order: &Order) -> History {
    let records: BTreeMap<usize, (&Vec<Record>, How)> =
        writes(world).map(|(id, records, how)| (id, (records, how))).collect();
    let mut events = Vec::new();
    let mut ordered = Vec::new();
    if let Some(base) = world.base.map(Base::numbered) {
        let records: Vec<Record> = base
            .state
            .iter()
            .map(|(key, value)| Record { key: key.clone(), value: Some(plain(value)) })
            .collect();
        let first = base.last + 1 - records.len() as u64;
        ordered.push(Ordered { at: 1, first, records: records.clone() });
        let call = Call::Write { records, durable: true, outcome: Outcome::Done(base.last) };
        events.push(Event { client: u32::MAX, invoked: 0, returned: Some(2), call });
    }
    for done in &run.record.done {
        let call = match &done.what {
            What::Write { id, result } => {
                let (records, how) = records[id];
                let outcome = match result {
                    Ok(seq) => Outcome::Done(*seq),
                    // In doubt is only what got a place and failed on a handle that it poisoned.
                    Err(failed) if failed.poisoned && order.group_of(*id).is_some() => {
                        Outcome::Unknown
                    }
                    Err(_) => Outcome::Refused,
                };
                let durable = how == How::Durable;
                let plain = |record: &Record| {
                    let value = record.value.as_ref().map(plain);
                    Record { key: record.key.clone(), value }
                };
                Call::Write { records: records.iter().map(plain).collect(), durable, outcome }
            }
            What::Read { at, saw } => Call::Read { at: *at, saw: saw.clone() },
            What::Snapshot { id, seq } => Call::Snapshot { id: *id, seq: Some(*seq) },
            _ => continue,
        };
        let (client, invoked, returned) = (done.client, done.invoked, Some(done.returned));
        events.push(Event { client, invoked, returned, call });
    }
    ordered.extend(run.record.ordered.iter().map(|group| Ordered {
        at: group.at,
        first: group.first,
        records: decode(&group.records),
    }));
    events.sort_by_key(|event| (event.invoked, event.client));
    History { events, ordered: Some(ordered) }
}

/// The checker compares records as they are written down, so all are written in bytes.
fn plain(value: &Value) -> Value {
    Value::Bytes(value.to_vec())
}

fn decode(bytes: &[u8]) -> Vec<Record> {
    let records = kiban::rig::Records::new(bytes).map_while(Result::ok);
    let record = |key: &[u8], value: Option<&[u8]>| Record {
        key: Key::from(key),
        value: value.map(|value| Value::Bytes(value.to_vec())),
    };
    records
        .map(|r| record(r.key, (r.kind == kiban::rig::base::key::Kind::Put).then_some(r.value)))
        .collect()
}
