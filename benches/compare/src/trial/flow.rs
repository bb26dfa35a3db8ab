//! The order of a trial's steps, and the figures around them.

use super::outcome::{Failure, Figures, OptionsFile, Outcome, Receipt, Settle};
use super::state::State;
use super::{call, floor, load, verify, work};
use crate::engine::{self, Engine, Opener};
use crate::engines;
use crate::fake;
use crate::host::process::{self, Io, Memory};
use crate::host::{files, limit, raw};
use crate::plan::{Contestant, Durability, Prepare, Row};
use crate::random::mix;
use crate::records::Records;
use crate::sync_count;
use anyhow::{Context, Result, bail, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What one trial is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The row.
    pub row: Row,
    /// The contestant.
    pub contestant: Contestant,
    /// Which repetition; it is in the seed of the picks.
    pub repetition: u32,
    /// The longest wait for background work.
    pub settle_bound_s: u64,
    /// CPUs; empty for all.
    pub cpus: Vec<usize>,
    /// Where the database goes: an empty directory.
    pub data: PathBuf,
    /// Where the result goes, and the archived options.
    pub out: PathBuf,
    /// Where the row's memory limit is set.
    pub limit_file: Option<PathBuf>,
}

/// The engine called `name`, among those that were built in.
#[must_use]
pub fn opener(name: &str) -> Option<&'static dyn Opener> {
    engines::built().into_iter().chain(fake::all()).find(|opener| opener.name() == name)
}

/// Runs a trial. It always has an outcome; one with a failure does not count.
#[must_use]
pub fn run(spec: &Spec) -> Outcome {
    let mut outcome = Outcome::default();
    let ran = if spec.contestant.engine() == crate::plan::FLOOR {
        run_floor(spec, &mut outcome)
    } else {
        Trial::run(spec, &mut outcome)
    };
    if let Err(error) = ran {
        // The step that failed names itself; what no step names is the set-up's.
        outcome.failure = Some(match error.downcast::<Stop>() {
            Ok(Stop(failure)) => failure,
            Err(error) => Failure { step: "setup".into(), what: format!("{error:#}") },
        });
    }
    outcome
}

/// A failure on its way up.
#[derive(Debug)]
struct Stop(Failure);

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.0.step, self.0.what)
    }
}

impl std::error::Error for Stop {}

fn at<T>(step: &str, result: Result<T>) -> Result<T> {
    result.map_err(|error| match error.downcast::<Stop>() {
        Ok(stop) => stop.into(),
        Err(error) => Stop(Failure { step: step.into(), what: format!("{error:#}") }).into(),
    })
}

fn set_cpus(spec: &Spec, outcome: &mut Outcome) -> Result<()> {
    if !spec.cpus.is_empty() {
        process::set_cpu_mask(&spec.cpus)?;
    }
    outcome.cpu_mask = process::cpu_mask()?;
    Ok(())
}

fn run_floor(spec: &Spec, outcome: &mut Outcome) -> Result<()> {
    set_cpus(spec, outcome)?;
    outcome.version = "no engine".into();
    outcome.figures.memory_before = Memory::now()?;
    outcome.figures.stages = floor::run(&spec.data, &spec.row)?;
    Ok(())
}

fn timed<T>(ns: &mut u64, f: impl FnOnce() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    let result = f();
    *ns = start.elapsed().as_nanos() as u64;
    result
}

struct Trial<'a> {
    spec: &'a Spec,
    opener: &'static dyn Opener,
    records: Records,
    state: State,
    outcome: &'a mut Outcome,
}

/// Sync calls that make a log before it is needed: of its size, and of its name.
const LOG_AHEAD_SYNCS: u64 = 2;

impl Trial<'_> {
    fn run(spec: &Spec, outcome: &mut Outcome) -> Result<()> {
        set_cpus(spec, outcome)?;
        let name = spec.contestant.engine();
        let opener = opener(name).with_context(|| format!("{name} was not built in"))?;
        outcome.version = opener.version();
        let data = &spec.row.data;
        let records = Records::new(data.kind, spec.row.seed, data.value_bytes, data.agents);
        let state = State::new(data.keys, data.preload);
        let mut trial = Trial { spec, opener, records, state, outcome };
        let engine = trial.load()?;
        let engine = trial.prepare(engine)?;
        let engine = trial.stages(engine)?;
        at("limit", trial.limit(None))?;
        at("verify-run", trial.verify("run", &*engine))?;
        at("close", timed(&mut trial.outcome.figures.close_ns, || engine.close()))?;
        trial.outcome.figures.size_closed = files::size(&spec.data)?;
        let mut reopen_ns = 0;
        let engine = at("verify-reopened", timed(&mut reopen_ns, || trial.open()))?;
        trial.outcome.figures.reopen_ns = reopen_ns;
        at("verify-reopened", trial.verify("reopened", &*engine))?;
        at("close", engine.close())?;
        trial.same_receipts()
    }

    fn open(&self) -> Result<Box<dyn Engine>> {
        self.opener.open(&self.spec.data, &self.spec.contestant.profile)
    }

    fn figures(&mut self) -> &mut Figures {
        &mut self.outcome.figures
    }

    fn load(&mut self) -> Result<Box<dyn Engine>> {
        self.figures().memory_before = Memory::now()?;
        let mut create_ns = 0;
        let engine = timed(&mut create_ns, || self.open()).context("open")?;
        self.figures().create_ns = create_ns;
        at("options", self.archive_options(&*engine))?;
        let (data, seed) = (&self.spec.row.data, self.spec.row.seed);
        let mut load_ns = 0;
        let loaded =
            timed(&mut load_ns, || load::load(&*engine, data, &self.records, &self.state, seed));
        at("load", loaded)?;
        self.figures().load_ns = load_ns;
        self.figures().load_settle = Some(self.settle(&*engine)?);
        at("verify-loaded", self.verify("loaded", &*engine))?;
        Ok(engine)
    }

    fn archive_options(&mut self, engine: &dyn Engine) -> Result<()> {
        let options = engine.effective_options()?;
        let sha256 = hex(&Sha256::digest(&options.bytes));
        let archive = format!("{}.gz", options.file_name);
        let file = std::fs::File::create(self.spec.out.join(&archive))?;
        let mut encoder = GzEncoder::new(file, Compression::default());
        encoder.write_all(&options.bytes)?;
        encoder.finish()?.sync_all()?;
        let changed: Vec<String> = options
            .knobs
            .iter()
            .filter(|knob| knob.asked != knob.got)
            .map(|knob| format!("{} was {}, became {}", knob.name, knob.asked, knob.got))
            .collect();
        self.outcome.options = Some(OptionsFile { archive, sha256, knobs: options.knobs });
        ensure!(changed.is_empty(), "the engine changed a named knob: {}", changed.join("; "));
        Ok(())
    }

    fn settle(&self, engine: &dyn Engine) -> Result<Settle> {
        let bound = Duration::from_secs(self.spec.settle_bound_s);
        let (settled, took, debt) = engine::settle(engine, bound)?;
        Ok(Settle { settled, ns: took.as_nanos() as u64, debt })
    }

    /// A loaded database is closed and opened again, so that nothing which loading and reading it
    /// back left in memory is in the figures of the stages.
    fn prepare(&mut self, mut engine: Box<dyn Engine>) -> Result<Box<dyn Engine>> {
        let dir = &self.spec.data;
        let limit = Some(self.spec.row.memory_limit_bytes);
        let reduced = self.spec.row.prepare == Prepare::Reduced;
        if reduced || self.spec.row.data.preload > 0 {
            at("close", engine.close())?;
            raw::give_back_freed_memory();
            if reduced {
                files::evict(dir)?;
                let residency = files::residency(dir)?;
                self.outcome.figures.residency = Some(residency);
                at("reduce", residency.must_be_reduced())?;
            }
            at("limit", self.limit(limit))?;
            engine = self.open().context("open after loading")?;
        } else {
            at("limit", self.limit(limit))?;
        }
        if self.spec.row.prepare == Prepare::Walk {
            at("read", self.walk(&*engine))?;
        }
        // No work of the load or of the open runs into the first stage.
        self.figures().settle_before = Some(self.settle(&*engine)?);
        Ok(engine)
    }

    /// Sets the row's memory limit, or lifts it: what is measured is under it, from the open on,
    /// and loading and reading everything back are not.
    fn limit(&self, bytes: Option<u64>) -> Result<()> {
        self.spec.limit_file.as_ref().map_or(Ok(()), |file| limit::set(file, bytes))
    }

    /// A point read of each number that the first stage may pick.
    fn walk(&self, engine: &dyn Engine) -> Result<()> {
        let mut reader = engine.reader()?;
        let mut key = Vec::new();
        let groups = self.spec.row.stages[0].group.iter();
        let set = groups.map(|group| call::walked(group, &self.state)).max();
        for number in 0..set.unwrap_or(0) {
            self.records.key(number, &mut key);
            let generation = self.state.generation(number);
            verify::check_point(&mut *reader, &self.records, number, generation, &key)
                .context("while warming")?;
        }
        Ok(())
    }

    fn stages(&mut self, engine: Box<dyn Engine>) -> Result<Box<dyn Engine>> {
        let row = &self.spec.row;
        let io = Io::now()?;
        let (syncs, account) = (sync_count::now(), engine.account()?);
        for (i, stage) in row.stages.iter().enumerate() {
            let seed = mix(row.seed ^ mix(u64::from(self.spec.repetition) ^ ((i as u64) << 32)));
            let ground = work::Ground {
                engine: &*engine,
                records: &self.records,
                state: &self.state,
                separate_sync: self.spec.contestant.profile.separate_sync,
                warm: row.prepare == Prepare::Walk,
            };
            let mut figures = work::run(&ground, stage, seed).map_err(Stop)?;
            // What a stage left to do would be in the latencies of calls that come by the clock.
            let next = row.stages.get(i + 1).map_or(&[][..], |next| &next.group);
            if next.iter().any(|group| group.rate_per_s > 0) {
                figures.settle_after = Some(self.settle(&*engine)?);
            }
            self.figures().stages.push(figures);
        }
        at("syncs", self.check_syncs())?;
        at("write", timed(&mut self.figures().end_sync_ns, || engine.sync()))?;
        at("write", timed(&mut self.figures().flush_ns, || engine.flush()))?;
        let settle = self.settle(&*engine)?;
        let account = work::since(&engine.account()?, &account);
        let size = files::size(&self.spec.data)?;
        let written: u64 = self.figures().stages.iter().map(|stage| stage.records_written).sum();
        let user_bytes = written * self.records.bytes(0);
        let figures = self.figures();
        figures.settle = Some(settle);
        figures.io = Io::now()?.since(io);
        figures.syncs = sync_count::now().since(&syncs);
        figures.account = account;
        figures.size_settled = size;
        figures.user_bytes = user_bytes;
        Ok(engine)
    }

    /// A synced row whose count is 0, or differs from the engine's own, does not count.
    fn check_syncs(&mut self) -> Result<()> {
        for (stage, asked) in self.outcome.figures.stages.iter().zip(&self.spec.row.stages) {
            let writers = asked.group.iter().find(|group| group.mix.writes());
            if !writers.is_some_and(|group| group.durability == Durability::Each) {
                continue;
            }
            let counted = stage.syncs.durable();
            if counted == 0 {
                bail!("stage {}: synced writes, and no sync call was counted", stage.name);
            }
            // Each thread has one write at a time, so fewer would mean one sync for two writes of
            // one thread.
            let threads: u32 = asked.group.iter().map(|group| group.threads).sum();
            let least = stage.writes.map_or(0, |writes| writes.count).div_ceil(threads.into());
            ensure!(
                counted >= least,
                "stage {}: {counted} sync calls for writes that need at least {least}",
                stage.name
            );
            // An engine counts the syncs of its logs. Where it built tables meanwhile, those and
            // its manifest were synced too; where not, a log made ahead is all there can be.
            if let Some(own) = stage.own_syncs {
                let tables = stage.account.flushes.max(stage.account.compactions) > Some(0);
                let rest_max = if tables { u64::MAX } else { LOG_AHEAD_SYNCS };
                ensure!(
                    counted.checked_sub(own).is_some_and(|rest| rest <= rest_max),
                    "stage {}: {counted} sync calls counted, {own} by the engine's account",
                    stage.name
                );
            }
        }
        Ok(())
    }

    fn verify(&mut self, when: &str, engine: &dyn Engine) -> Result<()> {
        let seed = self.spec.row.seed;
        let receipt = verify::receipt(when, engine, &self.records, &self.state, seed)?;
        self.outcome.receipts.push(receipt);
        Ok(())
    }

    /// What was there after the run is there after the reopen, byte for byte.
    fn same_receipts(&self) -> Result<()> {
        let find =
            |when| self.outcome.receipts.iter().find(|receipt: &&Receipt| receipt.when == when);
        let (run, reopened) = (find("run"), find("reopened"));
        let same = run.zip(reopened).is_some_and(|(a, b)| a.sha256 == b.sha256 && a.keys == b.keys);
        at("verify-reopened", if same { Ok(()) } else { Err(anyhow::anyhow!("receipts differ")) })
    }
}

/// Bytes as hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes an outcome where the supervisor looks for it.
///
/// # Errors
/// Where it can't be written.
pub fn write(outcome: &Outcome, out: &Path) -> Result<()> {
    std::fs::write(out.join("outcome.json"), serde_json::to_vec_pretty(outcome)?)
        .with_context(|| out.display().to_string())
}
