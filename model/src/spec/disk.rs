//! The disk of the specification: logs of frames, their directory entries, and `CURRENT`.
//!
//! Invariants
//! - Bytes and directory entries that were not synced survive a power cut each on its own: any
//!   subset stays, and a frame may stay torn.
//! - A failed sync leaves pages clean and in limbo: no later sync writes them, and each reads as
//!   new or as old from then on.
//! - A killed process loses nothing but what is in limbo.
//!
//! A frame is one piece here: tears inside it are one fate, and its bytes are not modelled. The
//! byte-exact disk is the simulated one of the crash rig.

/// What became of a frame's bytes or of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// In the page cache; the next sync makes it durable.
    Dirty,
    /// Clean since a failed sync: perhaps on disk, and no later sync will write it.
    Limbo,
    /// On disk.
    Durable,
    /// Partly on disk: its header parses, its checksum fails.
    Torn,
    /// Not on disk, and not in the cache.
    Gone,
}

impl Fate {
    /// Whether a reader finds it whole.
    pub fn is_read(self) -> bool {
        matches!(self, Self::Dirty | Self::Limbo | Self::Durable)
    }

    fn is_open(self) -> bool {
        matches!(self, Self::Dirty | Self::Limbo)
    }

    /// What a sync that covers it makes of it.
    pub fn synced(self, ok: bool) -> Self {
        match (self, ok) {
            (Self::Dirty, true) => Self::Durable,
            (Self::Dirty, false) => Self::Limbo,
            (fate, _) => fate,
        }
    }
}

/// A place in the chain of logs: everything before it, counted in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pos {
    /// The log's number.
    pub log: u8,
    /// How many of its frames.
    pub frames: u8,
}

/// What a frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Payload {
    /// The first frame of a log: its predecessor and that one's final length.
    Header(Pos),
    /// One write with its sequence.
    Group(u8),
    /// A watermark alone.
    Mark,
}

/// A frame of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// What it says.
    pub payload: Payload,
    /// Everything before this was synced when the frame was written.
    pub synced: Pos,
    /// What became of it.
    pub fate: Fate,
}

/// A log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Log {
    /// Its number.
    pub number: u8,
    /// What became of its directory entry.
    pub entry: Fate,
    /// Its frames, the header first.
    pub frames: Vec<Frame>,
}

impl Log {
    /// The place behind its last frame.
    pub fn end(&self) -> Pos {
        Pos { log: self.number, frames: self.frames.len() as u8 }
    }
}

/// What a manifest says, the tables that it names included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Manifest {
    /// The writes in its tables, one bit per sequence.
    pub tables: u16,
    /// Every surviving write at or below this is in tables.
    pub flushed: u8,
    /// Logs below this are never replayed.
    pub first_log: u8,
    /// What became of its tables.
    pub fate: Fate,
}

/// The disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Disk {
    /// The logs, by number.
    pub logs: Vec<Log>,
    /// The manifest that `CURRENT` surely names.
    pub manifest: Manifest,
    /// Manifests that were renamed over it since, the directory not yet synced.
    pub renamed: Vec<Manifest>,
}

/// Takes mixed-radix digits off a number, lowest first.
struct Digits(u32);

impl Digits {
    fn next(&mut self, radix: usize) -> usize {
        let radix = radix as u32;
        let digit = self.0 % radix;
        self.0 /= radix;
        digit as usize
    }
}

const FRAME_AFTER_POWER: [Fate; 3] = [Fate::Durable, Fate::Torn, Fate::Gone];
const ENTRY_AFTER_POWER: [Fate; 2] = [Fate::Durable, Fate::Gone];
const FRAME_AFTER_KILL: [Fate; 2] = [Fate::Limbo, Fate::Gone];

impl Disk {
    /// Log `number`.
    pub fn log(&mut self, number: u8) -> &mut Log {
        let found = self.logs.iter_mut().find(|log| log.number == number);
        found.expect("invariant: a log in use is on disk")
    }

    /// What a reader takes for the current manifest.
    pub fn current(&self) -> Manifest {
        *self.renamed.last().unwrap_or(&self.manifest)
    }

    /// Syncs log `number` up to its first `frames` frames, with success or not.
    pub fn sync_log(&mut self, number: u8, frames: u8, ok: bool) {
        for frame in self.log(number).frames.iter_mut().take(frames.into()) {
            frame.fate = frame.fate.synced(ok);
        }
    }

    /// Syncs the directory, with success or not.
    pub fn sync_dir(&mut self, ok: bool) {
        for log in &mut self.logs {
            log.entry = log.entry.synced(ok);
        }
    }

    /// How many ways a power cut can end.
    pub fn power_outcomes(&self) -> u32 {
        let frames = |log: &Log| {
            let open = log.frames.iter().filter(|frame| frame.fate.is_open());
            open.map(|frame| after_power(frame).len() as u32).product::<u32>()
        };
        let entry = |log: &Log| if log.entry.is_open() { 2 } else { 1 };
        let logs: u32 = self.logs.iter().map(|log| frames(log) * entry(log)).product();
        logs * (1 + self.renamed.len() as u32)
    }

    /// The disk after a power cut that ends in way `outcome`.
    pub fn power(&self, outcome: u32) -> Self {
        let mut digits = Digits(outcome);
        let mut disk = self.clone();
        match digits.next(1 + disk.renamed.len()) {
            0 => {}
            n => disk.manifest = disk.renamed[n - 1],
        }
        disk.renamed.clear();
        if disk.manifest.fate != Fate::Durable {
            disk.manifest.fate = Fate::Gone;
        }
        for log in &mut disk.logs {
            if log.entry.is_open() {
                log.entry = ENTRY_AFTER_POWER[digits.next(2)];
            }
            for frame in log.frames.iter_mut().filter(|frame| frame.fate.is_open()) {
                let ways = after_power(frame);
                frame.fate = ways[digits.next(ways.len())];
            }
        }
        disk.logs.retain(|log| log.entry != Fate::Gone);
        disk
    }

    /// How many ways the death of the process can end.
    pub fn kill_outcomes(&self) -> u32 {
        let frames = self.logs.iter().flat_map(|log| &log.frames);
        1 << frames.filter(|frame| frame.fate == Fate::Limbo).count()
    }

    /// The disk after the process died, in way `outcome`.
    pub fn kill(&self, outcome: u32) -> Self {
        let mut digits = Digits(outcome);
        let mut disk = self.clone();
        let frames = disk.logs.iter_mut().flat_map(|log| &mut log.frames);
        for frame in frames.filter(|frame| frame.fate == Fate::Limbo) {
            frame.fate = FRAME_AFTER_KILL[digits.next(2)];
        }
        disk
    }

    /// What a power cut surely leaves: nothing that was not synced.
    pub fn surely(&self) -> Self {
        let mut disk = self.clone();
        disk.renamed.clear();
        if disk.manifest.fate != Fate::Durable {
            disk.manifest.fate = Fate::Gone;
        }
        disk.logs.retain(|log| log.entry == Fate::Durable);
        for frame in disk.logs.iter_mut().flat_map(|log| &mut log.frames) {
            if frame.fate.is_open() {
                frame.fate = Fate::Gone;
            }
        }
        disk
    }
}

/// Tears matter where a sequence stands in the frame's header; elsewhere torn equals gone.
fn after_power(frame: &Frame) -> &'static [Fate] {
    match frame.payload {
        Payload::Group(_) => &FRAME_AFTER_POWER,
        Payload::Header(_) | Payload::Mark => &ENTRY_AFTER_POWER,
    }
}
