//! # What the disk may do
//!
//! This is the fault model: what Kiban assumes of the device and the file system, and no more.
//! It stands in `docs/DURABILITY.md` and at the top of the simulated disk
//! (`crash/src/disk/mod.rs`), in the same words; a test holds them equal.
//!
//! ## Classes
//!
//! - **K**: the process dies. The page cache stays: every call that had its effect keeps it, and
//!   what was not synced still is not.
//! - **P**: power is lost. What was synced stays. Of the rest, every byte range, file length,
//!   directory entry and stale block stays or goes on its own.
//! - **E**: a call returns an error, with or without its effect.
//! - **M**: the media is damaged after a sync: bytes flipped, misdirected, stale or gone; read
//!   errors.
//!
//! K, P and E come in any mix and repetition, crashes during recovery included.
//!
//! ## Power loss
//!
//! Four dirty sets are independent of one another, within a file and across files.
//!
//! 1. **Bytes.** Each write that no sync covered survives whole, in part or not at all, in any
//!    order: a later write may survive an earlier one, and one file's another file's. A write tears
//!    anywhere, below the block too, and may leave any pieces. A byte is old or new, never a third
//!    value.
//! 2. **Length.** Each change of length survives or not, whatever became of the bytes: a file may
//!    be long and empty, or short though its bytes were written. Bytes past the surviving length
//!    are gone. A truncation may be lost, and the bytes that it cut off may come back or be zero.
//! 3. **Names.** Create, rename, link, unlink and mkdir need a sync of the directory. Each name is
//!    on its own and takes any value that it had since then: of an unsynced rename, both names, one
//!    or neither may stand; a name may lead to an older file while newer ones are present; an old
//!    name may come back. A directory's own name is an entry of its parent: without a sync of the
//!    parent it may be lost with all that is synced below it.
//! 4. **Stale blocks.** Where a file was extended or preallocated and no synced write filled it,
//!    bytes read as zero while the machine runs; after power loss they are zero or the old contents
//!    of freed files, of this database too, at the same offsets. A preallocated range keeps this
//!    until it is written and synced, even though its length is durable.
//!
//! A sync covers exactly what was written before it was called; what is written while it runs stays
//! dirty. A crash may fall at any point: before a call, inside a write or sync, between the effect
//! of a call and its return. Syncing data (`sync_data`) makes the written bytes durable and the
//! length as far as reading them needs it; syncing all (`sync_all`) the whole length too. Neither
//! makes a name durable.
//!
//! ## Errors
//!
//! - Any call may fail with `EIO` and no effect, or with its whole effect (for a sync: durable).
//! - `ENOSPC`, `EDQUOT` and `EROFS` come from whatever takes space, syncs included (delayed
//!   allocation); `EMFILE` from whatever opens, syncing a directory included; `EINTR` from open,
//!   read, write and preallocate; `ENOMEM` from map; `EOPNOTSUPP` from preallocate and link.
//! - A read or write may be short, and a write may fail after a part.
//! - **A failed sync of a file** leaves its pages clean. They hold the new bytes, the old ones, or
//!   the new ones until they are evicted. Whatever they hold, the device may have either, byte by
//!   byte, and no later sync changes that; only writing the bytes again and syncing them does. The
//!   error is told to the handle that called, or to every handle once; a retry succeeds and proves
//!   nothing.
//! - **A failed sync of a directory** may lie ever after: a retry succeeds, and the changes that
//!   the failed one should have covered stay in doubt until their names are changed again and
//!   synced. For a directory's own name the lie ends with the process.
//! - A sync may be slow. A clock may stand still or jump ahead.
//!
//! ## Media
//!
//! Synced bytes may be flipped, zero, misdirected (another place holds them too), exchanged, stale
//! or cut off; a file may be gone; a read may fail.
//!
//! ## What no engine may do
//!
//! A file with a live map is never written, truncated or extended: that fails the run, whatever
//! the device did.
//!
//! ## What is not in the model
//!
//! A byte of a third value without class M. A name that leads to a file it never led to. Damage to
//! synced bytes by a write elsewhere. Device errors and truncations by others under a live mapping
//! raise SIGBUS: the engine's pread backend has no such exception, its mapped one does.

mod admits;
mod calls;
mod choice;
mod clock;

mod errno;
mod fault;
mod file;
mod frame;
mod media;
mod record;
mod snapshot;
mod tree;

pub use admits::{Listing, Seen};
pub use choice::{Axis, Choice, Pick};
pub use clock::SimClock;
pub use errno::Errno;
pub use fault::{FAULTS, Fault, FaultPlan, Op, Report, Rule};
pub use file::Pages;
pub use frame::{Disk, Fd, LockId, Observer, Ticket};
pub use media::Damage;
pub use record::{Call, Injected, Moment, Point, Violation};
pub use snapshot::{Image, Images, Snapshot};
