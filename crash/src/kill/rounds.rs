//! The rounds of a run, in one directory.
//!
//! Invariants
//! - D4: what one life showed once it was open, every later one shows until somebody writes.
//! - C2: no life begins below a sequence that was seen before.
//! - What is known after a round is what was examined, so that a round is judged by its own writes.

use super::judge::{self, State};
use super::life::{End, Life, When, live};
use super::plan::{self, Step};
use super::tale::{self, Tale};
use super::victim::{Mode, Order};
use super::wire::{Kind, Note};
use super::{Fault, Task};
use crate::report::Report;
use crate::runner::interrupt::Interrupt;
use kiban_model::generate::{Seed, Source};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Recoveries of one round that are killed, at the most.
const RECOVERIES_MAX: usize = 4;
/// Stages of a whole life, about.
const STAGES: usize = 4000;
/// Stages of a recovery, about.
const RECOVERY_STAGES: usize = 30;

/// What came of a run so far.
pub(super) struct Rounds<'a> {
    task: &'a Task,
    dir: PathBuf,
    seed: u64,
    state: State,
    /// The digest of what is shown, once it was.
    digest: Option<u64>,
    /// The highest sequence seen.
    last: u64,
    recovery: Duration,
    done: u64,
    ops: u64,
    kills_in_recovery: u64,
    counters: BTreeMap<&'static str, u64>,
    /// The lives of the round at hand.
    lives: Vec<Life>,
}

const COUNTERS: [&str; 6] = [
    "closed under its writers",
    "ended by itself",
    "in doubt and lost",
    "in doubt and survived",
    "killed with a thread frozen in a stage",
    "killed in recovery",
];

impl<'a> Rounds<'a> {
    pub(super) fn new(task: &'a Task, place: &Path, seed: u64) -> Self {
        Self {
            task,
            dir: place.join("db"),
            seed,
            state: State::new(),
            digest: None,
            last: 0,
            recovery: Duration::from_millis(5),
            done: 0,
            ops: 0,
            kills_in_recovery: 0,
            counters: COUNTERS.iter().map(|name| (*name, 0)).collect(),
            lives: Vec::new(),
        }
    }

    /// Puts the figures into a report.
    pub(super) fn fill(&self, report: &mut Report) {
        report.totals.cases = self.done;
        report.totals.ops = self.ops;
        report.rounds = Some(self.done);
        report.kills_in_recovery = Some(self.kills_in_recovery);
        report.counters = self.counters.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
    }

    /// One round. An interrupt ends it early, unjudged: it may have reached the victim too.
    pub(super) fn round(&mut self, round: u32, interrupt: &Interrupt) -> Result<(), Fault> {
        self.lives.clear();
        let draw = &mut Seed(self.seed ^ u64::from(round).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (order, when) = self.work(draw, round);
        let closed = order.close_ms > 0;
        self.live(&order, when)?;
        let recoveries = if draw.chance(1, 2) { 1 + draw.below(RECOVERIES_MAX) } else { 0 };
        for _ in 0..recoveries {
            if interrupt.wished() {
                return Ok(());
            }
            let (order, when) = self.recovery(draw, round);
            self.live(&order, when)?;
        }
        if interrupt.wished() {
            return Ok(());
        }
        self.live(&self.order(Mode::Examine, round), When::Never)?;
        if interrupt.wished() {
            return Ok(());
        }
        self.judge(round)?;
        let end = self.lives[0].end;
        let frozen = self.lives[0].first(Kind::Frozen).is_some();
        self.count("ended by itself", u64::from(matches!(end, End::Exited(_))));
        self.count("closed under its writers", u64::from(closed));
        let name = "killed with a thread frozen in a stage";
        self.count(name, u64::from(frozen && end == End::Killed));
        self.done += 1;
        Ok(())
    }

    fn count(&mut self, name: &'static str, n: u64) {
        *self.counters.entry(name).or_default() += n;
    }

    fn order(&self, mode: Mode, life: u32) -> Order {
        let (dir, steps) = (self.dir.clone(), plan::STEPS);
        Order { mode, dir, seed: self.seed, life, freeze: 0, close_ms: 0, steps, watch: false }
    }

    /// How the victim of a round works, and when it dies.
    fn work(&self, draw: &mut Seed, round: u32) -> (Order, When) {
        let order = self.order(Mode::Work, round);
        let micros = |draw: &mut Seed, max| Duration::from_micros(draw.below(max) as u64);
        match draw.below(16) {
            0 => (order, When::Never),
            1..=2 => (Order { close_ms: 1 + draw.below(40) as u64, ..order }, When::Never),
            3 => {
                let close_ms = 1 + draw.below(20) as u64;
                (Order { close_ms, ..order }, When::Opened(micros(draw, 25_000)))
            }
            4..=7 => {
                let freeze = 1 + draw.below(STAGES) as u64;
                (Order { freeze, ..order }, When::Frozen(micros(draw, 5_000)))
            }
            _ => (order, When::Opened(micros(draw, 80_000))),
        }
    }

    /// How a recovery goes, and when it dies.
    fn recovery(&self, draw: &mut Seed, round: u32) -> (Order, When) {
        let order = self.order(Mode::Recover, round);
        if draw.chance(1, 2) {
            let freeze = 1 + draw.below(RECOVERY_STAGES) as u64;
            return (Order { freeze, ..order }, When::Frozen(Duration::ZERO));
        }
        let micros = usize::try_from(self.recovery.as_micros()).unwrap_or(usize::MAX - 1);
        (order, When::Opening(Duration::from_micros(draw.below(micros + 1) as u64)))
    }

    /// Runs one more life, and looks at what can be judged of it alone.
    fn live(&mut self, order: &Order, when: When) -> Result<(), Fault> {
        let refused = |error| Fault::environment(format!("a victim: {error}"));
        let life = live(&self.task.program, order, when).map_err(refused)?;
        self.lives.push(life);
        let life = &self.lives[self.lives.len() - 1];
        // A signal to the whole group may have ended it before us.
        if let End::Exited(status) = life.end
            && std::os::unix::process::ExitStatusExt::signal(&status)
                .is_some_and(|s| s == 2 || s == 15)
        {
            return Ok(());
        }
        tale::check_life(life)?;
        if let Some(opened) = life.first(Kind::Opened) {
            if opened.a < self.last {
                let expected = format!("at least sequence {}, seen before", self.last);
                return Err(Fault::new("C2", "an open", expected, format!("{}", opened.a)));
            }
            if self.digest.is_some_and(|digest| digest != opened.b) {
                let what = "what an open shows";
                let got = "something else than it had shown the time before";
                return Err(Fault::new("D4", what, "what was shown once", got));
            }
            self.digest = Some(opened.b);
            self.last = opened.a;
        }
        let in_recovery = life.end == End::Killed
            && life.first(Kind::Opening).is_some()
            && life.first(Kind::Opened).is_none();
        if let Some(opened_in) = life.opened_in {
            self.recovery = (self.recovery * 3 + opened_in.min(Duration::from_millis(200))) / 4;
        }
        if life.first(Kind::Issued).is_some() {
            // Nobody knows yet what is shown.
            self.digest = None;
        }
        self.kills_in_recovery += u64::from(in_recovery);
        self.count("killed in recovery", u64::from(in_recovery));
        Ok(())
    }

    /// Compares what the first life told with what the last one shows.
    fn judge(&mut self, round: u32) -> Result<(), Fault> {
        let first = &self.lives[0];
        let Tale { writes, done, acked, .. } = tale::tell(self.seed, round, first)?;
        let start = first.first(Kind::Opened).map_or(self.last, |opened| opened.a);
        let (shown, last, digest) = tale::shown(&self.lives[self.lives.len() - 1])?;
        let before = std::mem::take(&mut self.state);
        let life = judge::Life { before, start, writes };
        let what = "what is shown after the process died";
        let broken = |b: judge::Broken| Fault::new(b.promise, what, b.expected, b.got);
        let (survived, doubt) = judge::judge(&life, &shown).map_err(broken)?;
        if last < acked {
            let expected = format!("at least sequence {acked}, acknowledged");
            return Err(Fault::new("C2", "the last sequence", expected, last.to_string()));
        }
        if self.digest.is_some_and(|before| before != digest) {
            let got = "the examination shows something else";
            return Err(Fault::new("D4", what, "what an open had shown before", got));
        }
        self.ops += done;
        self.count("in doubt and survived", survived as u64);
        self.count("in doubt and lost", (doubt - survived) as u64);
        (self.state, self.last, self.digest) = (shown, last, Some(digest));
        Ok(())
    }

    /// Where each life of the round at hand ended.
    pub(super) fn place(&self) -> String {
        let places: Vec<String> = self.lives.iter().map(Life::place).collect();
        places.join("; ")
    }

    /// The last things that the working victim told.
    pub(super) fn last_notes(&self) -> Vec<String> {
        let notes = self.lives.first().map_or(&[][..], |life| &life.notes);
        notes[notes.len().saturating_sub(24)..].iter().map(Note::to_string).collect()
    }

    /// Writes all notes of the round at hand beside the database.
    pub(super) fn write_notes(&self) {
        let mut text = String::new();
        for life in &self.lives {
            let _ = writeln!(text, "== {}\n{}", life.place(), life.stderr.trim_end());
            for note in &life.notes {
                let _ = write!(text, "{note}");
                if note.kind == Kind::Issued {
                    let round = u32::try_from(self.done).unwrap_or(u32::MAX);
                    let step: Step = plan::step(self.seed, round, note.writer, note.n);
                    let _ = write!(text, "{step:?}");
                }
                text.push('\n');
            }
        }
        let file = self.dir.with_file_name("notes.txt");
        if let Err(error) = std::fs::write(&file, text) {
            eprintln!("warning: {}: {error}", file.display());
        }
    }
}
