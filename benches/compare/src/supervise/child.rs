//! One child process: its group, its time-out, its heartbeat, its end.
//!
//! Invariants
//! - The child leads a process group of its own; whatever happens, the whole group is killed and
//!   the child reaped before this returns.
//! - Output is read as it comes, so that the child never waits for the supervisor; only the end of
//!   what it complains is kept.

use super::beat::{self, Beats};
use crate::host::limit::Limit;
use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const COMPLAINT_BYTES_MAX: usize = 4096;
const POLL: Duration = Duration::from_millis(10);

/// How a child ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// Its exit code, if it had one.
    pub code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// Whether it was killed since its time was over.
    pub timed_out: bool,
    /// What its heartbeats said.
    pub beats: Beats,
    /// How long it ran.
    pub ran: Duration,
    /// The end of what it wrote to its error output.
    pub complaint: String,
    /// Processes of its group that were still there when it had ended.
    pub left_behind: bool,
}

/// Runs `command` in a process group of its own for at most `timeout`, in `limit` if there is one.
///
/// # Errors
/// Where it can't be started.
pub fn run(command: &mut Command, timeout: Duration, limit: Option<&Limit>) -> Result<Ended> {
    let start = Instant::now();
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().context("starting a trial's process")?;
    let mut group = Group(child);
    if let Some(limit) = limit {
        limit.hold(group.0.id())?;
    }
    let stdout = group.0.stdout.take().context("its output")?;
    let stderr = group.0.stderr.take().context("its complaints")?;
    let beats = std::thread::spawn(move || listen(stdout));
    let complaint = std::thread::spawn(move || last_words(stderr));
    let (status, timed_out) = loop {
        if let Some(status) = group.0.try_wait()? {
            break (Some(status), false);
        }
        if start.elapsed() >= timeout {
            break (None, true);
        }
        std::thread::sleep(POLL);
    };
    let ran = start.elapsed();
    let left_behind = group.kill() && !timed_out;
    let status = match status {
        Some(status) => status,
        None => group.0.wait()?,
    };
    drop(group);
    Ok(Ended {
        code: status.code(),
        signal: status.signal(),
        timed_out,
        beats: beats.join().unwrap_or_default(),
        ran,
        complaint: complaint.join().unwrap_or_default(),
        left_behind,
    })
}

/// A child that leads a process group.
struct Group(Child);

impl Group {
    /// Kills the group; returns whether there was any process left in it.
    fn kill(&self) -> bool {
        let pid = Pid::from_raw(self.0.id() as i32);
        pid.is_some_and(|pid| kill_process_group(pid, Signal::KILL).is_ok())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            self.kill();
            let _ = self.0.wait();
        }
    }
}

fn listen(stdout: impl Read) -> Beats {
    let mut beats = Beats::default();
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        if let Some(now) = beat::parse(&line) {
            beats.beat(now);
        }
    }
    beats
}

fn last_words(mut stderr: impl Read) -> String {
    let (mut kept, mut chunk) = (Vec::new(), [0; 1024]);
    while let Ok(n @ 1..) = stderr.read(&mut chunk) {
        kept.extend_from_slice(&chunk[..n]);
        let excess = kept.len().saturating_sub(COMPLAINT_BYTES_MAX);
        kept.drain(..excess);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, timeout: Duration) -> Ended {
        run(Command::new("sh").args(["-c", script]), timeout, None).expect("a shell")
    }

    fn is_alive(pid: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // A zombie that its new parent has not reaped yet is not alive.
        !stat.is_empty() && !stat.contains(") Z ")
    }

    #[test]
    fn a_child_that_ends_is_reaped_with_its_code_and_beats() {
        let ended = shell("echo beat 1 1; echo beat 5 5; echo why >&2; exit 7", POLL * 500);
        assert_eq!((ended.code, ended.signal, ended.timed_out), (Some(7), None, false));
        assert_eq!((ended.beats.count, ended.complaint.as_str()), (2, "why\n"));
        assert!(!ended.left_behind);
    }

    #[test]
    fn a_child_that_takes_too_long_is_killed_with_its_grandchildren() {
        let script = "sleep 100 & echo $! >&2; sleep 100";
        let ended = shell(script, Duration::from_millis(300));
        assert!(ended.timed_out && ended.signal == Some(9), "{ended:?}");
        assert!(ended.ran < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(100));
        assert!(!is_alive(ended.complaint.trim()), "{ended:?}");
    }

    #[test]
    fn what_a_child_leaves_behind_is_killed_and_told() {
        // The grandchild keeps no pipe open, or the listener would wait for it.
        let script = "sleep 100 >/dev/null 2>&1 & echo $! >&2";
        let ended = shell(script, POLL * 500);
        assert!(ended.left_behind && ended.code == Some(0), "{ended:?}");
        std::thread::sleep(Duration::from_millis(100));
        assert!(!is_alive(ended.complaint.trim()), "{ended:?}");
    }

    #[test]
    fn a_killed_child_has_its_signal() {
        assert_eq!(shell("kill -9 $$", POLL * 500).signal, Some(9));
    }
}
