//! Picks: golden texts of single choices, and a simulation of whole lives.
//!
//! A golden case is a title (`#`), options, the runs newest first, `----` and the plan:
//! a slice is `first-last:bytes`, then `[lo,hi)` where bounds are visible, `!` where the table is
//! damaged, `t` where it has tombstones; `full=` is what the run had when it was whole.
//! `UPDATE_GOLDEN=1` writes the answers anew.

use super::*;
use crate::base::key::{SeqNo, TableId};
use crate::env::fs::{Fs, OpenMode, read_file, write_all_at};
use crate::env::os::OsFs;
use crate::env::random::{Random, SeededRandom};
use crate::env::sync::Arc;
use crate::version::{
    Edit, RunId, TableMeta, compaction_edit, flush_edit, snapshot_edit, structure,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn options_of(text: &str) -> PickOptions {
    let mut options = PickOptions {
        fanout: 4,
        above_percent: 50,
        runs_max: 12,
        unit_bytes: 10,
        table_bytes: 20,
        slice_bytes: 60,
    };
    for word in text.split_whitespace() {
        let (name, value) = word.split_once('=').expect("name=value");
        let value: u64 = value.parse().expect("a number");
        match name {
            "fanout" => options.fanout = value as usize,
            "above" => options.above_percent = value,
            "runs_max" => options.runs_max = value as usize,
            "unit" => options.unit_bytes = value,
            "table" => options.table_bytes = value,
            "slice" => options.slice_bytes = value,
            _ => panic!("unknown option {name}"),
        }
    }
    options
}

fn slice_of(text: &str, number: u64, fenced: &mut BTreeSet<FileNumber>) -> TableSlice {
    let (text, marks) = text.split_at(text.find(['!', 't']).unwrap_or(text.len()));
    if marks.contains('!') {
        fenced.insert(FileNumber(number));
    }
    let (text, bounds) = text.split_at(text.find('[').unwrap_or(text.len()));
    let (keys, bytes) = text.split_once(':').expect("first-last:bytes");
    let (first, last) = keys.split_once('-').expect("first-last");
    let mut bounds = bounds.trim_matches(['[', ')']).splitn(2, ',').map(|b| b.as_bytes().to_vec());
    let mut bound = || bounds.next().filter(|b| !b.is_empty());
    let meta = TableMeta {
        number: FileNumber(number),
        id: TableId(u128::from(number)),
        bytes: bytes.parse().expect("bytes"),
        footer_crc: 0,
        first_key: first.into(),
        last_key: last.into(),
        entries: 9,
        tombstones: u64::from(marks.contains('t')),
        seq_min: SeqNo(1),
        seq_max: SeqNo(100),
        kept: Default::default(),
    };
    TableSlice { meta: Arc::new(meta), lo: bound(), hi: bound() }
}

fn plan_text(plan: Option<&Plan>) -> String {
    let Some(plan) = plan else { return "nothing".to_string() };
    let bound = |bound: &Option<Vec<u8>>| {
        bound.as_ref().map_or(String::new(), |key| key.escape_ascii().to_string())
    };
    let (lo, hi) = (bound(&plan.range.lo), bound(&plan.range.hi));
    format!("{:?} {:?} [{lo},{hi})", plan.reason, plan.runs)
}

/// The answer to one golden case.
fn answer(case: &str) -> String {
    let mut version = Version { next_file: FileNumber(1000), ..Version::default() };
    let (mut options, mut fenced, mut number) = (options_of(""), BTreeSet::new(), 0);
    let mut runs = Vec::new();
    for line in case.lines().filter(|line| !line.starts_with('#')) {
        let Some(line) = line.strip_prefix("run ") else {
            options = options_of(line);
            continue;
        };
        let full = line.split(' ').find_map(|word| word.strip_prefix("full="));
        let full = full.map_or(0, |full| full.parse().expect("bytes"));
        let slices =
            line.split_whitespace().filter(|word| !word.starts_with("full=")).map(|word| {
                number += 1;
                slice_of(word, number, &mut fenced)
            });
        let slices = slices.collect();
        runs.push(Arc::new(Run::new(RunId(number), slices, full).expect("a run")));
    }
    (version.runs, version.flushed_seq) = (runs, SeqNo(100));
    let plan = pick(&version, &options, &fenced);
    assert_eq!(plan, pick(&version, &options, &fenced), "the same answer every time");
    plan_text(plan.as_ref())
}

#[test]
fn golden_choices() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/maintain/pick/golden");
    for name in OsFs.list(&dir).expect("the golden files") {
        let path: PathBuf = dir.join(name);
        let bytes = read_file(&OsFs, &path, 1 << 20).expect("a golden file");
        let text = String::from_utf8(bytes).expect("text");
        let mut actual = String::new();
        for case in text.split("\n\n") {
            let case = case.split_once("----").map_or(case, |(case, _)| case).trim();
            actual += &format!("{case}\n----\n{}\n\n", answer(case));
        }
        let actual = format!("{}\n", actual.trim_end());
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            let file = OsFs.open(&path, OpenMode::ReadWrite).expect("a golden file");
            file.set_len(0).expect("empty");
            write_all_at(&*file, 0, actual.as_bytes()).expect("written");
            continue;
        }
        assert_eq!(text, actual, "{} (UPDATE_GOLDEN=1 writes it anew)", path.display());
    }
}

/// A database in memory whose entries are keys and sequences; 10 bytes an entry.
struct Life {
    version: Version,
    tables: BTreeMap<FileNumber, Vec<(u32, u64)>>,
    next_number: u64,
    options: PickOptions,
    fenced: BTreeSet<FileNumber>,
    flushed_bytes: u64,
    written_bytes: u64,
}

const ENTRY_BYTES: u64 = 10;

impl Life {
    fn new(options: PickOptions) -> Self {
        Self {
            version: Version::default(),
            tables: BTreeMap::new(),
            next_number: 0,
            options,
            fenced: BTreeSet::new(),
            flushed_bytes: 0,
            written_bytes: 0,
        }
    }

    fn write(&mut self, entries: Vec<(u32, u64)>) -> Arc<TableMeta> {
        self.next_number += 1;
        let number = FileNumber(self.next_number);
        self.written_bytes += entries.len() as u64 * ENTRY_BYTES;
        let key = |entry: Option<&(u32, u64)>| entry.expect("entries").0.to_be_bytes().to_vec();
        let meta = TableMeta {
            number,
            id: TableId(u128::from(number.0)),
            bytes: entries.len() as u64 * ENTRY_BYTES,
            footer_crc: 0,
            first_key: key(entries.first()),
            last_key: key(entries.last()),
            entries: entries.len() as u64,
            tombstones: 0,
            seq_min: SeqNo(entries.iter().map(|entry| entry.1).min().expect("entries")),
            seq_max: SeqNo(entries.iter().map(|entry| entry.1).max().expect("entries")),
            kept: Default::default(),
        };
        self.tables.insert(number, entries);
        Arc::new(meta)
    }

    fn apply(&mut self, edit: Edit) {
        let edit = Edit { next_file: Some(FileNumber(self.next_number + 10)), ..edit };
        self.version = self.version.apply(&edit).expect("it fits");
        // Quadratic in the runs, and the small lives are enough for it.
        if self.version.next_file < FileNumber(1000) {
            assert_eq!(structure(&self.version), Ok(()));
        }
    }

    fn flush(&mut self, keys: impl Iterator<Item = u32>) {
        let newest: BTreeMap<u32, u64> = keys.zip(self.version.flushed_seq.0 + 1..).collect();
        let last = newest.values().copied().max().expect("keys");
        let before = self.written_bytes;
        let table = self.write(newest.into_iter().collect());
        self.flushed_bytes += self.written_bytes - before;
        self.apply(flush_edit(&self.version, &[table], SeqNo(last)));
    }

    /// Does what the plan says, keeping the newest version of each key.
    fn execute(&mut self, plan: &Plan) {
        let runs = &self.version.runs[plan.runs.clone()];
        assert!(runs.len() > 1 && runs[0].slices().iter().any(|s| s.overlaps(&plan.range)));
        let inputs: Vec<TableSlice> = runs.iter().flat_map(|run| run.slices().to_vec()).collect();
        let outputs = if plan.reason == Reason::Move {
            inputs
        } else {
            let mut newest: BTreeMap<u32, u64> = BTreeMap::new();
            for slice in inputs.iter().filter(|slice| slice.overlaps(&plan.range)) {
                assert!(!self.fenced.contains(&slice.meta.number), "it reads no fenced table");
                for &(key, seq) in &self.tables[&slice.meta.number] {
                    let bytes = key.to_be_bytes();
                    if slice.covers(&bytes) && plan.range.contains(&bytes) {
                        newest.entry(key).and_modify(|old| *old = seq.max(*old)).or_insert(seq);
                    }
                }
            }
            let entries: Vec<(u32, u64)> = newest.into_iter().collect();
            let cut = (self.options.table_bytes / ENTRY_BYTES).max(1) as usize;
            entries.chunks(cut).map(|c| TableSlice::whole(self.write(c.to_vec()))).collect()
        };
        let edit = compaction_edit(&self.version, plan.runs.clone(), &plan.range, outputs);
        self.apply(edit);
    }

    fn step(&mut self) -> Option<Plan> {
        let plan = pick(&self.version, &self.options, &self.fenced)?;
        let runs = self.version.runs.len();
        self.execute(&plan);
        if plan.reason != Reason::Bottom {
            assert!(self.version.runs.len() < runs, "{plan:?} makes the runs fewer");
        }
        Some(plan)
    }

    /// Steps until there is nothing to do; a busy loop fails (B120).
    fn settle(&mut self) -> usize {
        let tables = self.version.slices().count();
        for steps in 0.. {
            assert!(steps <= 10 * (tables + 10), "no end in sight");
            if self.step().is_none() {
                self.check_settled();
                return steps;
            }
        }
        unreachable!()
    }

    /// B120: no plan means that there is nothing to do, not that it was too much.
    fn check_settled(&self) {
        let (runs, options, fenced) = (Runs(&self.version), &self.options, &self.fenced);
        let picker = Picker { runs, options, fenced };
        if fenced.is_empty() {
            let groups = picker.groups(picker.bottom());
            assert!(groups.iter().all(|group| group.len() < picker.fanout()), "{groups:?}");
            assert!(picker.ripe().is_none(), "what is above the bottom goes into it");
        }
    }

    /// What a reader sees: the newest version of each key.
    fn visible(&self) -> BTreeMap<u32, u64> {
        let mut seen = BTreeMap::new();
        for slice in self.version.slices() {
            for &(key, seq) in &self.tables[&slice.meta.number] {
                if slice.covers(&key.to_be_bytes()) {
                    seen.entry(key).or_insert(seq);
                }
            }
        }
        seen
    }
}

/// Where the keys of a flush come from.
#[derive(Clone, Copy, Debug)]
enum Keys {
    Uniform,
    Ascending,
    Hot,
    Narrow,
}

fn keys(kind: Keys, at: &mut u32, noise: u32) -> u32 {
    *at += 1;
    let mixed = (*at ^ noise).wrapping_mul(0x9e37_79b9).rotate_left(13).wrapping_mul(0x85eb_ca6b);
    match kind {
        Keys::Uniform => mixed % 4000,
        Keys::Ascending => *at,
        Keys::Hot => mixed % 23,
        Keys::Narrow => (mixed % 40) + (*at / 100) * 40 % 4000,
    }
}

fn any_keys() -> impl Strategy<Value = Keys> {
    prop::sample::select(vec![Keys::Uniform, Keys::Ascending, Keys::Hot, Keys::Narrow])
}

fn any_options() -> impl Strategy<Value = PickOptions> {
    (2..6usize, 1..120u64, 2..20usize, 1..80u64, 2..40u64, 10..2000u64).prop_map(
        |(fanout, above_percent, runs_max, unit, table, slice)| PickOptions {
            fanout,
            above_percent,
            runs_max,
            unit_bytes: unit * ENTRY_BYTES,
            table_bytes: table * ENTRY_BYTES,
            slice_bytes: slice * ENTRY_BYTES,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// B1, B120: whatever is flushed, picking ends, leaves few runs and changes nothing visible.
    #[test]
    fn picking_ends_with_few_runs_and_the_same_contents(
        options in any_options(),
        flushes in prop::collection::vec((any_keys(), 1..60usize, any::<u32>()), 1..40),
        eager: bool,
    ) {
        let mut life = Life::new(options);
        let mut expected = BTreeMap::new();
        let (mut at, mut seq) = (0, 0);
        for (kind, count, noise) in flushes {
            if life.version.runs.len() >= options.runs_max.max(2) {
                // A stalled writer waits for one step.
                prop_assert!(life.step().is_some());
            }
            let batch: Vec<u32> = (0..count).map(|_| keys(kind, &mut at, noise)).collect();
            for &key in &batch {
                seq += 1;
                expected.insert(key, seq);
            }
            life.flush(batch.into_iter());
            prop_assert!(life.version.runs.len() <= options.runs_max.max(2));
            if eager {
                life.settle();
            } else {
                life.step();
            }
            prop_assert_eq!(&life.visible(), &expected);
        }
        life.settle();
        let runs = life.version.runs.len();
        prop_assert!(runs < options.runs_max.max(2) || runs == 1);
        prop_assert_eq!(&life.visible(), &expected);
        // What `full_bytes` remembers outlives a new manifest.
        let again = Version::default().apply(&snapshot_edit(&life.version));
        prop_assert_eq!(again, Ok(life.version.clone()));
        // Fewer runs for those who wait.
        life.options.fanout = 2;
        life.settle();
        prop_assert!(life.version.runs.len() <= 12, "{}", life.version.runs.len());
        prop_assert_eq!(&life.visible(), &expected);
    }

    /// Damaged tables are left alone, and picking still ends.
    #[test]
    fn fenced_tables_are_never_read(
        options in any_options(),
        flushes in prop::collection::vec((any_keys(), 1..60usize, any::<u32>(), 0..6u8), 1..40),
    ) {
        let mut life = Life::new(options);
        let mut at = 0;
        for (kind, count, noise, damage) in flushes {
            let batch: Vec<u32> = (0..count).map(|_| keys(kind, &mut at, noise)).collect();
            life.flush(batch.into_iter());
            if damage == 0 {
                let numbers: Vec<_> = life.version.tables().into_keys().collect();
                life.fenced.insert(numbers[noise as usize % numbers.len()]);
            }
            life.settle();
        }
    }
}

/// What the policy costs for uniform keys, with flushes of 100 entries over 1,600, 6,400 and 25,600
/// keys (16, 64 and 256 flushes' worth), written twice over after they are all there.
#[test]
fn write_amplification_of_uniform_writes() {
    for (above_percent, space, most) in [
        (50, 1_600u32, 4.0),
        (50, 6_400, 5.2),
        (50, 25_600, 6.2),
        (100, 6_400, 4.2),
        (25, 6_400, 7.2),
    ] {
        let options = PickOptions {
            fanout: 8,
            above_percent,
            runs_max: 40,
            unit_bytes: 1000,
            table_bytes: 1000,
            slice_bytes: 16_000,
        };
        let mut life = Life::new(options);
        let random = SeededRandom::new(7);
        let (mut runs, mut bytes) = (0, 0);
        let mut flush = |life: &mut Life| {
            let batch: Vec<u32> =
                (0..100).map(|_| (random.next_u64() % u64::from(space)) as u32).collect();
            life.flush(batch.into_iter());
            life.settle();
            runs = runs.max(life.version.runs.len());
            let tables = life.version.tables();
            bytes = bytes.max(tables.values().map(|table| table.bytes).sum::<u64>());
        };
        (0..space / 50).for_each(|_| flush(&mut life));
        let (flushed, written) = (life.flushed_bytes, life.written_bytes);
        (0..space / 50).for_each(|_| flush(&mut life));
        let amplification =
            (life.written_bytes - written) as f64 / (life.flushed_bytes - flushed) as f64;
        let room = bytes as f64 / (u64::from(space) * ENTRY_BYTES) as f64;
        let told = format!(
            "{above_percent} %, {space} keys: written {amplification:.2} times, \
             at most {runs} runs, \
             {room:.2} of the space"
        );
        println!("{told}");
        assert!(amplification < most && runs <= 3 * 8, "{told}");
        assert!(room < 1.2 + above_percent as f64 / 100.0, "{told}");
    }
}
