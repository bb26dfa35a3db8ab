//! Whether the engine still takes calls: the first failure latches, closing is for good.
//!
//! Invariants
//! - P1: after a failure that leaves it uncertain what is durable, every write answers
//!   `Error::Poisoned` with the first cause, until reopen; reads go on.
//! - A closed engine answers `Error::Closed` to everything.

use crate::env::sync::{AtomicU32, Mutex, Ordering};
use crate::error::{Error, Result};

const POISONED: u32 = 1;
const CLOSED: u32 = 2;
const READ_ONLY: u32 = 4;

/// The latch.
pub(crate) struct Health {
    flags: AtomicU32,
    cause: Mutex<Option<Error>>,
    /// Locked after the locks of writer and maintainer.
    dir_turn: Mutex<()>,
}

impl Health {
    pub(crate) fn new(read_only: bool) -> Self {
        let flags = if read_only { READ_ONLY } else { 0 };
        let (flags, cause) = (AtomicU32::new(flags), Mutex::new(None));
        Self { flags, cause, dir_turn: Mutex::new(()) }
    }

    /// Latches `error` if it is the first, and returns what the caller shall return: the error
    /// itself, so that the operation that met it tells path and operation.
    pub(crate) fn poison(&self, error: Error) -> Error {
        let mut cause = self.cause.lock();
        if cause.is_none() {
            *cause = Some(error.clone());
            self.flags.fetch_or(POISONED, Ordering::Release);
        }
        error
    }

    /// Runs `work`, which syncs the directory of the database, and which poisons where that failed.
    /// One at a time: after a failed sync of a directory the next one may succeed though names are
    /// lost, so nobody begins one before the failure is latched (M4).
    ///
    /// # Errors
    /// Those of `work`; the handle's, if it takes no more writes.
    pub(crate) fn in_dir_turn<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let _turn = self.dir_turn.lock();
        self.check_writable()?;
        work()
    }

    /// The first failure, if there was one.
    pub(crate) fn first_error(&self) -> Option<Error> {
        self.cause.lock().clone()
    }

    /// Whether writes and maintenance may go on.
    pub(crate) fn check_writable(&self) -> Result<()> {
        let flags = self.flags.load(Ordering::Acquire);
        if flags == 0 {
            return Ok(());
        }
        if flags & CLOSED != 0 {
            return Err(Error::Closed);
        }
        if flags & READ_ONLY != 0 {
            return Err(Error::ReadOnly);
        }
        match self.first_error() {
            // W4, P1: nothing is written after the first failure that left durability in doubt.
            Some(cause) => Err(Error::poisoned(&cause)),
            None => Ok(()),
        }
    }

    /// Whether reads may go on: poison does not end them.
    #[inline]
    pub(crate) fn check_readable(&self) -> Result<()> {
        if self.flags.load(Ordering::Acquire) & CLOSED != 0 {
            return Err(Error::Closed);
        }
        Ok(())
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.flags.load(Ordering::Acquire) & POISONED != 0
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.flags.load(Ordering::Acquire) & READ_ONLY != 0
    }

    /// Closes; the second value of a race is false.
    pub(crate) fn close(&self) -> bool {
        self.flags.fetch_or(CLOSED, Ordering::AcqRel) & CLOSED == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_is_kept_and_reads_go_on() {
        let health = Health::new(false);
        health.check_writable().expect("nothing failed yet");
        let _ = health.poison(Error::ReadOnly);
        let _ = health.poison(Error::Closed);
        let error = health.check_writable().expect_err("P1");
        assert!(matches!(error, Error::Poisoned { cause } if matches!(*cause, Error::ReadOnly)));
        health.check_readable().expect("poison does not end reads");
        assert!(health.close() && !health.close());
        assert!(matches!(health.check_readable(), Err(Error::Closed)));
    }
}
