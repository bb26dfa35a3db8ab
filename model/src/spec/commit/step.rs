//! What each step of the machine does to the state.
//!
//! Invariants
//! - A step that fails may have had its effect; the action says which.
//! - Only an enabled action is given: what may happen is decided in `commit`.

use super::*;

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
    pub(super) fn open(&mut self, manifest: Manifest) {
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
    pub(in crate::spec) fn step(&self, last: &State, action: Action) -> State {
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
