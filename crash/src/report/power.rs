//! What `power` counted on one file system, and how its states compare with the simulated disk's.
//!
//! Invariant: every field but those that say otherwise is a sum, so that workers and shards merge
//! by adding.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One file system's row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PowerRow {
    /// Its name.
    pub fs: String,
    /// Workloads recorded on a healthy device.
    pub sessions: u64,
    /// Calls of those that returned.
    pub ops: u64,
    /// Block writes and discards that they made.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Images examined whole, device errors' included.
    pub images: u64,
    /// Images of recoveries, examined whole; not among `images`.
    pub nested: u64,
    /// Images dropped because equal ones had been examined.
    pub duplicates: u64,
    /// Images that lost writes.
    pub lossy: u64,
    /// Images with writes of which a part was lost.
    pub torn: u64,
    /// Images that the file system refused to mount.
    pub refused: u64,
    /// Those among them without a torn write.
    pub refused_whole: u64,
    /// Refused images by what explains that (a torn write, a device that lied), and by what the
    /// kernel said. What nothing explains ("whole") ends the run.
    pub refusals: BTreeMap<String, u64>,
    /// Checkpoints looked at in images.
    pub copies: u64,
    /// KiB that a process which examines held at the most.
    pub examiner_kib: u64,
    /// Images that showed less than had been acknowledged before the cut.
    pub behind: u64,
    /// Images that had to show something.
    pub durable_behind: u64,
    /// Sessions with a device error.
    pub device_sessions: u64,
    /// Writes and flushes that were refused or forgotten, and full file systems that were met.
    pub device_errors: u64,
    /// Sessions in which the engine met one.
    pub poisoned: u64,
    /// Those by kind of error.
    pub faults: BTreeMap<String, u64>,
    /// Sessions in which the journal of an ext4 gave up: its later syncs prove nothing.
    pub gave_up: u64,
    /// Lying devices that were told as errors.
    pub lies_told: u64,
    /// Images of such journals that were told as errors, or as a damaged log.
    pub gave_up_told: u64,
    /// Images of the moments while a device failed.
    pub failing_images: u64,
    /// Images of full file systems that had no room to be used on.
    pub no_room: u64,
    /// Sessions in which the device failed, by kind of error, whether the engine met it or not.
    pub fault_hits: BTreeMap<String, u64>,
    /// Seconds of one worker spent on images.
    pub checking_s: f64,
    /// Seconds of one worker spent on workloads.
    pub recording_s: f64,
    /// Milliseconds of one worker for each image, nested ones included.
    pub image_ms: f64,
    /// The workload's time on the recorder, by its time on a bare device; the largest of the run.
    pub recorder_times: f64,
}

fn add(to: &mut BTreeMap<String, u64>, from: &BTreeMap<String, u64>) {
    for (what, n) in from {
        *to.entry(what.clone()).or_default() += n;
    }
}

impl PowerRow {
    /// Adds what `other` counted.
    pub fn absorb(&mut self, other: &Self) {
        self.sessions += other.sessions;
        self.ops += other.ops;
        self.writes += other.writes;
        self.flushes += other.flushes;
        self.images += other.images;
        self.nested += other.nested;
        self.duplicates += other.duplicates;
        self.lossy += other.lossy;
        self.torn += other.torn;
        self.copies += other.copies;
        self.examiner_kib = self.examiner_kib.max(other.examiner_kib);
        self.refused += other.refused;
        self.refused_whole += other.refused_whole;
        add(&mut self.refusals, &other.refusals);
        self.behind += other.behind;
        self.durable_behind += other.durable_behind;
        self.device_sessions += other.device_sessions;
        self.device_errors += other.device_errors;
        self.poisoned += other.poisoned;
        add(&mut self.faults, &other.faults);
        self.gave_up += other.gave_up;
        self.lies_told += other.lies_told;
        self.gave_up_told += other.gave_up_told;
        self.failing_images += other.failing_images;
        self.no_room += other.no_room;
        add(&mut self.fault_hits, &other.fault_hits);
        self.checking_s += other.checking_s;
        self.recording_s += other.recording_s;
        self.recorder_times = self.recorder_times.max(other.recorder_times);
        let images = (self.images + self.nested).max(1) as f64;
        self.image_ms = self.checking_s * 1000.0 / images;
    }
}

/// The states of one file system, held against the simulated disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainRow {
    /// The file system's name.
    pub fs: String,
    /// Sessions.
    pub sessions: u64,
    /// Calls made.
    pub calls: u64,
    /// Sequences of three calls.
    pub sequences: u64,
    /// Moments judged.
    pub moments: u64,
    /// Images mounted and read; equal ones of a session once.
    pub images: u64,
    /// Distinct states among them, by sequence.
    pub states: u64,
    /// Images whose state the simulated disk does not allow, at most four a session.
    pub outside: u64,
    /// Images that the file system refused to mount.
    pub refused: u64,
    /// Those among them without a torn write.
    pub refused_whole: u64,
    /// Refused images by whether a write of theirs was torn, and by what the kernel said.
    pub refusals: BTreeMap<String, u64>,
    /// Images with a torn block that could not be read whole.
    pub unreadable: u64,
    /// Writes and flushes that the device refused.
    pub device_errors: u64,
    /// What was seen of syncs that failed and of what came after them.
    pub failed_syncs: BTreeMap<String, u64>,
    /// States that the simulated disk draws for the moments of the sequences.
    pub simulated: u64,
    /// Those of them that were seen.
    pub simulated_seen: u64,
}

impl ContainRow {
    /// Adds what `other` counted.
    pub fn absorb(&mut self, other: &Self) {
        self.sessions += other.sessions;
        self.calls += other.calls;
        self.sequences += other.sequences;
        self.moments += other.moments;
        self.images += other.images;
        self.states += other.states;
        self.outside += other.outside;
        self.refused += other.refused;
        self.refused_whole += other.refused_whole;
        add(&mut self.refusals, &other.refusals);
        self.unreadable += other.unreadable;
        self.device_errors += other.device_errors;
        add(&mut self.failed_syncs, &other.failed_syncs);
        self.simulated += other.simulated;
        self.simulated_seen += other.simulated_seen;
    }
}
