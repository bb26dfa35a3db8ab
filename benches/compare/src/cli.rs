//! The command line, and what an error means for the exit code.
//!
//! Exit codes: 0 all is well, 1 a trial failed or a target was missed, 2 usage: nothing was run.

use clap::{Parser, Subcommand};
use std::fmt;
use std::path::PathBuf;

/// What is wrong with the command, the plan or the machine, before anything has run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage(pub String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Runs plans of the side-by-side campaign, reports on them, and checks them against targets.
#[derive(Debug, Parser)]
#[command(name = "kiban-compare", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Runs a plan.
    Run(RunArgs),
    /// Writes the board of a campaign: JSON, CSV, Markdown and HTML.
    Report(ReportArgs),
    /// Checks boards against targets; exit 1 on any miss.
    Check {
        /// The targets, such as docs/performance/targets.toml.
        targets: PathBuf,
        /// Directories with scoreboard.json, searched below too.
        #[arg(required = true)]
        dirs: Vec<PathBuf>,
    },
    /// Kills each engine's process at random moments and opens its database again.
    Kill(KillArgs),
    /// Compares the counted sync calls of each engine with strace's.
    Syncs {
        /// Engines, separated by commas; all that were built if there are none.
        #[arg(long, value_delimiter = ',')]
        engines: Vec<String>,
        /// Synced writes of each.
        #[arg(long, default_value_t = 200)]
        writes: u64,
    },
    /// Names the engines that were built in, with their versions.
    Engines,
    /// One trial, in a process of its own.
    #[command(hide = true)]
    Trial {
        /// What to run, as JSON.
        spec: PathBuf,
    },
    /// The process that `kill` kills, and the one that looks afterwards.
    #[command(hide = true)]
    Victim(VictimArgs),
    /// Keeps the cores awake.
    #[command(hide = true)]
    Awake,
}

/// Arguments of `run`.
#[derive(Clone, Debug, clap::Args)]
pub struct RunArgs {
    /// The plan's file.
    pub plan: PathBuf,
    /// Engines, separated by commas; all that the rows name if there are none.
    #[arg(long, value_delimiter = ',')]
    pub engines: Vec<String>,
    /// Rows, by their name or its beginning, separated by commas; all if there are none.
    #[arg(long, value_delimiter = ',')]
    pub rows: Vec<String>,
    /// Trials of each row and engine, instead of the plan's count.
    #[arg(long)]
    pub trials: Option<u32>,
    /// Where the results go; a campaign that was broken off there is gone on with.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Where the databases go while they are used.
    #[arg(long)]
    pub data: Option<PathBuf>,
    /// Runs on a busy machine too; the board says so.
    #[arg(long)]
    pub busy: bool,
    /// The control group under which groups with a memory limit are made, instead of the one that
    /// this process is in.
    #[arg(long)]
    pub cgroup: Option<PathBuf>,
}

/// Arguments of `report`.
#[derive(Clone, Debug, clap::Args)]
pub struct ReportArgs {
    /// The campaign's directory.
    pub dir: PathBuf,
    /// Copies the board to `DIR/<revision>/<plan>`, which must not exist.
    #[arg(long, value_name = "DIR")]
    pub publish: Option<PathBuf>,
    /// Another run of the same plan: the board names the rows whose ratios differ.
    #[arg(long, value_name = "DIR")]
    pub again: Option<PathBuf>,
}

/// Arguments of `kill`.
#[derive(Clone, Debug, clap::Args)]
pub struct KillArgs {
    /// Engines, separated by commas; all that were built if there are none.
    #[arg(long, value_delimiter = ',')]
    pub engines: Vec<String>,
    /// Kills of each engine and durability.
    #[arg(long, default_value_t = 20)]
    pub rounds: u32,
    /// The seed of the moments.
    #[arg(long, default_value_t = 20_261_008)]
    pub seed: u64,
    /// Where the databases go while they are used.
    #[arg(long)]
    pub data: Option<PathBuf>,
}

/// Arguments of `victim`.
#[derive(Clone, Debug, clap::Args)]
pub struct VictimArgs {
    /// The engine.
    #[arg(long)]
    pub engine: String,
    /// Its database.
    #[arg(long)]
    pub dir: PathBuf,
    /// Whether each write is synced before it is told.
    #[arg(long)]
    pub durable: bool,
    /// Writers.
    #[arg(long, default_value_t = 2)]
    pub threads: u64,
    /// Writes of each; 0 for as long as it lives.
    #[arg(long, default_value_t = 0)]
    pub writes: u64,
    /// The seed of the records.
    #[arg(long, default_value_t = 20_261_008)]
    pub seed: u64,
    /// Instead of writing: checks that what these writers were told is there.
    #[arg(long, value_delimiter = ',')]
    pub told: Vec<u64>,
    /// Prints the sync calls counted and the engine's own count, at the end.
    #[arg(long)]
    pub count: bool,
}
