//! One function a subcommand: flags in, result out.
//!
//! Invariants
//! - Mistakes in flags and files are found before anything runs, and leave with exit code 2.
//! - Whatever ran is delivered to every place that was asked for, interrupted or not.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the runner stands outside the engine"
)]

use super::cli::{
    self, Budget, Command, KillArgs, LayerArgs, MergeArgs, MutantsArgs, OutputArgs, PowerArgs,
    ReplayArgs, RunArgs, Seed, Shard, StagesArgs, SweepArgs, Systems, TraceArgs, TraceFormat,
    VictimArgs, WorkArgs,
};
use super::interrupt::Interrupt;
use super::mutants::layers;
use super::output::Output;
use super::page::{Block, Page, Table, Tone};
use super::progress::{Length, Progress};
use super::{layer, merge, mutants, revision, trace};
use crate::campaign::{self, Order};
use crate::power::place::{self, FileSystem};
use crate::report::{Report, Totals};
use crate::schedules::groups;
use crate::schedules::rows::Row;
use crate::{case, kill, pool, power, stages, sweep, token};
use kiban::env::probe::Stage;
use kiban::env::random::{OsRandom, Random};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Flags or files that can't be meant.
const USAGE: u8 = 2;
/// The machine refused.
const ENVIRONMENT: u8 = 5;

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    let cli = cli::parse();
    let done = match cli.command {
        None => run_campaign(&cli.run),
        Some(Command::Run(args)) => run_campaign(&args),
        Some(Command::Sweep(args)) => run_sweep(&args),
        Some(Command::Trace(args)) => run_trace(&args),
        Some(Command::Replay(args)) => run_replay(&args),
        Some(Command::Mutants(args)) => run_mutants(&args),
        Some(Command::Stages(args)) => list_stages(&args),
        Some(Command::Merge(args)) => run_merge(&args),
        Some(Command::Layer(args)) => run_layer(&args),
        Some(Command::Kill(args)) => run_kill(&args),
        Some(Command::Power(args)) => run_power(&args),
        Some(Command::Victim(args)) => Ok(be_victim(args)),
        Some(Command::Examiner) => Ok(power::examiner::main()),
        Some(Command::Guard { id, at }) => Ok(power::guard::main(id, &at)),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(refusal) => {
            eprintln!("error: {}", refusal.why);
            ExitCode::from(refusal.code)
        }
    }
}

/// Why nothing could be run or shown.
struct Refusal {
    code: u8,
    why: String,
}

fn usage(why: String) -> Refusal {
    Refusal { code: USAGE, why }
}

fn environment(why: String) -> Refusal {
    Refusal { code: ENVIRONMENT, why }
}

type Done = Result<u8, Refusal>;

/// What every run knows before it begins.
struct Begin {
    output: Output,
    workspace: Option<PathBuf>,
    report: Report,
}

fn begin(command: &str, args: &OutputArgs, seed: Option<Seed>) -> Result<Begin, Refusal> {
    let output = Output::prepare(args).map_err(usage)?;
    let workspace = revision::workspace();
    let revision = revision::of(workspace.as_deref());
    let seed = match seed {
        Some(Seed::Number(seed)) => seed,
        Some(Seed::Commit) => revision::seed(&revision).ok_or_else(|| {
            usage("--seed commit: no commit here; expected a git checkout, or give a number".into())
        })?,
        None => OsRandom.next_u64(),
    };
    let report = Report { command: command.to_owned(), seed, revision, ..Report::default() };
    Ok(Begin { output, workspace, report })
}

fn deliver(output: &Output, report: &Report) -> Done {
    output.deliver(report).map_err(environment)?;
    Ok(report.verdict.exit_code())
}

/// Workers: as told, or one a core.
fn jobs(told: Option<u16>) -> u16 {
    told.unwrap_or_else(|| {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        u16::try_from(cores).unwrap_or(u16::MAX)
    })
}

/// The order of a campaign, without its profile.
fn order(report: &Report, budget: pool::Budget, work: &WorkArgs) -> Order {
    let shard = work.shard.unwrap_or(Shard::WHOLE);
    let shard = (u64::from(shard.index - 1), u64::from(shard.count));
    Order { jobs: usize::from(jobs(work.jobs)), shard, ..Order::new(report.seed, budget) }
}

fn run_campaign(args: &RunArgs) -> Done {
    let Begin { output, mut report, .. } = begin("run", &args.work.output, args.seed)?;
    let name = args.profile.name();
    let profile = case::Profile::named(name)
        .ok_or_else(|| usage(format!("--profile: there is no profile {name}")))?;
    let (cases, time) = match args.budget.unwrap_or(Budget::Time(args.profile.time())) {
        Budget::Cases(cases) => (Some(cases), None),
        Budget::Time(time) => (None, Some(time)),
    };
    let stop = Interrupt::install();
    let until = time.map(|time| Instant::now() + time);
    let budget = pool::Budget { cases, until, stop: stop.flag() };
    let order = Order { profile, ..order(&report, budget, &args.work) };
    let length = cases.map_or(Length::Unknown, Length::Count);
    let mut progress = Progress::begin(time.map_or(length, Length::Time));
    campaign::run(&order, &mut report, &mut |totals, failures| {
        progress.update(totals.cases, totals, failures);
    });
    progress.end();
    deliver(&output, &report)
}

/// What `sweep --stage` looks at.
enum Swept {
    /// Sequences of operations, at every stage or at one.
    Sequences(Option<u8>),
    /// Groups in one row of their matrix.
    Groups(Row),
}

/// What a name of `--stage` means.
fn swept(name: Option<&str>) -> Result<Swept, Refusal> {
    let Some(name) = name else { return Ok(Swept::Sequences(None)) };
    if let Some(row) = Row::named(name) {
        return Ok(Swept::Groups(row));
    }
    if let Some(stage) = Stage::ALL.iter().find(|stage| stage.name() == name) {
        return Ok(Swept::Sequences(Some(*stage as u8)));
    }
    let stages: Vec<&str> = Stage::ALL.iter().map(|stage| stage.name()).collect();
    Err(usage(format!(
        "--stage {name}: no such stage; expected one of\n  groups: {}\n  stages: {}",
        Row::ALL.map(|(_, name)| name).join(" "),
        stages.join(" "),
    )))
}

fn run_sweep(args: &SweepArgs) -> Done {
    let swept = swept(args.stage.as_deref())?;
    // A sweep draws nothing: its seed only names it.
    let seed = Some(Seed::Number(0));
    let Begin { output, mut report, .. } = begin("sweep", &args.work.output, seed)?;
    let stop = Interrupt::install().flag();
    let budget = pool::Budget { cases: None, until: None, stop };
    let order = order(&report, budget, &args.work);
    let ops_max = u32::from(args.ops);
    let all = match swept {
        Swept::Sequences(_) => sweep::sequences(ops_max),
        Swept::Groups(row) => groups::items(row, ops_max),
    };
    let mut progress = Progress::begin(Length::Count(all.div_ceil(order.shard.1)));
    let told = &mut |totals: &Totals, failures| progress.update(totals.cases, totals, failures);
    match swept {
        Swept::Sequences(stage) => campaign::run_sweep(&order, ops_max, stage, &mut report, told),
        Swept::Groups(row) => campaign::run_row(&order, row, ops_max, &mut report, told),
    }
    progress.end();
    deliver(&output, &report)
}

fn run_replay(args: &ReplayArgs) -> Done {
    let seed = Some(Seed::Number(0));
    let Begin { output, mut report, .. } = begin("replay", &args.output, seed)?;
    if args.what.starts_with("kb1:") {
        token::play(&args.what, &mut report).map_err(usage)?;
    } else {
        let refused = |error| usage(format!("{}: {error}", args.what));
        let text = std::fs::read_to_string(&args.what).map_err(refused)?;
        let refused = |error: String| usage(format!("{}: {error}", args.what));
        token::play(&text, &mut report).map_err(refused)?;
    }
    deliver(&output, &report)
}

/// The default seed of `mutants`: a kill matrix is compared between revisions, so it is fixed.
const MUTANTS_SEED: u64 = 1;

fn run_mutants(args: &MutantsArgs) -> Done {
    let seed = args.seed.unwrap_or(Seed::Number(MUTANTS_SEED));
    let Begin { output, workspace, mut report } = begin("mutants", &args.work.output, Some(seed))?;
    let workspace = workspace.ok_or_else(|| {
        usage("no sources of kiban here; start kiban-crash in a checkout".to_owned())
    })?;
    let all = mutants::catalog::read_all(&mutants::dir(&workspace)).map_err(usage)?;
    let mut chosen = mutants::catalog::choose(all, &args.ids).map_err(usage)?;
    if args.list {
        let page = mutants::list::page(&chosen);
        let json = mutants::list::json(&chosen);
        output.deliver_parts(&page, &json, &[], 0.0).map_err(environment)?;
        return Ok(0);
    }
    let shard = args.work.shard.unwrap_or(Shard::WHOLE);
    let mut index = 0;
    chosen.retain(|_| {
        index += 1;
        shard.has(index - 1)
    });
    report.shard = args.work.shard.map(|shard| shard.to_string()).unwrap_or_default();
    let (all_layers, power) = (args.all_layers, args.power);
    let workers = if power { power_jobs(args.work.jobs)? } else { jobs(args.work.jobs) };
    report.jobs = u64::from(workers);
    let order = layers::Order { seed: report.seed, jobs: workers };
    if power {
        check_power(&FileSystem::ALL)?;
    }
    let task = mutants::Task { mutants: chosen, all_layers, power, order };
    mutants::run(&workspace, &task, &mut report, &Interrupt::install());
    deliver(&output, &report)
}

fn run_merge(args: &MergeArgs) -> Done {
    let output = Output::prepare(&args.output).map_err(usage)?;
    let merged = merge::merge(&args.dirs).map_err(usage)?;
    if let Some(missing) = &merged.missing {
        eprintln!("warning: {missing}");
    }
    deliver(&output, &merged.report)
}

fn list_stages(args: &StagesArgs) -> Done {
    let Begin { output, report, .. } = begin("stages", &args.output, Some(Seed::Number(0)))?;
    let mut table = Table::new(&["stage", "what happens"]);
    for stage in Stage::ALL {
        table.row(vec![stage.name().into(), stage.what().into()]);
    }
    let mut page = Page {
        title: "stages and faults".to_owned(),
        verdict: format!("{} stages.", Stage::ALL.len()),
        tone: Tone::Plain,
        ..Page::default()
    };
    page.section("Stages", vec![Block::Table(table)]);
    let mut table = Table::new(&["row of groups", "where the group is"]);
    for (row, name) in Row::ALL {
        table.row(vec![name.into(), row.what().into()]);
    }
    page.section("Groups", vec![Block::Table(table)]);
    let faults: Vec<&str> = stages::Column::all().map(stages::Column::name).collect();
    let outcomes: Vec<&str> = stages::Outcome::ALL.iter().map(|outcome| outcome.name()).collect();
    page.section("Crashes and faults", vec![Block::Note(faults.join(", "))]);
    page.section("Outcomes", vec![Block::Note(outcomes.join(", "))]);
    let unreachable: Vec<_> = stages::every_cell()
        .filter_map(|(stage, column, outcome)| {
            let why = stages::unreachable(stage, column, outcome)?;
            let cell = format!("{}/{}/{}", stage.name(), column.name(), outcome.name());
            Some(serde_json::json!({"cell": cell, "why": why}))
        })
        .collect();
    page.section(
        "Cells that can't be reached",
        vec![Block::Note(format!("{}; --json lists them with reasons.", unreachable.len()))],
    );
    let stages: Vec<_> = Stage::ALL
        .iter()
        .map(|stage| serde_json::json!({"stage": stage.name(), "what": stage.what()}))
        .collect();
    let rows = Row::ALL.map(|(row, name)| {
        let faults: Vec<_> = row.kinds().iter().map(ToString::to_string).collect();
        serde_json::json!({"row": name, "what": row.what(), "faults": faults})
    });
    let json = serde_json::json!({
        "command": "stages", "revision": report.revision, "stages": stages, "rows": rows,
        "faults": faults,
        "outcomes": outcomes, "unreachable": unreachable,
    });
    output.deliver_parts(&page, &json.to_string(), &[], 0.0).map_err(environment)?;
    Ok(0)
}

fn run_trace(args: &TraceArgs) -> Done {
    let format = args.format.or_else(|| trace::read::format_of(&args.file)).ok_or_else(|| {
        usage(format!("{}: expected --format ops, tsv or blockio", args.file.display()))
    })?;
    let case = trace::read::read(&args.file, format).map_err(usage)?;
    let Begin { output, mut report, .. } = begin("trace", &args.output, args.seed)?;
    let own_options = format == TraceFormat::Ops;
    let task = trace::Task { case, own_options, seed: report.seed, dir: args.dir.clone() };
    trace::run(&task, &mut report, &Interrupt::install());
    deliver(&output, &report)
}

fn run_kill(args: &KillArgs) -> Done {
    let Begin { output, mut report, .. } = begin("kill", &args.output, args.seed)?;
    let program = std::env::current_exe()
        .map_err(|error| environment(format!("where is this program? {error}")))?;
    let task = kill::Task { program, dir: args.dir.clone(), rounds: args.rounds };
    let mut progress = Progress::begin(Length::Count(u64::from(args.rounds)));
    kill::run(&task, &mut report, &Interrupt::install(), &mut |done, totals, failures| {
        progress.update(done, totals, failures);
    });
    progress.end();
    deliver(&output, &report)
}

/// Images of ext4, where nothing else is said; five times as many as of the others, which take
/// longer to mount.
const EXT4_IMAGES: u64 = 10_000;

/// Workers of `power` at the most: each has a loop device for each file system.
const POWER_JOBS_MAX: u16 = 64;

/// Whether this machine can cut the power under these file systems.
fn check_power(systems: &[FileSystem]) -> Result<(), Refusal> {
    let missing = place::missing(systems);
    if missing.is_empty() {
        return Ok(());
    }
    Err(environment(format!("power needs {}", missing.join("; "))))
}

/// Workers of `power`: two for each core where nothing is said, since mounting waits.
fn power_jobs(told: Option<u16>) -> Result<u16, Refusal> {
    let most = POWER_JOBS_MAX;
    match told {
        Some(told) if told > most => Err(usage(format!("--jobs: power takes at most {most}"))),
        Some(told) => Ok(told),
        None => Ok(jobs(None).saturating_mul(2).min(most)),
    }
}

fn run_power(args: &PowerArgs) -> Done {
    let systems = match args.fs {
        Systems::Ext4 => vec![FileSystem::Ext4],
        Systems::Xfs => vec![FileSystem::Xfs],
        Systems::Btrfs => vec![FileSystem::Btrfs],
        Systems::All => FileSystem::ALL.to_vec(),
    };
    check_power(&systems)?;
    let refused = |error| environment(format!("a mount namespace: {error}"));
    place::enter().map_err(refused)?;
    let Begin { output, mut report, .. } = begin("power", &args.output, args.seed)?;
    let program = std::env::current_exe()
        .map_err(|error| environment(format!("where is this program? {error}")))?;
    let images = |system| match (args.images, system) {
        (Some(images), _) => images,
        (None, FileSystem::Ext4) => EXT4_IMAGES,
        (None, _) => EXT4_IMAGES / 5,
    };
    let budget = match args.budget {
        Some(Budget::Time(time)) => Some(time),
        Some(Budget::Cases(_)) => return Err(usage("--budget: power takes a time".to_owned())),
        None => None,
    };
    let workers = power_jobs(args.jobs)?;
    let task = power::Task {
        program,
        dir: args.dir.clone(),
        quota: systems.into_iter().map(|system| (system, images(system))).collect(),
        budget,
        faults: args.faults.0.clone(),
        faulty_every: args.faulty_every,
        seed: report.seed,
        jobs: usize::from(workers),
        contain: args.contain,
    };
    let all = task.quota.iter().map(|(_, images)| images).sum();
    report.jobs = u64::from(workers);
    let mut progress = Progress::begin(budget.map_or(Length::Count(all), Length::Time));
    power::run(&task, &mut report, &Interrupt::install(), &mut |done, totals, failures| {
        progress.update(done, totals, failures);
    });
    progress.end();
    deliver(&output, &report)
}

fn be_victim(args: VictimArgs) -> u8 {
    let VictimArgs { mode, dir, seed, life, freeze, close_ms, steps, watch } = args;
    let order = kill::victim::Order { mode, dir, seed, life, freeze, close_ms, steps, watch };
    kill::victim::main(&order)
}

fn run_layer(args: &LayerArgs) -> Done {
    let json = OutputArgs { json: true, ..OutputArgs::default() };
    let Begin { output, mut report, .. } = begin("layer", &json, Some(args.seed))?;
    let Budget::Cases(cases) = args.budget else {
        return Err(usage("--budget: a layer takes a number of cases".to_owned()));
    };
    let task = layer::Task { seed: report.seed, cases, jobs: args.jobs };
    layer::run(&args.name, task, &mut report).map_err(usage)?;
    deliver(&output, &report)
}
