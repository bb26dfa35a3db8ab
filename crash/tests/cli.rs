//! The `kiban-crash` command, from outside: exit codes, and what stands on standard output.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a test of a process")]

use kiban_crash::report::{Report, Totals};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Runs the command in `dir` with none of a CI system's variables.
fn crash(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kiban-crash"))
        .current_dir(dir)
        .args(arguments)
        .env_remove("GITHUB_STEP_SUMMARY")
        .output()
        .expect("the command can be started")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("the command prints text")
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).expect("one JSON object on standard output")
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

#[test]
fn mistakes_end_with_two_and_name_what_was_expected() {
    let dir = scratch();
    for (arguments, said) in [
        (&["--bogus"][..], "--bogus"),
        (&["fly"], "fly"),
        (&["run", "--seed", "abc"], "\"commit\""),
        (&["run", "--seed", "-1"], "-1"),
        (&["--budget", "0"], "expected a number of cases"),
        (&["--profile", "huge"], "smoke, standard, swarm, soak"),
        (&["--jobs", "0"], "0"),
        (&["--shard", "3/2"], "expected I/N"),
        (&["sweep", "--ops", "0"], "0"),
        (&["sweep", "--stage", "no.such"], "no.such"),
        (&["sweep", "--stage", "no.such"], "group.failed_sync"),
        (&["sweep", "--stage", "no.such"], "commit.append"),
        (&["replay", "kb1:schedule:x"], "expected SEED:NUMBER"),
        (&["trace"], "<FILE>"),
        (&["trace", "nowhere.ops"], "nowhere.ops"),
        (&["trace", "x.bin"], "--format"),
        (&["replay", "kb1:***"], "kb1:"),
        (&["replay", "kb1:sweep:1:8"], "there are 8"),
        (&["replay", "kb1:sweep:7:0"], "kb1:sweep:OPS"),
        (&["replay", "nowhere.ops"], "nowhere.ops"),
        (&["mutants", "B999"], "B999"),
        (&["mutants", "B27", "--power", "--jobs", "65"], "at most 64"),
        (&["merge"], "<DIR>"),
        (&["merge", "nowhere"], "nowhere/report.json"),
        (&["stages", "--junit", "/proc/none/x.xml"], "/proc/none/x.xml"),
        (&["run", "--out", "/proc/none"], "/proc/none"),
    ] {
        let output = crash(dir.path(), arguments);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(said), "{arguments:?}: {error}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_malformed_trace_line_is_named() {
    let dir = scratch();
    for (name, content, said) in [
        ("a.csv", "version,time,op,size,lbn\n1,2,2a,512,7\n1,2,99,512,7\n", "a.csv:3: expected 2a"),
        ("b.csv", "a,b\n", "b.csv:1: expected the header"),
        ("c.tsv", "k\tv\nbroken\n", "c.tsv:2: expected a key, a tab and a value"),
        ("d.ops", "put a b\nfly\n", "d.ops:2: expected"),
        ("e.ops", "", "e.ops: expected at least one operation"),
    ] {
        std::fs::write(dir.path().join(name), content).expect("a file");
        let output = crash(dir.path(), &["trace", name, "--json"]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name}: {error}");
        assert!(error.contains(said), "{name}: {error}");
    }
}

#[test]
fn stages_are_listed_in_both_forms() {
    let dir = scratch();
    let output = crash(dir.path(), &["stages"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("current.rename"), "{}", text(&output.stdout));
    let listed = json(&crash(dir.path(), &["stages", "--json"]));
    let stages = listed["stages"].as_array().expect("a list").len();
    assert!(stages >= 40, "{stages}");
}

#[test]
fn shards_merge_into_one_result() {
    let dir = scratch();
    for index in 1..=2 {
        let place = dir.path().join(index.to_string());
        std::fs::create_dir(&place).expect("a directory");
        let report = Report {
            command: "run".to_owned(),
            seed: 7,
            shard: format!("{index}/2"),
            totals: Totals { cases: 5, ops: 50, ..Totals::default() },
            directed_whole: true,
            digest: index.to_string(),
            counters: BTreeMap::from([("stall".to_owned(), index - 1)]),
            ..Report::default()
        };
        let report = serde_json::to_string(&report).expect("a report is plain data");
        std::fs::write(place.join("report.json"), report).expect("a file");
    }
    let arguments = ["merge", "2", "1", "--json", "--junit", "j/r.xml", "--out", "o"];
    let output = crash(dir.path(), &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let merged = json(&output);
    assert_eq!((&merged["cases"], &merged["digest"]), (&10.into(), &"1+2".into()));
    assert_eq!(merged["verdict"], "held");
    let junit = std::fs::read_to_string(dir.path().join("j/r.xml")).expect("--junit was written");
    assert!(junit.contains("failures=\"0\"") && junit.contains("name=\"stall\""), "{junit}");
    let html = std::fs::read_to_string(dir.path().join("o/report.html")).expect("--out was filled");
    assert!(html.contains("HELD: every promise held."), "{html}");
    let again = crash(dir.path(), &["merge", "o", "--json"]);
    assert_eq!(json(&again), merged, "a merged result is a result");
}

#[test]
fn a_ci_run_gets_a_step_summary() {
    let dir = scratch();
    let summary = dir.path().join("summary.md");
    let status = Command::new(env!("CARGO_BIN_EXE_kiban-crash"))
        .args(["stages", "--json"])
        .env("GITHUB_STEP_SUMMARY", &summary)
        .output()
        .expect("the command can be started")
        .status;
    assert!(status.success());
    let written = std::fs::read_to_string(&summary).expect("the summary was written");
    assert!(written.contains("| stage | what happens |"), "{written}");
}

#[test]
fn a_sweep_counts_its_sequences_and_holds() {
    let dir = scratch();
    let arguments = ["sweep", "--ops", "1", "--json", "--junit", "r.xml"];
    let output = crash(dir.path(), &arguments);
    let found = json(&output);
    assert_eq!(output.status.code(), Some(0), "{found}");
    assert_eq!((&found["sequences"], &found["verdict"]), (&8.into(), &"held".into()));
    for field in ["seed", "revision", "cases", "ops", "images", "images_nested", "elapsed_s"] {
        assert!(!found[field].is_null(), "{field}");
    }
    let junit = std::fs::read_to_string(dir.path().join("r.xml")).expect("--junit was written");
    assert!(junit.contains("name=\"D1\""), "{junit}");
}

#[test]
fn a_sweep_of_a_row_counts_what_it_did() {
    let dir = scratch();
    let arguments = ["sweep", "--stage", "group.failed_append", "--ops", "1", "--json"];
    let output = crash(dir.path(), &arguments);
    let found = json(&output);
    assert_eq!(output.status.code(), Some(0), "{found}");
    assert_eq!((&found["sequences"], &found["verdict"]), (&6.into(), &"held".into()), "{found}");
    // Each of six faults meets the append, the mark of the close, and then nothing more.
    assert_eq!((&found["schedules"], &found["errors_injected"]), (&18.into(), &12.into()));
    assert!(found["row_points"].as_u64().is_some_and(|points| points >= 6), "{found}");
    assert!(found["images"].as_u64().is_some_and(|images| images >= 12), "{found}");
    assert_eq!((&found["cells"]["reachable"], &found["cells"]["hit"]), (&24.into(), &12.into()));
}

#[test]
fn a_trace_and_a_replay_hold_and_count() {
    let dir = scratch();
    let rows: String = (0..40).map(|n| format!("k{:02}\tvalue {n}\n", n % 7)).collect();
    std::fs::write(dir.path().join("t.tsv"), rows).expect("a file");
    let found = json(&crash(dir.path(), &["trace", "t.tsv", "--json", "--seed", "3"]));
    assert_eq!((&found["ops"], &found["verdict"]), (&40.into(), &"held".into()), "{found}");
    assert!(found["images"].as_u64().is_some_and(|images| images > 10), "{found}");
    std::fs::write(dir.path().join("r.ops"), "put a 1\nsync\nget a\n").expect("a file");
    let found = json(&crash(dir.path(), &["replay", "r.ops", "--json"]));
    assert_eq!((&found["ops"], &found["verdict"]), (&3.into(), &"held".into()), "{found}");
}

#[test]
fn a_file_that_can_not_be_begun_is_no_broken_promise() {
    let dir = scratch();
    for (content, said) in [
        ("# only a remark\n", "no line in it"),
        ("option memtable_bytes 1\nput a 1\n", "refuses its options"),
        ("put a 1\ncrash kill at 1.1\noption memtable_bytes 1\n", "refuses its options"),
        ("option no_such 1\nput a 1\n", "an option, not `no_such`"),
    ] {
        std::fs::write(dir.path().join("r.ops"), content).expect("a file");
        let output = crash(dir.path(), &["replay", "r.ops"]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{content}: {error}");
        assert!(error.contains(said) && error.contains("r.ops"), "{error}");
        assert!(!dir.path().join("campaign.out").exists(), "{content}");
    }
}

#[test]
fn an_interrupted_run_ends_with_seven_and_a_valid_result() {
    let dir = scratch();
    let child = Command::new(env!("CARGO_BIN_EXE_kiban-crash"))
        .current_dir(dir.path())
        .args(["sweep", "--ops", "6", "--json", "--jobs", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command can be started");
    std::thread::sleep(Duration::from_millis(1500));
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(status.is_ok_and(|status| status.success()), "there is a kill command");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    assert_eq!(json(&output)["verdict"], "interrupted");
}
