//! The ground a recovery stands on: the directory, the lock, and what the manifest says.
//!
//! Invariants
//! - L1: the lock is taken before anything is read, and held until close.
//! - A directory without `CURRENT` is a database that was never completely created, so it may be
//!   created now; but where a log or a table stands, `CURRENT` was there once, and is damage (C1):
//!   both are only made after it is durable.
//! - C1: where a table that the manifest names is missing, nothing is opened and nothing removed.
//! - Creating also makes the directory's own entry durable before anything is acknowledged (W3).

use crate::base::key::{DatabaseId, FileNumber, ManifestMark};
use crate::base::name::{CURRENT, FileKind, LOCK, file_path, parse_file_name};
use crate::env::Env;
use crate::env::fs::{LockGuard, LockKind, parent_dir};
use crate::env::probe::Stage;
use crate::error::{Error, Result};
use crate::options::KibanOptions;
use crate::version::{Version, current, read_manifest};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

/// What is known before the logs are read.
pub(super) struct Ground {
    pub(super) db: DatabaseId,
    pub(super) version: Version,
    /// Above every number that the manifest or a directory entry knows.
    pub(super) next_file: FileNumber,
    pub(super) mark: ManifestMark,
    /// Every name in the directory.
    pub(super) names: Vec<String>,
    pub(super) created: bool,
}

/// Makes the directory if it is to be made, and takes the lock.
pub(super) fn lock(
    env: &Env,
    dir: &Path,
    create: bool,
    kind: LockKind,
) -> Result<Box<dyn LockGuard>> {
    env.stage(Stage::CreateDir);
    let exists = env.fs.exists(dir).map_err(|e| Error::io(dir, "look for directory", e))?;
    if !exists {
        if !create {
            let what = "the directory does not exist; check the path or create it".to_string();
            return Err(Error::NotFound { path: dir.to_path_buf(), what });
        }
        env.fs.mkdir(dir).map_err(|e| Error::io(dir, "create directory", e))?;
        // Crash here: an empty directory, or none. Nothing was acknowledged.
    }
    if kind == LockKind::Shared && !env.fs.exists(&dir.join(CURRENT)).unwrap_or(true) {
        let what = "there is no file CURRENT; check the path".to_string();
        return Err(Error::NotFound { path: dir.to_path_buf(), what });
    }
    env.stage(Stage::OpenLock);
    let path = dir.join(LOCK);
    env.fs.lock(&path, kind).map_err(|e| match e.kind() {
        io::ErrorKind::WouldBlock => Error::Locked { path: dir.to_path_buf() },
        _ => Error::io(&path, "lock", e),
    })
}

/// Reads what the directory holds, logs and tables left out.
pub(super) fn read(env: &Env, dir: &Path, options: &KibanOptions) -> Result<Ground> {
    env.stage(Stage::OpenRead);
    let names = env.fs.list(dir).map_err(|e| Error::io(dir, "list directory", e))?;
    let numbers = names.iter().filter_map(|name| parse_file_name(name)).map(|(_, number)| number);
    let above_names = numbers.max().unwrap_or_default().next();
    let Some(current) = current::read(env, dir)? else {
        return fresh(env, dir, options, names, above_names);
    };
    let found = read_manifest(env, dir, current.manifest, current.db)?;
    refuse_missing_table(dir, &found.version, &names)?;
    // C2, O4: above every number that the manifest or a name knows.
    let next_file = found.version.next_file.max(above_names);
    let (version, mark) = (found.version, found.mark);
    Ok(Ground { db: current.db, version, next_file, mark, names, created: false })
}

/// A table's name is durable before a manifest names it, and goes only after an edit that removes
/// it is durable. So where one is missing, it was lost, or the manifest lost that edit (C1): the
/// tables that take its place would be orphans to this recovery.
fn refuse_missing_table(dir: &Path, version: &Version, names: &[String]) -> Result<()> {
    let there: BTreeSet<_> = names.iter().filter_map(|name| parse_file_name(name)).collect();
    let tables = version.tables();
    let missing = tables.keys().find(|&&number| !there.contains(&(FileKind::Table, number)));
    match missing {
        None => Ok(()),
        Some(&number) => {
            let what = "a table that the manifest names; it is missing";
            Err(Error::corruption(&file_path(dir, FileKind::Table, number), 0, what))
        }
    }
}

/// An empty database where there is none.
fn fresh(
    env: &Env,
    dir: &Path,
    options: &KibanOptions,
    names: Vec<String>,
    next_file: FileNumber,
) -> Result<Ground> {
    let data = names
        .iter()
        .find(|name| matches!(parse_file_name(name), Some((FileKind::Log | FileKind::Table, _))));
    if let Some(name) = data {
        let what = format!("a file that names the manifest, since {name} exists; it is missing");
        return Err(Error::corruption(&dir.join(CURRENT), 0, what));
    }
    if !options.create_if_missing {
        let what = "there is no file CURRENT; check the path or let it be created".to_string();
        return Err(Error::NotFound { path: dir.to_path_buf(), what });
    }
    env.stage(Stage::CreateDir);
    let parent = parent_dir(dir);
    env.fs.sync_dir(&parent).map_err(|e| Error::io(&parent, "sync parent directory", e))?;
    // Crash here: the directory has a name, and nothing in it that counts.
    let db = DatabaseId(env.random.next_id());
    let (version, mark) = (Version::default(), ManifestMark::default());
    Ok(Ground { db, version, next_file, mark, names, created: true })
}
