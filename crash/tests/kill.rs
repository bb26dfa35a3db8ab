//! Real processes, killed: ten rounds of them, and what the command does with places and signals.
//! What a killed process may leave (D1, D2, D3, D4, A1) is judged by `kiban_crash::kill`.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a test of a process")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

fn kill(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiban-crash"));
    command.current_dir(dir).arg("kill").args(arguments).env_remove("GITHUB_STEP_SUMMARY");
    command
}

fn entries(dir: &Path) -> usize {
    std::fs::read_dir(dir).expect("a directory").count()
}

#[test]
fn ten_rounds_hold_and_leave_nothing_behind() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let output = kill(dir.path(), &["--rounds", "10", "--json"]).output().expect("it starts");
    let found: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("one JSON object on standard output");
    assert_eq!(output.status.code(), Some(0), "{found:#}");
    assert_eq!((&found["verdict"], &found["rounds"]), (&"held".into(), &10.into()));
    for field in ["seed", "revision", "kills_in_recovery", "cases", "ops", "elapsed_s"] {
        assert!(!found[field].is_null(), "{field}");
    }
    assert!(found["ops"].as_u64().is_some_and(|ops| ops > 100), "{found:#}");
    assert_eq!(entries(dir.path()), 0, "its directory is removed");
}

#[test]
fn a_place_that_can_not_be_used_is_the_environments() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let status = kill(dir.path(), &["--rounds", "1", "--dir", "/proc/none"]).output();
    assert_eq!(status.expect("it starts").status.code(), Some(5));
    let output = kill(dir.path(), &["--rounds", "0"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn an_interrupted_run_cleans_up_and_ends_with_seven() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let child = kill(dir.path(), &["--rounds", "100000", "--json", "--dir", "."])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    while entries(dir.path()) == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(300));
    let status = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(status.is_ok_and(|status| status.success()), "there is a kill command");
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert_eq!(entries(dir.path()), 0, "its directory is removed");
}
