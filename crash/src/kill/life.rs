//! One life of a victim: start it, listen, kill it when its time has come.
//!
//! Invariants
//! - Every life ends: a victim that says nothing for the time-out has hung, and is killed then.
//! - All that the victim told before it died is read: the pipe is read to its end.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "outside the engine")]

use super::victim::{Mode, Order};
use super::wire::{Kind, Note};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// After so long without an end it has hung.
const HANG: Duration = Duration::from_secs(60);

/// When to kill a victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Not at all: it closes and ends.
    Never,
    /// So long after it began to open.
    Opening(Duration),
    /// So long after it was open.
    Opened(Duration),
    /// So long after a thread of it stays in a stage; it may end before.
    Frozen(Duration),
}

/// How a life ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By our SIGKILL.
    Killed,
    /// By itself.
    Exited(ExitStatus),
    /// It had to be killed for it would not end.
    Hung,
}

/// What was seen of a life.
#[derive(Debug)]
pub struct Life {
    /// All notes, in order.
    pub notes: Vec<Note>,
    /// How it ended.
    pub end: End,
    /// How long it took from beginning to open to being open.
    pub opened_in: Option<Duration>,
    /// What it said on standard error.
    pub stderr: String,
    /// When it was to be killed.
    pub when: When,
}

impl Life {
    /// The first note of a kind.
    #[must_use]
    pub fn first(&self, kind: Kind) -> Option<&Note> {
        self.notes.iter().find(|note| note.kind == kind)
    }

    /// Where it ended, in words.
    #[must_use]
    pub fn place(&self) -> String {
        let stage = self.first(Kind::Frozen).and_then(|note| {
            kiban::env::probe::Stage::ALL.get(note.n as usize).map(|stage| stage.name())
        });
        let stage = stage.map(|name| format!(", a thread frozen in {name}")).unwrap_or_default();
        match self.end {
            End::Killed => format!("killed: {:?}{stage}", self.when),
            End::Exited(status) => format!("ended by itself ({status}){stage}"),
            End::Hung => {
                let (seconds, when) = (HANG.as_secs(), self.when);
                format!("it had not ended after {seconds} s ({when:?}){stage}")
            }
        }
    }
}

/// Runs one life of `program`, by `order`, to its end.
///
/// # Errors
/// The operating system refused to start it, or it told what no victim tells.
pub fn live(program: &Path, order: &Order, when: When) -> io::Result<Life> {
    let mut err = tempfile::tempfile()?;
    let mut child = command(program, order)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(err.try_clone()?)
        .spawn()?;
    let stdout = child.stdout.take().expect("it is piped");
    let (sender, receiver) = channel();
    let reader = std::thread::spawn(move || listen(stdout, &sender));
    let mut listener = Listener { receiver, opening: None, opened: None };
    let end = listener.wait(&mut child, when);
    // Read to its end: the victim is dead, so that there is one.
    let notes = reader.join().expect("the reader does not panic");
    let opened_in = listener.opened.zip(listener.opening).map(|(after, before)| after - before);
    Ok(Life { notes: notes?, end: end?, opened_in, stderr: text_of(&mut err), when })
}

/// The command line of a victim.
pub(crate) fn command(program: &Path, order: &Order) -> Command {
    let mut command = Command::new(program);
    let mode = match order.mode {
        Mode::Work => "work",
        Mode::Recover => "recover",
        Mode::Examine => "examine",
    };
    command.arg("victim").arg(mode).arg(&order.dir);
    for (name, value) in [
        ("--seed", order.seed),
        ("--life", u64::from(order.life)),
        ("--freeze", order.freeze),
        ("--close-ms", order.close_ms),
        ("--steps", u64::from(order.steps)),
    ] {
        command.arg(name).arg(value.to_string());
    }
    if order.watch {
        command.arg("--watch");
    }
    command
}

/// Reads notes to the pipe's end; tells the moments that the parent waits for.
fn listen(mut pipe: ChildStdout, moments: &Sender<(Kind, Instant)>) -> io::Result<Vec<Note>> {
    let (mut bytes, mut used, mut notes) = (vec![0; 1 << 16], 0, Vec::new());
    loop {
        if used == bytes.len() {
            bytes.resize(2 * used, 0);
        }
        let read = match pipe.read(&mut bytes[used..]) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        used += read;
        let mut at = 0;
        while let Some((note, len)) = Note::decode(&bytes[at..used]).map_err(io::Error::other)? {
            if matches!(note.kind, Kind::Opening | Kind::Opened | Kind::Frozen) {
                // Whoever waited may have seen enough.
                let _ = moments.send((note.kind, Instant::now()));
            }
            notes.push(note);
            at += len;
        }
        bytes.copy_within(at..used, 0);
        used -= at;
    }
    match used {
        0 => Ok(notes),
        _ => Err(io::Error::other("the pipe ends inside a note")),
    }
}

struct Listener {
    receiver: Receiver<(Kind, Instant)>,
    opening: Option<Instant>,
    opened: Option<Instant>,
}

impl Listener {
    /// Waits for the moment, kills, and waits for the end.
    fn wait(&mut self, child: &mut Child, when: When) -> io::Result<End> {
        let begun = Instant::now();
        let mut kill_at = None;
        loop {
            let until = kill_at.unwrap_or(begun + HANG);
            let left = until.saturating_duration_since(Instant::now());
            match self.receiver.recv_timeout(left) {
                Ok((kind, at)) => {
                    self.opening = self.opening.or((kind == Kind::Opening).then_some(at));
                    self.opened = self.opened.or((kind == Kind::Opened).then_some(at));
                    kill_at = kill_at.or(match (when, kind) {
                        (When::Opening(after), Kind::Opening)
                        | (When::Opened(after), Kind::Opened)
                        | (When::Frozen(after), Kind::Frozen) => Some(at + after),
                        _ => None,
                    });
                }
                // The pipe is closed, so that it ends by itself, or all but.
                Err(RecvTimeoutError::Disconnected) => return ended(child, false),
                Err(RecvTimeoutError::Timeout) => {
                    child.kill()?;
                    return ended(child, kill_at.is_none());
                }
            }
        }
    }
}

fn ended(child: &mut Child, hung: bool) -> io::Result<End> {
    let status = child.wait()?;
    Ok(match status.signal() {
        Some(9) if hung => End::Hung,
        Some(9) => End::Killed,
        _ => End::Exited(status),
    })
}

/// All that a process left in a temporary file.
pub(crate) fn text_of(file: &mut File) -> String {
    let mut bytes = Vec::new();
    let read = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    read.map_or_else(|error| error.to_string(), |_| String::from_utf8_lossy(&bytes).into_owned())
}
