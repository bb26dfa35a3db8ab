//! The corruption sweep: damage to every kind of file, one at a time, and what the engine says.
//!
//! A small database is written on the simulated disk: several runs, two logs with durable and
//! buffered writes, a manifest with edits. Then, for each file, each place and each damage, a copy
//! is damaged, opened for reading, opened for writing, verified and read whole.
//!
//! Invariants
//! - C1: the damage is detected (`Error::Corruption` or another typed error), or harmless (every
//!   answer is right), or it lies above every watermark that is left and ends the log there.
//!   Anything else, a panic too, is wrong.
//! - What may be lost is worked out here, from the undamaged logs and from what was acknowledged as
//!   durable, not asked of the damaged ones.
//!
//! It damages one place at a time; two damages at once are the fuzzer's.

use crate::adapter::SimFs;
use crate::disk::{Damage, Disk};
use crate::report::CorruptionVerdict;
use kiban::env::Env;
use kiban::env::random::SeededRandom;
use kiban::rig::base::key::{DatabaseId, FileNumber, LogPosition};
use kiban::rig::base::name::{FileKind, parse_file_name};
use kiban::rig::wal;
use kiban::{Error, Kiban, KibanOptions, WriteBatch};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

type State = BTreeMap<Vec<u8>, Vec<u8>>;

/// How much of a sweep is done.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Flips are tried at every `flip_step`th byte.
    pub flip_step: u64,
    /// Ranges are tried from every `range_step`th byte on.
    pub range_step: u64,
}

impl Effort {
    /// Every byte, and ranges from every fourth.
    pub const WHOLE: Self = Self { flip_step: 1, range_step: 4 };
    /// What the test command does.
    pub const TEST: Self = Self { flip_step: 5, range_step: 61 };
}

/// The verdicts by file and damage, and what was wrong in words.
#[derive(Debug, Default)]
pub struct Swept {
    /// One for each kind of file, damage and part.
    pub verdicts: Vec<CorruptionVerdict>,
    /// The first damages that were answered wrongly.
    pub wrong: Vec<String>,
}

/// A frame of the undamaged logs.
struct Known {
    at: LogPosition,
    end: u64,
    synced: LogPosition,
    last: u64,
    /// 0 in a header or a mark, which hold no writes.
    count: u32,
}

/// The database that is damaged.
struct Ground {
    disk: Disk,
    /// What stands after each sequence.
    states: Vec<State>,
    frames: Vec<Known>,
    /// What is at or below it is in tables: the logs are not asked for it.
    flushed: u64,
    seed: u64,
}

enum Found {
    Detected,
    Harmless,
    Undecidable,
    Wrong(String),
}

fn options(disk: Disk, seed: u64) -> KibanOptions {
    let fs = SimFs::new(disk);
    let env = Env {
        fs: Arc::new(fs.clone()),
        clock: Arc::new(fs),
        random: Arc::new(SeededRandom::new(seed)),
        probe: None,
    };
    KibanOptions::new()
        .memtable_bytes(4096)
        .log_bytes(1536)
        .block_bytes(128)
        .table_bytes_max(1024)
        .manifest_bytes_max(4096)
        .point_index(seed.is_multiple_of(2))
        .scan_prefix_len(Some(2))
        .env(env)
}

/// Writes the database and takes the disk from under it.
fn ground(seed: u64) -> Result<Ground, Error> {
    let fs = SimFs::new(Disk::new());
    let opened = options(Disk::new(), seed).env(Env {
        fs: Arc::new(fs.clone()),
        clock: Arc::new(fs.clone()),
        random: Arc::new(SeededRandom::new(seed)),
        probe: None,
    });
    let mut db = Kiban::open("/db", opened)?;
    let mut states = vec![State::new()];
    let mut durable = BTreeSet::new();
    let mut write = |db: &mut Kiban, n: u64, is_durable: bool| -> Result<(), Error> {
        let mut state = states.last().cloned().unwrap_or_default();
        let (key, gone) = (format!("k{:02}", n * 7 % 31), format!("k{:02}", n * 5 % 31));
        let value = format!("value {n} of {key} {}", "x".repeat((n % 17) as usize * 5));
        let mut batch = WriteBatch::new();
        batch.put(&key, &value);
        state.insert(key.into_bytes(), value.into_bytes());
        states.push(state.clone());
        if n % 4 == 3 {
            batch.delete(&gone);
            state.remove(gone.as_bytes());
            states.push(state);
        }
        if is_durable {
            durable.insert(db.write_durable(&batch)?.0);
        } else {
            db.write(&batch)?;
        }
        Ok(())
    };
    for n in 0..90 {
        write(&mut db, n, n % 9 == 0)?;
        if n % 25 == 15 && n < 90 {
            db.flush()?;
        }
    }
    db.flush()?;
    for n in 90..112 {
        write(&mut db, n, n % 6 == 0)?;
    }
    // An image on which everything is durable: damage below a dirty page would not be read.
    let snapshot = fs.with(|disk| disk.snapshot());
    let disk = snapshot.image(&snapshot.all());
    let flushed = db.stats().flushed_sequence;
    drop(db);
    let frames = known_frames(&disk, &durable);
    Ok(Ground { disk, states, frames, flushed, seed })
}

/// The frames of all logs in order. What a frame must know as synced is worked out from the writes
/// that were acknowledged as durable before it: a log that says less is not believed.
fn known_frames(disk: &Disk, durable: &BTreeSet<u64>) -> Vec<Known> {
    let mut frames: Vec<Known> = Vec::new();
    let mut acknowledged = LogPosition::default();
    for (path, _) in disk.files() {
        let Some(number) = log_number(&path) else { continue };
        let bytes = disk.get_file(&path).unwrap_or_default();
        let scan = wal::scan(Path::new(&path), &bytes, database_id(disk), number);
        for frame in scan.into_iter().flat_map(|scan| scan.frames) {
            let at = LogPosition { log: number, offset: frame.offset };
            let last = frame.last().0;
            // What follows the payload is padding, which nothing depends on.
            let end = frame.payload.end as u64;
            let synced = frame.synced.max(acknowledged);
            frames.push(Known { at, end, synced, last, count: frame.count });
            if frame.count > 0 && durable.contains(&last) {
                acknowledged = LogPosition { log: number, offset: end };
            }
        }
    }
    frames
}

fn log_number(path: &str) -> Option<FileNumber> {
    let name = path.rsplit('/').next()?;
    parse_file_name(name).filter(|(kind, _)| *kind == FileKind::Log).map(|(_, number)| number)
}

fn database_id(disk: &Disk) -> DatabaseId {
    let bytes = disk.get_file("/db/CURRENT").unwrap_or_default();
    kiban::rig::version::current::Current::decode(Path::new("/db/CURRENT"), &bytes)
        .map_or(DatabaseId(0), |current| current.db)
}

fn kind(path: &str) -> &'static str {
    match path.rsplit('/').next().map(|name| (name, parse_file_name(name))) {
        Some((_, Some((FileKind::Log, _)))) => "log",
        Some((_, Some((FileKind::Table, _)))) => "table",
        Some((_, Some((FileKind::Manifest, _)))) => "manifest",
        Some(("CURRENT", _)) => "current",
        _ => "lock",
    }
}

/// Where two contents of a file differ; what one of them lacks does too.
fn changed(before: &[u8], after: &[u8]) -> Vec<u64> {
    let differs = |at: &usize| before.get(*at) != after.get(*at);
    (0..before.len().max(after.len())).filter(differs).map(|at| at as u64).collect()
}

/// Every damage that is tried on a file of `len` bytes, with its name.
fn damages(len: u64, effort: Effort, seed: u64) -> Vec<(&'static str, Damage)> {
    let mut all = Vec::new();
    for at in (0..len).step_by(effort.flip_step as usize) {
        let bit = ((at ^ seed).wrapping_mul(0x9e37_79b9) >> 7) as u8 % 8;
        all.push(("flip", Damage::Flip { at, bit }));
    }
    let mut place = 0;
    for at in (0..len).step_by(effort.range_step as usize) {
        place += 1;
        let run = [1, 8, 48, 512][place % 4];
        let to = (at + [8, 16, 48, 128, 512][place % 5]).min(len.saturating_sub(1));
        all.push(("zero", Damage::Zero { at, len: run }));
        all.push(("truncate", Damage::Truncate { len: at }));
        all.push(("duplicate", Damage::Duplicate { from: at, to, len: run }));
        all.push(("swap", Damage::Swap { a: at, b: to, len: run }));
    }
    all.push(("remove", Damage::Remove));
    all
}

impl Ground {
    /// The lowest sequence that may be shown after `path` changed at those places: that of the last
    /// group before the first damaged one that is needed, or everything where a watermark that is
    /// left covers it.
    fn floor(&self, path: &str, changed: &[u64]) -> u64 {
        let whole = self.states.len() as u64 - 1;
        let Some(log) = log_number(path) else { return whole };
        let is_hit = |frame: &&Known| {
            let within = |at: &u64| (frame.at.offset..frame.end).contains(at);
            frame.at.log == log && changed.iter().any(within)
        };
        let holds = |frame: &&Known| frame.count > 0 && frame.last > self.flushed;
        let needed = self.frames.iter().filter(is_hit).filter(holds);
        let Some(damaged) = needed.map(|frame| frame.at).min() else { return whole };
        let left = self.frames.iter().filter(|frame| !is_hit(frame));
        if left.map(|frame| frame.synced).max().is_some_and(|synced| synced > damaged) {
            return whole;
        }
        let before = self.frames.iter().filter(|frame| frame.at < damaged);
        before.map(|frame| frame.last).max().unwrap_or(0)
    }

    /// Damages a copy and looks at what the engine makes of it.
    fn try_damage(&self, path: &str, damage: Damage) -> Found {
        let mut disk = self.disk.snapshot().killed();
        let before = disk.content_hash();
        if disk.damage(path, damage).is_err() || disk.content_hash() == before {
            return Found::Harmless;
        }
        let content = |disk: &Disk| disk.get_file(path).unwrap_or_default();
        let floor = self.floor(path, &changed(&content(&self.disk), &content(&disk)));
        let looked = catch_unwind(AssertUnwindSafe(|| {
            let read_only = self.look(&disk, true);
            (read_only, self.look(&disk, false))
        }));
        let Ok((read_only, read_write)) = looked else {
            return Found::Wrong("a panic".to_string());
        };
        let judge = |looked: Result<State, Error>| match looked {
            Err(Error::Io { operation, source, .. })
                if source.kind() != std::io::ErrorKind::NotFound
                    && source.kind() != std::io::ErrorKind::UnexpectedEof =>
            {
                Found::Wrong(format!("an untyped error: {operation}: {source}"))
            }
            Err(_) => Found::Detected,
            Ok(state) => match self.states.iter().rposition(|known| *known == state) {
                Some(seq) if seq + 1 == self.states.len() => Found::Harmless,
                Some(seq) if seq as u64 >= floor => Found::Undecidable,
                Some(seq) => Found::Wrong(format!("state of sequence {seq}, below {floor}")),
                None => Found::Wrong("a state that never was".to_string()),
            },
        };
        match (judge(read_only), judge(read_write)) {
            (Found::Wrong(what), _) => Found::Wrong(format!("read-only: {what}")),
            (_, found) => found,
        }
    }

    /// Opens, verifies and reads everything, both ways and key by key.
    fn look(&self, disk: &Disk, read_only: bool) -> Result<State, Error> {
        let options = options(disk.snapshot().killed(), self.seed);
        let db = if read_only {
            Kiban::open_read_only("/db", options)?
        } else {
            Kiban::open("/db", options.create_if_missing(false))?
        };
        let forward: State = db
            .range::<&[u8]>(..)?
            .map(|item| item.map(|(key, value)| (key.to_vec(), value.to_vec())))
            .collect::<Result<_, _>>()?;
        let backward: State = db
            .prefix("k")?
            .rev()
            .map(|item| item.map(|(key, value)| (key.to_vec(), value.to_vec())))
            .collect::<Result<_, _>>()?;
        assert_eq!(forward, backward, "S2: the two directions agree");
        for n in 0..32 {
            let key = format!("k{n:02}");
            let got = db.get(&key)?;
            assert_eq!(got.as_deref(), forward.get(key.as_bytes()).map(Vec::as_slice), "S2");
        }
        db.verify()?;
        Ok(forward)
    }
}

/// Sweeps one database made from `seed`.
///
/// # Errors
/// What kept the undamaged database from being written.
pub fn sweep(seed: u64, effort: Effort) -> Result<Swept, Error> {
    let ground = ground(seed)?;
    let mut swept = Swept::default();
    for (path, len) in ground.disk.files() {
        for (name, damage) in damages(len, effort, seed) {
            let found = ground.try_damage(&path, damage);
            let verdict = swept.verdict(kind(&path), name);
            verdict.tried += 1;
            match found {
                Found::Detected => verdict.detected += 1,
                Found::Harmless => verdict.harmless += 1,
                Found::Undecidable => verdict.undecidable += 1,
                Found::Wrong(what) => {
                    verdict.wrong += 1;
                    if swept.wrong.len() < 20 {
                        swept.wrong.push(format!("C1: {damage:?} in {path} ({len} bytes): {what}"));
                    }
                }
            }
        }
    }
    Ok(swept)
}

impl Swept {
    fn verdict(&mut self, file: &str, damage: &str) -> &mut CorruptionVerdict {
        let at = self.verdicts.iter().position(|v| v.file == file && v.damage == damage);
        let at = at.unwrap_or_else(|| {
            self.verdicts.push(CorruptionVerdict {
                file: file.to_string(),
                damage: damage.to_string(),
                part: "any".to_string(),
                ..CorruptionVerdict::default()
            });
            self.verdicts.len() - 1
        });
        &mut self.verdicts[at]
    }
}
