//! SQLite's adapter, by `rusqlite` with the bundled source.
//!
//! - One table with a rowid and a unique index on its key, in WAL mode.
//! - Writes go through one connection behind a mutex. Each reader has a connection of its own with
//!   its statement prepared once, or, where the profile says so, uses the writer's.
//! - `synchronous=FULL` syncs the WAL in every commit. `NORMAL` hands commits to the kernel and
//!   syncs at checkpoints alone; what is written so is made durable by one commit in `FULL`, since
//!   its sync covers all of the WAL.
//! - Checkpoints are made by commits; nothing runs in the background.
//! - Where a profile takes the engine's defaults, WAL stays on: with a rollback journal there are
//!   no buffered writes, and readers and the writer shut each other out.

use super::{locked_version, prefix_end};
use crate::engine::{Each, EffectiveOptions, Engine, Knob, Opener, Reader, Result, Walk};
use crate::profile::{Profile, Tuning};
use anyhow::{anyhow, ensure};
use rusqlite::{Connection, OpenFlags, Statement, params};
use self_cell::self_cell;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// SQLite.
pub struct SqliteOpener;

/// Bytes of the map for reads, as in the documents.
const MMAP_BYTES: i64 = 1 << 30;

/// Readers of a WAL never wait for its writer; only recovery and the last close shut others out.
const BUSY_MAX: Duration = Duration::from_secs(30);

const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS records(k BLOB PRIMARY KEY NOT NULL, v BLOB NOT \
    NULL);
    CREATE TABLE IF NOT EXISTS syncs(id INTEGER PRIMARY KEY, n INTEGER NOT NULL);";
/// In place: `INSERT OR REPLACE` would delete the row and its index entry first.
const PUT: &str = "INSERT INTO records(k, v) VALUES(?1, ?2) \
    ON CONFLICT(k) DO UPDATE SET v = excluded.v";
const DELETE: &str = "DELETE FROM records WHERE k = ?1";
const GET: &str = "SELECT v FROM records WHERE k = ?1";
const SCAN: &str = "SELECT k, v FROM records WHERE k >= ?1 AND k < ?2 ORDER BY k LIMIT ?3";
const SCAN_TO_END: &str = "SELECT k, v FROM records WHERE k >= ?1 ORDER BY k LIMIT ?2";
const ALL: &str = "SELECT k, v FROM records ORDER BY k";
const SYNC: &str = "INSERT INTO syncs(id, n) VALUES(1, 1) ON CONFLICT(id) DO UPDATE SET n = n + 1";

impl Opener for SqliteOpener {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn version(&self) -> String {
        format!("SQLite {} (rusqlite {})", rusqlite::version(), locked_version("rusqlite"))
    }

    fn open(&self, dir: &Path, profile: &Profile) -> Result<Box<dyn Engine>> {
        let file = dir.join("records.sqlite");
        let connection = connect(&file, profile)?;
        connection
            .pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0))?;
        connection.pragma_update(None, "synchronous", synchronous(profile.durable))?;
        connection.execute_batch(SCHEMA)?;
        let writer = Mutex::new(Writer { connection, full: profile.durable });
        Ok(Box::new(SqliteEngine { file, writer, profile: profile.clone() }))
    }
}

fn synchronous(full: bool) -> &'static str {
    if full { "FULL" } else { "NORMAL" }
}

/// A connection with what every connection needs: SQLite keeps these by connection.
fn connect(file: &Path, profile: &Profile) -> Result<Connection> {
    // No mutex of SQLite's own: a connection is used by one thread at a time.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags)?;
    connection.busy_timeout(BUSY_MAX)?;
    if profile.tuning == Tuning::Matched {
        // Negative: in KiB, not in pages. With a map it holds the pages that are written.
        let kib = i64::try_from(profile.cache_bytes / 1024)?;
        connection.pragma_update(None, "cache_size", -kib)?;
        connection.pragma_update_and_check(None, "mmap_size", mmap_bytes(profile), |_| Ok(()))?;
    }
    Ok(connection)
}

/// SQLite can't keep the kernel from reading ahead in its map: where that would harm it has none.
fn mmap_bytes(profile: &Profile) -> i64 {
    if profile.mmap_reads && profile.map_readahead { MMAP_BYTES } else { 0 }
}

struct Writer {
    connection: Connection,
    /// Whether it is in `synchronous=FULL` now.
    full: bool,
}

impl Writer {
    /// Changes the mode where the next commit needs the other one. Rows with writes of one kind
    /// never come past the comparison.
    fn set_full(&mut self, full: bool) -> Result<()> {
        if self.full != full {
            self.connection.pragma_update(None, "synchronous", synchronous(full))?;
            self.full = full;
        }
        Ok(())
    }
}

struct SqliteEngine {
    file: PathBuf,
    writer: Mutex<Writer>,
    profile: Profile,
}

impl SqliteEngine {
    fn lock(&self) -> Result<MutexGuard<'_, Writer>> {
        self.writer.lock().map_err(|_| anyhow!("a writer panicked"))
    }

    fn execute(&self, sql: &str, params: impl rusqlite::Params, durable: bool) -> Result<()> {
        let mut writer = self.lock()?;
        writer.set_full(durable)?;
        writer.connection.prepare_cached(sql)?.execute(params)?;
        Ok(())
    }

    /// One value of a pragma, as text.
    fn pragma(connection: &Connection, name: &str) -> Result<String> {
        let value = connection
            .pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0))?;
        Ok(match value {
            rusqlite::types::Value::Integer(number) => number.to_string(),
            rusqlite::types::Value::Text(text) => text,
            other => format!("{other:?}"),
        })
    }
}

impl Engine for SqliteEngine {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn put(&self, key: &[u8], value: &[u8], durable: bool) -> Result<()> {
        self.execute(PUT, params![key, value], durable)
    }

    fn put_batch(&self, records: &[(&[u8], &[u8])], durable: bool) -> Result<()> {
        let mut writer = self.lock()?;
        writer.set_full(durable)?;
        let txn = writer.connection.transaction()?;
        {
            let mut put = txn.prepare_cached(PUT)?;
            for (key, value) in records {
                put.execute(params![key, value])?;
            }
        }
        Ok(txn.commit()?)
    }

    fn delete(&self, key: &[u8], durable: bool) -> Result<()> {
        self.execute(DELETE, params![key], durable)
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        if self.profile.connection_shared {
            return Ok(Box::new(SharedReader(self)));
        }
        let connection = connect(&self.file, &self.profile)?;
        let prepared = OwnReader::try_new(connection, |connection| {
            anyhow::Ok(Prepared {
                get: connection.prepare(GET)?,
                scan: connection.prepare(SCAN)?,
                scan_to_end: connection.prepare(SCAN_TO_END)?,
            })
        })?;
        Ok(Box::new(prepared))
    }

    fn for_each(&self, each: Walk<'_>) -> Result<()> {
        let connection = connect(&self.file, &self.profile)?;
        let mut all = connection.prepare(ALL)?;
        let mut rows = all.query([])?;
        while let Some(row) = rows.next()? {
            each(row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?)?;
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        let mut writer = self.lock()?;
        let full = writer.full;
        writer.set_full(true)?;
        writer.connection.prepare_cached(SYNC)?.execute([])?;
        writer.set_full(full)
    }

    fn flush(&self) -> Result<()> {
        let busy =
            self.lock()?
                .connection
                .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0))?;
        ensure!(busy == 0, "a reader kept SQLite from the checkpoint");
        Ok(())
    }

    fn effective_options(&self) -> Result<EffectiveOptions> {
        let writer = self.lock()?;
        let connection = &writer.connection;
        let mut listing = String::new();
        let names = [
            "journal_mode",
            "synchronous",
            "mmap_size",
            "cache_size",
            "page_size",
            "wal_autocheckpoint",
            "locking_mode",
        ];
        for name in names {
            let value = Self::pragma(connection, name).unwrap_or_else(|_| "none".to_string());
            listing.push_str(&format!("{name} = {value}\n"));
        }
        connection.pragma_query(None, "compile_options", |row| {
            listing.push_str(&format!("compiled with {}\n", row.get::<_, String>(0)?));
            Ok(())
        })?;
        let mut asked = vec![
            ("journal_mode", "wal".to_string()),
            ("synchronous", if self.profile.durable { "2" } else { "1" }.to_string()),
        ];
        if self.profile.tuning == Tuning::Matched {
            asked.push(("mmap_size", mmap_bytes(&self.profile).to_string()));
            asked.push(("cache_size", format!("-{}", self.profile.cache_bytes / 1024)));
        }
        let mut knobs = Vec::new();
        for (name, asked) in asked {
            let got = Self::pragma(connection, name)?;
            knobs.push(Knob { name: name.to_string(), asked, got });
        }
        let file_name = "sqlite-pragmas.txt".to_string();
        Ok(EffectiveOptions { file_name, bytes: listing.into_bytes(), knobs })
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.sync()?;
        let writer = self.writer.into_inner().map_err(|_| anyhow!("a writer panicked"))?;
        Ok(writer.connection.close().map_err(|(_, error)| error)?)
    }
}

/// The statements of one reader.
struct Prepared<'c> {
    get: Statement<'c>,
    scan: Statement<'c>,
    scan_to_end: Statement<'c>,
}

self_cell!(
    /// A connection and what is prepared on it. The cache of statements that rusqlite offers would
    /// cost each read a look-up.
    struct OwnReader {
        owner: Connection,
        #[not_covariant]
        dependent: Prepared,
    }
);

impl Reader for OwnReader {
    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.with_dependent_mut(|_, prepared| get(&mut prepared.get, key, found))
    }

    fn first_of_prefix(&mut self, prefix: &[u8], n: usize, each: Each<'_>) -> Result<usize> {
        let n = i64::try_from(n)?;
        self.with_dependent_mut(|_, prepared| match prefix_end(prefix) {
            Some(end) => scan(&mut prepared.scan, params![prefix, end, n], each),
            None => scan(&mut prepared.scan_to_end, params![prefix, n], each),
        })
    }

    fn scan_from(&mut self, start: &[u8], n: usize, each: Each<'_>) -> Result<usize> {
        let n = i64::try_from(n)?;
        self.with_dependent_mut(|_, prepared| {
            scan(&mut prepared.scan_to_end, params![start, n], each)
        })
    }
}

/// Reads through the one connection, as its writes do.
struct SharedReader<'a>(&'a SqliteEngine);

impl Reader for SharedReader<'_> {
    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let writer = self.0.lock()?;
        get(&mut *writer.connection.prepare_cached(GET)?, key, found)
    }

    fn first_of_prefix(&mut self, prefix: &[u8], n: usize, each: Each<'_>) -> Result<usize> {
        let Some(end) = prefix_end(prefix) else {
            return self.scan_from(prefix, n, each);
        };
        let writer = self.0.lock()?;
        let mut statement = writer.connection.prepare_cached(SCAN)?;
        scan(&mut statement, params![prefix, end, i64::try_from(n)?], each)
    }

    fn scan_from(&mut self, start: &[u8], n: usize, each: Each<'_>) -> Result<usize> {
        let writer = self.0.lock()?;
        let mut statement = writer.connection.prepare_cached(SCAN_TO_END)?;
        scan(&mut statement, params![start, i64::try_from(n)?], each)
    }
}

/// A statement outside a transaction is a read transaction of its own, ended when the rows go.
fn get(statement: &mut Statement<'_>, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
    let mut rows = statement.query(params![key])?;
    let Some(row) = rows.next()? else {
        return Ok(false);
    };
    found(row.get_ref(0)?.as_blob()?);
    Ok(true)
}

fn scan(
    statement: &mut Statement<'_>,
    params: impl rusqlite::Params,
    each: Each<'_>,
) -> Result<usize> {
    let mut rows = statement.query(params)?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        each(row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?);
        count += 1;
    }
    Ok(count)
}
