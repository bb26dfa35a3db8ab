//! Counters that must fire: each counts real evidence of one thing that a campaign must have met.
//!
//! Invariants
//! - A counter is bumped where the thing is seen on disk or in the engine's answer, never where it
//!   was only intended.
//! - One that stays at zero over a whole directed pass fails the campaign: the rig no longer
//!   produces what it claims to test.

use std::collections::BTreeMap;

macro_rules! counters {
    ($($variant:ident = $name:literal: $what:literal,)*) => {
        /// A thing that a campaign must meet.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Counter { $(#[doc = $what] $variant,)* }

        impl Counter {
            /// Every counter.
            pub const ALL: &'static [Counter] = &[$(Counter::$variant,)*];

            /// Its name in reports.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Counter::$variant => $name,)* }
            }

            /// The evidence that it counts.
            #[must_use]
            pub fn what(self) -> &'static str {
                match self { $(Counter::$variant => $what,)* }
            }
        }
    };
}

counters! {
    TailDropped = "torn last record dropped":
        "A recovery said that it dropped the end of a log.",
    TailLost = "unsynced tail lost":
        "A recovered state lacked writes that had returned and were not durable.",
    TailKept = "unsynced tail kept":
        "A power cut kept buffered writes that no sync had covered.",
    InFlightKept = "in-flight write survived":
        "A recovered state held a write that had not returned.",
    BatchTorn = "batch torn":
        "A batch's frame was cut inside by the crash, and no part of it was shown.",
    BetweenFlushes = "crash between the two flushes of one log":
        "A crash image held a log that fed one flushed and one unflushed memtable.",
    RotatedUnsynced = "rotated log unsynced at crash":
        "A crash image held a rotated log with bytes that no sync had covered.",
    LateName = "late directory entry came back":
        "A crash image had a name that the engine had removed, or renamed away.",
    NameLost = "directory entry lost":
        "A crash image lacked a name that the engine had made.",
    LengthLost = "file length lost":
        "A crash image had a file shorter or longer than the engine had left it.",
    StaleShown = "stale block shown":
        "A crash image showed old contents where a file was extended and not yet written.",
    InsideCreate = "crash inside create":
        "An image was taken before the first open had returned.",
    InsideFlush = "crash inside flush install":
        "An image was taken between a flush's table and its version.",
    InsideCompact = "crash inside compaction install":
        "An image was taken between a compaction's tables and its version.",
    InsideCurrent = "crash inside current swap":
        "An image was taken while CURRENT changed hands.",
    RecoveryCrashed = "recovery crashed and recovered again":
        "An image taken inside a recovery was recovered.",
    RecoveryCrashedTwice = "recovery crashed twice":
        "An image taken inside the recovery of an image taken inside a recovery was recovered.",
    CrashAfterRecovery = "crash after recovery":
        "An image taken after a recovery had returned and more was written was recovered.",
    RecoveryBuilt = "recovery built a table":
        "A recovery replayed records into tables of its own.",
    OrphanRemoved = "orphan removed":
        "A recovery removed files that nobody named.",
    SyncPoisoned = "failed sync poisoned":
        "A log's sync failed, and the handle refused writes from then on.",
    AppendPoisoned = "failed append poisoned":
        "A log's write failed, and the handle refused writes from then on.",
    ManifestPoisoned = "failed manifest write poisoned":
        "A manifest's write or sync failed, and the handle refused writes from then on.",
    DirSyncPoisoned = "failed directory sync poisoned":
        "A directory's sync failed, and the handle refused writes from then on.",
    EffectLanded = "error though the effect landed":
        "A call answered with an error although its effect stood.",
    LandedWriteShown = "write with an error came back":
        "A write that had answered with an error was there after the reopen.",
    LandedWriteGone = "write with an error was gone":
        "A write that had answered with an error was not there after the reopen.",
    DiskFull = "disk full refused":
        "A write was refused for want of space, the handle went on, and a later write succeeded.",
    BuildRetried = "failed table build retried":
        "A flush or compaction failed while building and was done again.",
    PoisonedReads = "poisoned handle still read":
        "Reads of a poisoned handle matched the view last published.",
    OpenRefused = "failed open tried again":
        "An open answered with an error, and the next one without faults recovered.",
    ReadFailed = "read error passed up":
        "A read answered with a typed error that was injected.",
    ShortCall = "short read or write completed":
        "A call moved fewer bytes than asked, and the engine went on.",
    NoPreallocation = "preallocation unsupported":
        "A log was made on a file system without preallocation.",
    SnapshotHeld = "snapshot held across compaction":
        "A snapshot was read after a compaction that was made while it lived.",
    BottomMerged = "tombstone dropped at the bottom":
        "Entries left the database in a compaction.",
    ManifestRolled = "manifest replaced":
        "A manifest outgrew its limit and another took its place.",
    Stalled = "stall entered and left":
        "A write had to wait for maintenance, and went on.",
    SharedGroup = "group of several writers":
        "The writes of several threads went through the log as one group.",
    FollowerFailed = "follower got the leader's error":
        "A write failed with the error that another thread met for its group.",
    LeaderPanicked = "leader panicked and its followers were told":
        "A write failed because the thread that led its group panicked.",
    SharedStall = "stall among threads entered and left":
        "A write waited for the workers to make room, and went on or was refused.",
    StalledPoisoned = "poison woke a stalled writer":
        "A write that waited for room was told that the handle is poisoned.",
    PreparedLog = "prepared log took over":
        "A leader rotated to a log that a worker had prepared.",
    ReceiptTold = "receipt told":
        "A receipt was called once its write was durable.",
    ReceiptFailed = "receipt told of a failure":
        "A receipt was called with an error, for its write can't become durable.",
    SeenDurable = "durable write seen and kept":
        "Only that a reader had seen a durable write asked for it, and the image held it.",
    InsideSync = "crash inside a shared sync":
        "An image was taken while the sync of a group of several writers was under way.",
    SomeWoke = "crash after some followers woke":
        "An image was taken when some members of a group had returned and others had not.",
    SharedManifestAppend = "failed manifest append poisoned among threads":
        "An edit's write failed while clients were at work, and the handle was poisoned.",
    SharedManifestAppendLanded = "failed manifest append landed among threads":
        "The same, though the edit was written.",
    SharedManifestSync = "failed manifest sync poisoned among threads":
        "An edit's sync failed while clients were at work, and the handle was poisoned.",
    SharedManifestSyncLanded = "failed manifest sync landed among threads":
        "The same, though the edit was durable.",
    SharedDirSync = "failed directory sync poisoned among threads":
        "A directory's sync failed while clients were at work, and the handle was poisoned.",
    SharedDirSyncLanded = "failed directory sync landed among threads":
        "The same, though the names were durable.",
    BuildNotInstalled = "build not installed after a poison":
        "A table was being built when somebody was told of a poison, and no edit named it.",
    LargeBatch = "batch larger than a memtable":
        "A batch got an arena and log space of its own.",
}

/// Counts, one for each [`Counter`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters(Vec<u64>);

impl Default for Counters {
    fn default() -> Self {
        Self(vec![0; Counter::ALL.len()])
    }
}

impl Counters {
    /// Counts one.
    pub fn fire(&mut self, counter: Counter) {
        self.add(counter, 1);
    }

    /// Counts `n`.
    pub fn add(&mut self, counter: Counter, n: u64) {
        self.0[counter as usize] += n;
    }

    /// How often it fired.
    #[must_use]
    pub fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    /// Adds what `other` counted.
    pub fn absorb(&mut self, other: &Self) {
        for (mine, n) in self.0.iter_mut().zip(&other.0) {
            *mine += n;
        }
    }

    /// Those that never fired.
    pub fn silent(&self) -> impl Iterator<Item = Counter> + '_ {
        Counter::ALL.iter().copied().filter(|&counter| self.get(counter) == 0)
    }

    /// By name, for a report.
    #[must_use]
    pub fn by_name(&self) -> BTreeMap<String, u64> {
        let named = |&counter: &Counter| (counter.name().to_owned(), self.get(counter));
        Counter::ALL.iter().map(named).collect()
    }
}
