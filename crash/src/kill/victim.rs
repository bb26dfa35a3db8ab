//! The process that is killed: opens a database, works on it with many threads, and tells what it
//! does.
//!
//! Invariants
//! - A call is told as issued before it is made, and as done after it returned.
//! - It decides nothing: what was told is judged by the parent.
//! - It ends when its parent does: its standard input is the parent's, and never written to.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "outside the engine")]

use super::look;
use super::plan::{self, How, Step, WRITERS};
use super::wire::{Kind, Note, Teller};
use kiban::env::Env;
use kiban::env::probe::{Probe, Stage};
use kiban::{Error, Iter, Kiban, KibanOptions, SharedKiban, Slice};
use rustix::io::Errno;
use std::io::Read;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use xxhash_rust::xxh3::Xxh3;

/// What a victim does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// Opens, writes with many threads, closes.
    Work,
    /// Opens and closes.
    Recover,
    /// Opens, tells all that is there, looks at it from every side, closes.
    Examine,
}

/// Its orders.
#[derive(Clone, Debug)]
pub struct Order {
    /// What to do.
    pub mode: Mode,
    /// The database.
    pub dir: PathBuf,
    /// The run's seed.
    pub seed: u64,
    /// Which life this is.
    pub life: u32,
    /// How many stages to enter before a thread stays in one; 0 for never.
    pub freeze: u64,
    /// Milliseconds after which the database is closed under its writers; 0 for never.
    pub close_ms: u64,
    /// Steps of each writer.
    pub steps: u32,
    /// Whether a thread tells what it sees of durable writes, and another makes checkpoints.
    pub watch: bool,
}

/// Does as ordered; the exit code.
#[must_use]
pub fn main(order: &Order) -> u8 {
    std::thread::spawn(|| {
        // Nothing is ever written there, so that this ends with the parent alone.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(1);
    });
    let teller = match Teller::stdout() {
        Ok(teller) => Arc::new(teller),
        Err(error) => {
            eprintln!("error: standard output: {error}");
            return 5;
        }
    };
    let victim = Victim { order: order.clone(), teller };
    let done = match order.mode {
        Mode::Work => victim.work(),
        Mode::Recover => victim.recover(),
        Mode::Examine => victim.examine(),
    };
    match done {
        Ok(()) => {
            victim.teller.tell(&Note::new(Kind::Ended));
            0
        }
        Err(error) => {
            victim.tell_error(0, 0, "the victim itself", &error);
            1
        }
    }
}

/// Stops whoever enters the last of so many stages, until the process is killed.
struct Freeze {
    left: AtomicU64,
    teller: Arc<Teller>,
}

impl Probe for Freeze {
    fn stage(&self, stage: Stage) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.teller.tell(&Note { n: stage as u32, ..Note::new(Kind::Frozen) });
            loop {
                std::thread::park();
            }
        }
    }
}

struct Victim {
    order: Order,
    teller: Arc<Teller>,
}

/// Whether the operating system is to blame. A file that is missing, or there already, is no such
/// thing: that is one removed while it was in use (G2), or a name given twice (C2).
fn is_environment(error: &Error) -> bool {
    const ITS_OWN: [Errno; 7] = [
        Errno::NOSPC,
        Errno::DQUOT,
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOMEM,
        Errno::IO,
        Errno::ROFS,
    ];
    match error {
        Error::Poisoned { cause } => is_environment(cause),
        Error::Io { source, .. } => {
            Errno::from_io_error(source).is_some_and(|errno| ITS_OWN.contains(&errno))
        }
        _ => false,
    }
}

/// Whether no write of this handle may be acknowledged any more (P1): it says so itself, or a sync
/// of its log, its manifest or a directory failed. Files of a checkpoint are the checkpoint's.
fn is_poison(dir: &Path, error: &Error) -> bool {
    match error {
        Error::Poisoned { .. } => true,
        Error::Io { path, operation, .. } => match *operation {
            "sync directory" | "sync directory of log" | "sync directory of tables" => true,
            "sync log" | "sync manifest" => path.parent() == Some(dir),
            _ => false,
        },
        _ => false,
    }
}

/// All entries in order, in one number; counts them too.
fn digest(entries: Iter) -> Result<(u64, u64), Error> {
    let (mut hash, mut count) = (Xxh3::new(), 0);
    for entry in entries {
        let (key, value) = entry?;
        hash.update(&(key.len() as u64).to_le_bytes());
        hash.update(&key);
        hash.update(&(value.len() as u64).to_le_bytes());
        hash.update(&value);
        count += 1;
    }
    Ok((hash.digest(), count))
}

impl Victim {
    fn tell_error(&self, writer: u8, n: u32, what: &str, error: &Error) {
        let text = format!("{what}: {error}");
        let (a, b) = (is_environment(error), is_poison(&self.order.dir, error));
        let (a, b) = (u64::from(a), u64::from(b));
        self.teller.tell(&Note { writer, n, a, b, ..Note::words(Kind::Failed, text) });
    }

    fn wrong(&self, promise: &str, what: &str) {
        self.teller.tell(&Note::words(Kind::Wrong, format!("{promise} {what}")));
    }

    fn options(&self) -> KibanOptions {
        let options = plan::options(self.order.seed, self.order.life);
        if self.order.freeze == 0 {
            return options;
        }
        let left = AtomicU64::new(self.order.freeze);
        let probe = Freeze { left, teller: self.teller.clone() };
        options.env(Env { probe: Some(Arc::new(probe)), ..Env::os() })
    }

    fn open(&self) -> Result<SharedKiban, Error> {
        self.teller.tell(&Note::new(Kind::Opening));
        let db = SharedKiban::open(&self.order.dir, self.options())?;
        let last = db.stats().last_sequence;
        let (digest, _) = digest(db.range::<&[u8]>(..)?)?;
        self.teller.tell(&Note::numbers(Kind::Opened, last, digest));
        Ok(db)
    }

    fn recover(&self) -> Result<(), Error> {
        self.open()?.close()
    }

    fn work(&self) -> Result<(), Error> {
        let db = self.open()?;
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let db = db.clone();
                    scope.spawn(move || self.write(&db, writer))
                })
                .collect();
            let (looker, over) = (db.clone(), &over);
            if self.order.watch {
                let (watched, copied) = (db.clone(), db.clone());
                scope.spawn(move || self.watch(&watched, over));
                scope.spawn(move || self.copy(&copied));
            }
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    if let Err(error) = self.look(&looker)
                        && !matches!(error, Error::Closed)
                    {
                        return self.tell_error(WRITERS, 0, "a snapshot", &error);
                    }
                }
            });
            if self.order.close_ms > 0 {
                std::thread::sleep(Duration::from_millis(self.order.close_ms));
                self.close(&db);
            }
            for writer in writers {
                writer.join().expect("a writer does not panic");
            }
            over.store(true, Ordering::Relaxed);
        });
        db.close()
    }

    fn close(&self, db: &SharedKiban) {
        if let Err(error) = db.close() {
            self.tell_error(WRITERS, 0, "close", &error);
        }
    }

    /// One writer's steps, one after the other.
    fn write(&self, db: &SharedKiban, writer: u8) {
        for n in 0..self.order.steps {
            let step = plan::step(self.order.seed, self.order.life, writer, n);
            self.teller.tell(&Note::step(Kind::Issued, writer, n));
            match self.make(db, writer, n, &step) {
                Ok(a) => self.teller.tell(&Note { a, ..Note::step(Kind::Done, writer, n) }),
                Err(Error::Closed) if self.order.close_ms > 0 => {
                    return self.teller.tell(&Note::step(Kind::Refused, writer, n));
                }
                Err(error) => return self.tell_error(writer, n, &format!("{step:?}"), &error),
            }
        }
    }

    fn make(&self, db: &SharedKiban, writer: u8, n: u32, step: &Step) -> Result<u64, Error> {
        match step {
            Step::Write(records, how) => {
                let batch = plan::batch(records);
                let seq = match how {
                    How::Buffered => db.write(&batch)?,
                    How::Durable => db.write_durable(&batch)?,
                    How::Receipt => {
                        let teller = self.teller.clone();
                        db.write_durable_with(&batch, move |result| {
                            if result.is_ok() {
                                teller.tell(&Note::step(Kind::Durable, writer, n));
                            }
                        })?
                    }
                };
                return Ok(seq.0);
            }
            Step::Sync => db.sync()?,
            Step::Flush => db.flush()?,
            Step::Compact(from, to) => {
                let (from, to) = (plan::key(*from), plan::key(*to));
                if from <= to {
                    db.compact_range((Bound::Included(from), Bound::Included(to)))?;
                }
            }
            Step::Read(number) => {
                let key = plan::key(*number);
                if let Some(value) = db.get(&key)? {
                    self.check_value(&key, &value);
                }
                for entry in db.range(key..)?.take(8) {
                    let (key, value) = entry?;
                    self.check_value(&key, &value);
                }
            }
        }
        Ok(0)
    }

    fn check_value(&self, key: &[u8], value: &Slice) {
        if plan::key_of(key).is_none() || plan::id_of(value).is_none() {
            self.wrong("V2", &format!("nobody wrote key {key:?} with {} bytes", value.len()));
        }
    }

    /// Tells each value of a durable write that a hot key shows, once.
    fn watch(&self, db: &SharedKiban, over: &AtomicBool) {
        let mut seen = [None; plan::HOT_KEYS as usize];
        while !over.load(Ordering::Relaxed) {
            for (number, seen) in (0..).zip(&mut seen) {
                // What went wrong is a writer's to tell.
                let Ok(value) = db.get(plan::key(number)) else { return };
                let id = value.and_then(|value| plan::id_of(&value));
                if id == *seen {
                    continue;
                }
                *seen = id;
                let Some(a) = id else { continue };
                let (life, writer, n) = plan::origin(a);
                let step = plan::step(self.order.seed, life, writer, n);
                if life == self.order.life && matches!(step, Step::Write(_, How::Durable)) {
                    self.teller.tell(&Note { a, ..Note::step(Kind::Seen, writer, n) });
                }
            }
        }
    }

    /// Makes checkpoints beside the database, at moments of their own.
    fn copy(&self, db: &SharedKiban) {
        let (seed, life) = (self.order.seed, self.order.life);
        for (n, wait_ms) in (0..).zip(plan::copies(seed, life)) {
            std::thread::sleep(Duration::from_millis(wait_ms));
            self.teller.tell(&Note::step(Kind::Copying, WRITERS, n));
            let to = self.order.dir.with_file_name(plan::copy_name(life, n));
            match db.checkpoint(to) {
                Ok(()) => self.teller.tell(&Note::step(Kind::Copied, WRITERS, n)),
                Err(Error::Closed) if self.order.close_ms > 0 => return,
                Err(error) => return self.tell_error(WRITERS, n, "a checkpoint", &error),
            }
        }
    }

    /// A snapshot, looked at twice.
    fn look(&self, db: &SharedKiban) -> Result<(), Error> {
        let snapshot = db.snapshot()?;
        let before = digest(snapshot.range::<&[u8]>(..)?)?;
        std::thread::sleep(Duration::from_millis(2));
        let after = digest(snapshot.range::<&[u8]>(..)?)?;
        if before != after {
            self.wrong("S1", &format!("a snapshot had {} entries, then {}", before.1, after.1));
        }
        Ok(())
    }

    /// Looks without deciding first, then opens, by turns through either front door.
    fn examine(&self) -> Result<(), Error> {
        let (dir, options) = (&self.order.dir, self.options());
        self.teller.tell(&Note::new(Kind::Opening));
        let undecided = Kiban::open_read_only(dir, options.clone())?;
        let before = digest(undecided.range::<&[u8]>(..)?)?;
        undecided.close()?;
        let db = look::open(dir, options, self.order.life.is_multiple_of(2))?;
        let entries = look::whole(&db, &mut |promise, what| self.wrong(promise, what))?;
        for (n, a) in entries {
            self.teller.tell(&Note { n, a, ..Note::new(Kind::Entry) });
        }
        db.verify().map_err(|error| self.not_whole(error))?;
        let shown = digest(db.range::<&[u8]>(..)?)?;
        let last = db.stats().last_sequence;
        db.close()?;
        if before != shown {
            let text = format!("read-only {} entries, then open {}", before.1, shown.1);
            self.wrong("D4", &text);
        }
        self.teller.tell(&Note::numbers(Kind::Examined, last, shown.0));
        Ok(())
    }

    fn not_whole(&self, error: Error) -> Error {
        self.wrong("C1", &format!("verify: {error}"));
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNC_DIR: &str = "sync directory";

    #[test]
    fn a_file_that_is_missing_or_there_already_is_ours() {
        let of = |errno: Errno| Error::Io {
            path: PathBuf::from("000007.tbl"),
            operation: "open table",
            source: Arc::new(errno.into()),
        };
        for errno in [Errno::NOSPC, Errno::MFILE, Errno::IO] {
            assert!(is_environment(&of(errno)));
            assert!(is_environment(&Error::Poisoned { cause: Arc::new(of(errno)) }));
        }
        for errno in [Errno::NOENT, Errno::EXIST, Errno::INVAL] {
            assert!(!is_environment(&of(errno)));
        }
    }

    #[test]
    fn a_failed_sync_of_our_own_files_poisons_and_a_failed_write_need_not() {
        let of = |path: &str, operation: &'static str| Error::Io {
            path: PathBuf::from(path),
            operation,
            source: Arc::new(Errno::IO.into()),
        };
        let dir = Path::new("/a/db");
        for (path, operation) in
            [("/a/db/1.log", "sync log"), ("/a/db/2.manifest", "sync manifest"), ("/a", SYNC_DIR)]
        {
            let error = of(path, operation);
            assert!(is_poison(dir, &error), "{operation}");
            assert!(is_poison(dir, &Error::Poisoned { cause: Arc::new(error) }));
        }
        for (path, operation) in [("/a/copy/1.log", "sync log"), ("/a/db/3.tbl", "write table")] {
            assert!(!is_poison(dir, &of(path, operation)), "{operation}");
        }
    }
}
