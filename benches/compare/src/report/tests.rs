//! Ratios, medians and the board's forms, from records made by hand.

use super::rows::{Board, Ratio};
use super::*;
use crate::engine::Debt;
use crate::histogram::Latencies;
use crate::host::facts::Facts;
use crate::plan::Plan;
use crate::supervise::guard::Around;
use crate::supervise::pins::{INPUTS_SHA256, Pins, manifest_dir};
use crate::trial::{Outcome, Receipt, Settle, StageFigures};

fn campaign() -> Campaign {
    let plan = Plan::parse_file(&manifest_dir().join("plans"), "glance").expect("glance");
    let rows = plan.rows.iter().filter(|row| row.name.ends_with("mixed"));
    let rows: Vec<_> = rows.cloned().collect();
    Campaign {
        plan: "glance".into(),
        about: "a <test>".into(),
        pins: Pins {
            binary_sha256: "b".into(),
            plan_sha256: "p".into(),
            inputs_sha256: INPUTS_SHA256.into(),
            analysis_sha256: ANALYSIS_SHA256.into(),
            engines: [("kiban".to_string(), "0.1".to_string())].into(),
            revision: "0123456789abcdef".into(),
            dirty: false,
            trials: 3,
            rows: vec![("glance/mixed".into(), vec!["kiban".into(), "rocksdb".into()])],
            busy_allowed: false,
        },
        machine: Facts { facts: vec![("CPU".into(), "a|b".into())] },
        command: vec!["kiban-compare".into(), "run".into()],
        began_unix_s: 0,
        left_out: vec![("glance/mixed, fjall".into(), "it declined".into())],
        rows,
        cpus: 2,
    }
}

/// A trial of 1,000 calls in `wall_ms` whose writes took `write_ns` each.
fn record(place: usize, engine: &str, repetition: u32, wall_ms: u64, write_ns: u64) -> Record {
    let mut writes = Latencies::default();
    (0..1000).for_each(|_| writes.record(write_ns));
    let stage = StageFigures {
        name: "main".into(),
        wall_ns: wall_ms * 1_000_000,
        calls: 1000,
        records: 1000,
        records_written: 1000,
        writes: writes.percentiles(),
        ..StageFigures::default()
    };
    let mut outcome = Outcome::default();
    outcome.figures.stages.push(stage);
    let receipt = Receipt { when: "run".into(), keys: 1, sha256: "s".into(), points: 1 };
    outcome.receipts.push(receipt);
    Record {
        place,
        row: "glance/mixed".into(),
        contestant: engine.into(),
        repetition,
        diagnostic: false,
        invalid: Vec::new(),
        outcome: Some(outcome),
        process: None,
        around: Around::default(),
        kept: None,
    }
}

fn results() -> Results {
    // Kiban is 2, 3 and 4 times as fast in the three repetitions; the machine drifted meanwhile, so
    // that a ratio of the medians would be 30 / 20 = 1.5.
    let records = vec![
        record(0, "kiban", 0, 10, 1000),
        record(1, "rocksdb", 0, 20, 4000),
        record(2, "rocksdb", 1, 90, 3000),
        record(3, "kiban", 1, 30, 1000),
        record(4, "kiban", 2, 20, 1000),
        record(5, "rocksdb", 2, 80, 500),
    ];
    Results { campaign: campaign(), records }
}

fn ratio<'a>(board: &'a Board, metric: &str) -> &'a Ratio {
    board.ratios.iter().find(|ratio| ratio.metric == metric).expect("a ratio")
}

#[test]
fn a_ratio_is_the_median_of_those_inside_a_repetition() {
    let board = rows::board(&results());
    let ops = ratio(&board, "ops_per_s");
    assert_eq!((ops.engine.as_str(), ops.against.as_str()), ("kiban", "rocksdb"));
    let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert!(near(ops.median, 3.0) && near(ops.min, 2.0) && near(ops.max, 4.0), "{ops:?}");
    assert_eq!(ops.pairs, 3);
    assert!(!ops.is_even());
}

#[test]
fn above_one_favours_kiban_for_latencies_too_and_a_range_over_one_is_even() {
    let board = rows::board(&results());
    let p50 = ratio(&board, "write_p50");
    assert!(p50.median > 2.9 && p50.max > 3.9 && p50.min < 1.0, "{p50:?}");
    assert!(p50.is_even());
    assert_eq!(markdown::verdict(p50), "even");
    assert_eq!(markdown::verdict(ratio(&board, "ops_per_s")), "ahead");
}

#[test]
fn rows_are_medians_with_their_range() {
    let board = rows::board(&results());
    let ops = markdown::figure(&board, "glance/mixed", "rocksdb", "ops_per_s").expect("a row");
    assert!((ops.median - 12_500.0).abs() < 1e-6 && (ops.max - 50_000.0).abs() < 1e-6);
    assert_eq!((ops.trials, ops.unit.as_str()), (3, "1/s"));
    assert!(markdown::figure(&board, "glance/mixed", "kiban", "rss_peak").is_none());
}

#[test]
fn invalid_and_diagnostic_trials_are_in_no_row_but_in_the_totals() {
    let mut results = results();
    results.records[2].invalid = vec!["read: wrong".into()];
    results.records[5].diagnostic = true;
    let board = rows::board(&results);
    assert_eq!(ratio(&board, "ops_per_s").pairs, 1);
    let totals = &board.totals;
    assert_eq!((totals.valid, totals.invalid, totals.diagnostic), (5, 1, 1));
    assert_eq!((totals.pairs, totals.foreground_operations), (1, 5000));
    let notes = notes::notes(&results, &board, None);
    assert!(notes.deviations.iter().any(|line| line.contains("read: wrong")));
}

#[test]
fn who_was_not_settled_before_its_first_stage_is_named() {
    let mut results = results();
    let names = |results: &Results| {
        let notes = notes::notes(results, &rows::board(results), None);
        notes.not_proven.iter().any(|line| line.contains("ran into a stage, the bound was over"))
    };
    assert!(!names(&results));
    let debt = crate::engine::Debt { settled: false, bytes: Some(1) };
    let outcome = results.records[1].outcome.as_mut().expect("an outcome");
    outcome.figures.settle_before = Some(Settle { settled: false, ns: 1, debt });
    assert!(names(&results));
}

#[test]
fn unknown_is_left_out_and_never_zero() {
    let json = serde_json::to_string(&rows::board(&results())).expect("JSON");
    assert!(!json.contains("table_write_amplification") && !json.contains("read_p50"));
}

#[test]
fn the_board_has_its_headings_in_every_form() {
    let results = results();
    let board = rows::board(&results);
    let documented = documented::Documented::read().expect("documented.toml");
    let notes = notes::notes(&results, &board, Some(&board));
    let text = markdown::write(&results, &board, &documented, &notes);
    let page = html::write(&results, &board, &documented, &notes);
    for heading in ["Observed", "Not proven", "Deviations", "Limits"] {
        assert!(text.contains(&format!("## {heading}")), "{heading}");
        assert!(page.contains(&format!("<h2>{heading}</h2>")), "{heading}");
    }
    assert!(text.contains("not given") && text.contains("a\\|b") && text.contains("it declined"));
    assert!(page.contains("a &lt;test&gt;") && page.contains("<svg") && !page.contains("<script"));
    assert!(!page.contains("src=") && !page.contains("href="), "it needs nothing else");
    assert!(text.contains("all 5 medians lie"), "{:?}", notes.not_proven);
}

#[test]
fn csv_has_line_feeds_alone_and_every_trial() {
    let mut results = results();
    results.records[0].invalid = vec!["a \"b\", c\r\nd".into()];
    let text = csv::write(&results);
    assert!(!text.contains('\r') && text.ends_with('\n'));
    for place in 0..6 {
        assert!(text.lines().any(|line| line.starts_with(&format!("{place},"))), "{place}");
    }
    assert!(text.contains("\"a \"\"b\"\", c  d\""));
}

#[test]
fn the_board_tells_its_conditions() {
    let mut results = results();
    let pins = &mut results.campaign.pins;
    (pins.busy_allowed, pins.dirty) = (true, true);
    let load = "others used 10.0 % of the machine, at most 5.0 % is allowed";
    results.records[0].invalid = vec![load.into()];
    results.records[1].invalid = vec![load.into(), "read: wrong".into()];
    results.records[3].invalid = vec!["killed after 9 s: it took too long".into()];
    let board = rows::board(&results);
    let json = serde_json::to_value(&board).expect("JSON");
    let told = &json["conditions"];
    assert_eq!((&told["busy_allowed"], &told["dirty"]), (&true.into(), &true.into()));
    assert_eq!(told["plan_sha256"], "p");
    let of = |engine: &str| {
        let all = told["invalid"].as_array().expect("counts");
        let one = all.iter().find(|one| one["engine"] == engine && one["row"] == "glance/mixed");
        let one = one.expect("a count");
        (one["by_load"].as_u64(), one["otherwise"].as_u64())
    };
    assert_eq!(of("kiban"), (Some(1), Some(1)));
    assert_eq!(of("rocksdb"), (Some(0), Some(1)));
    let notes = notes::notes(&results, &board, None);
    assert!(notes.not_proven[0].contains("No target counts as measured"), "{notes:?}");
}

/// Readers that make their calls, beside a writer that goes on until they have.
fn beside_a_writer() -> Results {
    let mut results = results();
    let stage = &mut results.campaign.rows[0].stages[0];
    let mut writer = stage.group[0].clone();
    writer.calls = 0;
    stage.group.push(writer);
    let debt = Debt { settled: false, bytes: None };
    let mut reads = Latencies::default();
    (0..100).for_each(|_| reads.record(500));
    for record in &mut results.records {
        let outcome = record.outcome.as_mut().expect("an outcome");
        outcome.figures.stages[0].reads = reads.percentiles();
        outcome.figures.settle = Some(Settle { ns: 1, settled: true, debt });
    }
    results
}

#[test]
fn calls_of_an_endless_group_are_not_added_to_those_of_one_that_ends() {
    let results = beside_a_writer();
    let board = rows::board(&results);
    for metric in ["ops_per_s", "cpu_per_op", "ops_per_s_settled"] {
        assert!(board.rows.iter().all(|one| one.metric != metric), "{metric}");
        assert!(!csv::write(&results).contains(&format!(",{metric},")), "{metric}");
    }
    let deciding: Vec<&str> =
        markdown::ratios(&board, "glance/mixed").iter().map(|one| one.metric.as_str()).collect();
    assert!(deciding.contains(&"reads_per_s") && deciding.contains(&"writes_per_s"));
    let documented = documented::Documented::read().expect("documented.toml");
    let text = markdown::write(&results, &board, &documented, &notes::Notes::default());
    assert!(text.contains("| documented reads_per_s | not given"), "{text}");
    let page = html::write(&results, &board, &documented, &notes::Notes::default());
    assert!(page.contains("<figcaption>reads_per_s</figcaption>"));
}

#[test]
fn one_rate_decides_where_all_calls_can_be_taken_together() {
    let board = rows::board(&results());
    let deciding = markdown::ratios(&board, "glance/mixed");
    let rates = deciding.iter().filter(|one| one.metric.ends_with("_per_s"));
    assert_eq!(rates.map(|one| one.metric.as_str()).collect::<Vec<_>>(), ["ops_per_s"]);
}

#[test]
fn every_form_says_how_a_verdict_is_to_be_read() {
    let results = results();
    let board = rows::board(&results);
    let documented = documented::Documented::read().expect("documented.toml");
    let notes = notes::Notes::default();
    let text = markdown::write(&results, &board, &documented, &notes);
    let page = html::write(&results, &board, &documented, &notes);
    for what in ["in every repetition", "no test of significance", "judges the median alone"] {
        assert!(text.contains(what) && page.contains(what), "{what}");
    }
}
