//! An adapter without an engine: a map and a file, honest or lying, to test the campaign with.
//!
//! - `fake` is honest: it appends each write to a file before it acknowledges it, syncs when asked,
//!   and reads the file again when it is opened.
//! - Each other name has one lie, which one check of the campaign must find; `LIES` pairs them.

use crate::engine::{Account, Debt, Each, EffectiveOptions, Engine, Knob, Opener, Reader, Walk};
use crate::profile::Profile;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

/// What a fake does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    None,
    /// One read in its life, of a key that is there, answers with a changed byte.
    WrongRead,
    /// One read answers that its key is missing.
    MissingRead,
    /// After a reopen, one key in a thousand is gone.
    Forgets,
    /// After a reopen, one overwrite in a hundred is undone.
    GoesBack,
    /// Acknowledges synced writes without a sync, and counts one.
    NoSync,
    /// Syncs, and counts another number.
    Miscounts,
    /// Has another knob than was asked for.
    ChangesKnob,
    /// Never answers the thousandth write.
    Hangs,
    /// Ends its process at the thousandth write.
    Dies,
}

const FAKES: [(&str, Lie); 10] = [
    ("fake", Lie::None),
    ("fake-wrong-read", Lie::WrongRead),
    ("fake-missing-read", Lie::MissingRead),
    ("fake-forgets", Lie::Forgets),
    ("fake-goes-back", Lie::GoesBack),
    ("fake-no-sync", Lie::NoSync),
    ("fake-miscounts", Lie::Miscounts),
    ("fake-changes-knob", Lie::ChangesKnob),
    ("fake-hangs", Lie::Hangs),
    ("fake-dies", Lie::Dies),
];

/// The names of the fakes.
pub const NAMES: [&str; 10] = {
    let mut names = [""; 10];
    let mut i = 0;
    while i < names.len() {
        names[i] = FAKES[i].0;
        i += 1;
    }
    names
};

/// Each lie that a check of the trial finds, and that check's step.
pub const LIES: [(&str, &str); 7] = [
    ("fake-wrong-read", "read"),
    ("fake-missing-read", "read"),
    ("fake-forgets", "verify-reopened"),
    ("fake-goes-back", "verify-reopened"),
    ("fake-no-sync", "syncs"),
    ("fake-miscounts", "syncs"),
    ("fake-changes-knob", "options"),
];

struct FakeOpener(&'static str, Lie);

static OPENERS: [FakeOpener; 10] = {
    let mut openers = [const { FakeOpener("", Lie::None) }; 10];
    let mut i = 0;
    while i < openers.len() {
        openers[i] = FakeOpener(FAKES[i].0, FAKES[i].1);
        i += 1;
    }
    openers
};

/// The fakes.
#[must_use]
pub fn all() -> Vec<&'static dyn Opener> {
    OPENERS.iter().map(|opener| opener as &dyn Opener).collect()
}

impl Opener for FakeOpener {
    fn name(&self) -> &'static str {
        self.0
    }

    fn version(&self) -> String {
        "fake 1".into()
    }

    fn open(&self, dir: &Path, profile: &Profile) -> Result<Box<dyn Engine>> {
        let path = dir.join("fake.log");
        // Loading is done in batches: a lie after a reopen begins once there was a single write.
        let marker = dir.join("fake.singles");
        let singles = marker.exists();
        let mut file = File::options().create(true).append(true).read(true).open(&path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let lie = self.1;
        let map = replay(&bytes, if singles { lie } else { Lie::None })?;
        let knobs = profile.memtable_bytes;
        Ok(Box::new(Fake {
            name: self.0,
            lie,
            map: RwLock::new(map),
            file: Mutex::new(file),
            reads: AtomicU64::new(0),
            single_writes: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            memtable_bytes: knobs,
            marker,
        }))
    }
}

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn replay(bytes: &[u8], lie: Lie) -> Result<Map> {
    let (mut map, mut rest, mut n) = (Map::new(), bytes, 0u64);
    let take = |rest: &mut &[u8]| {
        let (len, tail) = rest.split_at_checked(4).context("a length")?;
        let len = u32::from_le_bytes(len.try_into()?) as usize;
        let (part, tail) = tail.split_at_checked(len).context("a part")?;
        *rest = tail;
        anyhow::Ok(part.to_vec())
    };
    while !rest.is_empty() {
        let (key, value) = (take(&mut rest)?, take(&mut rest)?);
        n += 1;
        let chosen = n.is_multiple_of(1000);
        match lie {
            Lie::Forgets if chosen => {
                map.remove(&key);
            }
            Lie::GoesBack if map.contains_key(&key) && n.is_multiple_of(100) => {}
            _ => {
                map.insert(key, value);
            }
        }
    }
    Ok(map)
}

struct Fake {
    name: &'static str,
    lie: Lie,
    map: RwLock<Map>,
    file: Mutex<File>,
    /// Reads of keys that are there, since the first single write: loading is done in batches.
    reads: AtomicU64,
    single_writes: AtomicU64,
    writes: AtomicU64,
    syncs: AtomicU64,
    memtable_bytes: u64,
    /// A file that is there once there was a single write.
    marker: PathBuf,
}

impl Fake {
    fn write(&self, records: &[(&[u8], &[u8])], durable: bool) -> Result<()> {
        let mut bytes = Vec::new();
        for part in records.iter().flat_map(|(key, value)| [key, value]) {
            bytes.extend_from_slice(&u32::try_from(part.len())?.to_le_bytes());
            bytes.extend_from_slice(part);
        }
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&bytes)?;
        if durable {
            self.sync_file(&file)?;
        }
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        for (key, value) in records {
            map.insert(key.to_vec(), value.to_vec());
        }
        drop((map, file));
        let writes = self.writes.fetch_add(records.len() as u64, Ordering::Relaxed);
        let passed = writes < 1000 && writes + records.len() as u64 >= 1000;
        match self.lie {
            Lie::Hangs if passed => loop {
                std::thread::park();
            },
            Lie::Dies if passed => std::process::abort(),
            _ => Ok(()),
        }
    }

    fn sync_file(&self, file: &File) -> Result<()> {
        if self.lie != Lie::NoSync {
            file.sync_data()?;
        }
        let counted = if self.lie == Lie::Miscounts { 2 } else { 1 };
        self.syncs.fetch_add(counted, Ordering::Relaxed);
        Ok(())
    }
}

impl Engine for Fake {
    fn name(&self) -> &'static str {
        self.name
    }

    fn put(&self, key: &[u8], value: &[u8], durable: bool) -> Result<()> {
        if self.single_writes.fetch_add(1, Ordering::Relaxed) == 0 {
            std::fs::write(&self.marker, [])?;
        }
        self.write(&[(key, value)], durable)
    }

    fn put_batch(&self, records: &[(&[u8], &[u8])], durable: bool) -> Result<()> {
        self.write(records, durable)
    }

    fn delete(&self, _key: &[u8], _durable: bool) -> Result<()> {
        anyhow::bail!("a fake removes nothing")
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(FakeReader(self)))
    }

    fn for_each(&self, each: Walk<'_>) -> Result<()> {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        map.iter().try_for_each(|(key, value)| each(key, value))
    }

    fn sync(&self) -> Result<()> {
        self.sync_file(&self.file.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn debt(&self) -> Result<Debt> {
        Ok(Debt { settled: true, bytes: None })
    }

    fn account(&self) -> Result<Account> {
        let syncs = Some(self.syncs.load(Ordering::Relaxed));
        Ok(Account { syncs, ..Account::default() })
    }

    fn effective_options(&self) -> Result<EffectiveOptions> {
        let changed = u64::from(self.lie == Lie::ChangesKnob);
        let (asked, got) = (self.memtable_bytes, self.memtable_bytes + changed);
        let name = "memtable_bytes".to_string();
        let knobs = vec![Knob { name, asked: asked.to_string(), got: got.to_string() }];
        let bytes = format!("memtable_bytes = {got}\n").into_bytes();
        Ok(EffectiveOptions { file_name: "fake.options".into(), bytes, knobs })
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.sync()
    }
}

struct FakeReader<'a>(&'a Fake);

impl FakeReader<'_> {
    /// Whether this read is the one that lies.
    fn lies(&self) -> bool {
        let begun = self.0.single_writes.load(Ordering::Relaxed) > 0;
        begun && self.0.reads.fetch_add(1, Ordering::Relaxed) == 300
    }
}

impl Reader for FakeReader<'_> {
    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let map = self.0.map.read().unwrap_or_else(PoisonError::into_inner);
        let Some(value) = map.get(key) else { return Ok(false) };
        match self.0.lie {
            Lie::WrongRead if self.lies() => {
                let mut wrong = value.clone();
                wrong[key.len() % value.len()] ^= 0x10;
                found(&wrong);
            }
            Lie::MissingRead if self.lies() => return Ok(false),
            _ => found(value),
        }
        Ok(true)
    }

    fn first_of_prefix(&mut self, prefix: &[u8], n: usize, each: Each<'_>) -> Result<usize> {
        let map = self.0.map.read().unwrap_or_else(PoisonError::into_inner);
        let of_prefix = map.range(prefix.to_vec()..).take_while(|(key, _)| key.starts_with(prefix));
        Ok(of_prefix.take(n).map(|(key, value)| each(key, value)).count())
    }

    fn scan_from(&mut self, start: &[u8], n: usize, each: Each<'_>) -> Result<usize> {
        let map = self.0.map.read().unwrap_or_else(PoisonError::into_inner);
        let found = map.range(start.to_vec()..).take(n);
        Ok(found.map(|(key, value)| each(key, value)).count())
    }
}
