//! File numbers: given out once, and reserved ahead in a durable manifest.
//!
//! Invariants
//! - C2: no number is given out twice, whatever a crash takes.
//! - A log's number is reserved before it is used: blocks of a log whose name a crash took would be
//!   valid in a later log of the same number.

use super::Core;
use crate::base::key::FileNumber;
use crate::env::sync::Ordering;
use crate::error::{Error, Result};

/// So many file numbers are reserved at a time.
const FILES_RESERVED: u64 = 256;

impl Core {
    /// A file number that nobody had before (C2).
    pub(crate) fn allocate_file(&self) -> FileNumber {
        FileNumber(self.next_file.fetch_add(1, Ordering::Relaxed))
    }

    /// As [`Core::allocate_file`], for a build.
    ///
    /// # Errors
    /// `Poisoned`, or `Closed` once the end has begun: a build does not go on then (P1).
    pub(crate) fn number_for_build(&self) -> Result<FileNumber> {
        self.health.check_writable()?;
        if self.signals.is_stopped() {
            return Err(Error::Closed);
        }
        Ok(self.allocate_file())
    }

    /// As [`Core::allocate_file`], for a log: its number must be reserved in a durable manifest,
    /// since blocks of a log whose name a crash took would be valid in a later log of the same
    /// number.
    ///
    /// # Errors
    /// `Stalled` where the reservation is used up; the next step of maintenance renews it.
    pub(crate) fn allocate_log(&self) -> Result<FileNumber> {
        let number = self.allocate_file();
        // Looked at afterwards: two that looked before would both take the last one.
        if number.0 >= self.reserved_files.load(Ordering::Relaxed) {
            let cause = "no reserved file number is left until maintenance gets on".to_string();
            return Err(Error::Stalled { cause });
        }
        Ok(number)
    }

    /// The reservation that an edit made now should hold; it counts once the edit is durable.
    pub(crate) fn files_to_reserve(&self) -> FileNumber {
        FileNumber(self.next_file.load(Ordering::Relaxed) + FILES_RESERVED)
    }

    fn reserved_left(&self) -> u64 {
        let reserved = self.reserved_files.load(Ordering::Relaxed);
        reserved.saturating_sub(self.next_file.load(Ordering::Relaxed))
    }

    /// Whether half of the reservation is used up.
    pub(crate) fn reservation_is_low(&self) -> bool {
        self.reserved_left() < FILES_RESERVED / 2
    }

    /// Whether no log can be made before the reservation is renewed.
    pub(crate) fn reservation_is_used_up(&self) -> bool {
        self.reserved_left() == 0
    }

    /// Notes that a durable manifest reserves the numbers below `reserved`.
    pub(crate) fn note_reserved(&self, reserved: FileNumber) {
        self.reserved_files.store(reserved.0, Ordering::Relaxed);
    }
}
