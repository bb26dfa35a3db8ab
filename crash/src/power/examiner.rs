//! The process that opens what a power cut left, looks at all of it, uses it and opens it again;
//! many images one after the other.
//!
//! Invariants
//! - It decides nothing that needs the workload's history: it tells what the database showed, and
//!   its parent judges. What needs no history it judges itself: D4, S2, G1, C2, structure.
//! - C2: the first new sequence is above every one of which the logs had a trace before the open,
//!   what recovery dropped included.
//! - Every job ends with `Ended`, whatever went wrong in it; a panic or an abort of the engine ends
//!   the process, which its parent sees.
//! - It ends with its parent, and holds no file of an image between two jobs.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "outside the engine")]

use super::truth::{entry_hash, state_hash};
use crate::evidence;
use crate::kill::judge::State;
use crate::kill::wire::{Kind, Note, Teller};
use crate::kill::{look, plan};
use kiban::rig::base::name::{CURRENT, parse_file_name};
use kiban::{Error, Kiban, KibanOptions};
use kiban_model::driver::Door;
use kiban_model::unsynced;
use std::collections::BTreeSet;
use std::io::BufRead;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::Xxh3;

/// One image to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The database's directory; it may not exist.
    pub dir: PathBuf,
    /// The options are those of this life.
    pub seed: u64,
    /// See there.
    pub life: u32,
    /// Through which front door, and what else is varied.
    pub number: u32,
    /// Whether syncs reach the device: it records what they do.
    pub synced: bool,
    /// Directories beside it: checkpoints that must be whole.
    pub copies: Vec<String>,
}

impl Job {
    /// As a line.
    #[must_use]
    pub fn line(&self) -> String {
        let Self { dir, seed, life, number, synced, copies } = self;
        let (synced, copies) = (u8::from(*synced), copies.join(","));
        format!("look {seed} {life} {number} {synced} {copies} {}\n", dir.display())
    }

    /// From a line.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.trim_end().splitn(7, ' ');
        let is_job = words.next()? == "look";
        let (seed, life) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let (number, synced) = (words.next()?.parse().ok()?, words.next()? == "1");
        let copies = words.next()?.split(',').filter(|name| !name.is_empty());
        let copies = copies.map(str::to_owned).collect();
        let dir = PathBuf::from(words.next()?);
        let job = Self { dir, seed, life, number, synced, copies };
        is_job.then_some(job)
    }
}

/// The line that asks for all that the last image showed.
pub const DUMP: &str = "dump\n";
/// The life of what an examiner writes: no victim has it.
pub const LIFE: u32 = 0xff_fff0;

/// Does jobs until there are no more; the exit code.
#[must_use]
pub fn main() -> u8 {
    let teller = match Teller::stdout() {
        Ok(teller) => teller,
        Err(error) => {
            eprintln!("error: standard output: {error}");
            return 5;
        }
    };
    let mut examiner = Examiner { teller, shown: Vec::new() };
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { return 5 };
        match Job::parse(&line) {
            Some(job) => {
                if let Err(error) = examiner.look(&job) {
                    let a = u64::from(error.kind() == kiban::ErrorKind::Io);
                    let note = Note::words(Kind::Failed, error.to_string());
                    examiner.teller.tell(&Note { a, ..note });
                }
            }
            None => examiner.dump(),
        }
        examiner.teller.tell(&Note::new(Kind::Ended));
    }
    0
}

struct Examiner {
    teller: Teller,
    /// What the last image showed.
    shown: Vec<(u32, u64)>,
}

/// All entries in order, in one number.
fn digest(entries: kiban::Iter) -> Result<u64, Error> {
    let mut hash = Xxh3::new();
    for entry in entries {
        let (key, value) = entry?;
        for part in [&key, &value] {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
    Ok(hash.digest())
}

/// The numbered files of a directory, and the highest number.
fn numbers(dir: &Path) -> (BTreeSet<String>, u64) {
    let names = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let numbered = |name: &String| parse_file_name(name).map(|(_, number)| number.0);
    let names: BTreeSet<String> = names.filter(|name| numbered(name).is_some()).collect();
    let highest = names.iter().filter_map(numbered).max().unwrap_or(0);
    (names, highest)
}

/// The highest sequence of which a log has a trace, whatever an open makes of it.
fn trace(dir: &Path) -> u64 {
    let Ok(current) = std::fs::read(dir.join(CURRENT)) else { return 0 };
    let logs = numbers(dir).0.into_iter().filter(|name| name.ends_with(".log"));
    let logs = logs.filter_map(|name| Some((name.clone(), std::fs::read(dir.join(name)).ok()?)));
    evidence::highest_trace_in(&current, logs)
}

fn state_of(shown: &[(u32, u64)]) -> State {
    shown.iter().copied().collect()
}

impl Examiner {
    fn wrong(&self, promise: &str, what: &str) {
        self.teller.tell(&Note::words(Kind::Wrong, format!("{promise} {what}")));
    }

    fn dump(&self) {
        for (n, a) in &self.shown {
            self.teller.tell(&Note { n: *n, a: *a, ..Note::new(Kind::Entry) });
        }
    }

    fn look(&mut self, job: &Job) -> Result<(), Error> {
        self.shown.clear();
        let mut options = plan::options(job.seed, job.life);
        if !job.synced {
            options = options.env(unsynced::env());
        }
        let (names, highest) = numbers(&job.dir);
        let trace = trace(&job.dir);
        self.teller.tell(&Note::new(Kind::Opening));
        let undecided = self.undecided(&job.dir, &options)?;
        let mut db = look::open(&job.dir, options.clone(), job.number.is_multiple_of(2))?;
        for name in numbers(&job.dir).0.difference(&names) {
            let number = parse_file_name(name).map_or(0, |(_, number)| number.0);
            if number <= highest {
                self.wrong("C2", &format!("{name} is new, and {highest} was there before"));
            }
        }
        self.shown = self.whole(&db)?;
        let decided = digest(db.range::<&[u8]>(..)?)?;
        if undecided.is_some_and(|before| before != decided) {
            self.wrong("D4", "a read-only open shows something else than the open after it");
        }
        let last = db.stats().last_sequence;
        let hash = state_hash(&state_of(&self.shown));
        self.teller.tell(&Note::numbers(Kind::Opened, last, hash));
        let after = self.use_on(&mut db, job.number, last.max(trace))?;
        db.close()?;
        self.again(job, &options, &after)?;
        for (n, name) in (0..).zip(&job.copies) {
            self.copy(n, &job.dir.with_file_name(name), &options)?;
        }
        self.teller.tell(&Note::numbers(Kind::Answered, hash, state_hash(&after)));
        Ok(())
    }

    /// What a read-only open shows; `None` where no database was made current yet.
    fn undecided(&self, dir: &Path, options: &KibanOptions) -> Result<Option<u64>, Error> {
        if !dir.join("CURRENT").is_file() {
            return Ok(None);
        }
        let db = Kiban::open_read_only(dir, options.clone())?;
        let shown = digest(db.range::<&[u8]>(..)?)?;
        db.close()?;
        Ok(Some(shown))
    }

    /// All that is there, with structure and every checksum.
    fn whole(&self, db: &Door) -> Result<Vec<(u32, u64)>, Error> {
        let shown = look::whole(db, &mut |promise, what| self.wrong(promise, what))?;
        if let Err(error) = db.verify() {
            self.wrong("C1", &format!("verify: {error}"));
        }
        Ok(shown)
    }

    /// Writes, flushes, compacts; what must be there now.
    fn use_on(&self, db: &mut Door, number: u32, last: u64) -> Result<State, Error> {
        let mut state = state_of(&self.shown);
        let deleted = self.shown.iter().step_by(7).map(|(key, _)| (*key, None));
        let put = |i: u32| (i * 37 % plan::KEYS, Some(plan::value_id(LIFE, 0, number & 0xffff, i)));
        let records: Vec<plan::Record> = deleted.take(8).chain((0..6).map(put)).collect();
        for (key, id) in &records {
            match id {
                Some(id) => state.insert(*key, *id),
                None => state.remove(key),
            };
        }
        self.teller.tell(&Note::numbers(Kind::Issued, 0, state_hash(&state)));
        let seq = db.write_durable(&plan::batch(&records))?.0;
        self.teller.tell(&Note::numbers(Kind::Done, seq, state_hash(&state)));
        let first = (seq + 1).saturating_sub(records.len() as u64);
        if first <= last {
            self.wrong("C2", &format!("a new write has sequence {first}, {last} was given before"));
        }
        db.flush()?;
        if number.is_multiple_of(4) {
            let all: (Bound<Vec<u8>>, Bound<Vec<u8>>) = (Bound::Unbounded, Bound::Unbounded);
            db.compact_range(all)?;
        }
        let shown = state_of(&self.whole(db)?);
        self.compare("G1", "flushed and compacted", &state, &shown);
        Ok(state)
    }

    /// Opens it once more.
    fn again(&self, job: &Job, options: &KibanOptions, state: &State) -> Result<(), Error> {
        let db = look::open(&job.dir, options.clone(), !job.number.is_multiple_of(2))?;
        let shown = state_of(&self.whole(&db)?);
        self.compare("D4", "closed and opened again", state, &shown);
        db.close()
    }

    /// A checkpoint that had returned: it is whole, and shows what it shows.
    fn copy(&self, n: u32, dir: &Path, options: &KibanOptions) -> Result<(), Error> {
        let db = match Kiban::open_read_only(dir, options.clone()) {
            Ok(db) => db,
            Err(error) => {
                let text = format!("{} does not open: {error}", dir.display());
                self.wrong("D1", &text);
                return Ok(());
            }
        };
        if let Err(error) = db.verify() {
            self.wrong("C1", &format!("verify of {}: {error}", dir.display()));
        }
        let mut hash = 0;
        for entry in db.range::<&[u8]>(..)? {
            let (key, value) = entry?;
            match (plan::key_of(&key), plan::id_of(&value)) {
                (Some(key), Some(id)) => hash ^= entry_hash(key, id),
                _ => self.wrong("D3", &format!("nobody wrote key {key:?} of a checkpoint")),
            }
        }
        db.close()?;
        self.teller.tell(&Note { n, b: hash, ..Note::new(Kind::Copy) });
        Ok(())
    }

    fn compare(&self, promise: &str, when: &str, want: &State, shown: &State) {
        if want == shown {
            return;
        }
        let keys = want.keys().chain(shown.keys());
        let Some(key) = keys.copied().find(|key| want.get(key) != shown.get(key)) else { return };
        let text = |state: &State| plan::describe(state.get(&key).copied());
        let (want, shown) = (text(want), text(shown));
        self.wrong(promise, &format!("{when}, key {key} has {shown} instead of {want}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_that_a_log_has_a_trace_of_is_not_given_again() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let at = dir.path().join("db");
        let mut db = Kiban::open(&at, plan::options(1, 0)).expect("a database");
        let records: Vec<plan::Record> = (0..3).map(|key| (key, Some(7))).collect();
        let last = db.write_durable(&plan::batch(&records)).expect("a write").0;
        assert_eq!((trace(&at), trace(dir.path())), (last, 0));
        db.close().expect("closed");
        for (above, is_wrong) in [(last, false), (last + 1, true)] {
            let told = tempfile::NamedTempFile::new().expect("a temporary file");
            let teller = Teller::to(told.reopen().expect("the same file"));
            let examiner = Examiner { teller, shown: Vec::new() };
            let at = dir.path().join(format!("copy-{above}"));
            let mut db = look::open(&at, plan::options(1, 0), true).expect("a database");
            db.write_durable(&plan::batch(&records)).expect("a write");
            examiner.use_on(&mut db, 1, above).expect("it is used");
            let text = std::fs::read(told.path()).expect("notes");
            let text = String::from_utf8_lossy(&text).into_owned();
            assert_eq!(text.contains("C2 a new write has sequence"), is_wrong, "{text}");
        }
    }

    #[test]
    fn a_job_survives_its_line() {
        let job = Job {
            dir: PathBuf::from("/a dir/db"),
            seed: u64::MAX,
            life: 3,
            number: 9,
            synced: true,
            copies: vec!["copy-0-1".to_owned(), "copy-2-0".to_owned()],
        };
        let alone = Job { copies: Vec::new(), ..job.clone() };
        assert_eq!(Job::parse(&alone.line()), Some(alone));
        assert_eq!(Job::parse(&job.line()), Some(job));
        assert_eq!(Job::parse(DUMP), None);
        assert_eq!(Job::parse("look 1 2"), None);
    }
}
