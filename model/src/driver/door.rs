//! The front door that a configuration asks for: the exclusive handle, or the shared one without
//! threads of its own, so that the test decides when each step of maintenance happens.
//!
//! - Both have the same verbs, and the driver knows no difference between them.

use crate::config::Config;
use kiban::{
    Error, Iter, Kiban, KibanOptions, MaintainStep, RecoveryReport, Result, SeqNo, SharedKiban,
    Slice, Snapshot, Stats, VerifyReport, WriteBatch,
};
use std::ops::RangeBounds;
use std::path::Path;

/// An open database.
pub enum Door {
    /// One owner.
    Exclusive(Box<Kiban>),
    /// Many clones, of which the driver holds one.
    Shared(SharedKiban),
}

impl Door {
    /// Opens a database for writing.
    ///
    /// # Errors
    /// The engine's.
    pub fn open(path: &Path, config: &Config, options: KibanOptions) -> Result<Self> {
        if config.shared == 0 {
            return Kiban::open(path, options).map(|db| Self::Exclusive(Box::new(db)));
        }
        SharedKiban::open(path, options.background_maintenance(false)).map(Self::Shared)
    }

    /// Opens a database for reading, which only the exclusive door does.
    ///
    /// # Errors
    /// The engine's.
    pub fn open_read_only(path: &Path, options: KibanOptions) -> Result<Self> {
        Kiban::open_read_only(path, options).map(|db| Self::Exclusive(Box::new(db)))
    }
}

macro_rules! verbs {
    ($self_type:ty: $($name:ident ($($arg:ident: $ty:ty),*) -> $out:ty;)*) => {
        #[allow(clippy::missing_errors_doc, missing_docs)]
        impl Door {
            $(pub fn $name(self: $self_type $(, $arg: $ty)*) -> $out {
                match self {
                    Self::Exclusive(db) => db.$name($($arg),*),
                    Self::Shared(db) => db.$name($($arg),*),
                }
            })*
        }
    };
}

verbs! {
    &mut Self:
    put (key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<SeqNo>;
    put_durable (key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<SeqNo>;
    delete (key: impl AsRef<[u8]>) -> Result<SeqNo>;
    delete_durable (key: impl AsRef<[u8]>) -> Result<SeqNo>;
    write (batch: &WriteBatch) -> Result<SeqNo>;
    write_durable (batch: &WriteBatch) -> Result<SeqNo>;
    sync () -> Result<()>;
    flush () -> Result<()>;
    compact_range (range: impl RangeBounds<Vec<u8>>) -> Result<()>;
    maintain_step () -> Result<MaintainStep>;
    checkpoint (path: impl AsRef<Path>) -> Result<()>;
    backup (path: impl AsRef<Path>) -> Result<()>;
}

verbs! {
    &Self:
    get (key: impl AsRef<[u8]>) -> Result<Option<Slice>>;
    multi_get (keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Slice>>>;
    prefix (prefix: impl AsRef<[u8]>) -> Result<Iter>;
    snapshot () -> Result<Snapshot>;
    poisoned () -> Option<Error>;
    stats () -> Stats;
    verify () -> Result<VerifyReport>;
    recovery_report () -> &RecoveryReport;
}

#[allow(clippy::missing_errors_doc, missing_docs)]
impl Door {
    pub fn get_with<R>(
        &self,
        key: impl AsRef<[u8]>,
        found: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        match self {
            Self::Exclusive(db) => db.get_with(key, found),
            Self::Shared(db) => db.get_with(key, found),
        }
    }

    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Iter> {
        match self {
            Self::Exclusive(db) => db.range(range),
            Self::Shared(db) => db.range(range),
        }
    }

    pub fn close(self) -> Result<()> {
        match self {
            Self::Exclusive(db) => db.close(),
            Self::Shared(db) => db.close(),
        }
    }
}
