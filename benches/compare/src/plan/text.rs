//! The words of a plan file, as they stand there.

use crate::records::Kind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A plan file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanText {
    /// Its name, that of the file without the ending.
    pub name: String,
    /// What it shows, in a sentence or two.
    pub about: String,
    /// Whether a campaign is expected to run it; the report names those that were not.
    pub expected: bool,
    /// The seed of keys, values and picks.
    pub seed: u64,
    /// The seed of the order of trials.
    pub order_seed: u64,
    /// Trials of each row and contestant; `--trials` overrides it.
    pub trials: u32,
    /// A trial that takes longer is killed, in seconds.
    pub timeout_s: u64,
    /// The longest wait for background work to come to rest, in seconds.
    pub settle_bound_s: u64,
    /// CPUs the trials may use; empty for all that the process may.
    pub cpus: Vec<usize>,
    /// The greatest share of the machine that others may use before and during a trial.
    pub foreign_cpu_max: f64,
    /// Free bytes of disk that the plan needs.
    pub disk_bytes: u64,
    /// The knobs of every engine.
    pub profile: toml::Table,
    /// Knobs that differ for a contestant `engine:variant`, by the variant's name.
    #[serde(default)]
    pub variant: BTreeMap<String, toml::Table>,
    /// The rows.
    pub row: Vec<RowText>,
}

/// A row, or several with `threads`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowText {
    /// Its name; `{threads}` in it stands for the sweep's count.
    pub name: String,
    /// One row for each count; empty for no sweep. A group with `threads = 0` takes the count.
    pub threads: Vec<u32>,
    /// Who takes part: `engine` or `engine:variant`, or `floor`.
    pub contestants: Vec<String>,
    /// Knobs that differ in this row.
    #[serde(default)]
    pub profile: toml::Table,
    /// What is in the database before the first stage.
    pub data: Data,
    /// What is done between loading and the first stage.
    pub prepare: Prepare,
    /// Bytes of memory, page cache included, that a trial may use; 0 for no limit.
    pub memory_limit_bytes: u64,
    /// Whether the row is taken a second time with the cores kept awake.
    pub awake_too: bool,
    /// Trials for each contestant with its own statistics on, outside the ratios.
    pub diagnostic_trials: u32,
    /// The stages, one after another in one open database.
    pub stage: Vec<Stage>,
}

/// What is in the database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// The records' kind.
    pub kind: Kind,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Agents, for `kind = "agent"`; 0 otherwise.
    pub agents: u64,
    /// Numbers that exist, loaded or not: picks draw below it.
    pub keys: u64,
    /// How many of them are loaded, from number 0.
    pub preload: u64,
    /// In which order.
    pub layout: Layout,
    /// Records in a batch of the load.
    pub load_batch: usize,
}

/// The order in which records are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// By number: for agents that is as the records came, one of each agent in turn.
    Normal,
    /// In a random order.
    Shuffled,
    /// In the byte order of the keys.
    Bulk,
}

/// What is done between loading and the first stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prepare {
    /// Nothing but waiting until background work has come to rest.
    Settled,
    /// That, and a read of each key that the first stage may pick.
    Walk,
    /// That, then close, `POSIX_FADV_DONTNEED` on every file, and reopen; residency is recorded.
    Reduced,
}

/// One stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Its name on the board.
    pub name: String,
    /// It ends after this many seconds; 0 for when every group has made its calls.
    pub seconds: u64,
    /// Threads that do the same.
    pub group: Vec<Group>,
}

/// Threads that do the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// How many; 0 for the sweep's count.
    pub threads: u32,
    /// Calls of the whole group; 0 for as long as the stage lasts.
    pub calls: u64,
    /// At least this many calls for each thread, whatever `calls` says.
    pub calls_per_thread_min: u64,
    /// What the calls are.
    pub mix: Mix,
    /// Which numbers they take.
    pub pick: Pick,
    /// Numbers that are picked, from 0.
    pub working_set: u64,
    /// When writes are synced.
    pub durability: Durability,
    /// Records in one write call.
    pub batch: usize,
    /// Records that a scan or a latest asks for.
    pub scan: usize,
    /// Arrivals in a second, of the whole group, by the clock and not by the answers; 0 for each
    /// thread calling again at once.
    pub rate_per_s: u64,
}

/// Shares of the calls, in per cent, 100 in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// Point reads.
    #[serde(default)]
    pub read: u32,
    /// Writes of a picked number, there or not.
    #[serde(default)]
    pub write: u32,
    /// Writes of the next number that was never written.
    #[serde(default)]
    pub insert: u32,
    /// The newest records of a picked agent.
    #[serde(default)]
    pub latest: u32,
    /// Scans from a picked number.
    #[serde(default)]
    pub scan: u32,
    /// A read, then a write of the same number.
    #[serde(default)]
    pub read_write: u32,
}

impl Mix {
    /// The sum of the shares.
    #[must_use]
    pub fn sum(&self) -> u32 {
        self.read + self.write + self.insert + self.latest + self.scan + self.read_write
    }

    /// Whether any call writes.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.write + self.insert + self.read_write > 0
    }
}

/// How numbers are picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pick {
    /// Each equally often.
    Uniform,
    /// Zipf, exponent 0.99, scattered over the numbers.
    Zipf,
    /// Zipf from the newest number backwards.
    Newest,
}

/// When a write counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// Handed to the kernel.
    Buffered,
    /// Buffered, and the thread that makes the group's every thousandth write syncs.
    EveryThousand,
    /// Synced before it returns.
    Each,
}
