//! Looks at the process while a stage runs: memory each 100 ms, the rest each second.

use super::outcome::Sample;
use crate::engine::Engine;
use crate::host::process::{Io, Memory, open_files};
use anyhow::Result;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const STEP: Duration = Duration::from_millis(100);
const STEPS_PER_SAMPLE: u64 = 10;

/// What was seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// The most of each kind of memory.
    pub memory: Memory,
    /// The most open files.
    pub open_files: Option<u64>,
    /// One for each second, and one at the end.
    pub samples: Vec<Sample>,
}

/// Looks until `stop` is set.
///
/// # Errors
/// Where /proc does not tell, or the engine fails to account.
pub fn watch(
    engine: Option<&dyn Engine>,
    calls: &[AtomicU64],
    start: Instant,
    io: Io,
    stop: &AtomicBool,
) -> Result<Seen> {
    let mut seen = Seen::default();
    let mut step = 0u64;
    loop {
        let last = stop.load(Ordering::Acquire);
        let memory = Memory::now()?;
        seen.memory = seen.memory.max(memory);
        if last || step.is_multiple_of(STEPS_PER_SAMPLE) {
            let open_files = open_files();
            seen.open_files = seen.open_files.max(open_files);
            let runs = match engine {
                Some(engine) => engine.account()?.runs,
                None => None,
            };
            seen.samples.push(Sample {
                ms: start.elapsed().as_millis() as u64,
                calls: calls.iter().map(|calls| calls.load(Ordering::Relaxed)).sum(),
                memory,
                open_files,
                write_bytes: Io::now()?.since(io).write_bytes,
                runs,
            });
        }
        if last {
            return Ok(seen);
        }
        step += 1;
        // Whoever sets `stop` unparks.
        std::thread::park_timeout(STEP);
    }
}
