//! Tests of the pages: the failure report by its exact text, the verdicts by their words.

use super::*;
use crate::report::{self, Looked, Totals};
use crate::runner::page::text;

fn failure() -> Failure {
    Failure {
        promise: "D1".to_owned(),
        what: "acknowledged durable write lost".to_owned(),
        token: "kb1:5f3a91".to_owned(),
        seed: 0x5f_3a91,
        case: 17,
        revision: "1c9e4d2f00aa11bb22cc".to_owned(),
        options: "ops put delete flush (off: batch)\nfs  reorder tear:512".to_owned(),
        ops: 8412,
        shrunk_ops: 2,
        shrunk: "put k07 b durable\ncrash".to_owned(),
        at: "commit.sync, during sync_data of 000003.log".to_owned(),
        events: vec!["write 000003.log 48..96".to_owned()],
        expected: "b".to_owned(),
        got: "nothing".to_owned(),
        ..Failure::default()
    }
}

fn report() -> Report {
    let totals = Totals { cases: 20, ops: 8412, ..Totals::default() };
    Report { command: "run".to_owned(), profile: "swarm".to_owned(), totals, ..Report::default() }
}

#[test]
fn a_failure_report_can_be_pasted_and_replayed() {
    let mut report = report();
    report.add_failure(failure());
    report.judge();
    let files = BTreeMap::from([("kb1:5f3a91".to_owned(), "out/D1-5f3a91-17.ops".to_owned())]);
    let text = text::render(&page(&report, &files));
    let wanted = "\
FAILED crash campaign: acknowledged durable write lost (D1)
  seed 0x5f3a91  case 17  commit 1c9e4d2f00aa  profile swarm
  ops put delete flush (off: batch)
  fs  reorder tear:512
  at   commit.sync, during sync_data of 000003.log
  shrunk 8412 ops -> 2:
    put k07 b durable
    crash
  last events:
    write 000003.log 48..96
  expected b
  got      nothing
replay:  cargo run --release -p kiban-crash -- replay kb1:5f3a91
shrunk:  cargo run --release -p kiban-crash -- replay out/D1-5f3a91-17.ops
";
    assert!(text.contains(wanted), "{text}");
    assert!(text.ends_with("BROKEN: D1.\n"), "{text}");
}

#[test]
fn the_matrix_tells_missing_from_impossible() {
    let cell = |stage: &str, fault: &str, hits, unreachable: Option<&str>| report::Cell {
        stage: stage.to_owned(),
        fault: fault.to_owned(),
        outcome: "kept".to_owned(),
        hits,
        unreachable: unreachable.map(str::to_owned),
    };
    let matrix = vec![
        cell("log.sync", "power", 12, None),
        cell("log.sync", "eio", 0, None),
        cell("freeze", "power", 3, None),
        cell("freeze", "eio", 0, Some("no call is made")),
    ];
    let mut report = report();
    report.cells = Cells { matrix, ..Cells::default() };
    report.directed_whole = true;
    report.judge();
    let page = page(&report, &BTreeMap::new());
    let Block::Table(table) = &page.sections[0].blocks[0] else { panic!("a table comes first") };
    let texts: Vec<Vec<&str>> =
        table.rows.iter().map(|row| row.iter().map(|cell| &*cell.text).collect()).collect();
    assert_eq!(texts, [["log.sync", "1/1 12", "0/1 0"], ["freeze", "1/1 3", "."]]);
    assert_eq!(table.rows[0][2].tone, Tone::Bad);
    assert_eq!(page.verdict, "HOLLOW: cells never reached: log.sync/eio/kept.");
}

#[test]
fn a_living_seeded_bug_is_named() {
    let mutant =
        |id: &str, killed| MutantResult { id: id.to_owned(), killed, ..Default::default() };
    let mut report = Report {
        command: "mutants".to_owned(),
        mutants: vec![mutant("B01", true), mutant("B07", false)],
        control: Some("alive".to_owned()),
        ..Report::default()
    };
    report.judge();
    let text = text::render(&page(&report, &BTreeMap::new()));
    assert!(text.contains("B07  LIVES"), "{text}");
    assert!(text.ends_with("HOLLOW: seeded bugs lived: B07.\n"), "{text}");
    let told = |layer: &str, end: &str, images| Looked {
        layer: layer.to_owned(),
        end: end.to_owned(),
        images,
        asked: 400,
    };
    report.mutants[1].looked =
        vec![told("POWER-ext4", "lives", 400), told("POWER-xfs", "unfinished", 7)];
    report.judge();
    assert_eq!(report.verdict.exit_code(), 6);
    let text = text::render(&page(&report, &BTreeMap::new()));
    assert!(text.contains("B07  UNFINISHED (POWER-xfs: 7 of 400 images)"), "{text}");
    assert!(text.ends_with("HOLLOW: seeded bugs were not looked for to the end: B07.\n"), "{text}");
    report.mutants.pop();
    report.control = Some("unfinished POWER-xfs: 7 of 400 images".to_owned());
    report.judge();
    assert_eq!(report.verdict.exit_code(), 6);
    assert!(verdict(&report).contains("did not finish"), "{}", verdict(&report));
    report.control = Some("CRASH: broken D1".to_owned());
    report.judge();
    assert!(verdict(&report).contains("unmutated engine"), "{}", verdict(&report));
}

#[test]
fn numbers_are_grouped() {
    assert_eq!([0, 999, 1000, 113_872].map(grouped), ["0", "999", "1,000", "113,872"]);
}
