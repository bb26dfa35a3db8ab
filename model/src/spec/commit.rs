//! The specified machine: a handle that commits, syncs and rotates, and a recovery, on a disk.
//!
//! Invariants
//! - One action is one step between two points where a crash may fall; its name is that of the
//!   engine's stage, so that a trace of stages can be replayed here.
//! - Every I/O step may fail, with its effect or without it, as long as the budget lasts.
//! - What is promised is in `promise`; this file only acts.
//!
//! Not here: flush, compaction and deletion of tables; contents of keys; damage to synced bytes.

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

impl State {
    /// `open` returns after a finished recovery. The old logs are behind it for good, so the state
    /// is written as that of a young database: sequences and log numbers start again, and bit 0
    /// stands for all that was decided. Without this the states of each session would be counted
    /// anew.
    fn open_final(&mut self, manifest: Manifest) {
        let frames = self.disk.logs.iter().flat_map(|log| &log.frames);
        let traces = frames.filter(|frame| frame.fate != Fate::Gone);
        self.stale = traces
            .into_iter()
            .any(|frame| matches!(frame.payload, Payload::Group(seq) if seq > manifest.flushed));
        let tables = u16::from(manifest.tables != 0);
        let young = Manifest { tables, flushed: 0, first_log: 1, fate: manifest.fate };
        self.disk = Disk { logs: Vec::new(), manifest: young, renamed: Vec::new() };
        self.open(young);
        self.dropped = 0;
    }

    /// `open` returns: everything in doubt is decided as `manifest` says, and a log is begun.
    fn open(&mut self, manifest: Manifest) {
        let number = manifest.first_log;
        let header = Frame {
            payload: Payload::Header(Pos::default()),
            synced: Pos::default(),
            fate: Fate::Dirty,
        };
        self.disk.logs.push(Log { number, entry: Fate::Dirty, frames: vec![header] });
        self.phase = Phase::Open(Handle {
            log: number,
            next: manifest.flushed + 1,
            synced: Pos::default(),
            mark: Pos::default(),
            named: 0,
            rotated: Vec::new(),
            queue: Vec::new(),
            sync: None,
            poisoned: false,
        });
        self.dropped |= self.issued & !manifest.tables;
        self.decided = manifest.tables;
        (self.issued, self.acked, self.durable, self.must) = (0, 0, 0, 0);
        (self.at_failure, self.sync_failed, self.first_cut) = (None, false, None);
        self.recoveries = 0;
    }

    /// A step failed: nothing more is acknowledged under this handle.
    fn fail(&mut self, poison: bool) {
        self.left.faults -= 1;
        self.at_failure.get_or_insert(self.acked);
        if poison && let Phase::Open(handle) = &mut self.phase {
            handle.poisoned = true;
            handle.sync = None;
            handle.queue.clear();
        }
    }

    fn append(&mut self, handle: &Handle, eager: bool, payload: Payload, fate: Fate) -> Pos {
        let log = self.disk.log(handle.log);
        let synced = if eager { log.end() } else { handle.mark };
        log.frames.push(Frame { payload, synced, fate });
        log.end()
    }
}

impl Commit {
    pub(super) fn step(&self, last: &State, action: Action) -> State {
        let mut state = last.clone();
        match action {
            Action::Kill(outcome) => self.crash(last, &mut state, last.disk.kill(outcome), false),
            Action::Power(outcome) => self.crash(last, &mut state, last.disk.power(outcome), true),
            _ => match last.phase.clone() {
                Phase::Open(handle) => self.write(&mut state, handle, action),
                _ => self.recover(&mut state, action),
            },
        }
        state
    }

    fn crash(&self, last: &State, state: &mut State, disk: Disk, power: bool) {
        let free = matches!(&last.phase, Phase::Open(handle) if handle.poisoned) && !power;
        state.left.crashes -= u8::from(!free);
        if last.disk.logs != disk.logs {
            state.first_cut = None;
        }
        let survives = match () {
            () if power || last.sync_failed => last.durable,
            () => last.acked | last.durable,
        };
        // A second crash can only lose more; what a process's death left is still at risk.
        state.must = match &last.phase {
            Phase::Open(_) => survives,
            _ if power => last.must & last.durable,
            _ => last.must,
        };
        state.disk = disk;
        state.phase = Phase::Down;
    }

    fn write(&self, state: &mut State, mut handle: Handle, action: Action) {
        let eager = self.has(Defect::EagerWatermark);
        match action {
            Action::Append(_) | Action::AppendFails(_) => {
                let fate = match action {
                    Action::AppendFails(fate) => fate,
                    _ => Fate::Dirty,
                };
                let seq = handle.next;
                state.reused |= std::mem::take(&mut state.stale);
                state.left.writes -= 1;
                state.issued |= bit(seq);
                let end = match fate {
                    Fate::Gone => Pos::default(),
                    _ => state.append(&handle, eager, Payload::Group(seq), fate),
                };
                handle.next += 1;
                if let Action::Append(durable) = action {
                    handle.queue.push(Group { seq, durable, end });
                    state.phase = Phase::Open(handle);
                } else {
                    state.fail(true);
                }
            }
            Action::Mark => {
                state.left.marks -= 1;
                state.append(&handle, eager, Payload::Mark, Fate::Dirty);
            }
            Action::SyncBegin => {
                handle.sync = self.next_sync(state, &handle).map(|to| (to, state.acked));
                state.phase = Phase::Open(handle);
            }
            Action::SyncEnd(ok) => self.sync_end(state, handle, ok),
            Action::Publish => {
                let group = handle.queue.remove(0);
                state.acked |= bit(group.seq);
                state.durable |= if group.durable { bit(group.seq) } else { 0 };
                state.phase = Phase::Open(handle);
            }
            Action::LogSyncDir(ok) => {
                state.disk.sync_dir(ok);
                handle.named = handle.log;
                if ok {
                    handle.mark = handle.synced;
                    state.phase = Phase::Open(handle);
                } else {
                    state.fail(!self.has(Defect::RetryFailedSync));
                }
            }
            Action::Rotate(ok) => self.rotate(state, handle, ok),
            _ => unreachable!("recovery's steps are not an open handle's"),
        }
    }

    fn sync_end(&self, state: &mut State, mut handle: Handle, ok: bool) {
        let (to, acked) = handle.sync.take().expect("invariant: only a running sync ends");
        state.disk.sync_log(to.log, to.frames, ok);
        if !ok {
            state.sync_failed = true;
            if self.has(Defect::AckAfterFailure) {
                handle.queue.retain(|group| !group.durable);
            }
            let goes_on = self.has(Defect::RetryFailedSync) || self.has(Defect::AckAfterFailure);
            state.phase = Phase::Open(handle);
            return state.fail(!goes_on);
        }
        handle.synced = match self.defect {
            Some(Defect::SyncCoversLater) => state.disk.log(to.log).end(),
            _ => to,
        };
        if handle.named >= to.log || self.has(Defect::WatermarkIgnoresName) {
            handle.mark = handle.synced;
        }
        handle.rotated.retain(|number| *number > to.log);
        // A caller of `sync` may have waited for just this: what it had acknowledged is durable.
        if to.log == handle.log && (handle.named >= to.log || self.has(Defect::NoLogDirSync)) {
            state.durable |= acked;
        }
        state.phase = Phase::Open(handle);
    }

    fn rotate(&self, state: &mut State, mut handle: Handle, ok: bool) {
        state.left.rotations -= 1;
        let newest = state.disk.logs.iter().map(|log| log.number).max().unwrap_or(0);
        let old = state.disk.log(handle.log).end();
        let header = Frame {
            payload: Payload::Header(old),
            synced: if self.has(Defect::EagerWatermark) { old } else { handle.mark },
            fate: Fate::Dirty,
        };
        let log = Log { number: newest + 1, entry: Fate::Dirty, frames: vec![header] };
        handle.rotated.push(handle.log);
        handle.log = log.number;
        state.disk.logs.push(log);
        if ok {
            state.phase = Phase::Open(handle);
        } else {
            // Nothing reached the log in use: the handle goes on with it.
            state.left.faults -= 1;
        }
    }

    fn recover(&self, state: &mut State, action: Action) {
        match (action, state.phase.clone()) {
            (Action::RecoverLogs, Phase::Down) => {
                let judgement = judge(&state.disk, self.defect);
                let mut older = state.disk.clone();
                older.renamed.clear();
                let same = judge(&older, self.defect).cut == judgement.cut;
                let before = state.first_cut.take();
                state.first_cut = Some(judgement.cut).filter(|_| same);
                state.differed |= before.is_some_and(|before| before != judgement.cut);
                state.recoveries = (state.recoveries + 1).min(2);
                state.phase = Phase::Judged(judgement);
            }
            (Action::RecoverBuild(false), _) | (Action::CurrentSyncDir(false), _) => {
                state.left.faults -= 1;
                state.phase = Phase::Down;
            }
            (Action::RecoverBuild(true), Phase::Judged(judgement)) => {
                let unsynced = self.has(Defect::TableNotSynced);
                let manifest = Manifest {
                    tables: judgement.cut,
                    flushed: judgement.flushed,
                    first_log: judgement.first_log,
                    fate: if unsynced { Fate::Dirty } else { Fate::Durable },
                };
                state.phase = Phase::Built(manifest);
                if self.has(Defect::DecideInPlace) {
                    state.open(manifest);
                }
            }
            (Action::CurrentRename, Phase::Built(manifest)) => {
                state.disk.renamed.push(manifest);
                state.phase = Phase::Renamed(manifest);
                if self.has(Defect::OpenBeforeDirSync) {
                    state.open(manifest);
                }
            }
            (Action::CurrentSyncDir(true), Phase::Renamed(manifest)) => {
                state.open_final(manifest);
            }
            (action, phase) => unreachable!("{action:?} is not a step of {phase:?}"),
        }
    }
}
