//! Which manifest counts.
//!
//! `CURRENT` is one line of text:
//!
//! ```text
//! kiban 0 000012.manifest 0123456789abcdef0123456789abcdef 89abcdef
//!       |                 database id (hex)                checksum of all before it, and its
//!       space version of this line
//! ```
//!
//! Invariants
//! - It is replaced by rename, never written in place: it is the old one or the new one.
//! - What it names is durable, directory entry included, before it is written (B40).
//! - Only after the directory is synced again is the change certain; until then both manifests are
//!   kept, since either may be current after a crash (B38).

use crate::base::checksum::{Context, checksum};
use crate::base::key::{DatabaseId, FileNumber};
use crate::base::name::{CURRENT, CURRENT_TMP, FileKind, file_name, parse_file_name};
use crate::env::Env;
use crate::env::fs::{read_file, write_all_at};
use crate::env::probe::Stage;
use crate::error::{Error, Result};
use std::io;
use std::path::Path;

/// The newest version of the line that this code reads and the one that it writes.
pub const CURRENT_VERSION: u32 = 0;

/// The operation that an error names where a sync of a directory failed.
pub const SYNC_DIR: &str = "sync directory";

/// A kind of whole file, for its checksum's context.
const WHOLE_CURRENT: u8 = 1;
const CURRENT_BYTES_MAX: u64 = 4096;

/// What `CURRENT` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Current {
    /// The current manifest.
    pub manifest: FileNumber,
    /// The database.
    pub db: DatabaseId,
}

impl Current {
    /// The line.
    #[must_use]
    pub fn encode(&self) -> String {
        let name = file_name(FileKind::Manifest, self.manifest);
        let text = format!("kiban {CURRENT_VERSION} {name} {:032x} ", self.db.0);
        let crc = checksum(Context::Whole(WHOLE_CURRENT), &[text.as_bytes()]);
        format!("{text}{crc:08x}\n")
    }

    /// Reads the line.
    ///
    /// # Errors
    /// `UnsupportedFormat` of a newer version; `Corruption` of anything that [`Current::encode`]
    /// does not give.
    pub fn decode(file: &Path, bytes: &[u8]) -> Result<Self> {
        let bad = || Error::corruption(file, 0, "not a line that names a manifest");
        let text = std::str::from_utf8(bytes).map_err(|_| bad())?;
        let mut words = text.trim_end_matches('\n').split(' ');
        if words.next() != Some("kiban") {
            return Err(bad());
        }
        let found = words.next().and_then(|word| word.parse::<u32>().ok()).ok_or_else(bad)?;
        if found > CURRENT_VERSION {
            return Err(Error::UnsupportedFormat {
                file: file.to_path_buf(),
                found,
                supported: CURRENT_VERSION,
            });
        }
        let manifest = match words.next().and_then(parse_file_name) {
            Some((FileKind::Manifest, number)) => number,
            _ => return Err(bad()),
        };
        let db = words.next().and_then(|word| u128::from_str_radix(word, 16).ok());
        let current = Self { manifest, db: DatabaseId(db.ok_or_else(bad)?) };
        // The checksum included: only the exact bytes are ours.
        if current.encode().as_bytes() != bytes { Err(bad()) } else { Ok(current) }
    }
}

/// Reads `CURRENT`; `None` if there is none.
///
/// # Errors
/// `Io`, `UnsupportedFormat`, `Corruption`.
pub fn read(env: &Env, dir: &Path) -> Result<Option<Current>> {
    let path = dir.join(CURRENT);
    match read_file(&*env.fs, &path, CURRENT_BYTES_MAX) {
        Ok(bytes) => Current::decode(&path, &bytes).map(Some),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) if e.kind() == io::ErrorKind::FileTooLarge => {
            Err(Error::corruption(&path, 0, "too long for CURRENT"))
        }
        Err(e) => Err(Error::io(&path, "read CURRENT", e)),
    }
}

/// Makes `manifest`, which is durable with its name, the current one.
///
/// # Errors
/// `Io`. Which manifest is current is unknown then; the caller poisons.
pub fn install(env: &Env, dir: &Path, manifest: FileNumber, db: DatabaseId) -> Result<()> {
    let (path, tmp) = (dir.join(CURRENT), dir.join(CURRENT_TMP));
    env.stage(Stage::CurrentWrite);
    match env.fs.unlink(&tmp) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            return Err(Error::io(&tmp, "remove", e));
        }
        _ => {}
    }
    let file = env.fs.create(&tmp).map_err(|e| Error::io(&tmp, "create", e))?;
    let line = Current { manifest, db }.encode();
    write_all_at(&*file, 0, line.as_bytes()).map_err(|e| Error::io(&tmp, "write", e))?;
    // Crash here: a `CURRENT.tmp`, perhaps torn, that nobody reads.
    env.stage(Stage::CurrentSync);
    file.sync_all().map_err(|e| Error::io(&tmp, "sync", e))?;
    // Crash here: the same; its bytes are certain if its name is there.
    env.stage(Stage::CurrentRename);
    env.fs.rename(&tmp, &path).map_err(|e| Error::io(&path, "rename to", e))?;
    // Crash here: the old manifest is current, or the new one. Both are whole.
    env.stage(Stage::CurrentSyncDir);
    env.fs.sync_dir(dir).map_err(|e| Error::io(dir, SYNC_DIR, e))
    // Crash here: the new manifest is current.
}

#[cfg(test)]
mod tests;
