//! The threads that maintain a database behind its writers: one for each lane.
//!
//! Invariants
//! - B1: a worker sleeps only while its lane is not due. After a failure it tries again by itself,
//!   later and later, until it succeeds, the handle is poisoned, or the end has come.
//! - P1: a panic in a worker poisons, with its message.
//! - A worker holds no handle: it never keeps a database open.

use super::MaintainStep;
use crate::engine::Core;
use crate::engine::signals::{LANES, Lane};
use crate::env::sync::Arc;
use crate::env::thread::{JoinHandle, spawn};
use crate::error::{Error, Result};

/// The first pause after a failure, doubled each time up to 64 times: 10 ms to 640 ms.
const RETRY_NS: u64 = 10_000_000;

/// The running workers of a database.
pub(crate) struct Workers(Vec<JoinHandle<()>>);

impl Workers {
    /// Starts them.
    ///
    /// # Errors
    /// `Io` where the operating system makes no thread; then none runs.
    pub(crate) fn start(core: &Arc<Core>) -> Result<Self> {
        core.signals.set_workers(true);
        let mut workers = Self(Vec::new());
        for lane in LANES {
            let name = match lane {
                Lane::Flush => "kiban-flush",
                Lane::Compact => "kiban-compact",
            };
            let worker = core.clone();
            match spawn(name, move || worker.work(lane)) {
                Ok(handle) => workers.0.push(handle),
                Err(error) => {
                    core.signals.stop();
                    workers.join();
                    return Err(Error::io(&core.dir, "start a worker thread for", error));
                }
            }
        }
        Ok(workers)
    }

    /// Waits for their end; somebody has stopped the signals.
    pub(crate) fn join(self) {
        for worker in self.0 {
            // A panic has poisoned the handle already.
            let _ = worker.join();
        }
    }
}

impl Core {
    fn work(&self, lane: Lane) {
        let mut failures = 0u32;
        while self.signals.await_due(lane) {
            let turn = self.turn(lane);
            let failed = turn.is_err();
            if let Err(error) = &turn {
                self.tell_listener(|listener| listener.maintenance_failed(error));
            }
            self.signals.end_turn(lane, &turn);
            if self.health.is_poisoned() {
                return;
            }
            failures = if failed { (failures + 1).min(7) } else { 0 };
            if failed {
                self.signals.pause(&*self.env.clock, RETRY_NS << (failures - 1));
            }
        }
    }

    /// Every step of a lane; whether there was any.
    fn turn(&self, lane: Lane) -> Result<bool> {
        let mut did = false;
        loop {
            let since = self.signals.now();
            match self.step(&[lane])? {
                MaintainStep::Idle => break,
                // Another thread is at this lane; how that ends is not this try's failure.
                MaintainStep::Busy => {
                    let ended = self.signals.await_progress(since, &[lane], None);
                    if let Err(error @ Error::Closed) = ended {
                        return Err(error);
                    }
                }
                MaintainStep::Installed => {
                    did = true;
                    // A merge makes way for a flush; a flush may make a merge due.
                    LANES.into_iter().filter(|l| *l != lane).for_each(|l| self.signals.tell_due(l));
                    self.signals.tell_step(&[lane], None);
                }
                _ => did = true,
            }
        }
        if lane == Lane::Compact && !did {
            self.why_stuck()?;
        }
        Ok(did)
    }
}
