//! Verdicts over boards made by hand, and the boards that may be held at all.

use super::*;
use crate::report::conditions::{Conditions, Invalid};
use crate::report::metrics::is_lopsided;
use crate::report::rows::{Board, Ratio, RowFigure};
use crate::supervise::pins::{file_sha256, manifest_dir};
use crate::supervise::record;

fn board() -> Board {
    let figure = |row: &str, median: f64| RowFigure {
        row: row.into(),
        engine: "kiban".into(),
        metric: "ops_per_s".into(),
        unit: "1/s".into(),
        median,
        min: median,
        max: median,
        trials: 3,
    };
    let ratio = |row: &str, median: f64, min: f64| Ratio {
        row: row.into(),
        metric: "ops_per_s".into(),
        engine: "kiban".into(),
        against: "rocksdb".into(),
        median,
        min,
        max: median + 0.1,
        pairs: 3,
    };
    let rows = vec![figure("a/1", 90.0), figure("a/2", 100.0), figure("a/3", 89.0)];
    let ratios = vec![ratio("a/1", 1.5, 0.9), ratio("a/2", 1.0, 1.0), ratio("a/3", 1.5, 1.4)];
    let conditions = Some(Conditions { release: true, ..Conditions::default() });
    Board { plan: "a".into(), revision: "r".into(), rows, ratios, conditions, ..Board::default() }
}

fn target(condition: &str) -> Target {
    let text = format!(
        "[[target]]\nwhat = \"w\"\nmetric = \"ops_per_s\"\nengine = \"kiban\"\n{condition}"
    );
    parse_targets(&text).expect("a target").target.remove(0)
}

fn verdicts(condition: &str) -> Vec<Verdict> {
    let held = Held { board: board(), ..Held::default() };
    judge(&target(condition), &[held]).into_iter().map(|(_, verdict)| verdict).collect()
}

fn against_rocksdb(row: &str, condition: &str) -> Verdict {
    verdicts(&format!("rows = [\"{row}\"]\nagainst = \"rocksdb\"\n{condition}")).remove(0)
}

#[test]
fn ratios_are_met_missed_or_not_measured() {
    assert!(matches!(against_rocksdb("a/1", "ratio_min = 1.5"), Verdict::Met(_)));
    assert!(matches!(against_rocksdb("a/1", "ratio_min = 1.51"), Verdict::Missed(_)));
    let few = against_rocksdb("a/1", "ratio_min = 1.0\ntrials_min = 5");
    assert!(matches!(few, Verdict::NotMeasured(_)));
    for nowhere in ["a/9", "b/1"] {
        assert!(matches!(against_rocksdb(nowhere, "ratio_min = 1"), Verdict::NotMeasured(_)));
    }
}

#[test]
fn a_tie_meets_at_least_and_misses_above() {
    assert!(matches!(against_rocksdb("a/2", "ratio_min = 1.0"), Verdict::Met(_)));
    assert!(matches!(against_rocksdb("a/2", "ratio_above = 1.0"), Verdict::Missed(_)));
    assert!(matches!(against_rocksdb("a/3", "ratio_above = 1.0"), Verdict::Met(_)));
}

#[test]
fn a_verdict_says_where_the_board_calls_the_ratio_even() {
    for (row, even) in [("a/1", true), ("a/2", true), ("a/3", false)] {
        let (Verdict::Met(seen) | Verdict::Missed(seen)) = against_rocksdb(row, "ratio_above = 1")
        else {
            panic!("{row} is measured");
        };
        assert_eq!(seen.contains("(even)"), even, "{seen}");
    }
}

#[test]
fn values_and_falls_are_held_against_their_bounds() {
    assert!(matches!(verdicts("rows = [\"a/1\"]\nvalue_max = 90")[..], [Verdict::Met(_)]));
    assert!(matches!(verdicts("rows = [\"a/1\"]\nvalue_min = 91")[..], [Verdict::Missed(_)]));
    let fall = verdicts("rows = [\"a/1\", \"a/2\", \"a/3\"]\nfall_max = 0.1");
    assert!(matches!(fall[..], [Verdict::Met(_), Verdict::Met(_), Verdict::Missed(_)]));
}

#[test]
fn a_target_without_one_condition_is_refused() {
    let both = "rows = [\"a\"]\nagainst = \"b\"\nratio_min = 1\nratio_above = 1";
    let unsided = "rows = [\"a\"]\nagainst = \"b\"\nvalue_max = 1";
    let alone = "rows = [\"a\"]\nratio_above = 1";
    for text in ["rows = []\nvalue_max = 1", "rows = [\"a\"]", alone, both, unsided] {
        let text =
            format!("[[target]]\nwhat = \"w\"\nmetric = \"ops_per_s\"\nengine = \"k\"\n{text}");
        assert!(parse_targets(&text).is_err(), "{text}");
    }
}

#[test]
fn failures_of_either_engine_measure_nothing_in_their_row_alone() {
    let failed = |engine: &str, by_load: usize, otherwise: usize| {
        let invalid = Invalid { row: "a/1".into(), engine: engine.into(), by_load, otherwise };
        let mut board = board();
        board.conditions.as_mut().expect("conditions").invalid.push(invalid);
        let held = [Held { board, ..Held::default() }];
        let text = "rows = [\"a/1\", \"a/3\"]\nagainst = \"rocksdb\"\nratio_min = 1";
        judge(&target(text), &held).into_iter().map(|(_, one)| one).collect::<Vec<_>>()
    };
    for engine in ["kiban", "rocksdb"] {
        let judged = failed(engine, 0, 1);
        assert!(matches!(judged[..], [Verdict::NotMeasured(_), Verdict::Met(_)]), "{judged:?}");
    }
    for judged in [failed("kiban", 2, 0), failed("lmdb", 0, 1)] {
        assert!(matches!(judged[..], [Verdict::Met(_), Verdict::Met(_)]), "{judged:?}");
    }
}

/// A directory with plans, and one with a board beside its plan.
fn place(dir: &Path, change: impl Fn(&mut Board)) -> PathBuf {
    let (plans, at) = (dir.join("plans"), dir.join("board"));
    for to in [&plans, &at] {
        fs::create_dir_all(to).expect("a directory");
    }
    fs::write(plans.join("a.toml"), "the plan").expect("a plan");
    fs::write(at.join("plan.toml"), "the plan").expect("a plan");
    let mut board = board();
    let sha256 = file_sha256(&at.join("plan.toml")).expect("a hash");
    board.conditions.as_mut().expect("conditions").plan_sha256 = sha256;
    change(&mut board);
    record::write(&at.join("scoreboard.json"), &board).expect("a board");
    at
}

fn conditions(board: &mut Board) -> &mut Conditions {
    board.conditions.as_mut().expect("conditions")
}

#[test]
fn a_board_that_proves_nothing_measures_nothing() {
    type Change = fn(&mut Board);
    let changes: [(&str, Change); 6] = [
        ("", |_| {}),
        ("a busy machine was allowed", |board| conditions(board).busy_allowed = true),
        ("the checkout had changes", |board| conditions(board).dirty = true),
        ("no release build", |board| conditions(board).release = false),
        ("the one that ran", |board| conditions(board).plan_sha256.push('x')),
        ("of an older form", |board| board.conditions = None),
    ];
    for (doubt, change) in changes {
        let dir = tempfile::tempdir().expect("a directory");
        let at = place(dir.path(), change);
        let boards = boards::read(&[at], &dir.path().join("plans")).expect("a board");
        let rows = "rows = [\"a/3\"]\n";
        for condition in ["against = \"rocksdb\"\nratio_min = 1", "value_min = 1", "value_max = 1"]
        {
            let judged = judge(&target(&format!("{rows}{condition}")), &boards).remove(0).1;
            match judged {
                Verdict::NotMeasured(why) if !doubt.is_empty() => {
                    assert!(why.contains(doubt), "{why}");
                }
                judged => assert!(
                    doubt.is_empty() && matches!(judged, Verdict::Met(_) | Verdict::Missed(_)),
                    "{doubt}: {judged:?}"
                ),
            }
        }
    }
}

#[test]
fn a_plan_that_changed_on_either_side_is_told() {
    for (changed, doubt) in [("plans/a.toml", "of the repository"), ("board/plan.toml", "beside")] {
        let dir = tempfile::tempdir().expect("a directory");
        let at = place(dir.path(), |_| {});
        let read = || boards::read(std::slice::from_ref(&at), &dir.path().join("plans"));
        assert!(read().expect("a board")[0].doubts.is_empty());
        fs::write(dir.path().join(changed), "another plan").expect("a plan");
        let doubts = read().expect("a board").remove(0).doubts;
        assert!(doubts.len() == 1 && doubts[0].contains(doubt), "{doubts:?}");
        fs::remove_file(dir.path().join(changed)).expect("a plan");
        assert_eq!(read().expect("a board").remove(0).doubts, doubts);
    }
}

#[test]
fn boards_that_do_not_belong_together_are_refused() {
    let (one, other) = (tempfile::tempdir(), tempfile::tempdir());
    let (one, other) = (one.expect("a directory"), other.expect("a directory"));
    let refused = |change: fn(&mut Board)| {
        let dirs = [place(one.path(), |_| {}), place(other.path(), change)];
        boards::read(&dirs, &one.path().join("plans")).err().map(|error| {
            assert!(error.is::<Usage>());
            error.to_string()
        })
    };
    assert!(refused(|_| {}).expect("the same plan").contains("two boards of the plan a"));
    let revisions = refused(|board| (board.plan, board.revision) = ("b".into(), "s".into()));
    assert!(revisions.expect("two revisions").contains("r and s"));
    assert_eq!(refused(|board| board.plan = "b".into()), None);
}

#[test]
fn the_targets_of_the_project_are_well_formed() {
    let root = manifest_dir();
    let targets = read_targets(&root.join("../../docs/performance/targets.toml"));
    let targets = targets.expect("docs/performance/targets.toml");
    let plans = crate::plan::all(&root.join("plans")).expect("the plans");
    let rows = crate::plan::all_rows(&root.join("plans")).expect("the plans");
    let mut lopsided = Vec::new();
    for row in plans.iter().flat_map(|plan| &plan.rows) {
        let stages = row.stages.iter().filter(|stage| is_lopsided(stage));
        lopsided.extend(stages.map(|stage| format!("{}/{}", row.name, stage.name)));
    }
    assert!(lopsided.contains(&"agent/beside-writer/point".to_string()), "{lopsided:?}");
    for target in &targets.target {
        for row in &target.rows {
            assert!(rows.contains(row), "{}: no plan has the row {row}", target.what);
            let has = !lopsided.contains(row) || target.metric != "ops_per_s";
            assert!(has, "{}: {row} has no ops_per_s", target.what);
            // Five rotated trials, for every figure of the agent rows.
            assert!(!row.starts_with("agent/") || target.trials_min == 5, "{}", target.what);
        }
    }
    let agent = plans.iter().find(|plan| plan.text.name == "agent").expect("the plan agent");
    let against_sqlite = |row: &str| {
        let sqlite = |one: &&Target| one.against.as_deref() == Some("sqlite");
        let mut all = targets.target.iter().filter(sqlite);
        all.any(|one| one.ratio_above == Some(1.0) && one.rows.iter().any(|name| name == row))
    };
    for row in &agent.rows {
        for stage in &row.stages {
            let name = crate::report::metrics::stage_row(&row.name, row.stages.len(), &stage.name);
            assert!(against_sqlite(&name), "{name}: ahead of SQLite on every agent row");
        }
    }
    for name in ["hour", "overnight", "billion"] {
        assert!(plans.iter().any(|plan| plan.text.name == name), "{name} exists as a plan");
    }
}
