//! Versions and edits: what fits, what is refused, and random histories.

use super::*;
use crate::version::edit::{Added, NewRun, Removed, compaction_edit, flush_edit, snapshot_edit};
use crate::version::slice::KeyRange;
use crate::version::{check, tests as made};
use proptest::prelude::*;

fn ids(version: &Version) -> Vec<Vec<String>> {
    version.runs.iter().map(|run| run.slices().iter().map(made::text).collect()).collect()
}

fn range(lo: &str, hi: &str) -> KeyRange {
    let bound = |text: &str| (!text.is_empty()).then(|| text.as_bytes().to_vec());
    KeyRange { lo: bound(lo), hi: bound(hi) }
}

/// Three flushes: 1 = a..m (1..=10), 2 = c..z (11..=20), 3 = b..d (21..=30).
fn three() -> Version {
    let mut version = Version { next_file: FileNumber(100), ..Version::default() };
    for (number, first, last) in [(1, "a", "m"), (2, "c", "z"), (3, "b", "d")] {
        let table = made::table(number, first, last, (number * 10 - 9, number * 10));
        let edit = flush_edit(&version, &[table], SeqNo(number * 10));
        version = version.apply(&edit).expect("it fits");
    }
    version
}

#[test]
fn flushes_stand_newest_first() {
    let version = three();
    assert_eq!(ids(&version), [["3 b..=d"], ["2 c..=z"], ["1 a..=m"]]);
    assert_eq!(check::structure(&version), Ok(()));
    let run = &version.runs[1];
    for (key, found) in [("b", false), ("c", true), ("z", true), ("za", false)] {
        assert_eq!(run.find(key.as_bytes()).is_some(), found, "{key}");
    }
    assert_eq!((run.first_reaching(b"a"), run.first_reaching(b"zz")), (0, 1));
}

#[test]
fn a_compaction_of_a_range_trims_its_inputs_and_stands_in_the_oldest() {
    let version = three();
    let output = TableSlice::whole(made::table(4, "c", "f", (1, 20)));
    let edit = compaction_edit(&version, 1..3, &range("c", "g"), vec![output]);
    let next = version.apply(&edit).expect("it fits");
    assert_eq!(
        ids(&next),
        [vec!["3 b..=d"], vec!["2 g..=z"], vec!["1 a..c", "4 c..=f", "1 g..=m"]]
    );
    assert_eq!(check::structure(&next), Ok(()));
    // One meta in memory for both parts of table 1, and for both versions.
    let metas: Vec<_> = next.slices().filter(|s| s.meta.number.0 == 1).map(|s| &s.meta).collect();
    assert!(
        Arc::ptr_eq(metas[0], metas[1]) && Arc::ptr_eq(metas[0], &version.runs[2].slices()[0].meta)
    );
    assert!(
        !next.runs[1].is_partial(),
        "its one table is there, though a part of it is not visible"
    );
    // The rest, with nothing left of the newer run.
    let output = TableSlice::whole(made::table(5, "h", "z", (1, 20)));
    let edit = compaction_edit(&next, 1..3, &range("g", ""), vec![output]);
    let next = next.apply(&edit).expect("it fits");
    assert_eq!(ids(&next), [vec!["3 b..=d"], vec!["1 a..c", "4 c..=f", "5 h..=z"]]);
    // A compaction of which nothing is left.
    let edit = compaction_edit(&next, 0..2, &KeyRange::ALL, vec![]);
    assert_eq!(ids(&next.apply(&edit).expect("it fits")), [[""; 0]; 0]);
}

#[test]
fn a_run_without_overlap_moves_down_as_it_is() {
    let mut version = Version { next_file: FileNumber(100), ..Version::default() };
    for (number, first, last) in [(1, "a", "c"), (2, "d", "f")] {
        let table = made::table(number, first, last, (number * 10 - 9, number * 10));
        version = version.apply(&flush_edit(&version, &[table], SeqNo(number * 10))).expect("fits");
    }
    let moved = version.runs[0].slices().to_vec();
    let edit = compaction_edit(
        &version,
        0..2,
        &KeyRange::ALL,
        [moved, version.runs[1].slices().to_vec()].concat(),
    );
    let next = version.apply(&edit).expect("it fits");
    assert_eq!(ids(&next), [["1 a..=c", "2 d..=f"]]);
    assert_eq!(next.runs[0].full_bytes(), version.runs[0].bytes() + version.runs[1].bytes());
}

fn whole(number: u64, first: &str, last: &str, seqs: (u64, u64)) -> TableSlice {
    TableSlice::whole(made::table(number, first, last, seqs))
}

fn adding(run: u64, slice: TableSlice) -> Edit {
    Edit { added: vec![Added { run: RunId(run), slice }], ..Edit::default() }
}

fn new(id: u64, before: Option<u64>) -> NewRun {
    NewRun { id: RunId(id), before: before.map(RunId), full_bytes: 0 }
}

fn removing(run: u64, number: u64, lo: Option<&str>) -> Edit {
    let lo = lo.map(|lo| lo.as_bytes().to_vec());
    let removed = Removed { run: RunId(run), number: FileNumber(number), lo };
    Edit { removed: vec![removed], ..Edit::default() }
}

fn refused(version: &Version, cases: Vec<(Edit, &str)>) {
    for (edit, why) in cases {
        let error = version.apply(&edit).expect_err(why);
        assert!(error.contains(why), "{error:?} instead of {why:?}");
    }
}

#[test]
fn an_edit_that_does_not_fit_is_refused() {
    let numbers = |next_file, flushed| Edit {
        next_file: Some(FileNumber(next_file)),
        flushed_seq: Some(SeqNo(flushed)),
        ..Edit::default()
    };
    let runs = |new| Edit { new_runs: vec![new], ..Edit::default() };
    let cases = vec![
        (numbers(99, 30), "next file number goes backwards"),
        (numbers(100, 29), "flushed sequence goes backwards"),
        (runs(new(1, None)), "run 1 exists already"),
        (runs(new(9, Some(8))), "stands before a missing one"),
        (removing(1, 2, None), "table 2 is to leave run 1"),
        (removing(1, 1, Some("b")), "table 1 is to leave"),
        (removing(7, 1, None), "leave run 7"),
        (adding(7, whole(9, "a", "b", (1, 2))), "run 7 is missing"),
        (adding(1, whole(1, "a", "n", (1, 2))), "table 1 is described in two ways"),
        (adding(1, whole(100, "x", "y", (1, 2))), "C2: table 100"),
        (adding(1, whole(9, "x", "y", (1, 31))), "newer than the flushed sequence"),
    ];
    refused(&three(), cases);
    let mut stranger = (*made::table(9, "x", "y", (1, 4))).clone();
    stranger.id = TableId(1);
    let edit = adding(1, TableSlice::whole(Arc::new(stranger)));
    refused(&three(), vec![(edit, "table 9 has the id of another")]);
}

/// Edits that would put older entries above newer ones, or two tables of a run over each other.
#[test]
fn an_edit_that_breaks_the_order_is_refused() {
    let over = |edit: Edit, run, slice| Edit { removed: edit.removed, ..adding(run, slice) };
    let flush = |before, slice| Edit {
        flushed_seq: Some(SeqNo(40)),
        new_runs: vec![new(9, before)],
        ..adding(9, slice)
    };
    assert!(three().apply(&flush(Some(3), whole(9, "a", "z", (31, 40)))).is_ok());
    let cases = vec![
        (adding(1, whole(9, "n", "y", (1, 2))), "M2: table 9 comes out of nothing"),
        (over(removing(2, 2, None), 1, whole(9, "m", "y", (1, 2))), "M1: tables 1 and 9"),
        (over(removing(1, 1, None), 2, whole(9, "a", "b", (1, 2))), "above a run that it came"),
        (
            over(removing(3, 3, None), 1, whole(9, "n", "o", (1, 2))),
            "M2: table 9 would stand below older entries in table 2",
        ),
        (flush(None, whole(9, "a", "z", (31, 40))), "M2: table 9 of a new run"),
        (flush(Some(2), whole(9, "a", "z", (31, 40))), "M2: table 9 of a new run"),
        (flush(Some(3), whole(9, "a", "z", (30, 40))), "M2: table 9 of a new run"),
    ];
    refused(&three(), cases);
}

#[test]
fn structure_sees_what_apply_would_not_allow() {
    let of = |runs: Vec<Vec<TableSlice>>| {
        let run = |(i, slices)| Arc::new(Run { id: RunId(i), slices, full_bytes: 0 });
        let runs = (1..).zip(runs).map(run).collect();
        let next_file = FileNumber(50);
        Version { runs, flushed_seq: SeqNo(100), next_file, ..Version::default() }
    };
    let a = || whole(1, "a", "c", (1, 5));
    let half = |lo: Option<&str>, hi: Option<&str>| TableSlice {
        lo: lo.map(|lo| lo.into()),
        hi: hi.map(|hi| hi.into()),
        ..a()
    };
    assert_eq!(
        check::structure(&of(vec![vec![half(None, Some("b"))], vec![half(Some("b"), None)]])),
        Ok(())
    );
    assert_eq!(check::structure(&of(vec![vec![whole(2, "a", "b", (6, 9))], vec![a()]])), Ok(()));
    for (version, why) in [
        (of(vec![vec![a(), whole(2, "c", "d", (6, 7))]]), "M1"),
        (of(vec![vec![whole(2, "d", "e", (6, 7)), a()]]), "M1"),
        (of(vec![vec![]]), "empty"),
        (of(vec![vec![a()], vec![a()]]), "visible twice"),
        (of(vec![vec![half(None, Some("c"))], vec![half(Some("b"), None)]]), "visible twice"),
        (of(vec![vec![half(Some("d"), None)]]), "visible bounds"),
        (of(vec![vec![half(Some("b"), Some("b"))]]), "visible bounds"),
        (of(vec![vec![whole(50, "a", "b", (1, 2))]]), "beyond what"),
        (of(vec![vec![whole(5, "a", "b", (1, 101))]]), "beyond what"),
        (of(vec![vec![a()], vec![whole(2, "a", "b", (6, 9))]]), "M2"),
        (of(vec![vec![whole(2, "b", "b", (4, 9))], vec![whole(3, "b", "b", (4, 4))]]), "M2"),
    ] {
        let error = check::structure(&version).expect_err(why);
        assert!(error.contains(why), "{error:?} instead of {why:?}");
    }
}

#[test]
fn a_snapshot_of_a_version_makes_the_version() {
    let version = three();
    let edit = compaction_edit(&version, 1..3, &range("c", "g"), vec![]);
    for version in [Version::default(), version.clone(), version.apply(&edit).expect("it fits")] {
        assert_eq!(Version::default().apply(&snapshot_edit(&version)), Ok(version));
    }
}

/// A database in memory: every table's entries, to check M2 exactly.
#[derive(Default)]
struct Model {
    version: Version,
    tables: BTreeMap<FileNumber, Vec<(Vec<u8>, SeqNo)>>,
    next_number: u64,
}

impl Model {
    fn write(&mut self, entries: Vec<(Vec<u8>, SeqNo)>) -> Arc<TableMeta> {
        self.next_number += 1;
        let meta = Arc::new(TableMeta {
            number: FileNumber(self.next_number),
            id: TableId(u128::from(self.next_number)),
            bytes: entries.len() as u64 * 10,
            footer_crc: 1,
            first_key: entries[0].0.clone(),
            last_key: entries[entries.len() - 1].0.clone(),
            entries: entries.len() as u64,
            tombstones: 0,
            seq_min: entries.iter().map(|entry| entry.1).min().expect("entries"),
            seq_max: entries.iter().map(|entry| entry.1).max().expect("entries"),
            kept: Default::default(),
        });
        self.tables.insert(meta.number, entries);
        meta
    }

    fn visible(&self, slice: &TableSlice) -> Vec<(Vec<u8>, SeqNo)> {
        let entries = self.tables[&slice.meta.number].iter();
        entries.filter(|(key, _)| slice.covers(key)).cloned().collect()
    }

    fn run(&self, run: &Run) -> Vec<(Vec<u8>, SeqNo)> {
        run.slices().iter().flat_map(|slice| self.visible(slice)).collect()
    }

    fn apply(&mut self, mut edit: Edit) {
        edit.next_file = Some(FileNumber(self.next_number + 10));
        let decoded = Edit::decode(&edit.encode()).expect("its own bytes");
        assert_eq!(decoded, edit);
        self.version = self.version.apply(&decoded).expect("it fits");
    }

    fn flush(&mut self, keys: &[u8]) {
        let from = self.version.flushed_seq.0;
        let mut entries: Vec<_> =
            (from + 1..).zip(keys).map(|(seq, &key)| (vec![b'a' + key], SeqNo(seq))).collect();
        entries.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        let tables: Vec<_> = if entries.is_empty() { vec![] } else { vec![self.write(entries)] };
        let edit = flush_edit(&self.version, &tables, SeqNo(from + keys.len() as u64));
        self.apply(edit);
    }

    /// Merges a range of an interval, keeping every entry, into tables of about `cut` entries, no
    /// key in two of them.
    fn compact(&mut self, interval: Range<usize>, range: &KeyRange, cut: usize) {
        let runs: Vec<_> = self.version.runs[interval.clone()].to_vec();
        let entries = runs.iter().flat_map(|run| self.run(run));
        let mut entries: Vec<_> = entries.filter(|(key, _)| range.contains(key)).collect();
        entries.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        let mut outputs = Vec::new();
        while !entries.is_empty() {
            let at = cut.min(entries.len()) - 1;
            let end = entries.partition_point(|entry| entry.0 <= entries[at].0);
            let rest = entries.split_off(end);
            outputs.push(TableSlice::whole(self.write(entries)));
            entries = rest;
        }
        let edit = compaction_edit(&self.version, interval, range, outputs);
        self.apply(edit);
    }

    fn check(&self) {
        assert_eq!(check::structure(&self.version), Ok(()));
        let runs: Vec<_> = self.version.runs.iter().map(|run| self.run(run)).collect();
        let runs: Vec<_> = runs.into_iter().map(|run| run.into_iter().map(Ok)).collect();
        assert_eq!(check::entries(runs).expect("no error"), None);
        let mut seqs: Vec<u64> =
            self.version.runs.iter().flat_map(|run| self.run(run)).map(|(_, seq)| seq.0).collect();
        seqs.sort_unstable();
        assert_eq!(seqs, (1..=self.version.flushed_seq.0).collect::<Vec<_>>(), "each once");
        assert_eq!(
            Version::default().apply(&snapshot_edit(&self.version)),
            Ok(self.version.clone())
        );
    }
}

use std::ops::Range;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// M1, M2 over random flushes and range compactions; no entry is lost or doubled.
    #[test]
    fn any_history_of_flushes_and_compactions_holds(
        steps in prop::collection::vec(
            (prop::collection::vec(0..20u8, 0..12), any::<[u8; 4]>()), 1..25),
    ) {
        let mut model = Model::default();
        for (keys, [from, len, lo, hi]) in steps {
            let runs = model.version.runs.len();
            if runs < 2 || keys.len() > 4 {
                model.flush(&keys);
            } else {
                let start = usize::from(from) % runs;
                let end = start + 1 + usize::from(len) % (runs - start);
                let bound = |byte: u8| (byte < 200).then(|| vec![b'a' + byte % 22]);
                let range = KeyRange { lo: bound(lo), hi: bound(hi) };
                if !range.is_empty() {
                    model.compact(start..end, &range, 1 + keys.len());
                }
            }
            model.check();
        }
    }
}
