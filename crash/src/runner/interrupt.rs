//! A wish to stop, from the terminal or from the system.
//!
//! Invariants
//! - The first signal only sets a flag: whoever loops looks at it, ends the case at hand and
//!   reports what was counted so far (exit code 7).
//! - The second ends the process at once, with nothing written.
#![allow(clippy::disallowed_types, reason = "the runner stands outside the engine")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether to stop. Clones share the flag.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    flag: Arc<AtomicBool>,
}

impl Interrupt {
    /// Installs the handler of SIGINT, SIGTERM and SIGHUP. Where that fails the run can't be
    /// interrupted gracefully, but it can run.
    #[must_use]
    pub fn install() -> Self {
        let interrupt = Self::default();
        let flag = Arc::clone(&interrupt.flag);
        let installed = ctrlc::set_handler(move || {
            if flag.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
            eprintln!("stopping after the cases at hand; once more to stop at once");
        });
        if let Err(error) = installed {
            eprintln!("warning: an interrupt will end the run without a result: {error}");
        }
        interrupt
    }

    /// Whether to stop.
    #[must_use]
    pub fn wished(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// The flag itself, for a pool of workers to look at.
    #[must_use]
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flag)
    }
}
