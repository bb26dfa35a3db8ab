//! Worlds for one question each: of the directed pass, and of tests.
//!
//! Invariants
//! - As of [`World::draw`]: data, from a seed.

use super::chooser::Pace;
use super::world::{Draw, EIO, FULL, LANDED, SYNC_EVICTED, SYNC_NEW, SYNC_OLD, Step, World};
use crate::disk::{Errno, Fault, Op, Rule};
use kiban::env::probe::Stage;
use kiban_model::generate::{Seed, Source};

impl World {
    /// A world of a few durable writers and a reader, in which something befalls a group's way
    /// through the log: for the directed pass. `kind` says what.
    #[must_use]
    pub fn of_groups(kind: u64, seed: u64) -> Self {
        let mut world = Self::draw(seed);
        let source = &mut Seed(seed ^ 0x6772_6f75_7073);
        let mut draw = Draw::new(source);
        (draw.durable, draw.receipts) = (7, 4);
        world.clients = (0..2 + kind % 3).map(|_| (0..4).map(|_| draw.write()).collect()).collect();
        world.clients.push(draw.reader());
        (world.shots, world.panic) = (10, None);
        let skip = source.draw(5) as u32;
        let rule = |op, fault| Rule::new(fault).op(op).path_end(".log").skip(skip);
        world.faults = match kind % 8 {
            0 if source.chance(1, 2) => {
                // Nobody prepares the next log, so the leader meets this.
                world.knobs.background = false;
                vec![Rule::new(EIO).op(Op::SyncDir).skip(source.draw(2) as u32)]
            }
            1 => vec![rule(Op::Write, *source.pick(&[EIO, LANDED, Fault::Half(Errno::ENOSPC)]))],
            2 => vec![rule(Op::SyncData, *source.pick(&[SYNC_OLD, SYNC_NEW, SYNC_EVICTED]))],
            3 => vec![rule(Op::SyncData, LANDED)],
            4 => vec![Rule::new(Fault::Slow(6)).op(Op::SyncData).times(u32::MAX)],
            _ => Vec::new(),
        };
        if kind % 8 == 5 {
            world.panic = Some((*source.pick(&LEADER_STAGES), skip));
        }
        if kind % 8 == 6 {
            // Little room: stalls, and a fault that meets whoever waits.
            (world.knobs.memtable_bytes, world.knobs.memtables_max) = (1024, 2);
            (world.knobs.tier_runs, world.knobs.runs_stop) = (2, 3);
            let rule = Rule::new(EIO).op(Op::SyncDir).skip(source.draw(8) as u32);
            world.faults = if source.chance(1, 2) { vec![rule] } else { Vec::new() };
        }
        world
    }

    /// A world of writers and flushes in which an install fails, and now and then a log's sync too:
    /// for the directed pass. `kind` says which call.
    #[must_use]
    pub fn of_installs(kind: u64, seed: u64) -> Self {
        let mut world = Self::draw(seed);
        let source = &mut Seed(seed ^ 0x696e_7374_616c);
        let mut draw = Draw::new(source);
        draw.durable = 4;
        world.clients = (0..3).map(|_| (0..5).map(|_| draw.write()).collect()).collect();
        world.clients.push(vec![Step::Flush, Step::Compact, Step::Flush]);
        (world.knobs.background, world.knobs.runs_stop) = (true, 20);
        (world.shots, world.panic) = (8, None);
        let (op, fault, end) = INSTALL_CALLS[kind as usize % INSTALL_CALLS.len()];
        let rule = Rule::new(fault).op(op).path_end(end).skip(source.draw(4) as u32);
        world.faults = vec![rule];
        if source.chance(1, 3) {
            let skip = source.draw(8) as u32;
            let rule = Rule::new(SYNC_OLD).op(Op::SyncData).path_end(".log").skip(skip);
            world.faults.push(rule);
        }
        world
    }

    /// A world in which a sync of the database's directory fails and lies, while logs and flushes
    /// that come and go sync it all the time. About one in 500 puts a second sync beside it.
    #[must_use]
    pub fn of_dir_lies(seed: u64) -> Self {
        let mut world = Self::of_installs(0, seed);
        let source = &mut Seed(seed ^ 0x6469_725f_6c69_6573);
        world.clients.pop();
        world.clients[2].truncate(2);
        world.clients.push(vec![Step::Flush; 4]);
        let knobs = &mut world.knobs;
        (knobs.log_bytes, knobs.memtable_bytes, knobs.memtables_max) = (1024, 4096, 3);
        world.pace = Pace::Sticky(*source.pick(&[32, 48, 60]));
        let rule = Rule::new(Fault::DirLie(Errno::EIO)).op(Op::SyncDir).path_end("/db");
        world.faults = vec![rule.skip(source.draw(4) as u32)];
        world
    }

    /// A world in which copies are made while logs and tables come and go.
    #[must_use]
    pub fn of_copies(seed: u64) -> Self {
        let mut world = Self::of_dir_lies(seed);
        world.clients.push(vec![Step::Checkpoint, Step::Backup, Step::Checkpoint]);
        world.clients.push(vec![Step::Compact, Step::Flush, Step::Flush]);
        world.knobs.memtable_bytes = 1024;
        (world.shots, world.faults) = (2, Vec::new());
        world
    }
}

/// Calls that make a flush or a compaction part of the database, and how they fail.
const INSTALL_CALLS: [(Op, Fault, &str); 10] = [
    (Op::Write, EIO, ".manifest"),
    (Op::Write, FULL, ".manifest"),
    (Op::Write, Fault::Half(Errno::ENOSPC), ".manifest"),
    (Op::Write, LANDED, ".manifest"),
    (Op::SyncData, SYNC_OLD, ".manifest"),
    (Op::SyncData, SYNC_NEW, ".manifest"),
    (Op::SyncData, LANDED, ".manifest"),
    (Op::SyncDir, EIO, ""),
    (Op::SyncDir, LANDED, ""),
    (Op::SyncDir, Fault::DirLie(Errno::EIO), ""),
];

/// The stages of a group's leader.
pub const LEADER_STAGES: [Stage; 5] = [
    Stage::CommitAppend,
    Stage::CommitSync,
    Stage::CommitApply,
    Stage::CommitPublish,
    Stage::CommitAck,
];
