//! The edits on disk.
//!
//! A manifest is a file of frames. Frame 0 says whose it is and in which format, frame 1 is the
//! whole version as one edit, every later frame is one edit.
//!
//! ```text
//!  0  u32  crc         of the context (database, manifest number, index), bytes 4..20 (not the
//!                      other checksum: see the log's frames), and the payload
//!  4  u32  payload_len
//!  8  u64  index       of the frame, from 0
//! 16  u32  magic       0x4B6D_6601
//! 20  u32  header_crc  of the same context and bytes 4..20
//! 24       payload, then zeros up to a multiple of 8
//! frame 0's payload: u32 format version, u128 database, u64 number
//! ```
//!
//! Invariants
//! - Each frame is synced before the next one is appended. So the last frame alone may be torn; one
//!   that is invalid with a valid header of a later one behind it is damage (C1).
//! - Frames 0 and 1 are synced before `CURRENT` names the manifest: damage there is damage.
//! - A failed append or sync ends the manifest; the caller poisons (P1). An edit whose fate is
//!   unknown is never contradicted, because nothing more is written.
//! - A newer format version is refused before anything else is read.
//!
//! It does not make a manifest current (`current`) and does not decide when to start a new one.

use super::current::{self, SYNC_DIR};
use super::edit::{Edit, snapshot_edit};
use super::state::Version;
use crate::base::checksum::{Context, checksum, checksum_onward};
use crate::base::coding::{Reader, put_u32, put_u64, put_u128, used_len};
use crate::base::key::{DatabaseId, FileNumber, ManifestMark};
use crate::base::name::{FileKind, file_path};
use crate::env::Env;
use crate::env::fs::{File, read_file, write_all_at};
use crate::env::probe::Stage;
use crate::env::sync::Arc;
use crate::error::{Error, Result};
use std::io;
use std::path::{Path, PathBuf};

/// The format of the database: the newest that this code reads and the one that it writes; 0 is
/// unstable. Opening never raises it.
pub const FORMAT_VERSION: u32 = 0;

const HEADER_BYTES: usize = 24;
const ALIGN: usize = 8;
const MAGIC: u32 = 0x4b6d_6601;
/// No manifest grows to this: a longer file is not one.
const MANIFEST_BYTES_MAX: u64 = 1 << 30;

/// What a manifest says.
#[derive(Clone, Debug)]
pub struct ManifestRead {
    /// The version that its frames make.
    pub version: Version,
    /// Its last valid frame.
    pub mark: ManifestMark,
    /// The format version of the database.
    pub format: u32,
    /// Where its valid frames end.
    pub end: u64,
    /// Whether something other than zeros follows there: an edit torn by a crash, or damage to the
    /// last one; nobody can tell.
    pub torn: bool,
}

/// Reads manifest `number` of database `db` in `dir`.
///
/// # Errors
/// `Io`; `UnsupportedFormat` of a newer format; `Corruption`.
pub fn read_manifest(
    env: &Env,
    dir: &Path,
    number: FileNumber,
    db: DatabaseId,
) -> Result<ManifestRead> {
    let path = file_path(dir, FileKind::Manifest, number);
    let bytes = read_file(&*env.fs, &path, MANIFEST_BYTES_MAX).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => {
            Error::corruption(&path, 0, "CURRENT names this manifest, which is missing")
        }
        io::ErrorKind::FileTooLarge => Error::corruption(&path, 0, "too long for a manifest"),
        _ => Error::io(&path, "read manifest", e),
    })?;
    decode(&path, &bytes, number, db)
}

/// A frame found at some place.
struct Found<'a> {
    index: u64,
    /// `None` if it is torn.
    payload: Option<&'a [u8]>,
    end: usize,
}

fn find(bytes: &[u8], at: usize, number: FileNumber, db: DatabaseId) -> Option<Found<'_>> {
    let bytes = bytes.get(at..)?;
    let header = bytes.first_chunk::<HEADER_BYTES>()?;
    if header[16..20] != MAGIC.to_le_bytes() {
        return None;
    }
    let mut reader = Reader::new(header);
    let (crc, len, index) = (reader.u32()?, reader.u32()?, reader.u64()?);
    let (_magic, header_crc) = (reader.u32()?, reader.u32()?);
    let context = Context::Manifest(db, number, index);
    if checksum(context, &[&header[4..20]]) != header_crc {
        return None;
    }
    let len = HEADER_BYTES.checked_add(usize::try_from(len).ok()?)?;
    let payload = bytes.get(HEADER_BYTES..len);
    Some(Found {
        index,
        payload: payload.filter(|payload| checksum_onward(header_crc, &[payload]) == crc),
        end: at.saturating_add(len.next_multiple_of(ALIGN)),
    })
}

/// Reads the bytes of manifest `number`. Takes any bytes.
///
/// # Errors
/// `UnsupportedFormat` of a newer format; `Corruption`.
pub fn decode(
    file: &Path,
    bytes: &[u8],
    number: FileNumber,
    db: DatabaseId,
) -> Result<ManifestRead> {
    let bad = |at: usize, what: String| Error::corruption(file, at as u64, what);
    let mut version = Version::default();
    let mut format = 0;
    let (mut at, mut index) = (0, 0);
    while let Some(Found { payload: Some(payload), end, .. }) =
        find(bytes, at, number, db).filter(|found| found.index == index)
    {
        if index == 0 {
            format = decode_header(file, payload, number, db)?;
        } else {
            let edit = Edit::decode(payload).map_err(|what| bad(at, what))?;
            version = version.apply(&edit).map_err(|what| bad(at, what))?;
        }
        (at, index) = (end, index + 1);
    }
    if index < 2 {
        return Err(bad(
            at,
            format!("frame {index} of the manifest, which was synced, is damaged"),
        ));
    }
    // The rest is reserved space, all zeros, or what a crash left of a frame.
    let torn = used_len(bytes) > at;
    if torn {
        refuse_later_frame(file, bytes, at, index, (number, db))?;
    }
    let mark = ManifestMark { number, index: index - 1 };
    Ok(ManifestRead { version, mark, format, end: at as u64, torn })
}

fn decode_header(file: &Path, payload: &[u8], number: FileNumber, db: DatabaseId) -> Result<u32> {
    let mut reader = Reader::new(payload);
    let bad = |what: &str| Error::corruption(file, HEADER_BYTES as u64, what);
    let found = reader.u32().ok_or_else(|| bad("manifest without a format version"))?;
    if found > FORMAT_VERSION {
        return Err(Error::UnsupportedFormat {
            file: file.to_path_buf(),
            found,
            supported: FORMAT_VERSION,
        });
    }
    if (reader.u128(), reader.u64()) != (Some(db.0), Some(number.0)) || !reader.is_empty() {
        return Err(bad("manifest of another database or number"));
    }
    Ok(found)
}

/// Frame `index` is not whole at `at`. A header of a later one, or of this one elsewhere, shows
/// that it had been synced.
fn refuse_later_frame(
    file: &Path,
    bytes: &[u8],
    at: usize,
    index: u64,
    (number, db): (FileNumber, DatabaseId),
) -> Result<()> {
    let mut look = at;
    while look + HEADER_BYTES <= bytes.len() {
        let found = find(bytes, look, number, db).filter(|found| found.index >= index);
        if let Some(later) = &found
            && (later.index > index || look != at)
        {
            return Err(Error::corruption(
                file,
                at as u64,
                format!("frame {index} is damaged: frame {} stands at offset {look}", later.index),
            ));
        }
        look = found.map_or(look + ALIGN, |found| found.end);
    }
    Ok(())
}

/// Appends edits to the current manifest.
pub struct ManifestWriter {
    file: Arc<dyn File>,
    number: FileNumber,
    db: DatabaseId,
    offset: u64,
    room: u64,
    index: u64,
    unsynced: bool,
    failed: bool,
}

/// A manifest with room for a version and for edits, and nothing in it yet.
pub struct PreparedManifest {
    file: Arc<dyn File>,
    number: FileNumber,
    db: DatabaseId,
    frames: Vec<u8>,
    room: u64,
}

impl PreparedManifest {
    /// Creates manifest `number` for `version` and reserves space for it.
    ///
    /// Its number is reserved by the manifest before it (C2), or is that of an attempt which never
    /// became current and so never got beyond frame 1.
    ///
    /// # Errors
    /// `Io`. Nothing is in doubt then, though an empty file may be there.
    pub fn create(
        env: &Env,
        dir: &Path,
        number: FileNumber,
        db: DatabaseId,
        version: &Version,
        preallocate_bytes: u64,
    ) -> Result<Self> {
        assert!(number < version.next_file, "C2: a manifest's number is reserved in itself");
        super::check::structure(version).expect("invariant: only whole versions are written");
        env.stage(Stage::ManifestCreate);
        let path = file_path(dir, FileKind::Manifest, number);
        let file = env.fs.create(&path).map_err(|e| Error::io(&path, "create manifest", e))?;
        let mut header = Vec::new();
        put_u32(&mut header, FORMAT_VERSION);
        put_u128(&mut header, db.0);
        put_u64(&mut header, number.0);
        let mut frames = Vec::new();
        encode_frame(&mut frames, number, db, 0, &header);
        encode_frame(&mut frames, number, db, 1, &snapshot_edit(version).encode());
        let room = preallocate_bytes.max(2 * frames.len() as u64);
        match file.preallocate(room) {
            Err(e) if e.kind() != io::ErrorKind::Unsupported => {
                // Nothing is in it, and a full disk needs what it may have taken: each failed open
                // would take as much again.
                let _ = env.fs.unlink(&path);
                Err(Error::io(&path, "preallocate manifest", e))
            }
            _ => Ok(Self { file, number, db, frames, room }),
        }
    }

    /// Writes the version and makes file and name durable, then makes it the current manifest. The
    /// old one is left to [`unlink_old`].
    ///
    /// # Errors
    /// `Io`. Which manifest is current is unknown then; the caller poisons.
    pub fn install(self, env: &Env, dir: &Path) -> Result<ManifestWriter> {
        let Self { file, number, db, frames, room } = self;
        let path = file.path();
        write_all_at(&*file, 0, &frames).map_err(|e| Error::io(path, "write manifest", e))?;
        // Crash here: a file, perhaps empty or torn, that nobody names.
        env.stage(Stage::ManifestSync);
        file.sync_data().map_err(|e| Error::io(path, "sync manifest", e))?;
        // Crash here: the same, and its bytes are certain if its name is there.
        env.stage(Stage::ManifestSyncDir);
        env.fs.sync_dir(dir).map_err(|e| Error::io(dir, SYNC_DIR, e))?;
        // Crash here: a whole manifest that `CURRENT` does not name; an orphan.
        current::install(env, dir, number, db)?;
        let (offset, index) = (frames.len() as u64, 1);
        let (unsynced, failed) = (false, false);
        Ok(ManifestWriter { file, number, db, offset, room, index, unsynced, failed })
    }
}

impl ManifestWriter {
    /// [`PreparedManifest::create`] and [`PreparedManifest::install`] in one.
    ///
    /// # Errors
    /// Theirs.
    pub fn install(
        env: &Env,
        dir: &Path,
        number: FileNumber,
        db: DatabaseId,
        version: &Version,
        preallocate_bytes: u64,
    ) -> Result<Self> {
        PreparedManifest::create(env, dir, number, db, version, preallocate_bytes)?
            .install(env, dir)
    }

    /// Appends an edit. It counts only after [`ManifestWriter::sync`].
    ///
    /// # Errors
    /// `Io`. The manifest takes no more then: the edit may be in it.
    pub fn append(&mut self, edit: &Edit) -> Result<()> {
        assert!(!self.failed, "P1: nothing is appended to a manifest after a failure");
        assert!(!self.unsynced, "an edit is synced before the next one is appended");
        let mut buf = Vec::new();
        encode_frame(&mut buf, self.number, self.db, self.index + 1, &edit.encode());
        (self.unsynced, self.failed) = (true, true);
        write_all_at(&*self.file, self.offset, &buf)
            .map_err(|e| Error::io(self.file.path(), "append to manifest", e))?;
        self.failed = false;
        self.offset += buf.len() as u64;
        self.index += 1;
        Ok(())
    }

    /// Makes the appended edit durable.
    ///
    /// # Errors
    /// `Io`. The manifest takes no more then: the edit may be durable.
    pub fn sync(&mut self) -> Result<()> {
        assert!(!self.failed, "P1: no failed sync is retried");
        self.failed = true;
        self.file.sync_data().map_err(|e| Error::io(self.file.path(), "sync manifest", e))?;
        (self.unsynced, self.failed) = (false, false);
        Ok(())
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> FileNumber {
        self.number
    }

    /// Its last frame that is known to be synced: what the next log's header carries.
    #[must_use]
    pub fn synced(&self) -> ManifestMark {
        let index = if self.unsynced { self.index - 1 } else { self.index };
        ManifestMark { number: self.number, index }
    }

    /// Whether the reserved space is nearly used up, so that a new manifest should begin.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.offset >= self.room - self.room / 4
    }

    /// Its length so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.offset
    }

    /// Its path, for errors.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.file.path().to_path_buf()
    }
}

/// Removes a manifest that is no longer current. To be called only after
/// [`ManifestWriter::install`] of another has returned.
///
/// # Errors
/// `Io`; it may be retried and never poisons.
pub fn unlink_old(env: &Env, dir: &Path, number: FileNumber) -> Result<()> {
    env.stage(Stage::ManifestUnlink);
    let path = file_path(dir, FileKind::Manifest, number);
    match env.fs.unlink(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(Error::io(&path, "remove manifest", e))
        }
        // Crash here: the old manifest is there or gone. Nobody names it.
        _ => Ok(()),
    }
}

fn encode_frame(buf: &mut Vec<u8>, number: FileNumber, db: DatabaseId, index: u64, payload: &[u8]) {
    let context = Context::Manifest(db, number, index);
    let start = buf.len();
    put_u32(buf, 0);
    put_u32(buf, u32::try_from(payload.len()).expect("invariant: an edit is below 4 GiB"));
    put_u64(buf, index);
    put_u32(buf, MAGIC);
    let header_crc = checksum(context, &[&buf[start + 4..]]);
    put_u32(buf, header_crc);
    buf.extend_from_slice(payload);
    let crc = checksum_onward(header_crc, &[payload]);
    buf[start..start + 4].copy_from_slice(&crc.to_le_bytes());
    buf.resize(start + (buf.len() - start).next_multiple_of(ALIGN), 0);
}

#[cfg(test)]
mod tests;
