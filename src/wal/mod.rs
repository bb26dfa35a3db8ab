//! The write-ahead log: frames in files, files in a chain.
//!
//! A group of writes is one frame. A log is a file of frames; logs follow each other by number, and
//! sequence numbers are contiguous along the chain. The way of the bytes:
//!
//! 1. [`frame`]: what a frame is, byte by byte; its checksum covers where it belongs.
//! 2. [`writer`]: appends frames to one log.
//! 3. [`read`]: finds every frame that a log's bytes hold, beyond holes too.
//! 4. [`chain`]: decides, over all logs at once, which groups recovery shows (D3), and tells damage
//!    from a torn tail (C1).
//!
//! Invariants
//! - W1: the order of frames is the order of sequence numbers; every frame, a mark too, says which
//!   sequence comes next, so that a hole between two frames tells what it hides.
//! - Every frame carries the synced-up-to position (C1), which may lie in an older log.
//! - Reading takes any bytes: no panic, no allocation beyond the bytes given.
//!
//! It holds no policy: when to sync, to rotate and to poison is decided by the paths.

pub mod chain;
pub mod frame;
pub mod read;
pub mod writer;

pub use chain::{Dropped, Replay, Start, check_manifest, judge};
pub use frame::{FrameKind, LogHeader, frame_bytes};
pub use read::{Frame, LogScan, Tail, scan};
pub use writer::{LogStart, LogWriter, PreparedLog};
