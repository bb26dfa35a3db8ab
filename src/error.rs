//! The one error type.
//!
//! Invariants
//! - Our own bugs are assertions, never an error here.
//! - Bad bytes are [`Error::Corruption`] with file, offset and what; the environment is
//!   [`Error::Io`] with path and operation.
//! - An error is cheap to clone: every member of a failed group gets the same one.

use crate::env::sync::Arc;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// What the engine returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation was refused or failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The environment refused or failed an operation.
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was being done, such as "sync log".
        operation: &'static str,
        /// What the operating system said.
        source: Arc<io::Error>,
    },
    /// Bytes on disk are not what was written there.
    Corruption {
        /// The file.
        file: PathBuf,
        /// The offset in it of the damaged piece.
        offset: u64,
        /// What was expected, and what was found.
        what: String,
    },
    /// Another handle has the database open, in this process or another.
    Locked {
        /// The database directory.
        path: PathBuf,
    },
    /// There is no database here, and none was to be created.
    NotFound {
        /// The directory.
        path: PathBuf,
        /// What is missing, and what to do.
        what: String,
    },
    /// Something stands already where a new thing was to be made.
    AlreadyExists {
        /// The file or directory.
        path: PathBuf,
    },
    /// The files are of a format that this version does not read.
    UnsupportedFormat {
        /// The file.
        file: PathBuf,
        /// The format version found.
        found: u32,
        /// The newest format version that this binary reads.
        supported: u32,
    },
    /// An option has a value that can't work.
    InvalidOption {
        /// The option's name.
        option: &'static str,
        /// What is wrong with the value.
        what: String,
    },
    /// A key, value or batch is over its limit; nothing reached the log.
    TooLarge {
        /// "key", "value" or "batch".
        what: &'static str,
        /// Its size in bytes.
        bytes: u64,
        /// The limit in bytes.
        bytes_max: u64,
    },
    /// The handle is read-only.
    ReadOnly,
    /// The handle was closed.
    Closed,
    /// An earlier failure left it uncertain what is durable; reopen to go on. Reads serve the
    /// view last published.
    Poisoned {
        /// The first failure.
        cause: Arc<Error>,
    },
    /// Maintenance can't keep up or can't go on, so the write was refused before it reached the
    /// log.
    Stalled {
        /// What the write waited for.
        cause: String,
    },
}

/// A coarse class of errors, for deciding what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The environment failed.
    Io,
    /// Data on disk is damaged.
    Corruption,
    /// Another handle is in the way.
    Locked,
    /// Something needed is missing.
    NotFound,
    /// Something is in the way.
    AlreadyExists,
    /// The format is newer or unknown.
    Unsupported,
    /// The caller's argument can't work.
    Invalid,
    /// This handle takes no such calls (any more).
    Unavailable,
    /// Try again later.
    Stalled,
}

impl Error {
    pub(crate) fn io(path: &Path, operation: &'static str, source: io::Error) -> Self {
        Self::Io { path: path.to_path_buf(), operation, source: Arc::new(source) }
    }

    pub(crate) fn corruption(file: &Path, offset: u64, what: impl Into<String>) -> Self {
        Self::Corruption { file: file.to_path_buf(), offset, what: what.into() }
    }

    pub(crate) fn poisoned(cause: &Error) -> Self {
        match cause {
            Self::Poisoned { .. } => cause.clone(),
            _ => Self::Poisoned { cause: Arc::new(cause.clone()) },
        }
    }

    /// The error's class. A poisoned handle's is [`ErrorKind::Unavailable`].
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { .. } => ErrorKind::Io,
            Self::Corruption { .. } => ErrorKind::Corruption,
            Self::Locked { .. } => ErrorKind::Locked,
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::AlreadyExists { .. } => ErrorKind::AlreadyExists,
            Self::UnsupportedFormat { .. } => ErrorKind::Unsupported,
            Self::InvalidOption { .. } | Self::TooLarge { .. } => ErrorKind::Invalid,
            Self::ReadOnly | Self::Closed | Self::Poisoned { .. } => ErrorKind::Unavailable,
            Self::Stalled { .. } => ErrorKind::Stalled,
        }
    }

    /// Whether the handle was poisoned by an earlier failure.
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        matches!(self, Self::Poisoned { .. })
    }

    /// Whether damaged bytes are the reason, at first or second hand.
    #[must_use]
    pub fn is_corruption(&self) -> bool {
        match self {
            Self::Corruption { .. } => true,
            Self::Poisoned { cause } => cause.is_corruption(),
            _ => false,
        }
    }

    /// Whether the same call on the same handle may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Locked { .. } | Self::Stalled { .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, operation, source } => {
                write!(f, "{operation} {}: {source}", path.display())
            }
            Self::Corruption { file, offset, what } => {
                write!(f, "corruption in {} at offset {offset}: {what}", file.display())
            }
            Self::Locked { path } => write!(
                f,
                "database {} is open elsewhere; close the other handle first",
                path.display()
            ),
            Self::NotFound { path, what } => {
                write!(f, "no database in {}: {what}", path.display())
            }
            Self::AlreadyExists { path } => {
                write!(f, "{} already exists; choose another place or remove it", path.display())
            }
            Self::UnsupportedFormat { file, found, supported } => write!(
                f,
                "{} has format version {found}; this version of kiban reads up to {supported}: \
                 use a newer one",
                file.display()
            ),
            Self::InvalidOption { option, what } => write!(f, "option {option}: {what}"),
            Self::TooLarge { what, bytes, bytes_max } => {
                write!(f, "{what} of {bytes} bytes is over the limit of {bytes_max} bytes")
            }
            Self::ReadOnly => write!(f, "the handle is read-only"),
            Self::Closed => write!(f, "the handle was closed"),
            Self::Poisoned { cause } => {
                write!(f, "the handle takes no more writes until it is reopened, since: {cause}")
            }
            Self::Stalled { cause } => write!(f, "the write was refused: {cause}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(&**source),
            Self::Poisoned { cause } => Some(&**cause),
            _ => None,
        }
    }
}
