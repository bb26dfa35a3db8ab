//! One case: a world's schedule, the images of its shots, and everything that is judged of them.
//!
//! Invariants
//! - A case is a function of its seed (F1); its digest is over the choices, what happened, and what
//!   each image showed.
//! - A case of the count is an instant of a schedule of which at least one image was recovered
//!   whole. An image whose content was recovered before in the schedule is a duplicate.

use super::actors::{self, Run};
use super::after;
use super::base::Base;
use super::image::{self, Known};
use super::order::Order;
use super::place;
use super::rows::Row;
use super::watch::{Shot, Spot, What};
use super::world::World;
use crate::counters::Counter;
use crate::disk::Disk;
use crate::life::Slip;
use crate::sim::{DIR, fold, stage_name};
use crate::sweep::IMAGES_MAX;
use crate::tally::Tally;
use kiban_model::durable::CrashClass;
use kiban_model::generate::{Seed, Source};
use std::sync::Arc;

/// A promise that broke in a schedule.
#[derive(Clone, Debug)]
pub struct Broken {
    /// What went wrong.
    pub slip: Slip,
    /// Where, in words.
    pub place: String,
    /// The world, in words.
    pub world: String,
    /// The calls that had returned, the last ones.
    pub events: Vec<String>,
    /// The calls of all clients.
    pub ops: u64,
    /// How the world is made again.
    pub origin: String,
}

/// Runs the case of this seed.
///
/// # Errors
/// The first broken promise.
pub fn run(seed: u64, tally: &mut Tally) -> Result<(), Box<Broken>> {
    run_world(World::draw(seed), tally)
}

/// Runs a world.
///
/// # Errors
/// The first broken promise.
pub fn run_world(world: World, tally: &mut Tally) -> Result<(), Box<Broken>> {
    let world = Arc::new(world);
    let run = actors::run(&world);
    judge(&world, &run, &mut Known::new(), tally)
}

/// Judges a world that ran. `known` says what images of worlds with these options showed.
///
/// # Errors
/// The first broken promise.
pub fn judge(
    world: &World,
    run: &Run,
    known: &mut Known,
    tally: &mut Tally,
) -> Result<(), Box<Broken>> {
    let broken = |slip, place: String| Box::new(told(world, run, slip, place));
    tally.totals.schedules += 1;
    tally.totals.schedule_ops += run.record.done.len() as u64;
    tally.totals.schedule_steps += run.chosen.steps;
    tally.totals.errors_injected += run.end.injected.len() as u64;
    tally.mix(run.chosen.hash);
    tally.mix(run.record.hash);
    if let Some(how) = &run.end.broken {
        let (promise, what) = match how {
            how if how.contains("deadlock") => ("B1", "a deadlock"),
            how if how.contains("max_steps") => ("B1", "a schedule without end"),
            _ => ("-", "a panic of a thread of the engine"),
        };
        let slip = Slip {
            promise: promise.to_owned(),
            what: what.to_owned(),
            expected: "an end of every call".to_owned(),
            got: how.clone(),
        };
        return Err(broken(slip, "during the schedule".to_owned()));
    }
    let order = Order::of(world, run).map_err(|story| {
        let slip = Slip {
            promise: "A1".to_owned(),
            what: "a group's records".to_owned(),
            expected: "an encoding that can be read".to_owned(),
            got: story,
        };
        broken(slip, "during the schedule".to_owned())
    })?;
    after::judge(world, run, &order)
        .map_err(|slip| broken(slip, "after the schedule".to_owned()))?;
    after::count(run, &order, &mut tally.counters);
    let mut examiner = Examiner { world, run, order: &order, known, tally };
    examiner.images().map_err(|(slip, place)| broken(slip, place))
}

struct Examiner<'a> {
    world: &'a World,
    run: &'a Run,
    order: &'a Order,
    known: &'a mut Known,
    tally: &'a mut Tally,
}

impl Examiner<'_> {
    /// Examines the images of every shot, and of the disk that was left.
    fn images(&mut self) -> Result<(), (Slip, String)> {
        if let Some(row) = self.world.row {
            return self.row(row);
        }
        let source = &mut Seed(self.world.seed ^ 0x696d_6167_6573);
        for shot in &self.run.record.shots {
            let mut fresh = false;
            if source.chance(1, 2) {
                fresh |= self.image(shot, CrashClass::Kill, shot.snapshot.killed())?;
            }
            for _ in 0..self.world.cuts {
                let choice = shot.snapshot.choice(source.below(8), source.next_u64());
                fresh |= self.image(shot, CrashClass::Power, shot.snapshot.image(&choice))?;
            }
            self.tally.totals.schedule_cases += u64::from(fresh);
        }
        self.copies(source)
    }

    /// Examines every image, up to a bound for each, of every shot of one row.
    fn row(&mut self, row: Row) -> Result<(), (Slip, String)> {
        for shot in &self.run.record.shots {
            if !place::of(self.run, self.order, shot).is_some_and(|found| found.is_of(row)) {
                continue;
            }
            self.tally.totals.row_points += 1;
            let mut fresh = self.image(shot, CrashClass::Kill, shot.snapshot.killed())?;
            for cut in shot.snapshot.images(IMAGES_MAX, shot.point) {
                fresh |= self.image(shot, CrashClass::Power, cut.disk)?;
            }
            self.tally.totals.schedule_cases += u64::from(fresh);
        }
        Ok(())
    }

    /// Whether it was recovered here and not before.
    fn image(
        &mut self,
        shot: &Shot,
        class: CrashClass,
        disk: Disk,
    ) -> Result<bool, (Slip, String)> {
        let place = || {
            let class = crate::script::class_name(class);
            format!("{class} at instant {}, point {}, {}", shot.at, shot.point, place_of(shot))
        };
        let hash = fold(disk.content_hash(), class as u64);
        let known = self.known.get(&hash).copied();
        let shown = match known {
            Some(shown) => shown,
            None => image::recover(disk, DIR, self.world, hash).map_err(|slip| (slip, place()))?,
        };
        self.known.insert(hash, shown);
        let floor = self.order.floor(self.run, shot.at, class);
        let ceiling = self.order.ceiling(shot.at);
        let cut = image::admit(self.order, &shown, &floor, ceiling);
        let cut = cut.map_err(|slip| (slip, place()))?;
        let kept = floor.promise == "V1" && class == CrashClass::Power;
        self.tally.counters.add(Counter::SeenDurable, u64::from(kept));
        if let Some(found) = place::of(self.run, self.order, shot) {
            let Tally { rows, counters, .. } = &mut *self.tally;
            found.count(class, (cut, shown.dropped), rows, counters);
        }
        self.tally.mix(fold(hash, cut as u64));
        match known {
            Some(_) => self.tally.totals.images_duplicate += 1,
            None => {
                let base = self.world.base.map_or(0, |number| Base::numbered(number).ops);
                let done = self.run.record.done.partition_point(|done| done.returned <= shot.at);
                self.tally.totals.count_image(base + done as u64, shown.runs as usize);
            }
        }
        Ok(known.is_none())
    }

    /// Each checkpoint or backup that was made opens, after a power cut too, and holds a cut of a
    /// moment during its call.
    fn copies(&mut self, source: &mut Seed) -> Result<(), (Slip, String)> {
        let Some(left) = &self.run.end.left else { return Ok(()) };
        for done in &self.run.record.done {
            let What::Copy { dir, result: Ok(()) } = &done.what else { continue };
            let floor = self.order.floor_of_copy(self.run, done.invoked);
            let ceiling = self.order.ceiling(done.returned);
            let choice = left.choice(source.below(8), source.next_u64());
            let images = [(left.killed(), "killed"), (left.image(&choice), "after a power cut")];
            for (disk, when) in images {
                let place = || format!("the copy {dir}, {when}");
                let hash = source.next_u64();
                let shown = image::recover(disk, dir, self.world, hash);
                let shown = shown.map_err(|slip| (slip, place()))?;
                let cut = image::admit(self.order, &shown, &floor, ceiling);
                let cut = cut.map_err(|slip| (slip, place()))?;
                self.tally.mix(cut as u64);
            }
        }
        Ok(())
    }
}

fn place_of(shot: &Shot) -> String {
    let stage = stage_name(shot.stage);
    match shot.place {
        Spot::Stage => format!("task {} at the start of {stage}", shot.task),
        Spot::Call(op, moment) => {
            format!("task {} in {stage}, {} {moment:?}", shot.task, op.name())
        }
        Spot::Returned => format!("a call of task {} had returned", shot.task),
    }
}

fn told(world: &World, run: &Run, slip: Slip, place: String) -> Broken {
    let mut events: Vec<String> = Vec::new();
    for group in &run.record.ordered {
        events
            .push(format!("{:>6} ordered from {} by task {}", group.at, group.first, group.leader));
    }
    let done = run.record.done.iter().map(|done| {
        let mut what = format!("{:?}", done.what);
        what.truncate(160);
        format!("{:>6} client {} (since {}): {what}", done.returned, done.client, done.invoked)
    });
    events.extend(done);
    events.sort();
    let skip = events.len().saturating_sub(60);
    let events = events.split_off(skip);
    let World { base, knobs, pace, faults, panic, clients, origin, .. } = world;
    let world = format!(
        "base {base:?}, {knobs:?}, pace {pace:?}, faults {faults:?}, panic {panic:?}, {} clients, \
         schedule {:016x}",
        clients.len(),
        run.chosen.hash
    );
    let ops = clients.iter().map(|steps| steps.len() as u64).sum();
    let origin = origin.clone();
    Broken { slip, place, world, events, ops, origin }
}
