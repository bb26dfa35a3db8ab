//! Searching one block, as plain bytes.
//!
//! A block is its values, one after the other, and then its key area. A walk keeps two places: in
//! the key area, and where the value of the entry there begins.
//!
//! Invariants
//! - [`find`] compares without rebuilding keys: it carries how many bytes of the wanted key the
//!   entry before had, which decides most entries by their `shared` alone.
//! - The searches trust the order of a checksummed block; on bytes out of order they may miss an
//!   entry but never panic or run past the block.

use super::entry::common_prefix;
use super::entry::decode;
use crate::base::key::{Kind, SeqNo};
use std::cmp::Ordering;
use std::ops::Range;

/// A place between two entries of a block, in whatever slice the block is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where the value of the next entry begins.
    pub value_at: usize,
    /// Where the next entry begins in the key area.
    pub key_at: usize,
    /// Where the key area and the block end.
    pub end: usize,
}

/// How a search for a key ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The newest version at or below the wanted sequence.
    Entry {
        /// Whether it sets or removes.
        kind: Kind,
        /// Its place in the commit order.
        seq: SeqNo,
        /// Where its value is.
        value: Range<usize>,
    },
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

/// Looks from the restart point at `from` on for the newest version of `key` at or below
/// `seq_max`.
///
/// # Errors
/// The place of a bad entry, and what is wrong with it.
#[inline]
pub fn find(
    bytes: &[u8],
    from: Place,
    key: &[u8],
    seq_max: SeqNo,
) -> Result<Found, (usize, &'static str)> {
    let Place { mut value_at, mut key_at, end } = from;
    // Bytes of `key` that the entry before, which is below `key` or equal to it, starts with.
    let mut matched = 0;
    let mut seen = false;
    while key_at < end {
        let entry = decode(bytes, key_at, end).map_err(|what| (key_at, what))?;
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
                let common = match (entry.suffix.first(), rest.first()) {
                    // Most often; worth a branch of its own.
                    (Some(found), Some(wanted)) if found != wanted => 0,
                    _ => common_prefix(entry.suffix, rest),
                };
                match (entry.suffix.get(common), rest.get(common)) {
                    (None, None) if entry.seq() <= seq_max => {
                        let value = value_at..value_at.saturating_add(entry.value_len);
                        if value.end > end {
                            return Err((key_at, "a value is longer than its block"));
                        }
                        return Ok(Found::Entry { kind: entry.kind, seq: entry.seq(), value });
                    }
                    (None, None) => seen = true,
                    (found, wanted) if found > wanted => return Ok(Found::Absent { seen }),
                    _ => {}
                }
                matched += common;
            }
        }
        key_at = entry.end;
        value_at = value_at.saturating_add(entry.value_len);
    }
    Ok(Found::End { seen })
}
