//! Keeps the cores awake: one thread for each, in the idle class, that does nothing but run.
//!
//! An idle virtual CPU takes tens of microseconds to wake, which an engine with busy threads of its
//! own does not pay. Synced rows are taken both ways. The threads are a process of their own, so
//! that they are in no trial's CPU time.

use crate::cli::Usage;
use crate::host::process;
use crate::host::raw;
use anyhow::{Context, Result};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The process; it goes when this is dropped.
#[derive(Debug)]
pub struct Awake(Child);

impl Awake {
    /// Starts it for `cpus`.
    ///
    /// # Errors
    /// Where it can't be started, or ends at once.
    pub fn start() -> Result<Self> {
        let binary = std::env::current_exe().context("the path of this binary")?;
        let mut command = Command::new(binary);
        command.arg("awake").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut awake = Self(command.spawn().context("starting the spinners")?);
        std::thread::sleep(Duration::from_millis(50));
        match awake.0.try_wait()? {
            None => Ok(awake),
            Some(_) => Err(Usage("the cores can't be kept awake: no idle class".into()).into()),
        }
    }
}

impl Awake {
    /// The process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the process does: spins until its input ends, which it does when the supervisor is gone.
///
/// # Errors
/// Where there is no idle class.
pub fn spin() -> Result<()> {
    for cpu in process::cpu_mask()? {
        let (ready, is_ready) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let prepared = process::set_cpu_mask(&[cpu])
                .and_then(|()| raw::become_idle_class())
                // /proc/stat counts nice time apart, so a record shows the spinners beside the
                // rest; the load guard takes off their own CPU time.
                .and_then(|()| Ok(rustix::process::setpriority_process(None, 19)?));
            let failed = prepared.is_err();
            let _ = ready.send(prepared);
            if failed {
                return;
            }
            loop {
                std::hint::spin_loop();
            }
        });
        is_ready.recv().context("a spinner")??;
    }
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}
