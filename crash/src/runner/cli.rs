//! The command line: subcommands, flags and the forms of their values.
//!
//! Invariants
//! - Anything that can't be meant is refused with exit code 2 before anything runs.
//! - A value has one text form, printed by the run itself, so that a line can be pasted back.
//!
//! It starts nothing: [`super::main`] does.

use crate::kill::victim::Mode;
use crate::power::faults::DeviceFault;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// The simulated disk, the oracle and the engine, against each other.
#[derive(Debug, Parser)]
#[command(name = "kiban-crash", version, args_conflicts_with_subcommands = true, after_help = EXIT)]
pub struct Cli {
    /// What to do; the campaign if nothing is named.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The campaign's flags, when no subcommand is named.
    #[command(flatten)]
    pub run: RunArgs,
}

const EXIT: &str = "\
Exit codes: 0 every promise held; 1 a promise broke; 2 usage; 3 only hangs or time-outs;
4 a replay differed; 5 environment (disk full, out of memory, a needed device missing);
6 a seeded bug lived, or a counter never fired; 7 interrupted, with valid results so far.";

/// The command line of this process; every subcommand's help lists the exit codes.
#[must_use]
pub fn parse() -> Cli {
    let command = Cli::command().mut_subcommands(|subcommand| subcommand.after_help(EXIT));
    Cli::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit())
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// The crash campaign (this is what runs when no subcommand is named).
    Run(RunArgs),
    /// Every sequence of a few operations, crashed at every point of the file system; or one row of
    /// the matrix of groups, for every schedule of a few writers.
    Sweep(SweepArgs),
    /// A given trace of operations, in lockstep with the oracle, with crashes.
    Trace(TraceArgs),
    /// A real process on a real directory, killed at random moments.
    Kill(KillArgs),
    /// Real file systems on a recorded block device, with the power cut anywhere.
    Power(PowerArgs),
    /// One failure again, then shrunk.
    Replay(ReplayArgs),
    /// Seeded bugs and the layers that kill them.
    Mutants(MutantsArgs),
    /// Lists the stages of the protocols, the faults and the outcomes.
    Stages(StagesArgs),
    /// Makes one result of the results of shards.
    Merge(MergeArgs),
    /// One layer of the rig, as `mutants` runs it on a mutated engine.
    #[command(hide = true)]
    Layer(LayerArgs),
    /// The process that `kill` kills.
    #[command(hide = true)]
    Victim(VictimArgs),
    /// The process that opens the images of `power`.
    #[command(hide = true)]
    Examiner,
    /// The process that lets `power` die.
    #[command(hide = true)]
    Guard {
        /// Whom it guards.
        id: u32,
        /// Where connections are listed.
        at: PathBuf,
    },
}

/// Where results go, for every subcommand.
#[derive(Clone, Debug, Default, Args)]
pub struct OutputArgs {
    /// Print the result as one JSON object on standard output.
    #[arg(long)]
    pub json: bool,
    /// Write the result as JUnit XML.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write report.html, report.json and failing cases into this directory.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// How the work is shared out, and where its results go.
#[derive(Clone, Debug, Args)]
pub struct WorkArgs {
    /// Workers; as many as there are cores if left out. The result does not depend on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Run only every N-th case, sequence or seeded bug, starting with the I-th (1/4, 2/4, ...);
    /// `merge` joins the results.
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,
    /// Where results go.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Flags of `run`.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// A number (decimal or 0x...), or "commit" for one made of the commit's hash; random if left
    /// out, and printed.
    #[arg(long, value_name = "N|commit")]
    pub seed: Option<Seed>,
    /// How long to search (60s, 5m, 1h), or how many cases to run (2000); the profile's if left
    /// out.
    #[arg(long, value_name = "TIME|N")]
    pub budget: Option<Budget>,
    /// How wide the search is.
    #[arg(long, value_enum, default_value_t = Profile::Standard)]
    pub profile: Profile,
    /// How it is shared out.
    #[command(flatten)]
    pub work: WorkArgs,
}

/// Flags of `sweep`.
#[derive(Clone, Debug, Args)]
pub struct SweepArgs {
    /// Crash only in this stage, or sweep this row of the matrix of groups (`group.failed_sync`;
    /// `kiban-crash stages` lists both). A row is swept for every way to share the operations,
    /// writes here, among up to three writers, every schedule of at most one deviation, every fault
    /// that the row admits at each of its calls, and up to 64 images of each point in the row.
    #[arg(long, value_name = "NAME")]
    pub stage: Option<String>,
    /// Operations of the longest sequences; of a row, writes in all.
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=i64::from(crate::sweep::OPS_MAX)))]
    pub ops: u8,
    /// How it is shared out.
    #[command(flatten)]
    pub work: WorkArgs,
}

/// Flags of `trace`.
#[derive(Clone, Debug, Args)]
pub struct TraceArgs {
    /// The trace.
    pub file: PathBuf,
    /// What the file holds; judged by its extension if left out (.ops, .tsv, .csv).
    #[arg(long, value_enum)]
    pub format: Option<TraceFormat>,
    /// Seed of the crashes.
    #[arg(long, value_name = "N|commit")]
    pub seed: Option<Seed>,
    /// Workers.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Directory for the run on a real file system; the system's temporary one if left out.
    #[arg(long, value_name = "PATH")]
    pub dir: Option<PathBuf>,
    /// Where results go.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Flags of `kill`.
#[derive(Clone, Debug, Args)]
pub struct KillArgs {
    /// Where the database's directory is made; the current directory if left out. It is removed at
    /// the end, unless a promise broke.
    #[arg(long, value_name = "PATH")]
    pub dir: Option<PathBuf>,
    /// How often a process works on the database and is killed.
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rounds: u32,
    /// Seed of the operations and of the moments; threads are the machine's.
    #[arg(long, value_name = "N|commit")]
    pub seed: Option<Seed>,
    /// Where results go.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Flags of `power`.
#[derive(Clone, Debug, Args)]
pub struct PowerArgs {
    /// Which file system.
    #[arg(long, value_enum, default_value_t = Systems::All)]
    pub fs: Systems,
    /// Images of each file system; 10,000 of ext4 and 2,000 of each other if left out.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub images: Option<u64>,
    /// Ends after this time, with what was done by then.
    #[arg(long, value_name = "TIME")]
    pub budget: Option<Budget>,
    /// Seed of the operations and the cuts; threads are the machine's.
    #[arg(long, value_name = "N|commit")]
    pub seed: Option<Seed>,
    /// Device errors, separated by commas, or "none".
    #[arg(long, value_name = "LIST", default_value = "all")]
    pub faults: Faults,
    /// One session in so many has a device error.
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub faulty_every: u64,
    /// Holds the states that the file systems leave against the simulated disk, instead.
    #[arg(long)]
    pub contain: bool,
    /// Where directories are made; the system's temporary directory if left out.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Workers, each with devices of its own; two for each core if left out: mounting waits.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub jobs: Option<u16>,
    /// Where results go.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// The file systems of `power`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Systems {
    /// ext4.
    Ext4,
    /// XFS.
    Xfs,
    /// Btrfs.
    Btrfs,
    /// All of them.
    All,
}

/// Kinds of device errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults(pub Vec<DeviceFault>);

impl std::str::FromStr for Faults {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => return Ok(Self(DeviceFault::ALL.to_vec())),
            "none" => return Ok(Self(Vec::new())),
            _ => {}
        }
        let named = |name| {
            DeviceFault::named(name).ok_or_else(|| {
                let names: Vec<&str> = DeviceFault::ALL.iter().map(|fault| fault.name()).collect();
                format!("expected all, none, or some of {}", names.join(","))
            })
        };
        text.split(',').map(named).collect::<Result<_, _>>().map(Self)
    }
}

/// Flags of `victim`.
#[derive(Clone, Debug, Args)]
pub struct VictimArgs {
    /// What to do.
    pub mode: Mode,
    /// The database.
    pub dir: PathBuf,
    /// Seed of the run.
    #[arg(long)]
    pub seed: u64,
    /// Which life this is.
    #[arg(long)]
    pub life: u32,
    /// A thread stays in the stage that comes so late; none for 0.
    #[arg(long, default_value_t = 0)]
    pub freeze: u64,
    /// Closes the database under its writers after so many milliseconds; not for 0.
    #[arg(long, default_value_t = 0)]
    pub close_ms: u64,
    /// Steps of each writer.
    #[arg(long, default_value_t = crate::kill::plan::STEPS)]
    pub steps: u32,
    /// Tells what is seen of durable writes.
    #[arg(long)]
    pub watch: bool,
}

/// Flags of `replay`.
#[derive(Clone, Debug, Args)]
pub struct ReplayArgs {
    /// The token of a failure report (kb1:...), or a file of operations.
    #[arg(value_name = "TOKEN|FILE")]
    pub what: String,
    /// Where results go.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Flags of `mutants`.
#[derive(Clone, Debug, Args)]
pub struct MutantsArgs {
    /// Which seeded bugs; all of them if none is named.
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// Go on to the other layers after the first kill.
    #[arg(long)]
    pub all_layers: bool,
    /// Power cuts on real file systems, on each of them, instead of the other layers.
    #[arg(long, conflicts_with = "all_layers")]
    pub power: bool,
    /// List the seeded bugs and run nothing.
    #[arg(long, conflicts_with_all = ["all_layers", "power"])]
    pub list: bool,
    /// Seed of the layers.
    #[arg(long, value_name = "N|commit")]
    pub seed: Option<Seed>,
    /// How it is shared out.
    #[command(flatten)]
    pub work: WorkArgs,
}

/// Flags of `stages`.
#[derive(Clone, Debug, Args)]
pub struct StagesArgs {
    /// Where results go.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Flags of `merge`.
#[derive(Clone, Debug, Args)]
pub struct MergeArgs {
    /// Directories that `--out` of the shards filled.
    #[arg(value_name = "DIR", required = true)]
    pub dirs: Vec<PathBuf>,
    /// Where results go.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Flags of `layer`.
#[derive(Clone, Debug, Args)]
pub struct LayerArgs {
    /// The layer's name.
    pub name: String,
    /// Seed.
    #[arg(long)]
    pub seed: Seed,
    /// Budget.
    #[arg(long)]
    pub budget: Budget,
    /// Workers.
    #[arg(long, default_value_t = 1)]
    pub jobs: u16,
}

/// How wide the search is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Profile {
    /// Seconds: every cell once and a little more.
    Smoke,
    /// About a minute on two cores.
    Standard,
    /// Minutes, with a random subset of operations and faults switched off in each case.
    Swarm,
    /// Hours: as swarm, with longer cases.
    Soak,
}

impl Profile {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Standard => "standard",
            Self::Swarm => "swarm",
            Self::Soak => "soak",
        }
    }

    /// How long it searches if nothing else is said.
    #[must_use]
    pub fn time(self) -> Duration {
        Duration::from_secs(match self {
            Self::Smoke => 15,
            Self::Standard => 60,
            Self::Swarm => 600,
            Self::Soak => 3600,
        })
    }
}

/// What a trace file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TraceFormat {
    /// Operations in the rig's own text form.
    Ops,
    /// One pair a line: the key, a tab, the value; a later line overwrites.
    Tsv,
    /// Block I/O: CSV with the columns version, time, op, size, lbn (2a writes, 28 reads).
    Blockio,
}

/// Where the pseudo-random numbers of a run start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seed {
    /// This number.
    Number(u64),
    /// The first 64 bits of the commit's hash.
    Commit,
}

impl std::str::FromStr for Seed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "commit" {
            return Ok(Self::Commit);
        }
        let number = match text.strip_prefix("0x") {
            Some(hex) if !hex.starts_with('+') => u64::from_str_radix(hex, 16).ok(),
            None if !text.starts_with('+') => text.parse().ok(),
            _ => None,
        };
        number.map(Self::Number).ok_or_else(|| {
            "expected a number below 2^64, in decimal or as 0x..., or \"commit\"".to_owned()
        })
    }
}

/// When a search ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// After this time; what was found then depends on the machine.
    Time(Duration),
    /// After so many cases; this repeats bit for bit.
    Cases(u64),
}

impl std::str::FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || {
            "expected a number of cases (2000) or a time (500ms, 60s, 5m, 1h), above zero"
                .to_owned()
        };
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let number: u64 = text[..digits].parse().map_err(|_| wanted())?;
        let ms_per_unit = match &text[digits..] {
            "" if number > 0 => return Ok(Self::Cases(number)),
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return Err(wanted()),
        };
        match number.checked_mul(ms_per_unit) {
            Some(ms) if ms > 0 => Ok(Self::Time(Duration::from_millis(ms))),
            _ => Err(wanted()),
        }
    }
}

/// Which part of a run this machine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 1.
    pub index: u32,
    /// How many there are.
    pub count: u32,
}

impl Shard {
    /// The whole run.
    pub const WHOLE: Self = Self { index: 1, count: 1 };

    /// Whether the case, sequence or seeded bug with this index (from 0) is this shard's.
    #[must_use]
    pub fn has(self, case: u64) -> bool {
        case % u64::from(self.count) == u64::from(self.index - 1)
    }
}

impl std::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(index, count)| {
            Some(Self { index: index.parse().ok()?, count: count.parse().ok()? })
        });
        match parsed {
            Some(shard) if (1..=shard.count).contains(&shard.index) => Ok(shard),
            _ => Err("expected I/N with 1 <= I <= N, such as 2/4".to_owned()),
        }
    }
}

impl std::fmt::Display for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn seeds_are_numbers_or_the_commit() {
        assert_eq!("7".parse(), Ok(Seed::Number(7)));
        assert_eq!("0xFf".parse(), Ok(Seed::Number(255)));
        assert_eq!("commit".parse(), Ok(Seed::Commit));
        for bad in ["", "-1", "+1", "0x", "0x+1", "1e3", "18446744073709551616", "head"] {
            assert!(bad.parse::<Seed>().is_err(), "{bad}");
        }
    }

    #[test]
    fn budgets_are_cases_or_times() {
        assert_eq!("2000".parse(), Ok(Budget::Cases(2000)));
        assert_eq!("60s".parse(), Ok(Budget::Time(Duration::from_secs(60))));
        assert_eq!("5m".parse(), Ok(Budget::Time(Duration::from_secs(300))));
        for bad in ["", "0", "0s", "s", "60 s", "1d", "-5", "18446744073709551615h", "١s"] {
            assert!(bad.parse::<Budget>().is_err(), "{bad}");
        }
    }

    #[test]
    fn shards_part_the_cases() {
        let shards: Vec<Shard> = (1..=3).map(|index| Shard { index, count: 3 }).collect();
        for case in 0..30 {
            assert_eq!(shards.iter().filter(|shard| shard.has(case)).count(), 1, "{case}");
        }
        for bad in ["0/2", "3/2", "1/0", "1", "/", "a/b", "1/2/3"] {
            assert!(bad.parse::<Shard>().is_err(), "{bad}");
        }
    }
}
