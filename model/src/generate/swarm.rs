//! A plan for one run, and operations drawn from it.
//!
//! Invariants
//! - A swarm plan switches off a random subset of the operations, never all writes, and gives the
//!   rest wild weights: rare combinations become common in some run.
//! - The standard mix has every operation, in proportions like a program's.
//! - Every operation in [`Op::KINDS`] can be drawn; a test holds it.

use super::keys::{KEY_BYTES_MAX, Pool};
use super::sizes::Sizes;
use super::source::Source;
use crate::config::Config;
use crate::ops::{Case, Key, Op, Record, SLOTS, Span, View, Walk};
use crate::value::Value;
use std::ops::Bound;

/// Which proportions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Every operation, in a program's proportions and with its options.
    Standard,
    /// A random subset with wild weights; random options.
    Swarm,
}

/// Weights of the standard mix, in the order of [`Op::KINDS`].
const STANDARD: [u32; Op::KINDS.len()] = [
    2400, 640, 400, 40, 2000, 480, 160, 320, 120, //
    480, 120, 80, 64, 64, 16, 4, 160, //
    3, 3, 2, 4, 2, 24, 1, 1,
];
/// Weights that a swarm gives to what it leaves on.
const WILD: &[u32] = &[1, 2, 5, 20, 100];
/// Whole-database operations: a swarm divides their weights, since each costs as much as a
/// hundred others.
const HEAVY: &[&str] = &["reopen", "close", "read_only", "verify", "checkpoint", "backup"];

/// One run's options, weights, keys and sizes.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How the database is first opened.
    pub config: Config,
    weights: [u32; Op::KINDS.len()],
    keys: Pool,
    sizes: Sizes,
    /// Parts in 16 of writes that are durable.
    durable_16ths: u64,
    batch_max: usize,
    /// Slots in use: few, so that what is opened is also sought and walked.
    slots: usize,
}

impl Plan {
    /// A plan for one run.
    pub fn new(source: &mut impl Source, mix: Mix) -> Self {
        let (config, weights, edges) = match mix {
            Mix::Standard => (Config::standard(), STANDARD, &[1][..]),
            Mix::Swarm => (swarm_config(source), swarm_weights(source), &[4, 0, 1, 16][..]),
        };
        let keys = Pool::new(source, &config);
        let sizes = Sizes::new(source, &config, edges);
        let durable_16ths = *source.pick(&[2, 0, 8, 16]);
        let batch_max = *source.pick(&[4, 1, 12, 60]);
        let slots = *source.pick(&[1, 2, SLOTS]);
        Self { config, weights, keys, sizes, durable_16ths, batch_max, slots }
    }

    /// The kinds that are off, for a report.
    pub fn off(&self) -> impl Iterator<Item = &'static str> {
        let kinds = Op::KINDS.iter().zip(&self.weights);
        kinds.filter(|(_, weight)| **weight == 0).map(|(kind, _)| *kind)
    }

    /// Sets the weight of a kind, for runs that must or must not do something.
    ///
    /// # Panics
    /// Where there is no such kind.
    pub fn weigh(&mut self, kind: &str, weight: u32) {
        let index = Op::KINDS.iter().position(|known| *known == kind);
        self.weights[index.expect("a kind of Op::KINDS")] = weight;
    }

    /// A whole case of `count` operations, or fewer where the source runs dry.
    pub fn case(&self, source: &mut impl Source, count: usize) -> Case {
        let mut case = Case { config: self.config.clone(), ops: Vec::with_capacity(count) };
        while case.ops.len() < count && !source.is_dry() {
            case.ops.push(self.op(source));
        }
        case
    }

    /// The next operation.
    pub fn op(&self, source: &mut impl Source) -> Op {
        let kind = source.weighted(&self.weights);
        match Op::KINDS[kind] {
            "put" => self.put(source),
            "delete" => {
                Op::Delete { key: self.keys.key(source).clone(), durable: self.durable(source) }
            }
            "write" => self.batch(source),
            "get" => Op::Get { key: self.keys.near(source), view: self.view(source) },
            "get_with" => Op::GetWith { key: self.keys.near(source), view: self.view(source) },
            "multi_get" => {
                let count = source.below(12);
                let keys = (0..count).map(|_| self.keys.near(source)).collect();
                Op::MultiGet { keys, view: self.view(source) }
            }
            "scan" => Op::Scan {
                span: self.span(source),
                view: self.view(source),
                walk: walk(source, 32),
            },
            "iter_open" => Op::IterOpen {
                slot: self.slot(source),
                span: self.span(source),
                view: self.view(source),
            },
            "iter_walk" => Op::IterWalk { slot: self.slot(source), walk: walk(source, 8) },
            "iter_seek" => {
                let (slot, back) = (self.slot(source), source.chance(1, 2));
                let key = self.keys.near(source);
                // Half of the time left for later, with other operations in between.
                let walk = walk(source, 4);
                let walk = if source.chance(1, 2) { walk.limited(0) } else { walk };
                Op::IterSeek { slot, key, back, walk }
            }
            "iter_drop" => Op::IterDrop { slot: self.slot(source) },
            "snapshot" => Op::SnapOpen { slot: self.slot(source) },
            "release" => Op::SnapDrop { slot: self.slot(source) },
            "compact" => {
                let (lo, hi) = self.range(source);
                Op::Compact { lo, hi }
            }
            "reopen" => self.reopen(source),
            "sync" => Op::Sync,
            "flush" => Op::Flush,
            "step" => Op::Step,
            "close" => Op::Close,
            "read_only" => Op::ReadOnly,
            "second_open" => Op::SecondOpen,
            "verify" => Op::Verify,
            "stats" => Op::Stats,
            "checkpoint" => Op::Checkpoint,
            "backup" => Op::Backup,
            kind => unreachable!("{kind} is drawn nowhere"),
        }
    }

    fn slot(&self, source: &mut impl Source) -> u8 {
        source.below(self.slots) as u8
    }

    fn view(&self, source: &mut impl Source) -> View {
        if source.chance(1, 4) { View::Snapshot(self.slot(source)) } else { View::Live }
    }

    fn durable(&self, source: &mut impl Source) -> bool {
        source.chance(self.durable_16ths, 16)
    }

    fn put(&self, source: &mut impl Source) -> Op {
        let durable = self.durable(source);
        if source.chance(1, 512) {
            return self.oversized(source, durable);
        }
        Op::Put { key: self.keys.key(source).clone(), value: self.sizes.value(source), durable }
    }

    /// One byte more than the engine takes.
    fn oversized(&self, source: &mut impl Source, durable: bool) -> Op {
        let key = self.keys.key(source).clone();
        if source.chance(1, 2) {
            return Op::Put { key: vec![b'x'; KEY_BYTES_MAX + 1], value: "v".into(), durable };
        }
        let len = self.config.value_bytes_max as u32 + 1;
        Op::Put { key, value: Value::Made { seed: 1, len }, durable }
    }

    fn batch(&self, source: &mut impl Source) -> Op {
        let durable = self.durable(source);
        let count = source.below(self.batch_max + 1);
        let mut record = || {
            let value = source.chance(3, 4).then(|| self.sizes.value(source));
            Record { key: self.keys.key(source).clone(), value }
        };
        Op::Batch { records: (0..count).map(|_| record()).collect(), durable }
    }

    fn span(&self, source: &mut impl Source) -> Span {
        if source.chance(1, 3) {
            return Span::all();
        }
        if source.chance(1, 3) {
            return Span::Prefix(self.keys.near(source));
        }
        let (lo, hi) = self.range(source);
        Span::Range(lo, hi)
    }

    /// Bounds, usually the right way round.
    fn range(&self, source: &mut impl Source) -> (Bound<Key>, Bound<Key>) {
        let mut bound = || match source.below(4) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Included(self.keys.near(source)),
            _ => Bound::Excluded(self.keys.near(source)),
        };
        let (lo, hi) = (bound(), bound());
        let inverted = match (&lo, &hi) {
            (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => {
                a > b
            }
            _ => false,
        };
        if inverted && !source.chance(1, 8) { (hi, lo) } else { (lo, hi) }
    }

    fn reopen(&self, source: &mut impl Source) -> Op {
        let by_drop = source.chance(1, 3);
        let mut changes: Vec<(&'static str, u64)> = Vec::new();
        if source.chance(1, 2) {
            for _ in 0..1 + source.below(4) {
                let field = source.below(Config::NAMES.len());
                let value = *source.pick(Config::CHOICES[field]);
                changes.retain(|(name, _)| *name != Config::NAMES[field]);
                changes.push((Config::NAMES[field], value));
            }
        }
        Op::Reopen { by_drop, changes }
    }
}

fn swarm_config(source: &mut impl Source) -> Config {
    let mut config = Config::default();
    // A wild value for about half of the options, so that each pair of them is met soon.
    for (name, choices) in Config::NAMES.iter().zip(Config::CHOICES) {
        if source.chance(1, 2) {
            config.set(name, *source.pick(choices));
        }
    }
    config
}

fn swarm_weights(source: &mut impl Source) -> [u32; Op::KINDS.len()] {
    let on_8ths = 3 + source.draw(5);
    let mut weights = STANDARD.map(|_| 0);
    for (weight, kind) in weights.iter_mut().zip(Op::KINDS) {
        if source.chance(on_8ths, 8) {
            *weight = 20 * *source.pick(WILD);
            if HEAVY.contains(kind) {
                *weight = (*weight / 100).max(1);
            }
        }
    }
    // Something must be written, or nothing else means anything; by a third of the operations.
    weights[source.below(3)] += 3000;
    weights
}

fn walk(source: &mut impl Source, limit_max: u64) -> Walk {
    // One walk in sixteen goes to the end.
    let limit = (!source.chance(1, 16)).then(|| source.draw(limit_max) as u32);
    match source.below(4) {
        0 | 1 => Walk::new(0, 1, limit),
        2 => Walk::new(1, 1, limit),
        _ => {
            let period = 1 + source.below(usize::from(Walk::PERIOD_MAX)) as u8;
            Walk::new(source.draw(u64::from(u16::MAX)) as u16, period, limit)
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
