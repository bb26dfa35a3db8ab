//! The child processes: one that works on the database, one that examines what is left.
//!
//! Invariants
//! - What a child tells goes into the recorder's log before the call that told it returns.
//! - No wait is without an end: a child that is silent for too long has hung, and is killed.
//! - A child is in a process group of its own, so that an interrupt from a terminal is this
//!   process's alone, and ends when its standard input does, so that none outlives it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "outside the engine")]

use super::examiner::{DUMP, Job};
use super::place::Place;
use crate::kill::Fault;
use crate::kill::judge::State;
use crate::kill::life::{command, text_of};
use crate::kill::victim::Order;
use crate::kill::wire::{Kind, Note};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// After so long without an end, and without a wait for the device, it has hung.
const HANG: Duration = Duration::from_secs(60);
/// Or after so long in all: the device is served by this process, which may stand still itself.
const HANG_KERNEL: Duration = Duration::from_secs(300);
/// Between two looks at whether a child is still there.
const LOOK: Duration = Duration::from_millis(50);

fn refused(error: io::Error) -> Fault {
    Fault::environment(format!("a child process: {error}"))
}

fn start(mut command: Command, stdout: File) -> io::Result<(Child, File)> {
    let err = tempfile::tempfile()?;
    command.stdin(Stdio::piped()).stdout(stdout).stderr(err.try_clone()?).process_group(0);
    Ok((command.spawn()?, err))
}

/// Ends a child whatever happens to this.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a life of the workload to its end, and returns how long it took.
///
/// # Errors
/// It hung, was aborted, or could not be started. That it ended with an error is told in its notes.
pub(crate) fn work(program: &Path, order: &Order, stdout: File) -> Result<Duration, Fault> {
    let begun = Instant::now();
    let (child, mut err) = start(command(program, order), stdout).map_err(refused)?;
    let mut child = Ending(child);
    let mut patience = Patience::begin();
    loop {
        if let Some(status) = child.0.try_wait().map_err(refused)? {
            if matches!(status.code(), Some(0 | 1)) {
                return Ok(begun.elapsed());
            }
            let got = format!("{status}: {}", text_of(&mut err).trim_end());
            return Err(Fault::new("-", "a life of the workload", "an orderly end", got));
        }
        if patience.is_over(child.0.id()) {
            let waits = waits(child.0.id());
            let got = format!("it had not ended after {} s: {waits}", begun.elapsed().as_secs());
            let fault = Fault::new("B1", "a life of the workload", "an end in time", got);
            return Err(Fault { hang: true, ..fault });
        }
        // The threads are not looked at every millisecond for minutes.
        std::thread::sleep(if begun.elapsed() > HANG { LOOK } else { Duration::from_millis(1) });
    }
}

/// KiB of memory that the process `id` held at the most so far; 0 where nobody knows.
#[must_use]
pub fn peak_kib(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// What `name` says of each thread of the process `id`.
fn of_threads(id: u32, name: &str) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    tasks.map(|task| std::fs::read_to_string(task.path().join(name)).unwrap_or_default()).collect()
}

/// Where the threads of the process `id` wait in the kernel.
fn waits(id: u32) -> String {
    let waits = of_threads(id, "comm").into_iter().zip(of_threads(id, "wchan"));
    let waits = waits.map(|(name, wait)| format!("{} in {wait}", name.trim()));
    waits.collect::<Vec<_>>().join(", ")
}

/// Whether one of them can't be interrupted: it waits for a device.
fn waits_for_device(id: u32) -> bool {
    let is_waiting = |status: &String| status.lines().any(|line| line.starts_with("State:\tD"));
    of_threads(id, "status").iter().any(is_waiting)
}

/// How long a child is waited for.
struct Patience {
    begun: Instant,
    /// When it was last seen to wait for the device.
    waited: Instant,
}

impl Patience {
    fn begin() -> Self {
        let begun = Instant::now();
        Self { begun, waited: begun }
    }

    /// Whether the process `id` has hung. What waited for the device gets a whole [`HANG`] after
    /// that.
    fn is_over(&mut self, id: u32) -> bool {
        if self.begun.elapsed() <= HANG {
            return false;
        }
        if waits_for_device(id) {
            self.waited = Instant::now();
        }
        self.waited.elapsed() > HANG || self.begun.elapsed() > HANG_KERNEL
    }
}

struct Running {
    child: Ending,
    stdin: ChildStdin,
    notes: Receiver<Note>,
    err: File,
}

/// Examines images, with a process that is started when it is needed.
pub struct Crew<'a> {
    program: &'a Path,
    place: &'a Place,
    running: Option<Running>,
}

impl<'a> Crew<'a> {
    /// Works at `place`.
    #[must_use]
    pub fn new(program: &'a Path, place: &'a Place) -> Self {
        Self { program, place, running: None }
    }

    /// Has what is mounted examined; what was told of it.
    pub(crate) fn examine(&mut self, job: &Job) -> Result<Vec<Note>, Fault> {
        self.ask(&job.line())
    }

    /// All that the image that was examined last had shown.
    pub(crate) fn dump(&mut self) -> Result<State, Fault> {
        let notes = self.ask(DUMP)?;
        let entries = notes.iter().filter(|note| note.kind == Kind::Entry);
        Ok(entries.map(|note| (note.n, note.a)).collect())
    }

    /// KiB that the process held at the most so far.
    #[must_use]
    pub fn peak_kib(&self) -> u64 {
        self.running.as_ref().map_or(0, |running| peak_kib(running.child.0.id()))
    }

    /// Ends the process. Nothing of it is left that holds a file.
    pub fn end(&mut self) {
        self.running = None;
    }

    fn start(&self) -> io::Result<Running> {
        let (to, notes) = channel();
        self.place.recorder.disk().tell(Some(to));
        let mut command = Command::new(self.program);
        command.arg("examiner");
        let (mut child, err) = start(command, self.place.notes()?)?;
        let stdin = child.stdin.take().expect("it is piped");
        Ok(Running { child: Ending(child), stdin, notes, err })
    }

    fn ask(&mut self, line: &str) -> Result<Vec<Note>, Fault> {
        let mut running = match self.running.take() {
            Some(running) => running,
            None => self.start().map_err(refused)?,
        };
        // It may be gone already: what it said is looked at below.
        let _ = running.stdin.write_all(line.as_bytes());
        let notes = running.listen()?;
        self.running = Some(running);
        Ok(notes)
    }
}

impl Running {
    fn listen(&mut self) -> Result<Vec<Note>, Fault> {
        let what = "an examination";
        let begun = Instant::now();
        let mut patience = Patience::begin();
        let mut notes = Vec::new();
        loop {
            match self.notes.recv_timeout(LOOK) {
                Ok(note) if note.kind == Kind::Ended => return Ok(notes),
                Ok(note) => notes.push(note),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Fault::environment("the recorder is gone"));
                }
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(status) = self.child.0.try_wait().map_err(refused)? {
                        let said = text_of(&mut self.err);
                        let last = notes.last().map_or(String::new(), Note::to_string);
                        let got = format!("{status} after \"{last}\": {}", said.trim_end());
                        return Err(Fault::new("-", what, "an orderly end", got));
                    }
                    if patience.is_over(self.child.0.id()) {
                        let last = notes.last().map_or(String::new(), Note::to_string);
                        let waits = waits(self.child.0.id());
                        let s = begun.elapsed().as_secs();
                        let got = format!("after {s} s it had said \"{last}\" last: {waits}");
                        let fault = Fault::new("B1", what, "an end in time", got);
                        return Err(Fault { hang: true, ..fault });
                    }
                }
            }
        }
    }
}
