//! The notifier: one thread that makes buffered writes with a receipt durable, and says so.
//!
//! Invariants
//! - V1: a receipt is told `Ok` only after a sync that covers its write.
//! - Many receipts share a sync: while one is under way the next ones gather.
//! - P1: no failed sync is tried again; after one, whoever waits gets the failure.

use crate::base::key::SeqNo;
use crate::engine::Core;
use crate::engine::receipts::Waiting;
use crate::env::sync::Ordering;

impl Core {
    /// Serves receipts until none comes any more.
    pub(crate) fn notify(&self) {
        while let Waiting::From(seq) = self.receipts.await_any() {
            if self.synced() < seq
                && let Err(error) = self.sync()
            {
                self.fail_receipts(self.health.first_error().unwrap_or(error));
                continue;
            }
            self.tell(self.synced(), &Ok(()));
        }
    }

    fn fail_receipts(&self, error: crate::error::Error) {
        // After a close the last sync has decided; it comes with the end.
        let error = if self.health.is_poisoned() { error } else { self.receipts.await_end() };
        self.tell(self.synced(), &Ok(()));
        self.tell(SeqNo::MAX, &Err(crate::error::Error::poisoned(&error)));
    }

    fn tell(&self, last: SeqNo, result: &crate::error::Result<()>) {
        let panics = self.receipts.call(last, result);
        self.counters.receipt_panics.add(panics);
    }

    fn synced(&self) -> SeqNo {
        SeqNo(self.synced.load(Ordering::Acquire))
    }
}
