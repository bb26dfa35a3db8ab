//! The write path: batch -> order -> log -> memory -> visible.
//!
//! 1. `Core::write` refuses what can't be written, before anything reaches the log.
//! 2. Where there is no room the write waits, or makes some; the front doors bring that (`admit`).
//!    The batch joins a group in the commit queue (`engine::queue`); one member leads it.
//! 3. The leader makes room (`room`): a frozen memtable, a next log. An error here fails the group
//!    alone, unless it leaves a name or a sync in doubt.
//! 4. The leader appends the group to the log, syncs if a member asked, applies it to the memtable
//!    and publishes its last sequence (`commit`).
//! 5. A write that asked for a receipt gets it from the notifier (`notify`), after the next sync.
//!
//! Invariants
//! - W1: log order = sequence order. W2, A1, V1: visibility follows that order, whole groups at a
//!   time, after the sync that was asked for.
//! - P1, W4: after a failed append or sync nothing more is acknowledged on this handle.
//! - A memtable is frozen only between a publication and the next apply.

mod commit;
mod notify;
mod room;

pub(crate) use commit::How;
