//! Real file systems with the power cut under them, from outside: what the command does where it
//! can, and that it leaves nothing behind. What a power cut may leave (D1, D2, D3, D4, A1, G1, C2)
//! is judged by `kiban_crash::power`.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a test of a process")]

use kiban_crash::power::place::{FileSystem, missing};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Whether this machine can do it; says so where it can't.
fn can() -> bool {
    let missing = missing(&[FileSystem::Ext4]);
    if !missing.is_empty() {
        println!("left out: power needs {}", missing.join("; "));
    }
    missing.is_empty()
}

fn power(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiban-crash"));
    command.arg("power").args(["--fs", "ext4", "--json", "--dir"]).arg(dir).args(arguments);
    command.env_remove("GITHUB_STEP_SUMMARY").stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).expect("one JSON object on standard output")
}

/// Nothing mounted, attached or lying about that names `dir`.
fn is_clean(dir: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("a list of mounts");
    let name = dir.display().to_string();
    // A loop device lets go of its file a little after its last close.
    let attached = || {
        let listed = Command::new("losetup").arg("-a").output().expect("it can be started");
        String::from_utf8_lossy(&listed.stdout).contains(&name)
    };
    let detached = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        !attached()
    });
    let empty = std::fs::read_dir(dir).expect("a directory").count() == 0;
    detached && empty && !mounts.contains(&name)
}

#[test]
fn images_hold_and_nothing_is_left_behind() {
    if !can() {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let arguments = ["--images", "40", "--jobs", "1", "--seed", "1", "--faults", "none"];
    let output = power(dir.path(), &arguments).output().expect("it can be started");
    let found = json(&output);
    assert_eq!(output.status.code(), Some(0), "{found:#}");
    assert_eq!(found["verdict"], "held");
    let row = &found["power"][0];
    assert!(row["images"].as_u64().is_some_and(|images| images >= 40), "{found:#}");
    assert!(row["flushes"].as_u64().is_some_and(|flushes| flushes > 10), "{found:#}");
    assert!(is_clean(dir.path()));
}

#[test]
fn device_errors_are_survived() {
    if !can() {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    for fault in ["flush-once", "gone", "full"] {
        let arguments = ["--images", "30", "--jobs", "1", "--faults", fault];
        let output = power(dir.path(), &arguments).output().expect("it can be started");
        let found = json(&output);
        assert_eq!(output.status.code(), Some(0), "{fault}: {found:#}");
    }
    assert!(is_clean(dir.path()));
}

#[test]
fn an_interrupted_run_ends_with_seven_and_a_killed_one_leaves_no_mount() {
    if !can() {
        return;
    }
    for (signal, code) in [("-INT", Some(7)), ("-KILL", None)] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let child = power(dir.path(), &["--images", "100000"]).spawn().expect("it starts");
        std::thread::sleep(Duration::from_secs(3));
        let status = Command::new("kill").args([signal, &child.id().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "there is a kill command");
        let output = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), code, "{said}");
        if code.is_some() {
            assert_eq!(json(&output)["verdict"], "interrupted");
        } else {
            // The next run names what is left, which is directories at most.
            let arguments = ["--images", "1", "--jobs", "1", "--faults", "none"];
            let next = power(dir.path(), &arguments).output().expect("it starts");
            let said = String::from_utf8_lossy(&next.stderr).into_owned();
            assert!(said.contains("an earlier run left"), "{said}");
        }
        assert!(is_clean(dir.path()), "{signal}");
    }
}

#[test]
fn mistakes_are_named_and_what_is_missing_ends_with_five() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for arguments in [["--faults", "rain"], ["--images", "0"]] {
        let output = power(dir.path(), &arguments).output().expect("it can be started");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
    let output = power(dir.path(), &[]).env("PATH", "").output().expect("it can be started");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("losetup: install util-linux"), "{said}");
}
