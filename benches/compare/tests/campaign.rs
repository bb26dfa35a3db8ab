//! Whole campaigns through the command line, with the fake adapter: exit codes, records of trials
//! that fail, resuming and its refusal, boards, and the check against targets.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A plan of one small row for `contestants`, in `dir`.
fn plan(dir: &Path, contestants: &str, timeout_s: u32) -> PathBuf {
    let glance = Path::new(env!("CARGO_MANIFEST_DIR")).join("plans/glance.toml");
    let glance = fs::read_to_string(glance).expect("the smallest plan");
    let head = &glance[..glance.find("[[row]]").expect("the plan has rows")];
    let head = head
        .replace("name = \"glance\"", "name = \"tiny\"")
        .replace("timeout_s = 300", &format!("timeout_s = {timeout_s}"));
    let text = format!(
        "{head}\n[[row]]\nname = \"mixed\"\nthreads = []\ncontestants = [{contestants}]\n\
         memory_limit_bytes = 0\nawake_too = false\ndiagnostic_trials = 0\n\
         prepare = \"settled\"\ndata = {{ kind = \"number\", value_bytes = 64, agents = 0, \
         keys = 2000, preload = 500, layout = \"normal\", load_batch = 50 }}\n\
         [[row.stage]]\nname = \"main\"\nseconds = 0\n[[row.stage.group]]\nthreads = 2\n\
         calls = 3000\ncalls_per_thread_min = 0\nmix = {{ read = 50, write = 50 }}\n\
         pick = \"zipf\"\nworking_set = 2000\ndurability = \"buffered\"\nbatch = 1\nscan = 1\n\
         rate_per_s = 0\n"
    );
    let path = dir.join("tiny.toml");
    fs::write(&path, text).expect("the plan is written");
    path
}

fn compare(args: &[&str]) -> Output {
    let binary = env!("CARGO_BIN_EXE_kiban-compare");
    Command::new(binary).args(args).output().expect("the binary runs")
}

/// Runs `plan` into `dir/out`; tests share the machine, so a busy one has to do.
fn run(plan: &Path, dir: &Path, more: &[&str]) -> Output {
    let (out, data) = (dir.join("out"), dir.join("data"));
    let mut args = vec!["run", text(plan), "--busy", "--out", text(&out), "--data", text(&data)];
    args.extend(more);
    compare(&args)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(path: &Path) -> Value {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&bytes).expect("JSON")
}

fn records(dir: &Path) -> Vec<Value> {
    let mut trials: Vec<PathBuf> = fs::read_dir(dir.join("out/trials"))
        .expect("trials")
        .map(|entry| entry.expect("a trial").path().join("record.json"))
        .collect();
    trials.sort();
    trials.iter().map(|path| json(path)).collect()
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

#[test]
fn a_campaign_leaves_records_and_a_board() {
    let dir = scratch();
    let plan = plan(dir.path(), "\"fake\", \"floor\"", 60);
    let plan_text = fs::read_to_string(&plan).expect("the plan");
    // A floor stands under writes alone.
    let plan_text = plan_text.replace("{ read = 50, write = 50 }", "{ write = 100 }");
    fs::write(&plan, plan_text).expect("the plan is written");
    let output = run(&plan, dir.path(), &["--trials", "2"]);
    assert_eq!(output.status.code(), Some(0), "{}", complaint(&output));
    let records = records(dir.path());
    assert_eq!(records.len(), 4);
    for record in &records {
        assert_eq!(record["invalid"], Value::Array(Vec::new()), "{record}");
        let beats = &record["process"]["beats"];
        assert!(beats["count"].as_u64() >= Some(1), "{beats}");
        let receipts = record["outcome"]["receipts"].as_array().expect("receipts").len();
        assert_eq!(receipts, if record["contestant"] == "floor" { 0 } else { 3 });
    }
    let out = dir.path().join("out");
    for file in ["scoreboard.json", "trials.csv", "board.md", "board.html", "campaign.json"] {
        assert!(out.join(file).is_file(), "{file}");
    }
    let board = json(&out.join("scoreboard.json"));
    let row = &board["rows"][0];
    assert_eq!((row["row"].as_str(), row["trials"].as_u64()), (Some("tiny/mixed"), Some(2)));
    assert!(
        fs::read_dir(dir.path())
            .expect("it")
            .all(|entry| { entry.expect("an entry").file_name() != "data" })
    );
}

#[test]
fn a_lying_adapter_fails_the_campaign_and_its_database_is_kept() {
    let dir = scratch();
    let plan = plan(dir.path(), "\"fake\", \"fake-wrong-read\", \"fake-forgets\"", 60);
    let output = run(&plan, dir.path(), &["--trials", "1"]);
    assert_eq!(output.status.code(), Some(1), "{}", complaint(&output));
    let found: Vec<(String, String)> = records(dir.path())
        .iter()
        .map(|record| {
            let word = |value: &Value| value.as_str().unwrap_or_default().to_string();
            (word(&record["contestant"]), word(&record["invalid"][0]))
        })
        .collect();
    for (contestant, why) in &found {
        match contestant.as_str() {
            "fake" => assert_eq!(why, ""),
            "fake-wrong-read" => assert!(why.starts_with("read: "), "{why}"),
            _ => assert!(why.starts_with("verify-reopened: "), "{why}"),
        }
    }
    let kept = records(dir.path()).into_iter().filter(|record| record["kept"].is_string());
    for record in kept.clone() {
        assert!(Path::new(record["kept"].as_str().expect("a path")).is_dir());
    }
    assert_eq!(kept.count(), 2);
    let board = fs::read_to_string(dir.path().join("out/board.md")).expect("a board");
    assert!(board.contains("1 trials valid") && board.contains("2 invalid"), "{board}");
}

#[test]
fn a_trial_that_hangs_or_dies_leaves_a_record() {
    let dir = scratch();
    let plan = plan(dir.path(), "\"fake-hangs\", \"fake-dies\"", 4);
    let output = run(&plan, dir.path(), &["--trials", "1"]);
    assert_eq!(output.status.code(), Some(1), "{}", complaint(&output));
    for record in records(dir.path()) {
        let why = record["invalid"].to_string();
        if record["contestant"] == "fake-hangs" {
            assert_eq!(record["process"]["timed_out"], true, "{record}");
            assert!(why.contains("took too long"), "{why}");
        } else {
            assert_eq!(record["process"]["signal"], 6, "{record}");
            assert!(why.contains("left no outcome"), "{why}");
        }
    }
}

#[test]
fn a_resume_goes_on_where_it_was_and_refuses_what_changed() {
    let dir = scratch();
    let plan = plan(dir.path(), "\"fake\"", 60);
    assert_eq!(run(&plan, dir.path(), &["--trials", "2"]).status.code(), Some(0));
    let trials = dir.path().join("out/trials");
    let mut names: Vec<PathBuf> =
        fs::read_dir(&trials).expect("trials").map(|entry| entry.expect("one").path()).collect();
    names.sort();
    // As if it had been broken off in the second trial.
    let first = fs::read(names[0].join("record.json")).expect("a record");
    fs::remove_file(names[1].join("record.json")).expect("a record");
    let again = run(&plan, dir.path(), &["--trials", "2"]);
    assert_eq!(again.status.code(), Some(1), "{}", complaint(&again));
    assert_eq!(fs::read(names[0].join("record.json")).expect("a record"), first);
    assert!(complaint(&again).contains("broken off during this trial"), "{}", complaint(&again));
    // Another control group, another machine.
    let refused = run(&plan, dir.path(), &["--trials", "2", "--cgroup", "/sys/fs/cgroup/other"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(complaint(&refused).contains("the control group was"), "{}", complaint(&refused));
    let head = dir.path().join("out/campaign.json");
    let here = fs::read_to_string(&head).expect("the head");
    fs::write(&head, here.replacen("Linux ", "Linux 0.", 1)).expect("the head is written");
    let refused = run(&plan, dir.path(), &["--trials", "2"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(complaint(&refused).contains("the kernel was Linux 0."), "{}", complaint(&refused));
    assert!(!dir.path().join("data").exists(), "nothing is left of what was refused");
    fs::write(&head, here).expect("the head is written");
    // Another count of trials, another plan.
    let refused = run(&plan, dir.path(), &["--trials", "3"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(complaint(&refused).contains("number of trials"), "{}", complaint(&refused));
    let longer = fs::read_to_string(&plan).expect("the plan").replace("calls = 3000", "calls = 9");
    fs::write(&plan, longer).expect("the plan is written");
    let refused = run(&plan, dir.path(), &["--trials", "2"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(complaint(&refused).contains("the plan changed"), "{}", complaint(&refused));
}

#[test]
fn what_is_wrong_from_the_start_ends_with_2_before_anything_runs() {
    let dir = scratch();
    let good = plan(dir.path(), "\"fake\"", 60);
    let too_big = fs::read_to_string(&good).expect("it");
    let too_big = too_big.replace("disk_bytes = ", "disk_bytes = 9999999");
    let too_big_path = dir.path().join("big.toml");
    fs::write(&too_big_path, too_big).expect("the plan is written");
    let cases: [(&Path, &[&str], &str); 6] = [
        (&good, &["--engines", "rockdb"], "no engine is called \"rockdb\""),
        (&good, &["--rows", "nothing"], "no row is called \"nothing\""),
        (&good, &["--trials", "0"], "at least 1"),
        (&good, &["--engines", "kiban"], "no row is left"),
        (Path::new("/no/such/plan.toml"), &[], "no plan /no/such/plan.toml"),
        (&too_big_path, &[], "bytes of disk are free"),
    ];
    for (plan, more, what) in cases {
        let output = run(plan, dir.path(), more);
        assert_eq!(output.status.code(), Some(2), "{what}: {}", complaint(&output));
        assert!(complaint(&output).contains(what), "{what}: {}", complaint(&output));
        assert!(!dir.path().join("out").exists(), "{what}");
    }
}

#[test]
fn a_busy_machine_is_refused() {
    let dir = scratch();
    let plan = plan(dir.path(), "\"fake\"", 60);
    let quiet = fs::read_to_string(&plan).expect("it");
    let quiet = quiet.replace("foreign_cpu_max = 0.05", "foreign_cpu_max = 0.01");
    fs::write(&plan, quiet).expect("the plan is written");
    let spinner = std::sync::atomic::AtomicBool::new(true);
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            while spinner.load(std::sync::atomic::Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let out = dir.path().join("out");
        let output = compare(&["run", text(&plan), "--out", text(&out)]);
        spinner.store(false, std::sync::atomic::Ordering::Relaxed);
        output
    });
    assert_eq!(output.status.code(), Some(2), "{}", complaint(&output));
    assert!(complaint(&output).contains("the machine is busy"), "{}", complaint(&output));
}

#[test]
fn an_engine_that_was_not_built_is_named() {
    if cfg!(feature = "rocksdb") {
        return;
    }
    let dir = scratch();
    let plan = plan(dir.path(), "\"rocksdb\"", 60);
    let output = run(&plan, dir.path(), &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(complaint(&output).contains("rocksdb was not built in"), "{}", complaint(&output));
}

#[test]
fn check_ends_with_1_on_any_miss() {
    let dir = scratch();
    let board = dir.path().join("board");
    fs::create_dir(&board).expect("a directory");
    let row = r#"{"row":"a/b","engine":"kiban","metric":"ops_per_s","unit":"1/s","median":5.0,
        "min":4.0,"max":6.0,"trials":3}"#;
    let totals = r#"{"valid":3,"invalid":0,"diagnostic":0,"pairs":0,"foreground_operations":1}"#;
    // Where the repository has them, beside the plans: the plan that ran must be one of those.
    let (docs, plans) = (dir.path().join("docs/performance"), "benches/compare/plans");
    let plans = dir.path().join(plans);
    for (file, text) in [(plans.join("a.toml"), "plan"), (board.join("plan.toml"), "plan")] {
        fs::create_dir_all(file.parent().expect("a directory")).expect("a directory");
        fs::write(file, text).expect("a plan");
    }
    fs::create_dir_all(&docs).expect("a directory");
    let write = |board: &Path, revision: &str, conditions: &str| {
        let text = format!(
            r#"{{"plan":"a","revision":"{revision}","rows":[{row}],"ratios":[],{conditions}
            "totals":{totals}}}"#
        );
        fs::write(board.join("scoreboard.json"), text).expect("a board");
    };
    let fair = r#""conditions":{"busy_allowed":false,"dirty":false,"release":true,"invalid":[],
        "plan_sha256":"64879f7d6b960a01909762d911a32d4582c20010c5641ee90278b644a9e3b525"},"#;
    write(&board, "r", fair);
    let check = |condition: &str| {
        let targets = docs.join("targets.toml");
        let target = format!(
            "[[target]]\nwhat = \"w\"\nrows = [\"a/b\"]\nmetric = \"ops_per_s\"\n\
             engine = \"kiban\"\n{condition}\n"
        );
        fs::write(&targets, target).expect("targets");
        compare(&["check", text(&targets), text(&board)]).status.code()
    };
    assert_eq!(check("value_min = 5"), Some(0));
    assert_eq!(check("value_min = 5.1"), Some(1));
    assert_eq!(check("value_min = 5\ntrials_min = 4"), Some(1));
    assert_eq!(check("value_min = 5\nvalue_max = 6"), Some(2));
    assert_eq!(check("value_mean = 5"), Some(2));
    write(&board, "r", &fair.replace("\"busy_allowed\":false", "\"busy_allowed\":true"));
    assert_eq!(check("value_min = 5"), Some(1), "a busy machine proves nothing");
    write(&board, "r", "");
    assert_eq!(check("value_min = 5"), Some(1), "nor does a board of an older form");
    write(&board, "r", fair);
    assert_eq!(check("value_min = 5"), Some(0));
    let again = board.join("again");
    fs::create_dir(&again).expect("a directory");
    fs::rename(board.join("scoreboard.json"), again.join("scoreboard.json")).expect("moved");
    let other = board.join("other");
    fs::create_dir(&other).expect("a directory");
    write(&other, "s", fair);
    assert_eq!(check("value_min = 5"), Some(2), "two boards of one plan");
}

#[cfg(feature = "kiban")]
#[test]
fn a_killed_kiban_has_what_it_acknowledged() {
    let dir = scratch();
    let data = dir.path().join("data");
    let output = compare(&["kill", "--engines", "kiban", "--rounds", "3", "--data", text(&data)]);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{told}{}", complaint(&output));
    assert!(told.contains("kiban synced: 3 kills") && told.contains("kiban buffered: 3 kills"));
}

#[test]
fn a_fake_that_forgets_is_found_by_the_kill_check() {
    let dir = scratch();
    let data = dir.path().join("data");
    // One key in a thousand: on a busy machine a victim may not live to write a thousand. The first
    // round in which one does ends the check.
    let output =
        compare(&["kill", "--engines", "fake-forgets", "--rounds", "30", "--data", text(&data)]);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("FAILED"), "{told}");
}
