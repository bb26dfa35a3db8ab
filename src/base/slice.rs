//! A reference-counted slice of bytes: its own copy, or a part of something that it keeps alive.
//!
//! Invariants
//! - The bytes never change while a slice lives.
//! - A pinned slice keeps its owner (a block or a mapped table) in memory; `to_vec` detaches.

use crate::env::sync::Arc;
use std::fmt;
use std::ops::Deref;

/// Something whose bytes a [`Slice`] may pin.
pub trait Pin: Send + Sync {
    /// The bytes, the same at every call.
    fn bytes(&self) -> &[u8];
}

/// A value or key as the engine returns it: cheap to clone, `'static`, read as `&[u8]`.
#[derive(Clone)]
pub struct Slice(Repr);

#[derive(Clone)]
enum Repr {
    Owned(Arc<[u8]>),
    Pinned { owner: Arc<dyn Pin>, start: usize, len: usize },
}

impl Slice {
    /// A copy of `bytes`.
    #[must_use]
    pub fn copy(bytes: &[u8]) -> Self {
        Self(Repr::Owned(Arc::from(bytes)))
    }

    /// `len` bytes of `owner` from `start` on.
    pub(crate) fn pin(owner: Arc<dyn Pin>, start: usize, len: usize) -> Self {
        assert!(start.checked_add(len).is_some_and(|end| end <= owner.bytes().len()));
        Self(Repr::Pinned { owner, start, len })
    }
}

impl Deref for Slice {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Repr::Owned(bytes) => bytes,
            Repr::Pinned { owner, start, len } => &owner.bytes()[*start..*start + *len],
        }
    }
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Slice {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Slice {}

impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

impl PartialEq<[u8]> for Slice {
    fn eq(&self, other: &[u8]) -> bool {
        **self == *other
    }
}

impl<const N: usize> PartialEq<&[u8; N]> for Slice {
    fn eq(&self, other: &&[u8; N]) -> bool {
        **self == **other
    }
}

impl From<&[u8]> for Slice {
    fn from(bytes: &[u8]) -> Self {
        Self::copy(bytes)
    }
}

impl<const N: usize> PartialEq<[u8; N]> for Slice {
    fn eq(&self, other: &[u8; N]) -> bool {
        **self == *other
    }
}
