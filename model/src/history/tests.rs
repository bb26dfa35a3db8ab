//! The fast check beside the exhaustive one, over histories of a reference that is right, and the
//! same histories with something changed (V2, A1, S1, D3, P1, C2).

use super::exhaustive::explains;
use super::{Call, Event, History, Kind, Ordered, Outcome, Passed, Saw, check};
use crate::generate::source::{Choices, Seed, Source};
use crate::ops::{Key, Record, Span};
use crate::value::Value;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::Bound;

type State = BTreeMap<Key, Vec<u8>>;

const KEYS: [&[u8]; 3] = [b"a", b"b", b"c"];

/// Clients that take turns: each call is invoked, takes effect at once, and returns, in three steps
/// between which others may step.
struct Reference<'s, S: Source> {
    source: &'s mut S,
    now: u64,
    state: State,
    seq: u64,
    written: u64,
    poisoned: bool,
    ordered: Option<Vec<Ordered>>,
    snapshots: BTreeMap<u64, State>,
    /// Snapshots whose taking has returned.
    usable: Vec<u64>,
    events: Vec<Event>,
}

impl<S: Source> Reference<'_, S> {
    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    fn key(&mut self) -> Key {
        self.source.pick(&KEYS).to_vec()
    }

    fn call(&mut self) -> Call {
        match self.source.below(8) {
            0..4 => {
                let records = (0..=self.source.below(2)).map(|_| self.record()).collect();
                Call::Write { records, durable: false, outcome: Outcome::Unknown }
            }
            4 => Call::Snapshot { id: self.now, seq: None },
            5 => Call::Read { at: self.at(), saw: Saw::Scan(self.span(), vec![]) },
            _ => {
                let keys = (0..=self.source.below(2)).map(|_| (self.key(), None)).collect();
                Call::Read { at: self.at(), saw: Saw::Keys(keys) }
            }
        }
    }

    fn record(&mut self) -> Record {
        self.written += 1;
        // With a recorded order, batches must differ; without, equal values are the hard case.
        let value = match &self.ordered {
            Some(_) => self.written,
            None => self.source.draw(1),
        };
        let delete = self.ordered.is_none() && self.source.chance(1, 4);
        let value = (!delete).then(|| value.to_string().as_str().into());
        Record { key: self.key(), value }
    }

    fn at(&mut self) -> Option<u64> {
        let usable = self.usable.clone();
        (!usable.is_empty() && self.source.chance(1, 2)).then(|| *self.source.pick(&usable))
    }

    fn span(&mut self) -> Span {
        match self.source.below(3) {
            0 => Span::all(),
            1 => Span::Range(Bound::Included(self.key()), Bound::Excluded(self.key())),
            _ => Span::Range(Bound::Excluded(self.key()), Bound::Unbounded),
        }
    }

    fn write(&mut self, records: &[Record]) -> Outcome {
        if self.poisoned {
            return if self.source.chance(1, 2) { Outcome::Refused } else { Outcome::Unknown };
        }
        let fails = self.source.chance(1, 10);
        self.poisoned |= fails;
        let takes_effect = !fails || self.source.chance(1, 2);
        if takes_effect || self.source.chance(1, 2) {
            let (at, first) = (self.now, self.seq + 1 + self.source.draw(1));
            self.seq = first + records.len() as u64 - 1;
            if let Some(ordered) = &mut self.ordered {
                ordered.push(Ordered { at, first, records: records.to_vec() });
            }
        }
        if takes_effect {
            for Record { key, value } in records {
                match value {
                    Some(value) => self.state.insert(key.clone(), value.to_vec()),
                    None => self.state.remove(key),
                };
            }
        }
        if fails { Outcome::Unknown } else { Outcome::Done(self.seq) }
    }

    fn effect(&mut self, call: &mut Call) {
        match call {
            Call::Write { records, outcome, .. } => *outcome = self.write(records),
            Call::Read { at, saw } => {
                let state = at.map_or(&self.state, |id| &self.snapshots[&id]);
                match saw {
                    Saw::Keys(keys) => {
                        keys.iter_mut().for_each(|(key, value)| *value = state.get(key).cloned());
                    }
                    Saw::Scan(span, entries) => {
                        let (lo, hi) = crate::oracle::bounds(span);
                        let within = |key: &Key| {
                            use std::ops::RangeBounds as _;
                            (lo.clone(), hi.clone()).contains(key)
                        };
                        let all = state.iter().filter(|(key, _)| within(key));
                        *entries = all.map(|(key, value)| (key.clone(), value.clone())).collect();
                    }
                }
            }
            Call::Snapshot { id, seq } => {
                *seq = self.source.chance(1, 2).then_some(self.seq);
                self.snapshots.insert(*id, self.state.clone());
            }
            Call::Sync { .. } => {}
        }
    }
}

#[derive(Clone)]
enum Client {
    Idle,
    Called(u64, Call),
    Effected(u64, Call),
}

/// A history of a few clients that a correct engine can have left.
fn reference(source: &mut impl Source) -> History {
    let ordered = source.chance(1, 3).then(Vec::new);
    let mut clients = vec![Client::Idle; 1 + source.below(3)];
    let mut calls = 2 + source.below(7);
    let mut run = Reference {
        source,
        now: 0,
        state: State::new(),
        seq: 0,
        written: 0,
        poisoned: false,
        ordered,
        snapshots: BTreeMap::new(),
        usable: Vec::new(),
        events: Vec::new(),
    };
    let steps = 3 * calls + 6;
    for _ in 0..steps {
        let number = run.source.below(clients.len());
        let now = run.tick();
        clients[number] = match clients[number].clone() {
            Client::Idle if calls > 0 => {
                calls -= 1;
                Client::Called(now, run.call())
            }
            Client::Idle => Client::Idle,
            Client::Called(invoked, mut call) => {
                run.effect(&mut call);
                Client::Effected(invoked, call)
            }
            Client::Effected(invoked, call) => {
                if let Call::Snapshot { id, .. } = &call {
                    run.usable.push(*id);
                }
                let client = number as u32;
                run.events.push(Event { client, invoked, returned: Some(now), call });
                Client::Idle
            }
        };
    }
    for (client, state) in (0..).zip(clients) {
        if let Client::Called(invoked, call) | Client::Effected(invoked, call) = state
            && let Call::Write { records, durable, .. } = call
        {
            let call = Call::Write { records, durable, outcome: Outcome::Unknown };
            run.events.push(Event { client, invoked, returned: None, call });
        }
    }
    let mut events = run.events;
    events.sort_by_key(|event| event.invoked);
    History { events, ordered: run.ordered }
}

fn swap_instants(history: &mut History, a: u64, b: u64) {
    let swap = |t: &mut u64| {
        *t = match *t {
            t if t == a => b,
            t if t == b => a,
            t => t,
        }
    };
    for event in &mut history.events {
        swap(&mut event.invoked);
        if let Some(returned) = &mut event.returned {
            swap(returned);
        }
    }
    history.events.sort_by_key(|event| (event.invoked, event.client));
}

/// Gives neighbouring instants the same number, after which real time says less.
fn coarsen(history: &mut History) {
    for event in &mut history.events {
        event.invoked /= 2;
        if let Some(returned) = &mut event.returned {
            *returned /= 2;
        }
    }
    history.ordered.iter_mut().flatten().for_each(|piece| piece.at /= 2);
    history.events.sort_by_key(|event| (event.invoked, event.client));
}

fn other_value(source: &mut impl Source) -> Option<Vec<u8>> {
    let values: [Option<Vec<u8>>; 4] = [None, Some(b"0".into()), Some(b"1".into()), None];
    source.pick(&values).clone()
}

/// Changes something; often enough the result is right all the same.
fn mutate(history: &mut History, source: &mut impl Source) {
    let Some(last) = history.events.len().checked_sub(1) else { return };
    let i = source.below(last + 1);
    if source.chance(1, 3) {
        let span = history.events.iter().filter_map(|event| event.returned).max().unwrap_or(1);
        let a = 1 + source.draw(span);
        return swap_instants(history, a, a + 1 + source.draw(4));
    }
    match &mut history.events[i].call {
        Call::Write { outcome: Outcome::Done(seq), .. } if source.chance(1, 2) => {
            *seq = (*seq + source.draw(4)).saturating_sub(2);
        }
        Call::Write { outcome, .. } => {
            *outcome = *source.pick(&[Outcome::Unknown, Outcome::Refused]);
        }
        Call::Read { saw: Saw::Keys(keys), .. } => {
            let key = source.below(keys.len());
            keys[key].1 = other_value(source);
        }
        Call::Read { saw: Saw::Scan(_, entries), .. } => match other_value(source) {
            Some(value) => {
                if let Some(entry) = entries.first_mut() {
                    entry.1 = value;
                }
            }
            None => {
                entries.pop();
            }
        },
        Call::Snapshot { seq, .. } => *seq = Some(source.draw(6)),
        Call::Sync { .. } => {}
    }
}

/// Both checks over one history; what the fast one says.
fn both(history: &History) -> Option<Result<Passed, Kind>> {
    let fast = check(history);
    if fast.as_ref().is_err_and(|e| e.kind == Kind::Malformed) {
        return None;
    }
    let slow = explains(history);
    let said = fast.as_ref().map_or_else(|e| e.to_string(), |passed| format!("{passed:?}"));
    assert_eq!(fast.is_ok(), slow, "exhaustively: {slow}\n{said}\n{history}");
    assert_eq!(History::parse(&history.to_string()).as_ref(), Ok(history), "\n{history}");
    Some(fast.map_err(|e| e.kind))
}

fn one(source: &mut impl Source) -> [Option<Result<Passed, Kind>>; 2] {
    let mut history = reference(source);
    if source.chance(1, 4) {
        coarsen(&mut history);
    }
    let right = both(&history);
    assert!(matches!(right, Some(Ok(_))), "{right:?}\n{history}");
    (0..=source.below(2)).for_each(|_| mutate(&mut history, source));
    [right, both(&history)]
}

#[test]
fn both_checks_agree_and_find_every_kind() {
    const SEEDS: u64 = 20_000;
    let mut kinds: BTreeMap<Kind, usize> = BTreeMap::new();
    let mut accepted = 0;
    for seed in 0..SEEDS {
        let [_, changed] = one(&mut Seed(seed));
        match changed {
            Some(Ok(_)) => accepted += 1,
            Some(Err(kind)) => *kinds.entry(kind).or_default() += 1,
            None => {}
        }
    }
    let rejected: usize = kinds.values().sum();
    assert!(accepted > SEEDS as usize / 10 && rejected > SEEDS as usize / 10, "{kinds:?}");
    let unreached = [Kind::Malformed, Kind::Undecided, Kind::ScanOrder];
    let missing = Kind::ALL.iter().filter(|kind| !unreached.contains(kind));
    let missing: Vec<_> = missing.filter(|kind| !kinds.contains_key(kind)).collect();
    assert!(missing.is_empty(), "never said: {missing:?}; said: {kinds:?}");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn both_checks_agree(numbers in proptest::collection::vec(any::<u64>(), 0..120)) {
        one(&mut Choices::new(numbers));
    }
}

#[test]
fn an_observer_knows_what_had_returned() {
    for seed in 0..500 {
        let whole = reference(&mut Seed(seed));
        let last = whole.events.iter().filter_map(|event| event.returned).max().unwrap_or(0);
        for instant in 0..=last {
            let known = whole.until(instant);
            assert!(known.events.iter().all(|event| event.invoked <= instant));
            assert!(both(&known).is_some_and(|said| said.is_ok()), "at {instant} of\n{whole}");
        }
    }
}

#[test]
fn a_long_history_is_checked_in_one_pass() {
    let mut run = super::Recorder::new(0);
    let mut now = 0;
    for seq in 1..=100_000u64 {
        let key = (seq % 500).to_string().into_bytes();
        let value = seq.to_string().into_bytes();
        let records = vec![Record { key: key.clone(), value: Some(Value::Bytes(value.clone())) }];
        let outcome = Outcome::Done(seq);
        run.returned(now, now + 1, Call::Write { records, durable: false, outcome });
        let saw = Saw::Keys(vec![(key, Some(value))]);
        run.returned(now + 2, now + 3, Call::Read { at: None, saw });
        now += 4;
    }
    let passed = check(&History::merge([run], None));
    assert_eq!(passed.map(|passed| (passed.commits, passed.reads)), Ok((100_000, 100_000)));
}
