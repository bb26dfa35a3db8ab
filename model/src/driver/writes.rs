//! Writes, sync, maintenance: what their results mean for the truth.
//!
//! - D1, D3: `Ok(seq)` gives the write its place; a durable one raises the floor over everything
//!   before it.
//! - P1: an error of a handle that is poisoned afterwards leaves the write in doubt; an error of
//!   one that is not means that no byte of it reached the log. A poisoned handle takes nothing.
//! - V1: a write that failed is not visible.

use super::door::Door;
use super::verdict::admitted;
use super::{Driver, Mismatch, Outcome};
use crate::generate::keys::KEY_BYTES_MAX;
use crate::ops::{Key, Record};
use crate::value::Value;
use kiban::{Error, MaintainStep, SeqNo};
use std::ops::Bound;

/// Steps of maintenance after which there must be nothing left to do, for each table and run.
const STEPS_MAX: u64 = 400;

impl Driver {
    pub(super) fn put(&mut self, key: &Key, value: &Value, durable: bool) -> Done {
        self.value.clear();
        value.append_to(&mut self.value);
        let record = Record { key: key.clone(), value: Some(value.clone()) };
        let too_large = too_large(&record, self.config.value_bytes_max);
        let bytes = std::mem::take(&mut self.value);
        let done = self.issue(
            vec![record],
            too_large,
            |db| match durable {
                true => db.put_durable(key, &bytes),
                false => db.put(key, &bytes),
            },
            durable,
        );
        self.value = bytes;
        done
    }

    pub(super) fn delete(&mut self, key: &Key, durable: bool) -> Done {
        let record = Record { key: key.clone(), value: None };
        let too_large = too_large(&record, 0);
        self.issue(
            vec![record],
            too_large,
            |db| match durable {
                true => db.delete_durable(key),
                false => db.delete(key),
            },
            durable,
        )
    }

    pub(super) fn write(&mut self, records: &[Record], durable: bool) -> Done {
        let mut batch = std::mem::take(&mut self.batch);
        batch.clear();
        for record in records {
            match &record.value {
                Some(value) => {
                    self.value.clear();
                    value.append_to(&mut self.value);
                    batch.put(&record.key, &self.value);
                }
                None => {
                    batch.delete(&record.key);
                }
            }
        }
        let too_large = records.iter().any(|r| too_large(r, self.config.value_bytes_max))
            || (records.len() > 1 && batch.bytes() as u64 > self.config.batch_bytes_max);
        let done = self.issue(
            records.to_vec(),
            too_large,
            |db| match durable {
                true => db.write_durable(&batch),
                false => db.write(&batch),
            },
            durable,
        );
        self.batch = batch;
        done
    }

    /// Tells the truth, calls the engine, and judges the result.
    fn issue(
        &mut self,
        records: Vec<Record>,
        too_large: bool,
        call: impl FnOnce(&mut Door) -> kiban::Result<SeqNo>,
        durable: bool,
    ) -> Done {
        let poisoned = self.is_poisoned();
        let count = records.len() as u64;
        let tells = !poisoned && !too_large && count > 0;
        if tells {
            let bytes = records.iter().map(record_bytes).sum();
            self.write_bytes_max = self.write_bytes_max.max(bytes);
            self.truth.issue(records);
        }
        let result = call(self.open_db_mut());
        match result {
            Ok(_) if poisoned => Err(Mismatch::new("P1", "a poisoned handle's error", "Ok")),
            Ok(_) if too_large => Err(Mismatch::new("C1", "Error::TooLarge", "Ok")),
            Ok(seq) => self.written(seq, count, durable),
            Err(Error::TooLarge { .. }) if too_large => Ok(Outcome::Done),
            Err(error) => self.refused(error, poisoned, tells),
        }
    }

    fn written(&mut self, SeqNo(seq): SeqNo, count: u64, durable: bool) -> Done {
        let last = self.truth.oracle.last_seq();
        if seq < last + count {
            let expected = format!("a sequence from {} on", last + count);
            return Err(Mismatch::new("C2", expected, seq.to_string()));
        }
        if count > 0 {
            self.truth.acknowledge(seq, durable);
        } else if durable {
            self.truth.synced();
        }
        Ok(Outcome::Done)
    }

    fn refused(&mut self, error: Error, was_poisoned: bool, told: bool) -> Done {
        if told && !self.is_poisoned() {
            self.truth.retract();
        }
        if was_poisoned && !error.is_poisoned() && !matches!(error, Error::TooLarge { .. }) {
            return Err(Mismatch::new("P1", "Error::Poisoned", error.to_string()));
        }
        self.failed("B1", error)
    }

    /// Sorts an error of a call that may sync or write.
    pub(super) fn failed(&mut self, promise: &'static str, error: Error) -> Done {
        if is_failed_log_sync(&error) {
            self.truth.sync_failed();
        }
        let outcome = self.tolerance.sort::<()>(promise, Err(error))?;
        Ok(outcome.err().unwrap_or(Outcome::Done))
    }

    pub(super) fn is_poisoned(&self) -> bool {
        self.db.as_ref().is_some_and(|db| db.poisoned().is_some())
    }

    fn done(&mut self, result: kiban::Result<()>) -> Done {
        match result {
            Ok(()) if self.is_poisoned() => {
                Err(Mismatch::new("P1", "a poisoned handle's error", "Ok"))
            }
            Ok(()) => Ok(Outcome::Done),
            Err(error) => self.failed("B1", error),
        }
    }

    pub(super) fn sync(&mut self) -> Done {
        let result = self.open_db_mut().sync();
        let is_ok = result.is_ok();
        let done = self.done(result)?;
        if is_ok {
            self.truth.synced();
        }
        Ok(done)
    }

    pub(super) fn flush(&mut self) -> Done {
        let result = self.open_db_mut().flush();
        let is_ok = result.is_ok();
        let done = self.done(result)?;
        let stats = self.open_db().stats();
        if is_ok && stats.flushed_sequence < self.truth.oracle.last_seq() {
            let expected = format!("tables up to sequence {}", self.truth.oracle.last_seq());
            return Err(Mismatch::new("B1", expected, stats.flushed_sequence.to_string()));
        }
        Ok(done)
    }

    pub(super) fn compact(&mut self, lo: &Bound<Key>, hi: &Bound<Key>) -> Done {
        let result = self.open_db_mut().compact_range((lo.clone(), hi.clone()));
        self.done(result)
    }

    pub(super) fn maintain_step(&mut self) -> Done {
        let result = self.open_db_mut().maintain_step();
        if matches!(result, Ok(MaintainStep::Idle)) {
            self.check_settled()?;
        }
        self.done(result.map(drop))
    }

    /// Steps until there is nothing to do (B1), and checks that nothing is left over (G2).
    ///
    /// # Errors
    /// A mismatch.
    pub fn settle(&mut self) -> Done {
        for _ in 0..STEPS_MAX {
            match self.open_db_mut().maintain_step() {
                Ok(MaintainStep::Idle) => {
                    self.check_settled()?;
                    return Ok(Outcome::Done);
                }
                Ok(_) => {}
                Err(error) => return self.failed("B1", error),
            }
        }
        Err(Mismatch::new("B1", format!("rest after {STEPS_MAX} steps"), "more to do"))
    }

    /// G2: with nothing left to do, the directory holds what is named or pinned, and no more.
    fn check_settled(&self) -> Result<(), Mismatch> {
        let stats = self.open_db().stats();
        let Ok(names) = self.env.fs.list(&self.dir) else { return Ok(()) };
        let count = |end: &str| names.iter().filter(|name| name.ends_with(end)).count() as u64;
        // After an injected error an unlink may be due still.
        if self.tolerance.io {
            return Ok(());
        }
        let (tables, named) = (count(".tbl"), stats.tables + stats.tables_pinned);
        if tables > named {
            let expected = format!("at most {named} table files");
            return Err(Mismatch::new("G2", expected, tables.to_string()));
        }
        if count(".log") != stats.logs || count(".manifest") != 1 {
            let expected = format!("{} logs and one manifest", stats.logs);
            return Err(Mismatch::new("G2", expected, format!("{names:?}")));
        }
        if stats.memtables_frozen > 0 {
            return Err(Mismatch::new(
                "B1",
                "no frozen memtable",
                stats.memtables_frozen.to_string(),
            ));
        }
        Ok(())
    }

    pub(super) fn verify(&mut self) -> Done {
        let result = self.open_db().verify();
        if let Err(error) = &result
            && self.is_poisoned()
        {
            // After a failed sync what was appended may be gone from the page cache too.
            return Ok(Outcome::Failed(error.clone()));
        }
        let report = admitted!(self.tolerance.sort("C1", result));
        let stats = self.open_db().stats();
        if report.table_bytes > stats.table_bytes || report.logs != stats.logs {
            return Err(Mismatch::new("C1", format!("{stats:?}"), format!("{report:?}")));
        }
        Ok(Outcome::Done)
    }

    /// B1's bounds, and figures that the driver knows.
    pub(super) fn stats(&mut self) -> Done {
        let stats = self.open_db().stats();
        let held = self.snapshots.iter().flatten().filter(|held| held.epoch == self.epoch);
        let snapshots = held.count() as u64;
        let config = &self.config;
        // The budget and one log, which may be a large write's own; and the log that this one took
        // over from, which stays until the next flush also where nothing in it is needed.
        let one_log = config.log_bytes + self.write_bytes_max;
        let log_bytes_max = config.log_budget_bytes + 2 * one_log;
        let bounds = [
            ("B1", "runs", stats.runs, 0, self.runs_max),
            ("B1", "frozen memtables", stats.memtables_frozen, 0, config.memtables_max - 1),
            ("B1", "log bytes", stats.log_bytes, 0, log_bytes_max),
            ("G2", "snapshots", stats.snapshots, snapshots, snapshots),
            ("V1", "last sequence", stats.last_sequence, self.truth.oracle.last_seq(), u64::MAX),
            ("V1", "flushed sequence", stats.flushed_sequence, 0, stats.last_sequence),
        ];
        for (promise, what, value, min, max) in bounds {
            if !(min..=max).contains(&value) && !self.tolerance.io {
                let expected = format!("{what} from {min} to {max}");
                return Err(Mismatch::new(promise, expected, value.to_string()));
            }
        }
        if stats.tables_fenced > 0 && !self.tolerance.corruption {
            return Err(Mismatch::new("C1", "no fenced table", stats.tables_fenced.to_string()));
        }
        Ok(Outcome::Done)
    }
}

type Done = Result<Outcome, Mismatch>;

/// The bytes of a record in a log at the most, its share of a frame's header included.
fn record_bytes(record: &Record) -> u64 {
    (record.key.len() + record.value.as_ref().map_or(0, Value::len)) as u64 + 80
}

fn too_large(record: &Record, value_bytes_max: u64) -> bool {
    let value = record.value.as_ref().map_or(0, Value::len) as u64;
    record.key.len() > KEY_BYTES_MAX || (record.value.is_some() && value > value_bytes_max)
}

/// Whether a log's sync failed: after that a killed process may lose buffered writes too (D2).
fn is_failed_log_sync(error: &Error) -> bool {
    match error {
        Error::Io { path, operation, .. } => {
            operation.contains("sync") && path.extension().is_some_and(|e| e == "log")
        }
        Error::Poisoned { cause } => is_failed_log_sync(cause),
        _ => false,
    }
}
