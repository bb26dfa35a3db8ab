//! The specified machine: a handle that commits, syncs and rotates, and a recovery, on a disk. Here
//! is what it knows and what it may do next; `step` does it.
//!
//! Invariants
//! - One action is one step between two points where a crash may fall; its name is that of the
//!   engine's stage, so that a trace of stages can be replayed here.
//! - Every I/O step may fail, with its effect or without it, as long as the budget lasts.
//! - What is promised is in `promise`; the machine only acts.
//!
//! Not here: flush, compaction and deletion of tables; contents of keys; damage to synced bytes.

mod step;

use super::disk::{Disk, Fate, Frame, Log, Manifest, Payload, Pos};
use super::judge::{Judgement, bit, judge};

/// A mistake that can be put into the machine, to see that the promises notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Defect {
    /// The new log's writes are acknowledged durable while the old log is not synced.
    RotateWithoutSync,
    /// A failed sync does not poison: it is tried again, and believed.
    RetryFailedSync,
    /// Replay goes on behind a missing frame.
    PastHole,
    /// A durable write is acknowledged before its sync.
    AckBeforeSync,
    /// The new log's directory entry is not synced before a durable acknowledgement.
    NoLogDirSync,
    /// A sync marks as synced what was appended while it ran.
    SyncCoversLater,
    /// Frames carry the appended position as the synced one.
    EagerWatermark,
    /// Frames claim as synced what lies in a log whose name is not.
    WatermarkIgnoresName,
    /// Buffered writes are still acknowledged after a failure.
    AckAfterFailure,
    /// Recovery returns with its decision in the old logs only.
    DecideInPlace,
    /// `open` returns after the rename of `CURRENT`, before the directory sync.
    OpenBeforeDirSync,
    /// Recovery's manifest names a table that was not synced.
    TableNotSynced,
    /// Sequences go on after the last one shown, not after the last one seen.
    NoSequenceJump,
}

/// How often each thing may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Writes appended.
    pub writes: u8,
    /// Rotations.
    pub rotations: u8,
    /// Watermark frames of their own.
    pub marks: u8,
    /// Crashes; reopening a poisoned handle costs none.
    pub crashes: u8,
    /// Failed I/O steps.
    pub faults: u8,
}

/// A write on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    /// Its sequence.
    pub seq: u8,
    /// Whether it asked for a sync.
    pub durable: bool,
    /// The place behind its frame.
    pub end: Pos,
}

/// An open handle.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    /// The log that takes appends.
    pub log: u8,
    /// The next sequence.
    pub next: u8,
    /// The bytes of everything before this are synced.
    pub synced: Pos,
    /// What a frame may claim to be synced: names included.
    pub mark: Pos,
    /// The newest log whose directory entry is synced.
    pub named: u8,
    /// Logs rotated away from, not yet seen synced whole; oldest first.
    pub rotated: Vec<u8>,
    /// Appended, not yet visible; in log order.
    pub queue: Vec<Group>,
    /// The sync that is running: the length it covers, and what was acknowledged as it began.
    pub sync: Option<(Pos, u16)>,
    /// Whether an earlier failure ended writing.
    pub poisoned: bool,
}

/// Where the process is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// A handle is open.
    Open(Handle),
    /// There is no process.
    Down,
    /// Recovery has read and judged the logs.
    Judged(Judgement),
    /// Recovery's tables and its manifest are written; `CURRENT` names the old one.
    Built(Manifest),
    /// `CURRENT` names the new manifest; the directory is not synced.
    Renamed(Manifest),
}

/// A state: the disk, the process, and what the promises need to remember.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The disk, page cache included.
    pub disk: Disk,
    /// Where the process is.
    pub phase: Phase,
    /// What is left of the budget.
    pub left: Budget,
    /// Writes appended, whole or in part, since `open` last returned.
    pub issued: u16,
    /// Writes that the last returned `open` showed.
    pub decided: u16,
    /// Writes that a returned `open` decided against.
    pub dropped: u16,
    /// Writes acknowledged (and visible) since `open` last returned.
    pub acked: u16,
    /// Those of them that were acknowledged durable.
    pub durable: u16,
    /// Writes that recovery must show.
    pub must: u16,
    /// What was acknowledged when a step first failed under this handle.
    pub at_failure: Option<u16>,
    /// Whether a sync has failed under this handle.
    pub sync_failed: bool,
    /// What an earlier recovery decided, where nothing has been able to change since: the logs are
    /// as they were, and whichever manifest `CURRENT` comes to name, it says the same.
    pub first_cut: Option<u16>,
    /// Whether two recoveries of one disk differed.
    pub differed: bool,
    /// Whether a trace of the next sequence is on disk in an old log.
    pub stale: bool,
    /// Whether a sequence was issued of which a trace was on disk.
    pub reused: bool,
    /// How often recovery began since `open` last returned.
    pub recoveries: u8,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A group is appended: whether it asks for a sync.
    Append(bool),
    /// An append fails; what was left in the log.
    AppendFails(Fate),
    /// A watermark frame is appended.
    Mark,
    /// A sync begins.
    SyncBegin,
    /// It ends, with success or not.
    SyncEnd(bool),
    /// The oldest appended group is applied, published and acknowledged.
    Publish,
    /// The directory is synced for the new log, with success or not.
    LogSyncDir(bool),
    /// The next log takes over; or its creation fails, leaving a file behind.
    Rotate(bool),
    /// Recovery reads and judges the logs.
    RecoverLogs,
    /// Recovery's tables and manifest are written and synced, with success or not.
    RecoverBuild(bool),
    /// `CURRENT.tmp` takes the place of `CURRENT`.
    CurrentRename,
    /// The directory is synced, with success or not; after success `open` returns.
    CurrentSyncDir(bool),
    /// The process dies; the page cache stays.
    Kill(u32),
    /// The power fails.
    Power(u32),
}

impl Action {
    /// The name of the engine's stage in which this happens; `None` for crashes.
    pub fn stage(self) -> Option<&'static str> {
        Some(match self {
            Self::Append(_) | Self::AppendFails(_) => "commit.append",
            Self::Mark => "sync.mark",
            Self::SyncBegin | Self::SyncEnd(_) => "commit.sync",
            Self::Publish => "commit.publish",
            Self::LogSyncDir(_) => "log.sync_dir",
            Self::Rotate(_) => "rotate.swap",
            Self::RecoverLogs => "recover.logs",
            Self::RecoverBuild(_) => "recover.build",
            Self::CurrentRename => "current.rename",
            Self::CurrentSyncDir(_) => "current.sync_dir",
            Self::Kill(_) | Self::Power(_) => return None,
        })
    }
}

/// The machine within its bounds, with at most one defect.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The bounds.
    pub budget: Budget,
    /// What is wrong with it.
    pub defect: Option<Defect>,
}

impl Commit {
    pub(super) fn has(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }

    /// A new database: its first log stands, no entry synced yet.
    pub(super) fn init(&self) -> State {
        let manifest = Manifest { tables: 0, flushed: 0, first_log: 1, fate: Fate::Durable };
        let disk = Disk { logs: Vec::new(), manifest, renamed: Vec::new() };
        let mut state = State {
            disk,
            phase: Phase::Down,
            left: self.budget,
            issued: 0,
            decided: 0,
            dropped: 0,
            acked: 0,
            durable: 0,
            must: 0,
            at_failure: None,
            sync_failed: false,
            first_cut: None,
            differed: false,
            stale: false,
            reused: false,
            recoveries: 0,
        };
        state.open(manifest);
        state
    }

    pub(super) fn enabled(&self, state: &State, actions: &mut Vec<Action>) {
        let fault = state.left.faults > 0;
        match &state.phase {
            // Where nothing can go wrong any more, nothing new can be seen.
            Phase::Open(_) if state.left.crashes + state.left.faults == 0 => {}
            Phase::Open(handle) if !handle.poisoned => self.handle(state, handle, actions),
            Phase::Open(_) => {}
            Phase::Down => actions.push(Action::RecoverLogs),
            Phase::Judged(_) => ok_or_not(fault, Action::RecoverBuild, actions),
            Phase::Built(_) => actions.push(Action::CurrentRename),
            Phase::Renamed(_) => ok_or_not(fault, Action::CurrentSyncDir, actions),
        }
        let reopen = matches!(&state.phase, Phase::Open(handle) if handle.poisoned);
        if reopen || state.left.crashes > 0 {
            actions.extend((0..state.disk.kill_outcomes()).map(Action::Kill));
        }
        if state.left.crashes > 0 {
            actions.extend((0..state.disk.power_outcomes()).map(Action::Power));
        }
    }

    fn handle(&self, state: &State, handle: &Handle, actions: &mut Vec<Action>) {
        let fault = state.left.faults > 0;
        if state.left.writes > 0 && handle.queue.len() < 2 {
            actions.extend([Action::Append(false), Action::Append(true)]);
            if fault {
                let left = [Fate::Gone, Fate::Torn, Fate::Dirty];
                actions.extend(left.map(Action::AppendFails));
            }
        }
        if state.left.marks > 0 && handle.queue.is_empty() && handle.sync.is_none() {
            actions.push(Action::Mark);
        }
        match handle.sync {
            Some(_) => ok_or_not(fault, Action::SyncEnd, actions),
            None if self.next_sync(state, handle).is_some() => actions.push(Action::SyncBegin),
            None => {}
        }
        if handle.sync.is_none() && handle.queue.first().is_some_and(|g| self.may_ack(handle, g)) {
            actions.push(Action::Publish);
        }
        if handle.named < handle.log {
            ok_or_not(fault, Action::LogSyncDir, actions);
        }
        if state.left.rotations > 0 && handle.queue.is_empty() && handle.sync.is_none() {
            ok_or_not(fault, Action::Rotate, actions);
        }
    }

    fn may_ack(&self, handle: &Handle, group: &Group) -> bool {
        let named = handle.named >= group.end.log || self.has(Defect::NoLogDirSync);
        let synced = handle.synced >= group.end || self.has(Defect::AckBeforeSync);
        !group.durable || (named && synced)
    }

    /// What the next sync covers: the oldest log that is not synced whole.
    fn next_sync(&self, state: &State, handle: &Handle) -> Option<Pos> {
        let skip = self.has(Defect::RotateWithoutSync);
        let rotated = handle.rotated.iter().filter(|_| !skip);
        let ends = rotated.chain([&handle.log]).filter_map(|number| {
            let log = state.disk.logs.iter().find(|log| log.number == *number)?;
            Some(log.end()).filter(|end| *end > handle.synced)
        });
        let wanted = handle.queue.iter().any(|group| group.durable) || state.acked != 0;
        if wanted { ends.min() } else { None }
    }
}

fn ok_or_not(fault: bool, action: fn(bool) -> Action, actions: &mut Vec<Action>) {
    actions.push(action(true));
    if fault {
        actions.push(action(false));
    }
}
