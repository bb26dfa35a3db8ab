//! All sequences of three calls of the engine's file system traits, on two files, and a short life
//! of the engine itself: what a session of `contain` does on the real file system.
//!
//! Invariants
//! - A sequence has a directory of its own, and begins with `a` there and durable, and without `b`.
//! - It ends at the first call that the device failed; that a name is missing or taken is an
//!   answer.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "outside the engine")]

use super::super::tap::Tap;
use crate::kill::plan;
use kiban::env::Env;
use kiban::env::fs::{File, Fs};
use kiban::{Kiban, KibanOptions};
use kiban_model::generate::{Seed, Source};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// One call of a sequence, on the files `a`, which is there and durable, and `b`, which is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "their names say what they do")]
pub enum Step {
    CreateB,
    WriteA,
    WriteB,
    SyncDataA,
    SyncAllB,
    ShortenA,
    PreallocateB,
    RenameAb,
    RenameBa,
    LinkAb,
    UnlinkA,
    Mkdir,
    SyncDir,
}

const STEPS: [Step; 13] = [
    Step::CreateB,
    Step::WriteA,
    Step::WriteB,
    Step::SyncDataA,
    Step::SyncAllB,
    Step::ShortenA,
    Step::PreallocateB,
    Step::RenameAb,
    Step::RenameBa,
    Step::LinkAb,
    Step::UnlinkA,
    Step::Mkdir,
    Step::SyncDir,
];
/// Calls of a sequence.
const LENGTH: usize = 3;

/// All sequences in which no call is void: `b` is used only once it was created.
#[must_use]
pub fn sequences() -> Vec<Vec<Step>> {
    let mut all: Vec<Vec<Step>> = vec![Vec::new()];
    for _ in 0..LENGTH {
        let longer = |sequence: &Vec<Step>| -> Vec<Vec<Step>> {
            let next = STEPS.iter().filter(|step| {
                let needs_b = matches!(
                    step,
                    Step::WriteB | Step::SyncAllB | Step::PreallocateB | Step::RenameBa
                );
                let made = sequence.contains(&Step::CreateB);
                if **step == Step::CreateB { !made } else { !needs_b || made }
            });
            next.map(|step| [&sequence[..], &[*step]].concat()).collect()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

/// A short life of a database, through every protocol.
pub(super) fn live(tap: &Arc<Tap>, at: &Path, seed: u64) -> io::Result<()> {
    let run = || -> kiban::Result<()> {
        let (dir, draw) = (at.join("db"), &mut Seed(seed));
        for life in 0..2 {
            let fs: Arc<dyn Fs> = tap.clone();
            let options: KibanOptions = plan::options(seed, life);
            let mut db = Kiban::open(&dir, options.env(Env { fs, ..Env::os() }))?;
            for n in 0..14 {
                let id = plan::value_id(life, 0, n, 0);
                let (key, value) = (plan::key(draw.below(40) as u32), plan::value(id));
                match draw.below(8) {
                    0 => drop(db.put_durable(key, value)?),
                    1 => drop(db.delete(key)?),
                    2 => db.sync()?,
                    3 => db.flush()?,
                    _ => drop(db.put(key, value)?),
                }
            }
            db.flush()?;
            db.compact_range::<&[u8]>(..)?;
            if life == 0 {
                db.checkpoint(at.join("copy"))?;
            }
            db.close()?;
        }
        Ok(())
    };
    run().map_err(|error| io::Error::other(format!("a life of the engine: {error}")))
}

pub(super) fn dir_of(at: &Path, number: usize) -> std::path::PathBuf {
    at.join(format!("s{number:02}"))
}

/// A directory with a file, all durable.
pub(super) fn prepare(tap: &Tap, at: &Path, number: usize) -> io::Result<()> {
    let dir = dir_of(at, number);
    tap.mkdir(&dir)?;
    let a = tap.create(&dir.join("a"))?;
    a.write_at(0, &[b'a'; 700])?;
    a.sync_all()?;
    tap.sync_dir(&dir)?;
    tap.sync_dir(at)
}

/// Makes the calls of a sequence, and has the kernel write back what they left.
pub(super) fn follow(
    tap: &Tap,
    at: &Path,
    number: usize,
    sequence: &[Step],
    prepared: bool,
) -> io::Result<(usize, usize)> {
    if !prepared {
        prepare(tap, at, number)?;
    }
    let dir = dir_of(at, number);
    let a = tap.open(&dir.join("a"), kiban::env::fs::OpenMode::ReadWrite)?;
    let mut b: Option<Arc<dyn File>> = None;
    let begin = tap.count();
    for step in sequence {
        let failed = take(tap, &dir, &*a, &mut b, *step).err();
        // That a name is missing or taken is an answer; a device error is an end.
        if failed.is_some_and(|error| {
            !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists)
        }) {
            break;
        }
    }
    drop(b);
    drop(a);
    let end = tap.count();
    // What is written back meanwhile is in doubt. A device error is told in the calls.
    let _ = tap.sync_fs();
    Ok((begin, end))
}

fn take(
    tap: &Tap,
    dir: &Path,
    a: &dyn File,
    b: &mut Option<Arc<dyn File>>,
    step: Step,
) -> io::Result<()> {
    let (name_a, name_b) = (dir.join("a"), dir.join("b"));
    let file =
        |b: &Option<Arc<dyn File>>| b.clone().ok_or(io::Error::from(io::ErrorKind::NotFound));
    match step {
        Step::CreateB => {
            *b = Some(tap.create(&name_b)?);
            Ok(())
        }
        Step::WriteA => a.write_at(300, &[b'A'; 900]).map(drop),
        Step::WriteB => file(b)?.write_at(0, &[b'B'; 5000]).map(drop),
        Step::SyncDataA => a.sync_data(),
        Step::SyncAllB => file(b)?.sync_all(),
        Step::ShortenA => a.set_len(200),
        Step::PreallocateB => file(b)?.preallocate(8192),
        Step::RenameAb => tap.rename(&name_a, &name_b),
        Step::RenameBa => tap.rename(&name_b, &name_a),
        Step::LinkAb => tap.link(&name_a, &name_b),
        Step::UnlinkA => tap.unlink(&name_a),
        Step::Mkdir => tap.mkdir(&dir.join("d")),
        Step::SyncDir => tap.sync_dir(dir),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_use_b_only_once_it_was_created() {
        let all = sequences();
        assert!(all.len() > 800, "{}", all.len());
        assert!(all.iter().all(|sequence| sequence.len() == LENGTH));
        assert!(!all.contains(&vec![Step::WriteB, Step::CreateB, Step::SyncDir]));
        assert!(all.contains(&vec![Step::CreateB, Step::WriteB, Step::RenameBa]));
    }
}
