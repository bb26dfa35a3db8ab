//! The campaign itself: whole in its directed pass, equal for any number of jobs, and right about
//! every failure that was ever found.
#![forbid(unsafe_code)]

use kiban_crash::campaign::{self, Order};
use kiban_crash::pool::Budget;
use kiban_crash::replay::{Played, replay};
use kiban_crash::report::{Report, Verdict};
use kiban_crash::script::Script;
use kiban_crash::tally::Tally;
use std::path::Path;

fn run(seed: u64, cases: u64, jobs: usize, directed: bool) -> Report {
    let mut report = Report::default();
    let order = Order { jobs, directed, ..Order::new(seed, Budget::cases(cases)) };
    campaign::run(&order, &mut report, &mut |_, _| {});
    report
}

/// F1: operations, schedule, faults and file bytes are in the digest.
#[test]
fn one_seed_gives_one_digest_for_any_jobs() {
    let [one, two] = [1, 2].map(|jobs| run(7, 12, jobs, false));
    assert_eq!(one.digest, two.digest);
    assert_eq!((one.totals, one.cells, one.counters), (two.totals, two.cells, two.counters));
    assert_ne!(one.digest, run(8, 12, 1, false).digest);
}

#[test]
fn the_directed_pass_meets_every_cell_and_every_counter() {
    let report = run(1, 4, 2, true);
    assert_eq!(report.cells.missing, Vec::<String>::new());
    assert_eq!(report.counters_zero, Vec::<String>::new());
    assert_eq!(report.failures, Vec::new());
    assert_eq!(report.verdict, Verdict::Held);
}

/// Every failure that was found and mended stays mended.
#[test]
fn the_corpus_holds() {
    #[allow(clippy::disallowed_methods)]
    let files = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus"));
    let mut seen = 0;
    for file in files.expect("crash/corpus is there").flatten() {
        let path = file.path();
        if path.extension().is_none_or(|end| end != "ops") {
            continue;
        }
        #[allow(clippy::disallowed_methods)]
        let text = std::fs::read_to_string(&path).expect("a file of the corpus");
        let script = Script::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let played = replay(&script, &mut Tally::default());
        let played = played.unwrap_or_else(|broken| panic!("{}: {broken:?}", path.display()));
        // A case whose crash names a point that is no more proves nothing: find the point anew.
        assert_eq!(played, Played::Held, "{}", path.display());
        seen += 1;
    }
    assert!(seen > 0, "a corpus without a file tests nothing");
}
