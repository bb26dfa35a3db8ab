//! From a plan's text to rows: sweeps, variants and profiles worked out, everything checked.
//!
//! - Every error is a usage error: it names the plan, the row and the parameter.
//! - What a trial gets is a [`Row`] and a [`Contestant`]; no default is filled in later.

use super::text::{Data, Durability, Group, Pick, PlanText, Prepare, RowText, Stage};
use crate::cli::Usage;
use crate::engines::KNOWN;
use crate::fake;
use crate::profile::Profile;
use crate::records::Kind;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The contestant that is no engine.
pub const FLOOR: &str = "floor";

/// A checked plan.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What the file says about the whole.
    pub text: PlanText,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its rows, sweeps worked out.
    pub rows: Vec<Row>,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// `plan/name`.
    pub name: String,
    /// The seed of its records and picks.
    pub seed: u64,
    /// Who takes part, in the plan's order.
    pub contestants: Vec<Contestant>,
    /// What is in the database before the first stage.
    pub data: Data,
    /// What is done before the first stage.
    pub prepare: Prepare,
    /// Bytes of memory that a trial may use; 0 for no limit.
    pub memory_limit_bytes: u64,
    /// Whether the cores are kept awake.
    pub awake: bool,
    /// Trials with statistics on.
    pub diagnostic_trials: u32,
    /// The stages.
    pub stages: Vec<Stage>,
}

/// One engine in one row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contestant {
    /// `engine` or `engine:variant`.
    pub name: String,
    /// Its knobs, in this row.
    pub profile: Profile,
}

impl Contestant {
    /// The engine's name.
    #[must_use]
    pub fn engine(&self) -> &str {
        self.name.split(':').next().unwrap_or_default()
    }
}

impl Row {
    /// Threads of the first stage that has most.
    #[must_use]
    pub fn threads(&self) -> u32 {
        let of = |stage: &Stage| stage.group.iter().map(|group| group.threads).sum();
        self.stages.iter().map(of).max().unwrap_or(0)
    }

    /// Whether every write of every stage is synced before it returns, and there is one.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        let mut writers = self.groups().filter(|group| group.mix.writes()).peekable();
        writers.peek().is_some() && writers.all(|group| group.durability == Durability::Each)
    }

    /// Every group of every stage.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.stages.iter().flat_map(|stage| &stage.group)
    }

    /// The calls that the group's inserts can make at the most.
    #[must_use]
    pub fn inserts_max(&self) -> u64 {
        let of = |group: &Group| {
            let calls = group.calls.max(group.calls_per_thread_min * u64::from(group.threads));
            if group.mix.insert == 0 { 0 } else { calls * group.batch as u64 }
        };
        self.groups().map(of).sum()
    }
}

impl Plan {
    /// Reads and checks a plan.
    ///
    /// # Errors
    /// [`Usage`], with what is wrong and where.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path)
            .map_err(|error| Usage(format!("no plan {}: {error}", path.display())))?;
        let text = String::from_utf8(bytes).map_err(|_| Usage("a plan is UTF-8".into()))?;
        Self::parse(&text).map_err(|error| Usage(format!("{}: {error:#}", path.display())).into())
    }

    /// Reads the plan `name` of the directory of plans.
    ///
    /// # Errors
    /// As [`Plan::read`].
    pub fn parse_file(dir: &Path, name: &str) -> Result<Self> {
        Self::read(&dir.join(format!("{name}.toml")))
    }

    /// Checks a plan's text.
    ///
    /// # Errors
    /// As [`Plan::read`].
    pub fn parse(text: &str) -> Result<Self> {
        let parsed: PlanText = toml::from_str(text).map_err(|error| Usage(error.to_string()))?;
        if parsed.row.is_empty() || parsed.trials == 0 || parsed.timeout_s == 0 {
            return Err(Usage("a plan has rows, trials and a timeout_s".into()).into());
        }
        let mut rows = Vec::new();
        for row in &parsed.row {
            let counts = if row.threads.is_empty() { &[0][..] } else { &row.threads };
            for threads in counts {
                let one = expand(&parsed, row, *threads)
                    .map_err(|error| Usage(format!("row {:?}: {error:#}", row.name)))?;
                if row.awake_too {
                    rows.push(one.clone());
                    rows.push(Row { name: format!("{}+awake", one.name), awake: true, ..one });
                } else {
                    rows.push(one);
                }
            }
        }
        let mut names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Usage(format!("two rows are called {}", twice[0])).into());
        }
        Ok(Self { bytes: text.as_bytes().to_vec(), rows, text: parsed })
    }
}

fn expand(plan: &PlanText, row: &RowText, threads: u32) -> Result<Row> {
    let mut stages = row.stage.clone();
    for group in stages.iter_mut().flat_map(|stage| &mut stage.group) {
        if group.threads == 0 {
            group.threads = threads;
        }
    }
    let mut contestants = Vec::new();
    for name in &row.contestants {
        contestants.push(contestant(plan, row, name)?);
    }
    let name = row.name.replace("{threads}", &threads.to_string());
    let expanded = Row {
        name: format!("{}/{name}", plan.name),
        seed: plan.seed,
        contestants,
        data: row.data.clone(),
        prepare: row.prepare,
        memory_limit_bytes: row.memory_limit_bytes,
        awake: false,
        diagnostic_trials: row.diagnostic_trials,
        stages,
    };
    check(&expanded)?;
    Ok(expanded)
}

fn contestant(plan: &PlanText, row: &RowText, name: &str) -> Result<Contestant> {
    let (engine, variant) = name.split_once(':').unwrap_or((name, ""));
    let known = KNOWN.contains(&engine) || engine == FLOOR || fake::NAMES.contains(&engine);
    if !known {
        return Err(Usage(format!("no engine is called {engine:?}")).into());
    }
    let mut knobs = plan.profile.clone();
    let mut lay = |table: &toml::Table| -> Result<()> {
        for (knob, value) in table {
            if knobs.insert(knob.clone(), value.clone()).is_none() {
                return Err(Usage(format!("no knob is called {knob:?}")).into());
            }
        }
        Ok(())
    };
    lay(&row.profile)?;
    if !variant.is_empty() {
        let table = plan.variant.get(variant);
        lay(table.ok_or_else(|| Usage(format!("no variant is called {variant:?}")))?)?;
    }
    let profile = Profile::deserialize(toml::Value::Table(knobs))
        .map_err(|error| Usage(format!("profile: {}", error.message())))?;
    Ok(Contestant { name: name.into(), profile })
}

/// Refuses what can't be measured, or not be checked.
fn check(row: &Row) -> Result<()> {
    let refuse = |what: &str| -> Result<()> { Err(Usage(what.into()).into()) };
    let data = &row.data;
    if row.stages.is_empty() || row.contestants.is_empty() {
        return refuse("it has no stage or no contestant");
    }
    if data.preload > data.keys || data.keys == 0 || data.keys > u64::from(u32::MAX) {
        return refuse("keys is 1 to 2^32 - 1, and preload at most keys");
    }
    if data.load_batch == 0 || (data.kind == Kind::Agent) != (data.agents > 0) {
        return refuse("load_batch is at least 1, and agents is 0 but for kind = \"agent\"");
    }
    if data.value_bytes < 16 || (data.kind == Kind::Memory && data.value_bytes < 120) {
        return refuse("value_bytes is at least 16, 120 for kind = \"memory\"");
    }
    if row.inserts_max() > data.keys - data.preload {
        return refuse("its inserts need more numbers than keys leaves");
    }
    for stage in &row.stages {
        if stage.group.is_empty() {
            return refuse("a stage without a group");
        }
        let endless = stage.group.iter().all(|group| group.calls == 0);
        if endless && stage.seconds == 0 {
            return refuse("a stage that never ends: give calls or seconds");
        }
        let mut inserters = 0;
        for group in &stage.group {
            check_group(row, group)?;
            inserters += if group.mix.insert > 0 { group.threads } else { 0 };
        }
        let latest = stage.group.iter().any(|group| group.mix.latest + group.mix.scan > 0);
        let writers: u32 =
            stage.group.iter().filter(|group| group.mix.writes()).map(|group| group.threads).sum();
        if latest && inserters > 1 {
            return refuse("scans can't be checked beside more than one inserter");
        }
        if writers > 0 && stage.group.iter().filter(|group| group.mix.writes()).count() > 1 {
            return refuse("one group of a stage may write, so that each number has one writer");
        }
    }
    Ok(())
}

fn check_group(row: &Row, group: &Group) -> Result<()> {
    let refuse = |what: &str| -> Result<()> { Err(Usage(what.into()).into()) };
    if group.threads == 0 || group.threads > 1024 {
        return refuse("a group has 1 to 1024 threads, or 0 and a sweep");
    }
    if group.mix.sum() != 100 {
        return refuse("the shares of a mix are 100 in all");
    }
    if group.working_set == 0 || group.working_set > row.data.keys {
        return refuse("working_set is 1 to keys");
    }
    if group.batch == 0 || (group.batch > 1 && group.mix.read_write > 0) {
        return refuse("batch is at least 1, and 1 with read_write");
    }
    if group.mix.write > 0 && group.working_set < u64::from(group.threads) * group.batch as u64 {
        return refuse("working_set has fewer numbers than the writers of one moment take");
    }
    if (group.mix.latest > 0) && row.data.kind != Kind::Agent {
        return refuse("latest needs kind = \"agent\"");
    }
    if group.mix.scan > 0 && row.data.kind != Kind::Number {
        return refuse("scan needs kind = \"number\"");
    }
    if group.mix.latest + group.mix.scan > 0 && group.scan == 0 {
        return refuse("scan is at least 1 where there is a scan or a latest");
    }
    if group.mix.insert > 0 && group.calls == 0 {
        return refuse("inserts without end need numbers without end: give calls");
    }
    if group.pick == Pick::Newest && group.mix.write + group.mix.read_write > 0 {
        return refuse("pick = \"newest\" is for reads and inserts");
    }
    if group.durability == Durability::Each && group.mix.writes() {
        for contestant in &row.contestants {
            if !contestant.profile.durable {
                return refuse("synced writes need durable = true in the profile");
            }
        }
    }
    Ok(())
}

/// Every plan of a directory, by name.
///
/// # Errors
/// As [`Plan::read`], and where there is no such directory.
pub fn all(dir: &Path) -> Result<Vec<Plan>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "toml") {
            paths.push(path);
        }
    }
    paths.sort();
    paths.iter().map(|path| Plan::read(path)).collect()
}

/// Every row of every plan of a directory, with its stages where there are several, as the board
/// calls them.
///
/// # Errors
/// As [`all`].
pub fn all_rows(dir: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for row in all(dir)?.iter().flat_map(|plan| &plan.rows) {
        names.push(row.name.clone());
        names.extend(row.stages.iter().map(|stage| format!("{}/{}", row.name, stage.name)));
    }
    Ok(names)
}
