//! Who runs next: the schedulers, all of them functions of a seed.
//!
//! Invariants
//! - A chooser schedules one execution, and equal worlds give equal choices.
//! - Its hash is over every choice, so equal hashes mean the same schedule.
//! - A task that yields over and over lets others run, whatever the pace: a timed wait that nobody
//!   ends would spin otherwise.
#![allow(clippy::disallowed_types)]

use crate::sim::fold;
use kiban_model::generate::{Seed, Source};
use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// How the next task is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Any that can run, evenly.
    Random,
    /// The same again in so many of 64 cases, any otherwise.
    Sticky(u8),
    /// By priorities drawn at first sight; the running task falls behind all others about once in
    /// so many steps (after Burckhardt and others, 2010).
    Priorities(u32),
    /// The same until it can't, then the one after it; but at each of these steps the task so many
    /// places further runs. All choices of one such step are every schedule of one preemption.
    Preempt(Vec<(u32, u8)>),
}

impl Pace {
    /// Draws one.
    #[must_use]
    pub fn draw(source: &mut Seed) -> Self {
        match source.weighted(&[3, 3, 3, 1]) {
            0 => Self::Random,
            1 => Self::Sticky(*source.pick(&[32, 48, 60])),
            2 => Self::Priorities(*source.pick(&[50, 200, 1000])),
            _ => {
                let count = 1 + source.below(4);
                let mut at: Vec<(u32, u8)> = (0..count)
                    .map(|_| (source.draw(3000) as u32, 1 + source.draw(3) as u8))
                    .collect();
                at.sort_unstable();
                Self::Preempt(at)
            }
        }
    }
}

/// What a chooser did.
#[derive(Clone, Debug, Default)]
pub struct Chosen {
    /// Choices.
    pub steps: u64,
    /// Choices that took another task than before.
    pub switches: u64,
    /// Over all of them.
    pub hash: u64,
    /// The tasks in the order in which they ran, and for how many choices each.
    pub turns: Vec<(usize, u32)>,
    /// Of each choice, the first and last number of places that a deviation there can have: empty
    /// where one task alone could run.
    pub forks: Vec<(u8, u8)>,
}

/// A scheduler of one execution.
pub struct Chooser {
    pace: Pace,
    source: Seed,
    used: bool,
    priorities: BTreeMap<usize, u64>,
    /// Times in a row that the current task yielded and ran again.
    spins: u32,
    next_preempt: usize,
    chosen: Arc<Mutex<Chosen>>,
}

/// So often a task may yield and run again under a pace that would let it.
const SPINS_MAX: u32 = 64;

impl Chooser {
    /// A chooser, and where it tells what it did.
    #[must_use]
    pub fn new(pace: Pace, seed: u64) -> (Self, Arc<Mutex<Chosen>>) {
        let chosen = Arc::new(Mutex::new(Chosen::default()));
        let chooser = Self {
            pace,
            source: Seed(seed ^ 0x0063_686f_6f73_6572),
            used: false,
            priorities: BTreeMap::new(),
            spins: 0,
            next_preempt: 0,
            chosen: chosen.clone(),
        };
        (chooser, chosen)
    }

    /// The place in `runnable` of the task that runs next.
    fn choose(&mut self, runnable: &[usize], current: Option<usize>, steps: u64) -> usize {
        let same = current.and_then(|id| runnable.iter().position(|&task| task == id));
        let after = || {
            let id = current.unwrap_or(0);
            runnable.iter().position(|&task| task > id).unwrap_or(0)
        };
        match &self.pace {
            Pace::Random => self.source.below(runnable.len()),
            Pace::Sticky(stay) => {
                let stays = self.source.chance(u64::from(*stay), 64);
                same.filter(|_| stays).unwrap_or_else(|| self.source.below(runnable.len()))
            }
            Pace::Priorities(every) => {
                let falls = self.source.chance(1, u64::from(*every));
                for &task in runnable {
                    let draw = self.source.next_u64() | 1 << 63;
                    self.priorities.entry(task).or_insert(draw);
                }
                if let Some(id) = current.filter(|_| falls) {
                    let least = self.priorities.values().min().copied().unwrap_or(0);
                    self.priorities.insert(id, least.saturating_sub(1));
                }
                let highest = runnable.iter().enumerate().max_by_key(|(_, t)| self.priorities[*t]);
                highest.map_or(0, |(at, _)| at)
            }
            Pace::Preempt(at) => {
                let due = at.get(self.next_preempt).filter(|(step, _)| u64::from(*step) <= steps);
                match due {
                    Some(&(_, places)) => {
                        self.next_preempt += 1;
                        (same.unwrap_or(0) + usize::from(places)) % runnable.len()
                    }
                    None => same.unwrap_or_else(after),
                }
            }
        }
    }
}

impl Scheduler for Chooser {
    fn new_execution(&mut self) -> Option<Schedule> {
        let first = !std::mem::replace(&mut self.used, true);
        first.then(|| Schedule::new(0))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        let tasks: Vec<usize> = runnable.iter().map(|task| task.id().into()).collect();
        let current: Option<usize> = current.map(TaskId::into);
        let chosen = self.chosen.clone();
        let mut chosen = chosen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut at = if tasks.len() == 1 { 0 } else { self.choose(&tasks, current, chosen.steps) };
        if Some(tasks[at]) == current {
            self.spins = if is_yielding { self.spins + 1 } else { 0 };
            if self.spins > SPINS_MAX && tasks.len() > 1 {
                at = (at + 1 + self.source.below(tasks.len() - 1)) % tasks.len();
                if let Some(priority) = current.and_then(|id| self.priorities.get_mut(&id)) {
                    *priority = 0;
                }
                self.spins = 0;
            }
        } else {
            self.spins = 0;
            chosen.switches += 1;
        }
        chosen.steps += 1;
        if let Pace::Preempt(_) = self.pace {
            // Where the task that ran can't go on, whoever else runs is a choice too.
            let first = u8::from(tasks.len() == 1 || current.is_some_and(|id| tasks.contains(&id)));
            chosen.forks.push((first, (tasks.len() - 1).min(255) as u8));
        }
        match chosen.turns.last_mut() {
            Some((task, times)) if *task == tasks[at] => *times += 1,
            _ => chosen.turns.push((tasks[at], 1)),
        }
        chosen.hash = fold(chosen.hash, tasks[at] as u64);
        Some(runnable[at].id())
    }

    fn next_u64(&mut self) -> u64 {
        self.source.next_u64()
    }
}
