//! Plays a script: exactly as written, or searching for the crashes that it leaves open.
//!
//! Invariants
//! - An exact replay takes the image that the script names and no other; a point that does not
//!   exist is told apart from a promise that holds.
//! - A search crashes at every point of a section's last step, over the images of each, and plays
//!   the next section on each. What it finds is an exact script.
//! - Both judge by the same rules as the campaign: [`crate::check::views`] says what an image may
//!   show.
//!
//! Searching is what shrinking needs: when an operation goes, the points move.

use crate::check::{Broken, Trail, View, views};
use crate::disk::Disk;
use crate::life::{Birth, Life, Slip, Window, caught};
use crate::scene::Image;
use crate::script::{Choice, Crash, Script, Section};
use crate::sim::{Look, Shot, fold};
use crate::tally::Tally;
use kiban_model::config::Config;
use kiban_model::durable::{CrashClass, Truth};

/// How much a search looks at.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Images of a point, by depth from 1; the last one holds beyond.
    pub images: [usize; 3],
    /// Images in all.
    pub total: u64,
}

/// How a replay ended where no promise broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Played {
    /// Everything held.
    Held,
    /// A crash was to fall at a point that does not exist.
    NoSuchPoint,
}

/// Plays a script as it is written.
///
/// # Errors
/// The broken promise.
pub fn replay(script: &Script, tally: &mut Tally) -> Result<Played, Box<Broken>> {
    let mut player = Player { script, tally, search: None, left: u64::MAX, log: true };
    player.start()
}

/// Plays a script whose crashes are only known to be in the last step of their sections.
///
/// # Errors
/// The first broken promise, with crashes that lead to it.
pub fn search(script: &Script, limits: Limits, tally: &mut Tally) -> Result<(), Box<Broken>> {
    let left = limits.total;
    let mut player = Player { script, tally, search: Some(limits), left, log: false };
    player.start().map(drop)
}

struct Player<'a> {
    script: &'a Script,
    tally: &'a mut Tally,
    search: Option<Limits>,
    left: u64,
    log: bool,
}

/// What a section begins with.
struct Ground<'a> {
    disk: Disk,
    seed: u64,
    config: Config,
    after: Option<(View<'a>, CrashClass)>,
}

/// How many calls are told of a failing replay.
const EVENTS: usize = 40;

impl Player<'_> {
    fn start(&mut self) -> Result<Played, Box<Broken>> {
        let (seed, config) = (self.script.seed, self.script.config.clone());
        self.play(0, Ground { disk: Disk::new(), seed, config, after: None }, None)
    }

    fn play(
        &mut self,
        at: usize,
        ground: Ground<'_>,
        trail: Option<&Trail<'_>>,
    ) -> Result<Played, Box<Broken>> {
        let section = &self.script.sections[at];
        let mut config = ground.config;
        for (name, value) in &section.changes {
            config.set(name, *value);
        }
        let crash_step = section.crash.as_ref().map(|crash| match self.search {
            Some(_) => section.ops.len() as u32,
            None => crash.step,
        });
        let look = |step: u32| match &section.crash {
            Some(_) if crash_step != Some(step) => Look::Away,
            Some(crash) if self.search.is_none() => Look::At(crash.step, crash.point),
            Some(_) => Look::Always,
            None => Look::Away,
        };
        let after = ground.after.map(|(view, class)| (view.truth, view.bounds, class));
        let birth =
            Birth { disk: ground.disk, seed: ground.seed, config, faults: &section.faults, after };
        let (log, first) = (self.log, look(0));
        let begun = Life::begin(birth, self.tally, |sim| {
            sim.look(first);
            if log {
                sim.disk(|disk| disk.set_log_max(EVENTS));
            }
        });
        let mut life = begun.map_err(|slip| broken(slip, trail, section, 0, None))?;
        if crash_step == Some(0) {
            let shots = life.sim.take();
            let fresh = Truth::default();
            let views = match ground.after {
                Some((view, class)) => views(&life, class, view, trail),
                None => [View::of(&fresh); 2],
            };
            return self.crash(at, &shots, views, 0, &life, trail);
        }
        for (step, op) in (1..).zip(&section.ops) {
            life.sim.look(look(step));
            let window = life.step(step, op, self.tally);
            let done = step as usize;
            let window = window.map_err(|slip| broken(slip, trail, section, done, Some(&life)))?;
            if crash_step == Some(step) {
                let shots = life.sim.take();
                let Window { bounds, acked, truth, .. } = window;
                let truth = truth.as_deref().unwrap_or(&life.driver.truth);
                let view = View { truth, bounds, acked };
                return self.crash(at, &shots, [view; 2], done, &life, trail);
            }
        }
        self.last_look(&mut life)
            .map_err(|slip| broken(slip, trail, section, section.ops.len(), Some(&life)))?;
        Ok(if section.crash.is_some() { Played::NoSuchPoint } else { Played::Held })
    }

    fn last_look(&mut self, life: &mut Life) -> Result<(), Slip> {
        if life.driver.tolerance.io {
            return Ok(());
        }
        caught(|| {
            life.driver.ensure_open()?;
            life.driver.audit().map(drop).map_err(Slip::from)
        })
    }

    fn crash(
        &mut self,
        at: usize,
        shots: &[Shot],
        views: [View<'_>; 2],
        done: usize,
        life: &Life,
        trail: Option<&Trail<'_>>,
    ) -> Result<Played, Box<Broken>> {
        let section = &self.script.sections[at];
        let config = life.driver.config().clone();
        if shots.is_empty() {
            return Ok(Played::NoSuchPoint);
        }
        for shot in shots {
            for (class, choice) in self.images(at, shot) {
                if self.left == 0 {
                    return Ok(Played::Held);
                }
                self.left -= 1;
                let Image { choice, disk, hash, .. } = Image::of(shot, class, choice);
                let seed = fold(self.script.seed, hash);
                let view = views[usize::from(class == CrashClass::Power)];
                let crash = Crash { class, step: shot.step, point: shot.point, choice };
                let trail = Trail {
                    before: trail,
                    changes: &section.changes,
                    faults: &section.faults,
                    ops: &section.ops[..done],
                    crash,
                    shot,
                };
                let config = config.clone();
                let ground = Ground { disk, seed, config, after: Some((view, class)) };
                if self.play(at + 1, ground, Some(&trail))? == Played::NoSuchPoint
                    && self.search.is_none()
                {
                    return Ok(Played::NoSuchPoint);
                }
            }
        }
        Ok(Played::Held)
    }

    /// The images of a shot that are played on.
    fn images(&self, at: usize, shot: &Shot) -> Vec<(CrashClass, Choice)> {
        match (&self.search, &self.script.sections[at].crash) {
            (Some(limits), _) => {
                let limit = limits.images[at.min(limits.images.len() - 1)];
                let images = shot.snapshot.images(limit, self.script.seed);
                let power = images.map(|image| (CrashClass::Power, image.choice));
                std::iter::once((CrashClass::Kill, Choice::default())).chain(power).collect()
            }
            (None, Some(crash)) => vec![(crash.class, crash.choice.clone())],
            (None, None) => Vec::new(),
        }
    }
}

fn broken(
    slip: Slip,
    trail: Option<&Trail<'_>>,
    section: &Section,
    done: usize,
    life: Option<&Life>,
) -> Box<Broken> {
    let mut sections = trail.map(Trail::sections).unwrap_or_default();
    let ops = section.ops[..done].to_vec();
    sections.push(Section { ops, crash: None, ..section.clone() });
    let place = trail.map_or_else(|| "without a crash".to_owned(), Trail::place);
    let events = life.map(|life| life.sim.events()).unwrap_or_default();
    Box::new(Broken { slip, sections, place, events })
}
