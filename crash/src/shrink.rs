//! Makes a failing run small: operations, options, faults, crashes and the image's choice.
//!
//! Invariants
//! - What comes back breaks the promise that the run broke, replayed exactly as written.
//! - A run whose replay does not break it comes back as it was: that is told, not hidden.
//! - Tries are bounded by number and by time. The number alone decides where time is plenty.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::check::Broken;
use crate::disk::Pick;
use crate::replay::{Limits, replay, search};
use crate::script::{Crash, Script};
use crate::tally::Tally;
use kiban_model::config::Config;
use kiban_model::driver::accepts;
use kiban_model::ops::Case;
use std::time::{Duration, Instant};

/// A failing run made small.
pub struct Shrunk {
    /// The run.
    pub script: Script,
    /// What it breaks.
    pub broken: Box<Broken>,
    /// Whether the run as given broke the same promise when it was replayed.
    pub reproduced: bool,
}

const TRIES_MAX: usize = 4000;
const LIMITS: Limits = Limits { images: [48, 8, 4], total: 3000 };

/// Shrinks a failing run.
#[must_use]
pub fn shrink(seed: u64, config: &Config, broken: &Broken, limit: Duration) -> Shrunk {
    let script = Script { seed, config: config.clone(), sections: broken.sections.clone() };
    let promise = broken.slip.promise.clone();
    let mut tally = Tally::default();
    let first = replay(&script, &mut tally);
    let Some(first) = first.err().filter(|again| again.slip.promise == promise) else {
        return Shrunk { script, broken: Box::new(broken.clone()), reproduced: false };
    };
    let until = Instant::now() + limit;
    let mut shrinker = Shrinker { best: script, broken: first, promise, until, tally };
    shrinker.run();
    Shrunk { script: shrinker.best, broken: shrinker.broken, reproduced: true }
}

/// Whether the engine takes the options of every life.
#[must_use]
pub fn opens(script: &Script) -> bool {
    let mut config = script.config.clone();
    script.sections.iter().all(|section| {
        for (name, value) in &section.changes {
            config.set(name, *value);
        }
        accepts(&config)
    })
}

struct Shrinker {
    best: Script,
    broken: Box<Broken>,
    promise: String,
    until: Instant,
    tally: Tally,
}

impl Shrinker {
    fn run(&mut self) {
        let mut size = usize::MAX;
        while self.size() < size && Instant::now() < self.until {
            size = self.size();
            self.fewer_crashes();
            self.fewer_faults();
            for at in 0..self.best.sections.len() {
                self.smaller_section(at);
            }
            self.fewer_changes();
        }
        self.plainer_choices();
    }

    fn size(&self) -> usize {
        self.best.to_string().len()
    }

    /// Whether the candidate breaks the promise, with crashes where the search finds them; then it
    /// is the best one, with those crashes.
    fn try_search(&mut self, candidate: &Script) -> bool {
        if Instant::now() >= self.until || !opens(candidate) {
            return false;
        }
        let found = search(candidate, LIMITS, &mut self.tally).err();
        let Some(found) = found.filter(|found| found.slip.promise == self.promise) else {
            return false;
        };
        let sections = found.sections.clone();
        let exact = Script { sections, ..candidate.clone() };
        self.try_exact(exact)
    }

    fn try_exact(&mut self, candidate: Script) -> bool {
        match replay(&candidate, &mut self.tally) {
            Err(broken) if broken.slip.promise == self.promise => {
                (self.best, self.broken) = (candidate, broken);
                true
            }
            _ => false,
        }
    }

    /// Leaves out lives: the crash of a later one alone may do.
    fn fewer_crashes(&mut self) {
        let mut at = self.best.sections.len().saturating_sub(1);
        while at > 0 {
            let mut candidate = self.best.clone();
            let gone = candidate.sections.remove(at);
            if let Some(last) = candidate.sections.get_mut(at - 1) {
                last.crash = gone.crash;
            }
            self.try_search(&candidate);
            at = at.min(self.best.sections.len()).saturating_sub(1);
        }
    }

    fn fewer_faults(&mut self) {
        for at in 0..self.best.sections.len() {
            let mut n = 0;
            while n < self.best.sections.get(at).map_or(0, |section| section.faults.len()) {
                let mut candidate = self.best.clone();
                candidate.sections[at].faults.remove(n);
                if !self.try_search(&candidate) {
                    n += 1;
                }
            }
        }
    }

    /// Fewer and simpler operations, and for the first life fewer options.
    fn smaller_section(&mut self, at: usize) {
        if at >= self.best.sections.len() {
            return;
        }
        let config = if at == 0 { self.best.config.clone() } else { Config::default() };
        let case = Case { config, ops: self.best.sections[at].ops.clone() };
        let _ = kiban_model::shrink::shrink(&case, TRIES_MAX, |case| {
            let mut candidate = self.best.clone();
            if at == 0 {
                candidate.config = case.config.clone();
            }
            candidate.sections[at].ops = case.ops.clone();
            self.try_search(&candidate)
        });
    }

    fn fewer_changes(&mut self) {
        for at in 0..self.best.sections.len() {
            let mut candidate = self.best.clone();
            candidate.sections[at].changes.clear();
            self.try_search(&candidate);
        }
    }

    /// Choices in which as little as possible is lost, torn or stale.
    fn plainer_choices(&mut self) {
        for at in 0..self.best.sections.len() {
            let Some(Crash { choice, .. }) = &self.best.sections[at].crash else { continue };
            for n in 0..choice.picks.len() {
                for plain in [Pick::Kept, Pick::Lost] {
                    let mut candidate = self.best.clone();
                    let Some(crash) = &mut candidate.sections[at].crash else { break };
                    if crash.choice.picks.get(n) == Some(&plain) {
                        break;
                    }
                    crash.choice.picks[n] = plain;
                    if self.try_exact(candidate) {
                        break;
                    }
                }
            }
        }
    }
}
