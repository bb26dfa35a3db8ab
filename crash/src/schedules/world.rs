//! A world: who does what to one database, under which options, and what goes wrong meanwhile.
//!
//! Invariants
//! - A world is data, drawn from a seed: nothing in it depends on what happens in it.
//! - Every value is written once in a world, so that a read says which write it saw.
//! - Swarm: each world has a random subset of actors and verbs.

use super::chooser::Pace;
use super::rows::Row;
use crate::disk::{Errno, Fault, Op, Pages, Report, Rule};
use kiban::env::probe::Stage;
use kiban_model::generate::{Seed, Source};
use kiban_model::ops::{Key, Record};
use kiban_model::value::Value;

/// How a write is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// `write`.
    Buffered,
    /// `write_durable`.
    Durable,
    /// `write_durable_with`.
    Receipt,
}

/// One call of a client.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A batch.
    Write { records: Vec<Record>, how: How, timeout: bool },
    /// `sync`.
    Sync,
    /// `get` for one key, `multi_get` for more.
    Get(Vec<Key>),
    /// A scan of everything from a key on, forward or backward.
    Scan { from: Option<Key>, back: bool },
    /// Takes a snapshot and keeps it.
    Snapshot,
    /// Reads at the snapshot that is kept, everything.
    ReadSnapshot { back: bool },
    /// Lets it go.
    DropSnapshot,
    /// `flush`.
    Flush,
    /// `compact_range` of everything.
    Compact,
    /// So many steps of maintenance.
    Maintain(u8),
    /// `wait_settled`.
    Settle,
    /// A checkpoint into a new directory.
    Checkpoint,
    /// A backup into a new directory.
    Backup,
    /// `close`.
    Close,
}

/// The options that a world opens its database with.
#[derive(Clone, Debug, PartialEq)]
pub struct Knobs {
    /// Bytes of a memtable.
    pub memtable_bytes: usize,
    /// How many there may be.
    pub memtables_max: usize,
    /// Bytes of a log.
    pub log_bytes: u64,
    /// Bytes of logs.
    pub log_budget_bytes: u64,
    /// Runs that are merged into one.
    pub tier_runs: usize,
    /// Runs from which writes are held back.
    pub runs_slow: usize,
    /// Runs at which they wait.
    pub runs_stop: usize,
    /// Bytes of a manifest.
    pub manifest_bytes_max: u64,
    /// Whether maintenance has threads of its own.
    pub background: bool,
    /// Whether tables are read by `pread`.
    pub pread: bool,
    /// How long a durable group waits for its cohort.
    pub cohort_wait_max_ns: u64,
}

/// Builds the options of either form of the engine from the knobs.
macro_rules! options_of {
    ($kiban:ident, $knobs:expr) => {{
        let knobs = $knobs;
        $kiban::KibanOptions::new()
            .memtable_bytes(knobs.memtable_bytes)
            .memtables_max(knobs.memtables_max)
            .log_bytes(knobs.log_bytes)
            .log_budget_bytes(knobs.log_budget_bytes)
            .tier_runs(knobs.tier_runs)
            .runs_slow(knobs.runs_slow)
            .runs_stop(knobs.runs_stop)
            .manifest_bytes_max(knobs.manifest_bytes_max)
            .block_bytes(128)
            .table_bytes_max(2048)
            .compaction_slice_bytes(4096)
            .background_maintenance(knobs.background)
            .cohort_wait_max_ns(knobs.cohort_wait_max_ns)
            .reads(if knobs.pread { $kiban::Reads::Pread } else { $kiban::Reads::Mapped })
    }};
}
pub(super) use options_of;

impl Default for Knobs {
    fn default() -> Self {
        Self {
            memtable_bytes: 2048,
            memtables_max: 2,
            log_bytes: 1024,
            log_budget_bytes: 16384,
            tier_runs: 2,
            runs_slow: 12,
            runs_stop: 20,
            manifest_bytes_max: 4096,
            background: true,
            pread: false,
            cohort_wait_max_ns: 100_000,
        }
    }
}

/// A world.
#[derive(Clone, Debug)]
pub struct World {
    /// What it was drawn from; decides the engine's ids and the images too.
    pub seed: u64,
    /// The database that it begins with, by number; `None` for a new one.
    pub base: Option<u64>,
    /// How it is opened.
    pub knobs: Knobs,
    /// What each client does, call by call.
    pub clients: Vec<Vec<Step>>,
    /// Who runs next.
    pub pace: Pace,
    /// What goes wrong, once the database is open.
    pub faults: Vec<Rule>,
    /// The n-th time that a client enters the stage, it panics.
    pub panic: Option<(Stage, u32)>,
    /// Moments that are photographed.
    pub shots: usize,
    /// Power cuts looked at for each.
    pub cuts: usize,
    /// Looks at every point where a group is in this row instead, and at every image up to a bound.
    pub row: Option<Row>,
    /// How it is made again: text that `origin` reads.
    pub origin: String,
}

impl World {
    /// The world of this seed.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let source = &mut Seed(seed);
        let background = source.chance(3, 4);
        let knobs = Knobs {
            memtable_bytes: *source.pick(&[1024, 2048, 4096]),
            memtables_max: *source.pick(&[2, 2, 3]),
            log_bytes: *source.pick(&[1024, 1024, 2048]),
            log_budget_bytes: *source.pick(&[4096, 16384, 65536]),
            tier_runs: 2 + source.below(2),
            runs_slow: *source.pick(&[3, 12]),
            runs_stop: *source.pick(&[4, 5, 20]),
            manifest_bytes_max: *source.pick(&[512, 4096]),
            background,
            pread: source.chance(1, 8),
            cohort_wait_max_ns: *source.pick(&[0, 100_000]),
        };
        let mut draw = Draw::new(source);
        let clients = draw.clients(background);
        let pace = Pace::draw(source);
        let base = source.chance(7, 8).then(|| source.draw(super::base::COUNT - 1));
        let faults = draw_faults(source);
        let panic = (faults.is_empty() && source.chance(1, 24)).then(|| {
            let stage = *source.pick(&super::special::LEADER_STAGES);
            (stage, source.draw(6) as u32)
        });
        let (row, origin) = (None, String::new());
        Self { seed, base, knobs, clients, pace, faults, panic, shots: 6, cuts: 1, row, origin }
    }
}

pub(super) struct Draw<'a> {
    source: &'a mut Seed,
    next_value: u32,
    keys: usize,
    value_max: u32,
    /// In 8ths: writes that are durable, and of the rest those with a receipt.
    pub(super) durable: u64,
    pub(super) receipts: u64,
    deletes: u64,
}

impl<'a> Draw<'a> {
    pub(super) fn new(source: &'a mut Seed) -> Self {
        let keys = *source.pick(&[3, 8, 24]);
        let value_max = *source.pick(&[16, 60, 200]);
        let durable = *source.pick(&[0, 3, 5, 8]);
        let receipts = *source.pick(&[0, 0, 3, 8]);
        let deletes = *source.pick(&[0, 1, 3]);
        Self { source, next_value: 1, keys, value_max, durable, receipts, deletes }
    }

    fn clients(&mut self, background: bool) -> Vec<Vec<Step>> {
        let writers = 1 + self.source.below(4);
        let readers = self.source.below(3);
        let mut clients: Vec<Vec<Step>> = Vec::new();
        for _ in 0..writers {
            let count = 2 + self.source.below(6);
            let mut steps = Vec::new();
            for _ in 0..count {
                steps.push(self.write());
                if self.source.chance(1, 12) {
                    steps.push(Step::Sync);
                }
                if self.source.chance(1, 12) {
                    let key = self.key();
                    steps.push(Step::Get(vec![key]));
                }
            }
            clients.push(steps);
        }
        for _ in 0..readers {
            clients.push(self.reader());
        }
        if !background {
            let steps = 4 + self.source.below(12);
            clients.push(vec![Step::Maintain(1); steps]);
        }
        if self.source.chance(1, 2) {
            let mut steps = Vec::new();
            for _ in 0..1 + self.source.below(3) {
                let step = match self.source.weighted(&[4, 2, 4, 1, 1, 1]) {
                    0 => Step::Flush,
                    1 => Step::Compact,
                    2 => Step::Sync,
                    3 => Step::Settle,
                    4 => Step::Checkpoint,
                    _ => Step::Backup,
                };
                steps.push(step);
            }
            clients.push(steps);
        }
        if self.source.chance(1, 8) {
            let mut steps: Vec<_> =
                (0..self.source.below(4)).map(|_| Step::Scan { from: None, back: false }).collect();
            steps.push(Step::Close);
            clients.push(steps);
        }
        clients
    }

    fn key(&mut self) -> Key {
        format!("k{:02}", self.source.below(self.keys)).into_bytes()
    }

    pub(super) fn write(&mut self) -> Step {
        let count = if self.source.chance(1, 3) { 2 + self.source.below(3) } else { 1 };
        let mut records: Vec<Record> = Vec::new();
        for _ in 0..count {
            let key = self.key();
            // One record a key: what a batch leaves is then what it says.
            if records.iter().any(|record| record.key == key) {
                continue;
            }
            let value = (!self.source.chance(self.deletes, 8)).then(|| {
                let len = 8 + self.source.draw(u64::from(self.value_max)) as u32;
                self.next_value += 1;
                Value::Made { seed: self.next_value, len }
            });
            records.push(Record { key, value });
        }
        // A write is known again by the values that it puts.
        if records.iter().all(|record| record.value.is_none()) {
            self.next_value += 1;
            let value = Some(Value::Made { seed: self.next_value, len: 8 });
            records.push(Record { key: b"p".to_vec(), value });
        }
        let how = if self.source.chance(self.durable, 8) {
            How::Durable
        } else if self.source.chance(self.receipts, 8) {
            How::Receipt
        } else {
            How::Buffered
        };
        Step::Write { records, how, timeout: self.source.chance(1, 12) }
    }

    pub(super) fn reader(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        for _ in 0..2 + self.source.below(6) {
            let back = self.source.chance(1, 3);
            match self.source.weighted(&[5, 2, 3, 3]) {
                0 => steps.push(Step::Get(vec![self.key()])),
                1 => {
                    let keys = (0..3).map(|_| self.key()).collect();
                    steps.push(Step::Get(keys));
                }
                2 => {
                    let from = self.source.chance(1, 3).then(|| self.key());
                    steps.push(Step::Scan { from, back });
                }
                _ => {
                    steps.push(Step::Snapshot);
                    for _ in 0..1 + self.source.below(3) {
                        steps.push(Step::ReadSnapshot { back });
                        if self.source.chance(1, 3) {
                            let key = self.key();
                            steps.push(Step::Get(vec![key]));
                        }
                    }
                    if self.source.chance(1, 2) {
                        steps.push(Step::DropSnapshot);
                    }
                }
            }
        }
        steps
    }
}

/// Faults of one world: none in most, one at a random call in some, a full disk or slow syncs in
/// others.
fn draw_faults(source: &mut Seed) -> Vec<Rule> {
    let skip = source.draw(12) as u32;
    let one = |source: &mut Seed, skip| {
        let (op, fault, end) = *source.pick(&FAULTY_CALLS);
        Rule::new(fault).op(op).path_end(end).skip(skip)
    };
    match source.weighted(&[10, 3, 1, 2, 1]) {
        0 => Vec::new(),
        1 => vec![one(source, skip)],
        4 => {
            // Several: what the second meets is a handle that the first may have poisoned.
            let more = 1 + source.below(2) as u32;
            (0..=more).map(|n| one(source, skip * n)).collect()
        }
        2 => {
            // A full disk, for a while.
            let full = Fault::Error(Errno::ENOSPC);
            let times = 1 + source.draw(30) as u32;
            let calls = [Op::Write, Op::Create, Op::Preallocate, Op::SetLen];
            calls.map(|op| Rule::new(full).op(op).skip(skip).times(times)).to_vec()
        }
        _ => {
            let rounds = 1 + source.draw(12) as u32;
            let slow = Fault::Slow(rounds);
            [Op::SyncData, Op::SyncAll].map(|op| Rule::new(slow).op(op).times(u32::MAX)).to_vec()
        }
    }
}

pub(super) const SYNC_OLD: Fault = Fault::Sync(Errno::EIO, Pages::Old, Report::Caller);
pub(super) const SYNC_NEW: Fault = Fault::Sync(Errno::EIO, Pages::New, Report::Caller);
pub(super) const SYNC_EVICTED: Fault = Fault::Sync(Errno::EIO, Pages::NewFor(8), Report::Caller);
pub(super) const LANDED: Fault = Fault::Landed(Errno::EIO);
pub(super) const EIO: Fault = Fault::Error(Errno::EIO);
pub(super) const FULL: Fault = Fault::Error(Errno::ENOSPC);

/// Calls that fail, and how.
pub const FAULTY_CALLS: [(Op, Fault, &str); 24] = [
    (Op::Write, EIO, ".log"),
    (Op::Write, LANDED, ".log"),
    (Op::Write, Fault::Half(Errno::ENOSPC), ".log"),
    (Op::Write, Fault::Short, ".log"),
    (Op::Write, FULL, ".log"),
    (Op::SyncData, EIO, ".log"),
    (Op::SyncData, SYNC_OLD, ".log"),
    (Op::SyncData, SYNC_NEW, ".log"),
    (Op::SyncData, SYNC_EVICTED, ".log"),
    (Op::SyncData, LANDED, ".log"),
    (Op::Write, EIO, ".manifest"),
    (Op::Write, LANDED, ".manifest"),
    (Op::Write, Fault::Half(Errno::ENOSPC), ".manifest"),
    (Op::SyncData, SYNC_OLD, ".manifest"),
    (Op::SyncData, LANDED, ".manifest"),
    (Op::SyncDir, EIO, ""),
    (Op::SyncDir, LANDED, ""),
    (Op::SyncDir, Fault::DirLie(Errno::EIO), ""),
    (Op::Write, EIO, ".tbl"),
    (Op::SyncAll, SYNC_OLD, ""),
    (Op::SyncAll, LANDED, ""),
    (Op::Create, EIO, ""),
    (Op::Create, FULL, ""),
    (Op::Unlink, EIO, ""),
];
