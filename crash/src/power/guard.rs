//! A process that sees to it that this one can die.
//!
//! A thread that waits for a block of the device can't be killed, and who serves the block dies
//! with it: killed as a whole, the process would wait for itself for ever. Its recorders'
//! connections are cut off from outside then; whoever waited gets an error, and everything goes.
//!
//! Invariants
//! - Nothing is cut off while the process that is guarded lives.
//! - The guard ends with it, and does nothing where it ends by itself.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "outside the engine")]

use super::place::unmount;
use rustix::mount::MountFlags;
use std::fs;
use std::io::{self, BufRead, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Between two looks at the process.
const LOOK: Duration = Duration::from_millis(100);

/// Guards this process until it is dropped.
#[derive(Debug)]
pub struct Guard {
    child: Child,
    stdin: Mutex<Option<ChildStdin>>,
    /// Where the kernel lists the connections.
    at: PathBuf,
}

impl Guard {
    /// Starts `program` as the guard; `at` is an empty directory for its use.
    ///
    /// # Errors
    /// The machine refused.
    pub fn start(program: &Path, at: &Path) -> io::Result<Self> {
        fs::create_dir_all(at)?;
        rustix::mount::mount("none", at, "fusectl", MountFlags::empty(), None)?;
        let mut command = Command::new(program);
        command.arg("guard").arg(std::process::id().to_string()).arg(at);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        match command.spawn() {
            Ok(mut child) => {
                let stdin = Mutex::new(child.stdin.take());
                Ok(Self { child, stdin, at: at.to_owned() })
            }
            Err(error) => {
                unmount(at)?;
                Err(error)
            }
        }
    }

    /// Guards what is mounted at `served`, too.
    ///
    /// # Errors
    /// The machine refused.
    pub fn watch(&self, served: &Path) -> io::Result<()> {
        let connection = rustix::fs::minor(fs::metadata(served)?.dev());
        let mut stdin = self.stdin.lock().unwrap_or_else(PoisonError::into_inner);
        match stdin.as_mut() {
            Some(stdin) => writeln!(stdin, "{connection}"),
            None => Ok(()),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        *self.stdin.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let ended = self.child.wait().map(drop).and_then(|()| unmount(&self.at));
        if let Err(error) = ended {
            eprintln!("warning: {} goes with the process: {error}", self.at.display());
        }
    }
}

/// Guards the process `id`; the exit code.
#[must_use]
pub fn main(id: u32, at: &Path) -> u8 {
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let over = Arc::new(AtomicBool::new(false));
    {
        let (told, over) = (told.clone(), over.clone());
        std::thread::spawn(move || {
            for line in io::stdin().lock().lines().map_while(Result::ok) {
                told.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
            over.store(true, Ordering::Relaxed);
        });
    }
    while !over.load(Ordering::Relaxed) {
        if is_dying(id) {
            for connection in told.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                // It may have gone by itself.
                let _ = fs::write(at.join(connection).join("abort"), "1");
            }
            return 0;
        }
        std::thread::sleep(LOOK);
    }
    0
}

/// Whether a process's first thread is dead, whatever the others wait for.
fn is_dying(id: u32) -> bool {
    let Ok(status) = fs::read_to_string(format!("/proc/{id}/status")) else { return true };
    let state = status.lines().find_map(|line| line.strip_prefix("State:"));
    state.is_none_or(|state| matches!(state.trim_start().chars().next(), Some('Z' | 'X')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_runs_is_not_dying_and_one_that_is_gone_is() {
        assert!(!is_dying(std::process::id()));
        assert!(is_dying(4_194_999));
    }
}
