//! The only door to the outside: files, clock, threads, locks, atomics and randomness.
//!
//! Invariants
//! - Nothing outside `src/env` names `std::fs`, a clock, a thread, a lock or an atomic; clippy bans
//!   the originals (`clippy.toml`), and the files here lift the ban one by one.
//! - The form (std, loom, shuttle) shows here and nowhere else.
//! - A seam costs nothing on the hot path: a point read makes no virtual call per key compared.
//!
//! It holds no policy: what to do after an error is decided by the paths, never here.

pub mod atomic;
pub mod cache;
pub mod clock;
pub mod fs;
pub mod latch;
pub mod os;
pub mod probe;
pub mod random;
pub mod sync;
pub mod thread;

use std::fmt;
use sync::Arc;

/// Everything that an engine touches outside itself, in one value that is cheap to clone.
#[derive(Clone)]
pub struct Env {
    /// The file system.
    pub fs: Arc<dyn fs::Fs>,
    /// The clock, timed waits included.
    pub clock: Arc<dyn clock::Clock>,
    /// Source of ids, seeds and jitter.
    pub random: Arc<dyn random::Random>,
    /// Where protocol stages are told; `None` outside a test rig.
    pub probe: Option<Arc<dyn probe::Probe>>,
}

impl Env {
    /// The real file system, the real clock and the operating system's randomness.
    #[must_use]
    pub fn os() -> Self {
        Self {
            fs: Arc::new(os::OsFs),
            clock: Arc::new(clock::OsClock::new()),
            random: Arc::new(random::OsRandom),
            probe: None,
        }
    }

    /// Tells the probe, if there is one, that `stage` begins now.
    #[inline]
    pub fn stage(&self, stage: probe::Stage) {
        if let Some(probe) = &self.probe {
            probe.stage(stage);
        }
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Env").finish_non_exhaustive()
    }
}
