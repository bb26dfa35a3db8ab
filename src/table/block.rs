//! Searching one block, as plain bytes.
//!
//! Invariants
//! - [`find`] compares without rebuilding keys: it carries how many bytes of the wanted key the
//!   entry before had, which decides most entries by their `shared` alone.
//! - The searches trust the order of a checksummed block; on bytes out of order they may miss an
//!   entry but never panic or run past the block.

use super::entry::{RawEntry, common_prefix, decode};
use crate::base::key::SeqNo;
use std::cmp::Ordering;

/// How a search for a key ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// The newest version at or below the wanted sequence.
    Entry(RawEntry<'a>),
    /// A key above the wanted one came first. `seen` tells whether newer versions did.
    Absent {
        /// Whether a version of the key, too new, was seen.
        seen: bool,
    },
    /// The block ended first.
    End {
        /// Whether a version of the key, too new, was seen.
        seen: bool,
    },
}

/// Looks from the restart point at `at` on for the newest version of `key` at or below `seq_max`.
///
/// # Errors
/// The offset in the block of a bad entry, and what is wrong with it.
#[inline]
pub fn find<'a>(
    block: &'a [u8],
    mut at: usize,
    key: &[u8],
    seq_max: SeqNo,
) -> Result<Found<'a>, (usize, &'static str)> {
    // Bytes of `key` that the entry before, which is below `key` or equal to it, starts with.
    let mut matched = 0;
    let mut seen = false;
    while at < block.len() {
        let entry = decode(block, at).map_err(|what| (at, what))?;
        if entry.shared == 0 {
            matched = 0;
        }
        match entry.shared.cmp(&matched) {
            // It goes on beyond the byte in which the entry before was smaller.
            Ordering::Greater => {}
            // It differs from the entry before inside of what matched: it is above.
            Ordering::Less => return Ok(Found::Absent { seen }),
            Ordering::Equal => {
                let rest = &key[matched..];
                let common = common_prefix(entry.suffix, rest);
                match (common == entry.suffix.len(), common == rest.len()) {
                    (true, true) => {
                        if entry.seq <= seq_max {
                            return Ok(Found::Entry(entry));
                        }
                        seen = true;
                    }
                    (true, false) => {}
                    (false, true) => return Ok(Found::Absent { seen }),
                    (false, false) => {
                        if entry.suffix[common] > rest[common] {
                            return Ok(Found::Absent { seen });
                        }
                    }
                }
                matched += common;
            }
        }
        at = entry.end;
    }
    Ok(Found::End { seen })
}
