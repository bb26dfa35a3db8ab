//! What the engine tells a test rig: the names of its protocol steps, and the order of commits.
//!
//! Invariants
//! - A probe changes nothing: the engine behaves the same with and without one.
//! - Every durable step of every protocol begins with [`Probe::stage`]; file system calls made
//!   until the next stage belong to it. `docs/TESTING.md` and `kiban-crash stages` list them.

use crate::base::key::SeqNo;

macro_rules! stages {
    ($($variant:ident = $name:literal: $what:literal,)*) => {
        /// A step of a protocol.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Stage { $(#[doc = $what] $variant,)* }

        impl Stage {
            /// Every stage, in protocol order.
            pub const ALL: &'static [Stage] = &[$(Stage::$variant,)*];

            /// The stage's name, as the runner prints and takes it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Stage::$variant => $name,)* }
            }

            /// What happens in it.
            #[must_use]
            pub fn what(self) -> &'static str {
                match self { $(Stage::$variant => $what,)* }
            }
        }
    };
}

stages! {
    Idle = "idle": "No protocol is under way; reads only.",
    CreateDir = "create.dir": "The database directory is made and its parent synced.",
    OpenLock = "open.lock": "The lock is taken.",
    OpenRead = "open.read": "CURRENT and the manifest are read.",
    RecoverLogs = "recover.logs": "The logs are read and judged.",
    RecoverBuild = "recover.build": "What the logs show is written into new tables.",
    RecoverSyncTable = "recover.sync_table": "The new tables are synced.",
    RecoverSyncDir = "recover.sync_dir": "The directory is synced: the new tables have names.",
    ManifestCreate = "manifest.create": "A new manifest is created and its snapshot written.",
    ManifestSync = "manifest.sync": "The new manifest is synced.",
    ManifestSyncDir = "manifest.sync_dir": "The directory is synced: the new manifest has a name.",
    CurrentWrite = "current.write": "CURRENT.tmp is written.",
    CurrentSync = "current.sync": "CURRENT.tmp is synced.",
    CurrentRename = "current.rename": "CURRENT.tmp takes the place of CURRENT.",
    CurrentSyncDir = "current.sync_dir": "The directory is synced: the new manifest is current.",
    ManifestUnlink = "manifest.unlink": "The old manifest is removed.",
    LogCreate = "log.create": "The next log is created, preallocated and headed.",
    LogSync = "log.sync": "The next log's header and size are synced.",
    LogSyncDir = "log.sync_dir": "The directory is synced: the next log has a name.",
    Orphans = "recover.orphans": "Files that nobody names are removed.",
    CommitAppend = "commit.append": "A group is appended to the log.",
    CommitSyncRotated = "commit.sync_rotated": "Rotated logs are synced, oldest first.",
    CommitSync = "commit.sync": "The log is synced for a group.",
    CommitApply = "commit.apply": "A group enters the memtable.",
    CommitPublish = "commit.publish": "A group becomes visible.",
    CommitAck = "commit.ack": "The members of a group are woken.",
    SyncMark = "sync.mark": "A watermark frame is appended.",
    Rotate = "rotate.swap": "The next log takes over.",
    Freeze = "freeze": "The memtable is frozen and a new one takes over.",
    FlushBuild = "flush.build": "A frozen memtable is written into a table.",
    FlushSyncTable = "flush.sync_table": "The flushed table is synced.",
    FlushSyncDir = "flush.sync_dir": "The directory is synced: the flushed table has a name.",
    FlushEdit = "flush.edit": "The flush is appended to the manifest.",
    FlushSyncManifest = "flush.sync_manifest": "The manifest is synced: the flush is durable.",
    FlushSwap = "flush.swap": "The flush becomes visible to readers.",
    CompactBuild = "compact.build": "Runs are merged into new tables.",
    CompactSyncTable = "compact.sync_table": "The merged tables are synced.",
    CompactSyncDir = "compact.sync_dir": "The directory is synced: the merged tables have names.",
    CompactEdit = "compact.edit": "The compaction is appended to the manifest.",
    CompactSyncManifest = "compact.sync_manifest": "The manifest is synced: it is durable.",
    CompactSwap = "compact.swap": "The compaction becomes visible to readers.",
    CollectLog = "collect.log": "A log that every memtable outlived is removed.",
    CollectTable = "collect.table": "A table that no version names is removed.",
    CheckpointDir = "checkpoint.dir": "The checkpoint's directory is made.",
    CheckpointLog = "checkpoint.log": "The log's synced part is copied into it.",
    CheckpointTables = "checkpoint.tables": "Tables are linked or copied into it.",
    CheckpointSyncDir = "checkpoint.sync_dir": "Its directory and its parent are synced.",
    CloseSync = "close.sync": "The logs are synced and closed with a watermark.",
    CloseUnlock = "close.unlock": "The lock is released.",
}

/// A rig's ear inside the engine. Every method has an empty default.
pub trait Probe: Send + Sync + 'static {
    /// The thread that calls enters `stage`.
    fn stage(&self, stage: Stage) {
        let _ = stage;
    }

    /// A group got its place in the commit order: `records` (the encoding of `batch`), the first
    /// of which has sequence `first`. Called by the leader before the group reaches the log.
    fn ordered(&self, first: SeqNo, records: &[u8]) {
        let _ = (first, records);
    }
}
