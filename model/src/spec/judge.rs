//! What recovery makes of a disk: the rule of replay, as a pure function.
//!
//! Invariants
//! - O2: replay ends at the first missing frame or sequence, in whichever log; all later frames are
//!   dropped. A watermark beyond that end means that synced data is missing: corruption.
//! - What is flushed is skipped, so a hole in it is harmless.
//! - The next sequence is above every one of which a trace is on disk (C2).

use super::commit::Defect;
use super::disk::{Disk, Fate, Log, Manifest, Payload, Pos};

/// What recovery decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Judgement {
    /// The writes that it shows, one bit per sequence.
    pub cut: u16,
    /// The new `flushed`: above every sequence seen anywhere.
    pub flushed: u8,
    /// The first log of the next session.
    pub first_log: u8,
    /// Whether it would report corruption.
    pub corrupt: bool,
    /// Whether whole frames behind a hole were dropped.
    pub dropped: bool,
}

/// The bit of a sequence.
pub fn bit(seq: u8) -> u16 {
    1 << seq
}

struct Replay {
    manifest: Manifest,
    cut: u16,
    next: u8,
    end: Pos,
    ended: bool,
    dropped: bool,
    past_hole: bool,
}

/// How many frames from the start of `log` a reader finds whole.
fn readable(log: &Log) -> usize {
    log.frames.iter().take_while(|frame| frame.fate.is_read()).count()
}

impl Replay {
    fn log(&mut self, log: &Log, disk: &Disk) {
        let whole = if self.past_hole { log.frames.len() } else { readable(log) };
        let frames = || log.frames[..whole].iter().filter(|frame| frame.fate.is_read());
        let needed = frames().find_map(|frame| match frame.payload {
            Payload::Group(seq) if seq > self.manifest.flushed => Some(seq),
            _ => None,
        });
        let predecessor = match frames().next().map(|frame| frame.payload) {
            Some(Payload::Header(pos)) => pos,
            _ => Pos::default(),
        };
        let before = disk.logs.iter().find(|log| log.number == predecessor.log);
        let short = before.map_or(0, readable) < usize::from(predecessor.frames);
        // A short predecessor ends the replay, unless what it lacks holds no sequence we need.
        self.ended |= short && needed != Some(self.next) && !self.past_hole;
        for (i, frame) in log.frames[..whole].iter().enumerate() {
            match frame.payload {
                Payload::Group(seq) if seq <= self.manifest.flushed => {}
                Payload::Group(seq) if frame.fate.is_read() => {
                    if seq == self.next || self.past_hole {
                        self.next = seq + 1;
                        self.cut |= if self.ended { 0 } else { bit(seq) };
                    } else {
                        self.ended = true;
                    }
                }
                _ => {}
            }
            if !self.ended {
                self.end = Pos { log: log.number, frames: i as u8 + 1 };
            }
        }
        let beyond = log.frames[whole..].iter().any(|frame| frame.fate.is_read());
        self.dropped |= beyond || (self.ended && needed.is_some());
    }
}

/// Judges `disk` as recovery does.
pub fn judge(disk: &Disk, defect: Option<Defect>) -> Judgement {
    let manifest = disk.current();
    let mut replay = Replay {
        manifest,
        cut: if manifest.fate == Fate::Gone { 0 } else { manifest.tables },
        next: manifest.flushed + 1,
        end: Pos::default(),
        ended: false,
        dropped: false,
        past_hole: defect == Some(Defect::PastHole),
    };
    let live = || disk.logs.iter().filter(|log| log.number >= manifest.first_log);
    for log in live() {
        replay.log(log, disk);
    }
    let marks = live().flat_map(|log| &log.frames).filter(|frame| frame.fate.is_read());
    let corrupt = marks
        .filter(|frame| frame.synced.log >= manifest.first_log)
        .any(|frame| frame.synced > replay.end);
    let seen = disk.logs.iter().flat_map(|log| &log.frames).filter_map(|frame| match frame {
        frame if frame.fate == Fate::Gone => None,
        frame => match frame.payload {
            Payload::Group(seq) => Some(seq),
            _ => None,
        },
    });
    let shown = replay.next - 1;
    let flushed = match defect {
        Some(Defect::NoSequenceJump) => shown,
        _ => seen.fold(shown, u8::max),
    };
    let last_log = disk.logs.iter().map(|log| log.number).max().unwrap_or(0);
    Judgement {
        cut: replay.cut,
        flushed,
        first_log: manifest.first_log.max(last_log + 1),
        corrupt: corrupt || manifest.fate == Fate::Gone,
        dropped: replay.dropped,
    }
}
