//! Tests of both runs of a trace, on a synthetic one: a few hundred rows over a few keys.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use super::read::parse;
use super::*;
use crate::report::Verdict;
use crate::runner::cli::TraceFormat;

/// Rows in the form of the public block traces, made here: hot and cold keys, writes and reads.
fn rows(count: u64) -> String {
    let mut text = "version,time,op,size,lbn\n".to_owned();
    for row in 0..count {
        let lbn = if row % 3 == 0 { row * 7 % 11 } else { 40_000_000 + row * 131 % 97 };
        let op = if row % 5 == 4 { "28" } else { "2a" };
        let size = 512 * (1 + row * row % 9);
        text += &format!("1,{},{op},{size},{lbn}\n", 5_000_000 + row);
    }
    text
}

fn task(count: u64) -> Task {
    let case = parse(rows(count).as_bytes(), TraceFormat::Blockio).expect("well-formed");
    Task { case, own_options: false, seed: 3, dir: None }
}

#[test]
fn a_trace_runs_whole_and_leaves_no_directory() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let task = Task { dir: Some(place.path().to_path_buf()), ..task(300) };
    let mut report = Report { command: "trace".to_owned(), ..Report::default() };
    run(&task, &mut report, &Interrupt::default());
    assert_eq!(report.verdict, Verdict::Held, "{:?}", report.failures);
    assert_eq!(report.totals.ops, 300);
    assert!(report.totals.images > 100, "{} images", report.totals.images);
    assert_eq!(place.path().read_dir().expect("readable").count(), 0);
}

#[test]
fn a_place_that_is_not_there_is_the_environments() {
    let task = Task { dir: Some("/proc/nowhere".into()), ..task(10) };
    let mut report = Report::default();
    run(&task, &mut report, &Interrupt::default());
    assert_eq!(report.verdict, Verdict::Environment);
    assert!(report.environment.expect("a reason").contains("/proc/nowhere"));
}
