//! Words: keys, sequence numbers, ids, coding, checksums and shared slices.
//!
//! This part knows nothing of files or protocols; everything else may import it.

pub mod checksum;
pub mod coding;
pub mod key;
pub mod name;
pub mod slice;
