//! What a crash decides, as data: one pick for each axis of a snapshot's dirty set.
//!
//! Invariants
//! - A choice has a text form that reads back to an equal one: `+ - =2 <12 >7 ~5 s0:9`, one word
//!   per axis in the order of [`super::Snapshot::choices`].
//! - Equal snapshot and equal choice give an equal image.

use super::file::{Keep, Stamp};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The fate of one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pick {
    /// Nothing of it survives: the durable state stands.
    Lost,
    /// All of it survives.
    Kept,
    /// A name or length: the version of that number, 0 being the durable one.
    Version(u16),
    /// Bytes: the first so many.
    Prefix(u32),
    /// Bytes: the last so many.
    Suffix(u32),
    /// Bytes: pieces of 8 to 512 bytes, chosen by the seed.
    Pieces(u32),
    /// Stale blocks: from the pool's source of that number; all of them for seed 0, else some.
    Stale(u16, u32),
}

impl Pick {
    pub(super) fn keep(self) -> Keep {
        match self {
            Self::Kept => Keep::All,
            Self::Prefix(n) => Keep::Prefix(n),
            Self::Suffix(n) => Keep::Suffix(n),
            Self::Pieces(seed) => Keep::Pieces(seed),
            Self::Lost | Self::Version(_) | Self::Stale(..) => Keep::None,
        }
    }

    /// The version it picks out of `versions` of them.
    pub(super) fn version(self, versions: usize) -> usize {
        match self {
            Self::Version(n) => (n as usize).min(versions - 1),
            Self::Lost => 0,
            _ => versions - 1,
        }
    }
}

/// One independent part of a dirty set.
#[derive(Clone, Debug)]
pub enum Axis {
    /// Which version of a name stands; the stamps of the versions, 0 for the durable one.
    Name {
        /// The directory's node.
        dir: usize,
        /// The name in it.
        name: Arc<str>,
        /// When each version came to be.
        stamps: Vec<Stamp>,
    },
    /// Which version of a file's length stands.
    Len {
        /// The file's node.
        ino: usize,
        /// When each version came to be.
        stamps: Vec<Stamp>,
    },
    /// What of a write survives.
    Bytes {
        /// The file's node.
        ino: usize,
        /// Which of its unsynced writes.
        index: usize,
        /// When it was made.
        stamp: Stamp,
        /// How many bytes; 1 for a range of zeros, which is not torn.
        len: u32,
    },
    /// What shows where nothing durable was ever written.
    Stale {
        /// The file's node.
        ino: usize,
        /// How many sources there are.
        sources: u16,
    },
}

impl Axis {
    /// The file, or for a name its directory.
    #[must_use]
    pub fn node(&self) -> usize {
        match self {
            Self::Name { dir: node, .. }
            | Self::Len { ino: node, .. }
            | Self::Bytes { ino: node, .. }
            | Self::Stale { ino: node, .. } => *node,
        }
    }

    /// The pick of the image in which everything survives.
    pub(super) fn all(&self) -> Pick {
        if matches!(self, Self::Stale { .. }) { Pick::Lost } else { Pick::Kept }
    }

    /// The picks of an exhaustive enumeration: a torn one at the cut that `seed` says.
    pub(super) fn coarse(&self, seed: u64, picks: &mut Vec<Pick>) {
        picks.clear();
        match self {
            Self::Name { stamps, .. } | Self::Len { stamps, .. } => {
                picks.extend((0..stamps.len()).rev().map(|n| Pick::Version(n as u16)));
            }
            Self::Bytes { len: 1, .. } => picks.extend([Pick::Kept, Pick::Lost]),
            Self::Bytes { len, .. } => {
                let cut = 1 + (seed % u64::from(len - 1)) as u32;
                let torn = [Pick::Prefix(cut), Pick::Suffix(len - cut)];
                picks.extend([Pick::Kept, Pick::Lost]);
                picks.extend(torn);
            }
            Self::Stale { sources, .. } => {
                let source = (seed % u64::from(*sources)) as u16;
                picks.extend([Pick::Lost, Pick::Stale(source, 0)]);
            }
        }
    }
}

/// One pick per axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Choice {
    /// The picks, in the order of the axes.
    pub picks: Vec<Pick>,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, pick) in self.picks.iter().enumerate() {
            f.write_str(if i > 0 { " " } else { "" })?;
            match pick {
                Pick::Lost => write!(f, "-"),
                Pick::Kept => write!(f, "+"),
                Pick::Version(n) => write!(f, "={n}"),
                Pick::Prefix(n) => write!(f, "<{n}"),
                Pick::Suffix(n) => write!(f, ">{n}"),
                Pick::Pieces(seed) => write!(f, "~{seed}"),
                Pick::Stale(source, seed) => write!(f, "s{source}:{seed}"),
            }?;
        }
        Ok(())
    }
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let pick = |word: &str| -> Option<Pick> {
            let (kind, rest) = word.split_at_checked(1)?;
            Some(match kind {
                "-" if rest.is_empty() => Pick::Lost,
                "+" if rest.is_empty() => Pick::Kept,
                "=" => Pick::Version(rest.parse().ok()?),
                "<" => Pick::Prefix(rest.parse().ok()?),
                ">" => Pick::Suffix(rest.parse().ok()?),
                "~" => Pick::Pieces(rest.parse().ok()?),
                "s" => {
                    let (source, seed) = rest.split_once(':')?;
                    Pick::Stale(source.parse().ok()?, seed.parse().ok()?)
                }
                _ => return None,
            })
        };
        let picks = text.split_whitespace().map(|word| {
            pick(word).ok_or_else(|| format!("`{word}` is no pick: + - =N <N >N ~N sN:N"))
        });
        Ok(Self { picks: picks.collect::<Result<_, _>>()? })
    }
}
