//! Runs a plan: checks everything first, then one trial after another, each with its record.

use super::awake::Awake;
use super::child;
use super::guard;
use super::order::{Slot, order};
use super::pins::{self, Pins};
use super::record::{self, Campaign, Record};
use crate::cli::{RunArgs, Usage};
use crate::engines::KNOWN;
use crate::host::{facts::Facts, files, limit::Limit};
use crate::plan::{Durability, FLOOR, Plan, Row};
use crate::trial::{self, Outcome, Spec};
use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What came of a campaign.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Where the results are.
    pub out: PathBuf,
    /// Trials that count.
    pub valid: usize,
    /// Trials that do not.
    pub invalid: usize,
}

/// Runs the plan of `args`.
///
/// # Errors
/// [`Usage`] before anything has run; otherwise only what keeps the records from being written.
pub fn run(args: &RunArgs) -> Result<Summary> {
    let plan = Plan::read(&args.plan)?;
    let mut left_out = Vec::new();
    let rows = choose(&plan, args, &mut left_out)?;
    let data = args.data.clone().unwrap_or_else(|| {
        let name = format!("{}-{}", plan.text.name, std::process::id());
        pins::manifest_dir().join("target/comparison-data").join(name)
    });
    let out = args.out.clone().unwrap_or_else(|| {
        let name = format!("{}-{}", plan.text.name, unix_s());
        pins::manifest_dir().join("target/campaigns").join(name)
    });
    let pins = pin(&plan, &rows, args)?;
    let head = out.join("campaign.json");
    let then: Option<Campaign> = if head.exists() { Some(record::read(&head)?) } else { None };
    if let Some(then) = &then {
        pins.must_equal(&then.pins)?;
    } else if out.exists() && fs::read_dir(&out)?.next().is_some() {
        return Err(Usage(format!("{} is not empty, and no campaign", out.display())).into());
    }
    fs::create_dir_all(&data).with_context(|| data.display().to_string())?;
    let machine = facts(&data, args);
    let same = then.as_ref().map_or(Ok(()), |then| must_be_same(&machine, &then.machine));
    if let Err(refused) = same.and_then(|()| check_machine(&plan, &data, args)) {
        let _ = fs::remove_dir(&data);
        return Err(refused);
    }
    fs::create_dir_all(out.join("trials")).with_context(|| out.display().to_string())?;
    if then.is_none() {
        record::write(&head, &campaign(&plan, &rows, pins, machine, left_out))?;
        fs::write(out.join("plan.toml"), &plan.bytes)?;
    }
    let supervisor = Supervisor { plan: &plan, rows: &rows, args, data: &data, out: &out };
    let summary = supervisor.run_all()?;
    let _ = fs::remove_dir(&data);
    Ok(summary)
}

/// The machine, and where on it the command lets the trials run.
fn facts(data: &Path, args: &RunArgs) -> Facts {
    let mut machine = Facts::now(data);
    let group = args.cgroup.as_ref().map(|group| group.display().to_string());
    let group = group.unwrap_or_else(|| "the supervisor's own".into());
    machine.facts.push(("control group".into(), group));
    machine
}

/// Refuses to go on with a campaign on another machine, device, file system or set of CPUs.
fn must_be_same(now: &Facts, then: &Facts) -> Result<()> {
    let changes = now.changes(then);
    if changes.is_empty() {
        return Ok(());
    }
    let what = changes.join("; ");
    Err(Usage(format!("this campaign can't be gone on with: {what}")).into())
}

fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn campaign(
    plan: &Plan,
    rows: &[Row],
    pins: Pins,
    machine: Facts,
    left_out: Vec<(String, String)>,
) -> Campaign {
    Campaign {
        plan: plan.text.name.clone(),
        about: plan.text.about.clone(),
        pins,
        machine,
        command: std::env::args().collect(),
        began_unix_s: unix_s(),
        left_out,
        rows: rows.to_vec(),
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// The rows and contestants that run; what is left out is noted, what is wrong refused.
fn choose(plan: &Plan, args: &RunArgs, left_out: &mut Vec<(String, String)>) -> Result<Vec<Row>> {
    for name in &args.engines {
        let known = KNOWN.contains(&name.as_str()) || trial::opener(name).is_some();
        if !known && name != FLOOR {
            return Err(Usage(format!("no engine is called {name:?}")).into());
        }
    }
    let mut rows = plan.rows.clone();
    if !args.rows.is_empty() {
        let full = |row: &Row, wanted: &String| {
            row.name.strip_prefix(&format!("{}/", plan.text.name)).is_some_and(|name| {
                name == wanted
                    || row.name == *wanted
                    || ["-", "+"].iter().any(|next| name.starts_with(&format!("{wanted}{next}")))
            })
        };
        if let Some(none) = args.rows.iter().find(|name| !rows.iter().any(|row| full(row, name))) {
            return Err(Usage(format!("no row is called {none:?}")).into());
        }
        rows.retain(|row| args.rows.iter().any(|wanted| full(row, wanted)));
    }
    for row in &mut rows {
        let name = row.name.clone();
        row.contestants.retain(|one| {
            args.engines.is_empty() || args.engines.iter().any(|wanted| wanted == one.engine())
        });
        for contestant in &row.contestants {
            let engine = contestant.engine();
            if engine != FLOOR && trial::opener(engine).is_none() {
                let what = "was not built in: build with its feature, or choose with --engines";
                return Err(Usage(format!("{engine} {what}")).into());
            }
        }
        let mut groups = row.stages.iter().flat_map(|stage| &stage.group);
        let buffered =
            groups.any(|group| group.mix.writes() && group.durability != Durability::Each);
        row.contestants.retain(|contestant| {
            let opener = trial::opener(contestant.engine());
            let why = opener.and_then(|opener| opener.declines(&contestant.profile, buffered));
            if let Some(why) = &why {
                left_out.push((format!("{name}, {}", contestant.name), why.clone()));
            }
            why.is_none()
        });
        if row.memory_limit_bytes > 0
            && let Err(error) = Limit::new(args.cgroup.as_deref(), row.memory_limit_bytes)
        {
            left_out.push((name.clone(), format!("no memory limit can be set: {error:#}")));
            row.contestants.clear();
        }
    }
    rows.retain(|row| !row.contestants.is_empty());
    for (what, why) in left_out.iter() {
        eprintln!("left out: {what}: {why}");
    }
    if rows.is_empty() {
        return Err(Usage("no row is left to run".into()).into());
    }
    Ok(rows)
}

fn pin(plan: &Plan, rows: &[Row], args: &RunArgs) -> Result<Pins> {
    use sha2::{Digest, Sha256};
    let (revision, dirty) = pins::revision();
    let engines = rows.iter().flat_map(|row| &row.contestants).filter_map(|contestant| {
        let opener = trial::opener(contestant.engine())?;
        Some((contestant.engine().to_string(), opener.version()))
    });
    let names = |row: &Row| row.contestants.iter().map(|one| one.name.clone()).collect();
    let trials = args.trials.unwrap_or(plan.text.trials);
    if trials == 0 {
        return Err(Usage("--trials is at least 1".into()).into());
    }
    Ok(Pins {
        binary_sha256: pins::file_sha256(&std::env::current_exe()?)?,
        plan_sha256: trial::hex(&Sha256::digest(&plan.bytes)),
        inputs_sha256: pins::INPUTS_SHA256.into(),
        analysis_sha256: pins::ANALYSIS_SHA256.into(),
        engines: engines.collect(),
        revision,
        dirty,
        trials,
        rows: rows.iter().map(|row| (row.name.clone(), names(row))).collect(),
        busy_allowed: args.busy,
    })
}

/// Refuses too little disk, CPUs that are not there, and a busy machine.
fn check_machine(plan: &Plan, data: &Path, args: &RunArgs) -> Result<()> {
    let free = files::free_bytes(data)?;
    if free < plan.text.disk_bytes {
        let need = plan.text.disk_bytes;
        return Err(Usage(format!("{free} bytes of disk are free, the plan needs {need}")).into());
    }
    let mask = crate::host::process::cpu_mask()?;
    if let Some(cpu) = plan.text.cpus.iter().find(|cpu| !mask.contains(cpu)) {
        return Err(Usage(format!("the plan wants CPU {cpu}, which is not to be had")).into());
    }
    let (share, most) = (guard::busy_share(), plan.text.foreign_cpu_max);
    if share > most && !args.busy {
        let (share, most) = (share * 100.0, most * 100.0);
        let what = format!(
            "the machine is busy: {share:.1} % of it, at most {most:.1} % is allowed \
             (--busy runs all the same, and says so on the board)"
        );
        return Err(Usage(what).into());
    }
    Ok(())
}

struct Supervisor<'a> {
    plan: &'a Plan,
    rows: &'a [Row],
    args: &'a RunArgs,
    data: &'a Path,
    out: &'a Path,
}

impl Supervisor<'_> {
    fn run_all(&self) -> Result<Summary> {
        let shape: Vec<(usize, u32)> =
            self.rows.iter().map(|row| (row.contestants.len(), row.diagnostic_trials)).collect();
        let trials = self.args.trials.unwrap_or(self.plan.text.trials);
        let slots = order(&shape, trials, self.plan.text.order_seed);
        let bar = ProgressBar::new(slots.len() as u64);
        let style = "{wide_bar} {pos}/{len} trials, {elapsed} gone, about {eta} left  {msg}";
        bar.set_style(ProgressStyle::with_template(style).context("a constant template")?);
        let mut summary = Summary { out: self.out.to_path_buf(), valid: 0, invalid: 0 };
        for (place, slot) in slots.iter().enumerate() {
            let (row, contestant) = self.of(slot);
            bar.set_message(format!("{} {}", row.name, contestant.name));
            let record = self.trial(place, slot)?;
            if record.is_valid() {
                summary.valid += 1;
            } else {
                summary.invalid += 1;
                let why = record.invalid.join("; ");
                bar.suspend(|| eprintln!("invalid: {} {}: {why}", row.name, contestant.name));
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(summary)
    }

    fn of(&self, slot: &Slot) -> (&Row, &crate::plan::Contestant) {
        let row = &self.rows[slot.row];
        (row, &row.contestants[slot.contestant])
    }

    /// One trial's record: that which is there, or that of a new run.
    fn trial(&self, place: usize, slot: &Slot) -> Result<Record> {
        let (row, contestant) = self.of(slot);
        let plain = |name: &str| name.replace(['/', ':', '+'], "-");
        let name = format!(
            "{place:04}-{}-{}-r{}{}",
            plain(&row.name),
            plain(&contestant.name),
            slot.repetition,
            if slot.diagnostic { "-diagnostic" } else { "" }
        );
        let dir = self.out.join("trials").join(&name);
        let file = dir.join("record.json");
        if file.exists() {
            return record::read(&file);
        }
        let blank = Record {
            place,
            row: row.name.clone(),
            contestant: contestant.name.clone(),
            repetition: slot.repetition,
            diagnostic: slot.diagnostic,
            invalid: Vec::new(),
            outcome: None,
            process: None,
            around: guard::Around::default(),
            kept: None,
        };
        let record = if dir.exists() {
            // It is not run again: what broke the campaign off may have been the trial's doing.
            let invalid = vec!["the campaign was broken off during this trial".into()];
            Record { invalid, ..blank }
        } else {
            fs::create_dir_all(&dir)?;
            let database = self.data.join(&name);
            let done = self.run_one(slot, &dir, &database, blank.clone());
            done.unwrap_or_else(|error| Record {
                invalid: vec![format!("set-up: {error:#}")],
                ..blank
            })
        };
        record::write(&file, &record)?;
        Ok(record)
    }

    fn run_one(&self, slot: &Slot, dir: &Path, database: &Path, blank: Record) -> Result<Record> {
        let (row, contestant) = self.of(slot);
        let _ = fs::remove_dir_all(database);
        fs::create_dir_all(database)?;
        let mut contestant = contestant.clone();
        contestant.profile.statistics |= slot.diagnostic;
        let spec = Spec {
            row: row.clone(),
            contestant,
            repetition: slot.repetition,
            settle_bound_s: self.plan.text.settle_bound_s,
            cpus: self.plan.text.cpus.clone(),
            data: database.to_path_buf(),
            out: dir.to_path_buf(),
            limit_file: None,
        };
        let limit = match row.memory_limit_bytes {
            0 => None,
            bytes => Some(Limit::new(self.args.cgroup.as_deref(), bytes)?),
        };
        let limit_file = limit.as_ref().map(|limit| limit.file().to_path_buf());
        let spec = Spec { limit_file, ..spec };
        let spec_file = dir.join("spec.json");
        record::write(&spec_file, &spec)?;
        let foreign_max = self.plan.text.foreign_cpu_max;
        let before = guard::await_quiet(foreign_max, !self.args.busy);
        let awake = if row.awake { Some(Awake::start()?) } else { None };
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("trial").arg(&spec_file);
        let spinners = awake.as_ref().map(Awake::pid);
        let watch = guard::Watch::start(before, self.data, spinners);
        let cpu_before = children_cpu_ns();
        let timeout = Duration::from_secs(self.plan.text.timeout_s);
        let ended = child::run(&mut command, timeout, limit.as_ref())?;
        // Before the spinners are reaped: their CPU time is not the trial's.
        let around = watch.end(children_cpu_ns().saturating_sub(cpu_before));
        drop(awake);
        let outcome: Option<Outcome> = record::read(&dir.join("outcome.json")).ok();
        let has_receipts = spec.contestant.engine() != FLOOR;
        let mut invalid = record::faults(&ended, outcome.as_ref(), has_receipts);
        if !self.args.busy {
            invalid.extend(around.fault(foreign_max));
        }
        let _ = fs::remove_file(dir.join("outcome.json"));
        let kept = if invalid.is_empty() {
            fs::remove_dir_all(database)?;
            None
        } else {
            Some(database.to_path_buf())
        };
        Ok(Record { invalid, outcome, process: Some(ended.into()), around, kept, ..blank })
    }
}

/// CPU time of every child that was reaped, as the kernel counts it in ticks of 10 ms.
fn children_cpu_ns() -> u64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let rest = text.rfind(')').map_or("", |at| &text[at + 1..]);
    let ticks: Vec<u64> =
        rest.split_whitespace().skip(13).take(2).filter_map(|word| word.parse().ok()).collect();
    ticks.iter().sum::<u64>() * 10_000_000
}
