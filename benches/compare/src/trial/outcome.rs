//! What a trial hands to its supervisor: figures, receipts, or what went wrong.

use crate::engine::{Account, Debt, Knob};
use crate::histogram::Percentiles;
use crate::host::files::{Residency, Size};
use crate::host::process::{Io, Memory};
use crate::sync_count::SyncCount;
use serde::{Deserialize, Serialize};

/// What a trial found out.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// The engine's version.
    pub version: String,
    /// CPUs that the trial could run on.
    pub cpu_mask: Vec<usize>,
    /// What was measured; what a trial that failed had measured by then.
    pub figures: Figures,
    /// One for each time that everything was read back.
    pub receipts: Vec<Receipt>,
    /// What the engine says its options are.
    pub options: Option<OptionsFile>,
    /// Why the trial does not count, if so.
    pub failure: Option<Failure>,
}

/// Why a trial does not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// Which check or step: `setup`, `options`, `load`, `reduce`, `read`, `write`, `call`, `floor`,
    /// `verify-loaded`, `verify-run`, `verify-reopened`, `syncs`, `limit`, `close`.
    pub step: String,
    /// What it saw.
    pub what: String,
}

/// Everything was read back, and was as it had to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// `loaded`, `run` or `reopened`.
    pub when: String,
    /// Keys in the full walk.
    pub keys: u64,
    /// SHA-256 over every key and value in order, lengths included.
    pub sha256: String,
    /// Point reads beside the walk, of keys that are there and that are not.
    pub points: u64,
}

/// The archived options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OptionsFile {
    /// The archive's name, gzip'd, beside the result.
    pub archive: String,
    /// SHA-256 of the bytes before compression.
    pub sha256: String,
    /// Knobs: what was asked for, and what there is.
    pub knobs: Vec<Knob>,
}

/// What was measured. Times are nanoseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// Opening the new database.
    pub create_ns: u64,
    /// Loading, with the sync at its end.
    pub load_ns: u64,
    /// Until background work came to rest after the load.
    pub load_settle: Option<Settle>,
    /// Until background work came to rest right before the first stage.
    #[serde(default)]
    pub settle_before: Option<Settle>,
    /// What was in memory after eviction, for `prepare = "reduced"`.
    pub residency: Option<Residency>,
    /// Resident memory of the process with no database open.
    pub memory_before: Memory,
    /// The stages.
    pub stages: Vec<StageFigures>,
    /// The sync right after the last stage.
    pub end_sync_ns: u64,
    /// The flush after it.
    pub flush_ns: u64,
    /// Until background work came to rest after that.
    pub settle: Option<Settle>,
    /// Closing, after verification.
    pub close_ns: u64,
    /// Opening again.
    pub reopen_ns: u64,
    /// The database's files once background work had come to rest.
    pub size_settled: Size,
    /// The database's files after close.
    pub size_closed: Size,
    /// Process bytes from the first stage's begin until background work had come to rest.
    pub io: Io,
    /// The engine's own account, over the same span.
    pub account: Account,
    /// User bytes written in that span.
    pub user_bytes: u64,
    /// Sync calls in that span.
    pub syncs: SyncCount,
}

impl Figures {
    /// Whether background work had come to rest before each stage that it was waited for. The
    /// load's own wait counts where no later one was made.
    #[must_use]
    pub fn settled_before_stages(&self) -> bool {
        let last = self.stages.len().saturating_sub(1);
        let between = self.stages.iter().take(last).filter_map(|stage| stage.settle_after);
        let first = self.settle_before.or(self.load_settle);
        first.into_iter().chain(between).all(|settle| settle.settled)
    }
}

/// A wait for background work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settle {
    /// Whether it came to rest within the bound.
    pub settled: bool,
    /// After how long, in steps of 10 ms.
    pub ns: u64,
    /// What was left.
    pub debt: Debt,
}

/// One stage.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageFigures {
    /// The stage's name.
    pub name: String,
    /// From the threads' common start until the last that had calls to make was done.
    pub wall_ns: u64,
    /// Calls made.
    pub calls: u64,
    /// Records read and written.
    pub records: u64,
    /// Records written.
    pub records_written: u64,
    /// Calls that read.
    pub reads: Option<Percentiles>,
    /// Calls that wrote.
    pub writes: Option<Percentiles>,
    /// How late calls began that were to begin at a given time and whose thread was free.
    pub start_lag: Option<Percentiles>,
    /// Arrivals in a second that were asked for; 0 where each thread called again at once.
    pub rate_per_s: f64,
    /// Of these, arrivals that were due before the stage's end and that no thread was free for.
    #[serde(default)]
    pub arrivals_unserved: u64,
    /// Until background work came to rest after the stage, where that was waited for.
    #[serde(default)]
    pub settle_after: Option<Settle>,
    /// CPU time, all threads.
    pub cpu_ns: u64,
    /// Of it in user mode, in steps of 10 ms.
    pub user_ns: Option<u64>,
    /// Of it in the kernel, in steps of 10 ms.
    pub system_ns: Option<u64>,
    /// Time that threads of the process stood in the run queue.
    pub queue_wait_ns: u64,
    /// Sync calls.
    pub syncs: SyncCount,
    /// The engine's own count of sync calls.
    pub own_syncs: Option<u64>,
    /// Process bytes.
    pub io: Io,
    /// The most of each kind of memory, sampled each 100 ms; `peak` is the kernel's own.
    pub memory: Memory,
    /// Whether the kernel's own peak is this stage's.
    pub peak_is_own: bool,
    /// The most open files, sampled each second.
    pub open_files: Option<u64>,
    /// The engine's own account over the stage.
    pub account: Account,
    /// One for each second.
    pub samples: Vec<Sample>,
}

/// How things stood at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// Since the stage's begin, in milliseconds.
    pub ms: u64,
    /// Calls made by then.
    pub calls: u64,
    /// Resident memory.
    pub memory: Memory,
    /// Open files.
    pub open_files: Option<u64>,
    /// Process bytes since the stage's begin.
    pub write_bytes: u64,
    /// Sorted runs, or files of level 0.
    pub runs: Option<u64>,
}
