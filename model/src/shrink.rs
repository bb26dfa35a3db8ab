//! Makes a failing case small: fewer operations, defaults, short keys and values.
//!
//! Invariants
//! - What comes back fails as the caller judges it; each accepted candidate did.
//! - The budget bounds the candidates tried, so that shrinking ends whatever the judge says.
//! - Equal cases, budgets and judges give equal results.

use crate::config::Config;
use crate::ops::{Case, Key, Op, Record, Span, View, Walk};
use crate::value::Value;
use std::collections::BTreeSet;
use std::ops::Bound;

/// Shrinks `case` while `fails` says that the candidate fails still; tries at most `budget`
/// candidates.
pub fn shrink(case: &Case, budget: usize, mut fails: impl FnMut(&Case) -> bool) -> Case {
    let mut best = case.clone();
    let mut left = budget;
    let mut try_case = |best: &mut Case, candidate: Case| {
        if left == 0 || candidate == *best {
            return false;
        }
        left -= 1;
        let better = fails(&candidate);
        if better {
            *best = candidate;
        }
        better
    };
    loop {
        let mut progress = fewer_ops(&mut best, &mut try_case);
        progress |= fewer_options(&mut best, &mut try_case);
        progress |= simpler_ops(&mut best, &mut try_case);
        progress |= shorter_keys(&mut best, &mut try_case);
        if !progress {
            return best;
        }
    }
}

type Try<'a> = &'a mut dyn FnMut(&mut Case, Case) -> bool;

/// Takes out chunks of operations, large ones first.
fn fewer_ops(best: &mut Case, try_case: Try<'_>) -> bool {
    let mut progress = false;
    let mut chunk = best.ops.len();
    while chunk > 0 {
        let mut at = 0;
        while at < best.ops.len() {
            let mut candidate = best.clone();
            candidate.ops.drain(at..(at + chunk).min(best.ops.len()));
            if try_case(best, candidate) {
                progress = true;
            } else {
                at += chunk;
            }
        }
        chunk /= 2;
    }
    progress
}

fn fewer_options(best: &mut Case, try_case: Try<'_>) -> bool {
    let changes = best.config.changes_to(&Config::default());
    let mut progress = false;
    for (name, value) in changes {
        let mut candidate = best.clone();
        candidate.config.set(name, value);
        // One option's least value may be another's: both in turn, or neither.
        if crate::driver::accepts(&candidate.config) {
            progress |= try_case(best, candidate);
        }
    }
    progress
}

fn simpler_ops(best: &mut Case, try_case: Try<'_>) -> bool {
    let mut progress = false;
    let mut at = 0;
    while at < best.ops.len() {
        let better = simpler(&best.ops[at]).into_iter().any(|op| {
            let mut candidate = best.clone();
            candidate.ops[at] = op;
            try_case(best, candidate)
        });
        progress |= better;
        if !better {
            at += 1;
        }
    }
    progress
}

/// Gives each key in turn a short name that keeps the order of all keys.
fn shorter_keys(best: &mut Case, try_case: Try<'_>) -> bool {
    let mut keys = BTreeSet::new();
    for op in &best.ops {
        let _ = map_keys(op, &mut |key| {
            keys.insert(key.clone());
        });
    }
    let keys: Vec<Key> = keys.into_iter().collect();
    let name = |key: &Key| keys.binary_search(key).ok().map(|i| format!("k{i:02}").into_bytes());
    let mut candidate = best.clone();
    for op in &mut candidate.ops {
        *op = map_keys(op, &mut |key| {
            if let Some(name) = name(key) {
                *key = name;
            }
        });
    }
    try_case(best, candidate)
}

/// The operation with every key passed through `map`.
fn map_keys(op: &Op, map: &mut dyn FnMut(&mut Key)) -> Op {
    let mut op = op.clone();
    let bound = |bound: &mut Bound<Key>, map: &mut dyn FnMut(&mut Key)| match bound {
        Bound::Included(key) | Bound::Excluded(key) => map(key),
        Bound::Unbounded => {}
    };
    match &mut op {
        Op::Put { key, .. }
        | Op::Delete { key, .. }
        | Op::Get { key, .. }
        | Op::GetWith { key, .. }
        | Op::IterSeek { key, .. } => map(key),
        Op::Batch { records, .. } => records.iter_mut().for_each(|r| map(&mut r.key)),
        Op::MultiGet { keys, .. } => keys.iter_mut().for_each(map),
        Op::Scan { span, .. } | Op::IterOpen { span, .. } => match span {
            Span::Prefix(prefix) => map(prefix),
            Span::Range(lo, hi) => {
                bound(lo, map);
                bound(hi, map);
            }
        },
        Op::Compact { lo, hi } => {
            bound(lo, map);
            bound(hi, map);
        }
        _ => {}
    }
    op
}

/// Simpler operations to put in the place of `op`, the simplest first. Each is strictly simpler by
/// some measure, so that replacing ends.
#[must_use]
pub fn simpler(op: &Op) -> Vec<Op> {
    match op {
        Op::Put { key, value, durable } => {
            let mut all: Vec<Op> = simpler_values(value)
                .map(|value| Op::Put { key: key.clone(), value, durable: *durable })
                .collect();
            if *durable {
                all.push(Op::Put { key: key.clone(), value: value.clone(), durable: false });
            }
            all
        }
        Op::Delete { key, durable: true } => vec![Op::Delete { key: key.clone(), durable: false }],
        Op::Batch { records, durable } => simpler_batches(records, *durable),
        Op::MultiGet { keys, view } => {
            let one = keys.iter().map(|key| Op::Get { key: key.clone(), view: *view });
            one.chain(live(op)).collect()
        }
        Op::GetWith { key, view } => vec![Op::Get { key: key.clone(), view: *view }],
        Op::Scan { span, view, walk } => {
            let walks = simpler_walks(*walk);
            let walks =
                walks.map(|walk| Op::Scan { span: span.clone(), view: *view, walk }).collect();
            let all = Op::Scan { span: Span::all(), view: *view, walk: *walk };
            [live(op), vec![all].into_iter().filter(|all| all != op).collect(), walks].concat()
        }
        Op::IterWalk { slot, walk } => {
            simpler_walks(*walk).map(|walk| Op::IterWalk { slot: *slot, walk }).collect()
        }
        Op::IterOpen { slot, span, view } => {
            let all = Op::IterOpen { slot: *slot, span: Span::all(), view: *view };
            let whole = (*span != Span::all()).then_some(all);
            live(op).into_iter().chain(whole).collect()
        }
        Op::IterSeek { slot, key, back, walk } => {
            let seek = |walk| Op::IterSeek { slot: *slot, key: key.clone(), back: *back, walk };
            simpler_walks(*walk).map(seek).collect()
        }
        Op::Compact { lo, hi } => {
            let whole = Op::Compact { lo: Bound::Unbounded, hi: Bound::Unbounded };
            let bounded = (lo, hi) != (&Bound::Unbounded, &Bound::Unbounded);
            bounded.then_some(whole).into_iter().collect()
        }
        Op::Reopen { by_drop, changes } => simpler_reopens(*by_drop, changes),
        Op::Get { .. } => live(op),
        _ => Vec::new(),
    }
}

/// The same read of the newest state.
fn live(op: &Op) -> Vec<Op> {
    let mut op = op.clone();
    match &mut op {
        Op::Get { view, .. }
        | Op::MultiGet { view, .. }
        | Op::Scan { view, .. }
        | Op::IterOpen { view, .. }
            if *view != View::Live =>
        {
            *view = View::Live;
            vec![op]
        }
        _ => Vec::new(),
    }
}

fn simpler_values(value: &Value) -> impl Iterator<Item = Value> {
    let len = value.len();
    let short = (len > 1).then(|| Value::Bytes(vec![b'v']));
    let half = (len > 2).then(|| Value::Bytes(vec![b'x'; len / 2]));
    let plain = match value {
        Value::Made { .. } => Some(Value::Bytes(vec![b'x'; len])),
        Value::Bytes(bytes) if len > 1 && bytes.iter().any(|&b| b != b'x') => {
            Some(Value::Bytes(vec![b'x'; len]))
        }
        Value::Bytes(_) => None,
    };
    [short, half, plain].into_iter().flatten()
}

fn simpler_batches(records: &[Record], durable: bool) -> Vec<Op> {
    let mut all = Vec::new();
    if let [Record { key, value }] = records {
        let key = key.clone();
        all.push(match value.clone() {
            Some(value) => Op::Put { key, value, durable },
            None => Op::Delete { key, durable },
        });
    }
    if records.len() > 2 {
        let (head, tail) = records.split_at(records.len() / 2);
        all.extend([head, tail].map(|half| Op::Batch { records: half.to_vec(), durable }));
    }
    for i in 0..records.len().min(16) {
        let mut fewer = records.to_vec();
        fewer.remove(i);
        all.push(Op::Batch { records: fewer, durable });
    }
    if durable {
        all.push(Op::Batch { records: records.to_vec(), durable: false });
    }
    all
}

fn simpler_walks(walk: Walk) -> impl Iterator<Item = Walk> {
    let mut all = vec![Walk::forward(), Walk::backward()];
    if let Some(limit) = walk.limit {
        all.extend([Walk::new(0, 1, Some(limit)), Walk::new(1, 1, Some(limit))]);
        all.extend((limit > 1).then(|| walk.limited(limit / 2)));
    }
    // Only what stands before the walk itself in this list is simpler.
    let end = all.iter().position(|&other| other == walk).unwrap_or(all.len());
    all.truncate(end);
    all.into_iter()
}

fn simpler_reopens(by_drop: bool, changes: &[(&'static str, u64)]) -> Vec<Op> {
    let mut all = Vec::new();
    for i in 0..changes.len() {
        let mut fewer = changes.to_vec();
        fewer.remove(i);
        all.push(Op::Reopen { by_drop, changes: fewer });
    }
    if by_drop {
        all.push(Op::Reopen { by_drop: false, changes: changes.to_vec() });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Mix, Plan, Seed};

    #[test]
    fn what_is_needed_stays_and_the_rest_goes() {
        let mut source = Seed(3);
        let plan = Plan::new(&mut source, Mix::Standard);
        let case = plan.case(&mut source, 400);
        let mut tried = 0;
        // "Fails" where a value is put, later a durable write comes, later a flush.
        let shrunk = shrink(&case, 10_000, |case| {
            tried += 1;
            let is_put = |op: &Op| matches!(op, Op::Put { value, .. } if !value.is_empty());
            let put = case.ops.iter().position(is_put);
            let durable = |op: &Op| matches!(op, Op::Put { durable: true, .. });
            put.is_some_and(|at| case.ops[at + 1..].iter().any(durable))
                && matches!(case.ops.last(), Some(Op::Get { .. } | Op::Scan { .. }))
        });
        let text = shrunk.to_string();
        assert_eq!(shrunk.ops.len(), 3, "{text}");
        assert!(text.starts_with("put k0") && text.contains("\nput_durable k0"), "{text}");
        assert!(tried < 2000);
    }

    #[test]
    fn no_options_come_out_that_an_open_refuses() {
        let mut case = Case::default();
        case.config.set("log_bytes", 1 << 15);
        case.config.set("log_budget_bytes", 1 << 17);
        assert!(crate::driver::accepts(&case.config));
        let shrunk = shrink(&case, 100, |case| case.config.log_bytes == 1 << 15);
        assert!(crate::driver::accepts(&shrunk.config), "{shrunk}");
        let shrunk = shrink(&case, 100, |_| true);
        assert_eq!(shrunk.config, Config::default());
    }

    #[test]
    fn every_simplification_ends() {
        let mut source = Seed(9);
        let plan = Plan::new(&mut source, Mix::Swarm);
        for op in plan.case(&mut source, 300).ops {
            let (mut op, mut steps) = (op, 0);
            while let Some(next) = simpler(&op).pop() {
                op = next;
                steps += 1;
                assert!(steps < 1000, "{op}");
            }
        }
    }
}
