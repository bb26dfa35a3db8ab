//! What a snapshot sees: for each key its newest version at or below the snapshot's sequence,
//! removals left out, within bounds.
//!
//! Invariants
//! - R2: the newest version of a key at or below the snapshot decides.
//! - R3: a removal hides every older version of its key.
//! - Both directions show the same keys and values (S2).
//! - R4: the first error is the answer to every move until the next seek.
//!
//! Forward, the version that decides comes first, is shown where it stands, and the older ones are
//! passed over. Backward, it comes last: the best version so far is kept aside until the key
//! changes. A key with many versions is not walked but sought, in both directions, so that a hot
//! key costs one seek and not its history.
//!
//! Bounds are checked before versions: past a bound no run of removals is walked, and a source that
//! was left out because it has nothing within the bounds is never missed.

use super::Cursor;
use crate::base::key::{EntryRef, Kind, SeqNo};
use crate::base::slice::Slice;
use crate::error::{Error, Result};

/// So many versions of one key are passed over before a seek takes their place.
const PASSED_MAX: usize = 8;

/// Longer values are kept aside by pinning, if the source can.
const COPIED_MAX: usize = 4096;

/// The user's view of a cursor over versions.
pub struct Visible<C> {
    inner: C,
    snapshot: SeqNo,
    /// Inclusive.
    lower: Option<Vec<u8>>,
    /// Exclusive.
    upper: Option<Vec<u8>>,
    shown: Shown,
    forward: bool,
    /// Forward, the key whose versions are passed over; backward, the key that is kept.
    key: Vec<u8>,
    kept: Kept,
    /// Whether the inner cursor went forward to find the kept version, and so must seek before it
    /// can go on backward.
    is_astray: bool,
    failed: Option<Error>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Nothing,
    /// What the inner cursor stands on.
    Inner,
    /// What was kept aside under `key`.
    Kept,
}

/// A version kept aside while the inner cursor goes on.
struct Kept {
    seq: SeqNo,
    kind: Kind,
    /// The value, unless it is pinned.
    copied: Vec<u8>,
    pinned: Option<Slice>,
}

impl Kept {
    fn keep<C: Cursor>(&mut self, entry: EntryRef<'_>, inner: &C) {
        self.seq = entry.seq;
        self.kind = entry.kind;
        self.copied.clear();
        self.pinned = None;
        if entry.value.len() > COPIED_MAX {
            self.pinned = inner.pinned_value();
        } else {
            self.copied.extend_from_slice(entry.value);
        }
    }

    fn value(&self) -> &[u8] {
        self.pinned.as_deref().unwrap_or(&self.copied)
    }
}

impl<C: Cursor> Visible<C> {
    /// The view of `inner` at `snapshot`, of every key.
    #[must_use]
    pub fn new(inner: C, snapshot: SeqNo) -> Self {
        Self::within(inner, snapshot, None, None)
    }

    /// The view of `inner` at `snapshot`, of the keys from `lower` up to but without `upper`.
    #[must_use]
    pub fn within(
        inner: C,
        snapshot: SeqNo,
        lower: Option<Vec<u8>>,
        upper: Option<Vec<u8>>,
    ) -> Self {
        Self {
            inner,
            snapshot,
            lower,
            upper,
            shown: Shown::Nothing,
            forward: true,
            key: Vec::new(),
            kept: Kept { seq: SeqNo::ZERO, kind: Kind::Delete, copied: Vec::new(), pinned: None },
            is_astray: false,
            failed: None,
        }
    }

    /// Moves to the first visible key.
    pub fn seek_first(&mut self) -> Result<()> {
        self.start(true);
        let result = match &self.lower {
            Some(lower) => self.inner.seek(lower, self.snapshot),
            None => self.inner.seek_first(),
        };
        let result = result.and_then(|()| self.settle_forward(false));
        self.latch(result)
    }

    /// Moves to the first visible key at or after `key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.start(true);
        let from = self.lower.as_deref().map_or(key, |lower| lower.max(key));
        let result = self.inner.seek(from, self.snapshot);
        let result = result.and_then(|()| self.settle_forward(false));
        self.latch(result)
    }

    /// Moves to the last visible key.
    pub fn seek_last(&mut self) -> Result<()> {
        self.start(false);
        let result = match &self.upper {
            Some(upper) => self.inner.seek_before(upper),
            None => self.inner.seek_last(),
        };
        let result = result.and_then(|()| self.settle_backward());
        self.latch(result)
    }

    /// Moves to the last visible key below `key`.
    pub fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.start(false);
        let from = self.upper.as_deref().map_or(key, |upper| upper.min(key));
        let result = self.inner.seek_before(from);
        let result = result.and_then(|()| self.settle_backward());
        self.latch(result)
    }

    /// Moves to the next visible key, or past the end. Only on a key, after a seek forward.
    pub fn next_visible(&mut self) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        assert!(self.forward, "a view turned without a seek");
        assert!(self.shown == Shown::Inner, "a view moves only from a key");
        if let Some(entry) = self.inner.entry() {
            set(&mut self.key, entry.key);
        }
        let result = self.inner.next().and_then(|()| self.settle_forward(true));
        self.latch(result)
    }

    /// Moves to the visible key before, or past the end. Only on a key, after a seek backward.
    pub fn prev_visible(&mut self) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        assert!(!self.forward, "a view turned without a seek");
        assert!(self.shown == Shown::Kept, "a view moves only from a key");
        let result = self.settle_backward();
        self.latch(result)
    }

    /// The version shown: always one that sets a value.
    #[inline]
    #[must_use]
    pub fn entry(&self) -> Option<EntryRef<'_>> {
        match self.shown {
            Shown::Nothing => None,
            Shown::Inner => self.inner.entry(),
            Shown::Kept => Some(EntryRef {
                key: &self.key,
                seq: self.kept.seq,
                kind: self.kept.kind,
                value: self.kept.value(),
            }),
        }
    }

    /// The value shown, to keep.
    #[must_use]
    pub fn pinned_value(&self) -> Option<Slice> {
        match (self.shown, &self.kept.pinned) {
            (Shown::Nothing, _) => None,
            (Shown::Inner, _) => self.inner.pinned_value(),
            (Shown::Kept, Some(pinned)) => Some(pinned.clone()),
            (Shown::Kept, None) => Some(Slice::copy(&self.kept.copied)),
        }
    }

    fn start(&mut self, forward: bool) {
        self.forward = forward;
        self.shown = Shown::Nothing;
        self.is_astray = false;
        self.failed = None;
    }

    fn latch(&mut self, result: Result<()>) -> Result<()> {
        if let Err(error) = &result {
            self.shown = Shown::Nothing;
            self.failed = Some(error.clone());
        }
        result
    }

    /// Goes on to the first version that decides for its key and sets a value. Where `passing`, the
    /// versions of `self.key` are hidden.
    fn settle_forward(&mut self, mut passing: bool) -> Result<()> {
        self.shown = Shown::Nothing;
        let mut passed = 0;
        while let Some(entry) = self.inner.entry() {
            if self.upper.as_ref().is_some_and(|upper| entry.key >= upper.as_slice()) {
                break;
            }
            let hidden = passing && entry.key == self.key.as_slice();
            if !hidden && entry.seq > self.snapshot {
                // Newer than the snapshot: the versions to pass over begin here.
                if passed >= PASSED_MAX {
                    set(&mut self.key, entry.key);
                    passing = false;
                    passed = 0;
                    self.inner.seek(&self.key, self.snapshot)?;
                    continue;
                }
            } else if !hidden && entry.kind == Kind::Put {
                self.shown = Shown::Inner;
                break;
            } else if !hidden {
                set(&mut self.key, entry.key);
                passing = true;
                passed = 0;
            } else if passed >= PASSED_MAX {
                // No version has sequence 0: this is the next key.
                passed = 0;
                self.inner.seek(&self.key, SeqNo::ZERO)?;
                continue;
            }
            passed += 1;
            self.inner.next()?;
        }
        Ok(())
    }

    /// Goes on to the last key whose deciding version sets a value, and keeps that one aside.
    fn settle_backward(&mut self) -> Result<()> {
        self.shown = Shown::Nothing;
        loop {
            if self.is_astray {
                self.is_astray = false;
                self.inner.seek_before(&self.key)?;
            }
            let Some(entry) = self.inner.entry() else { return Ok(()) };
            if self.lower.as_ref().is_some_and(|lower| entry.key < lower.as_slice()) {
                return Ok(());
            }
            set(&mut self.key, entry.key);
            if self.keep_newest()? {
                self.shown = Shown::Kept;
                return Ok(());
            }
        }
    }

    /// Walks the versions of `self.key`, oldest first, to the key before, and keeps the newest one
    /// that the snapshot sees. Returns whether there is one and it sets a value.
    fn keep_newest(&mut self) -> Result<bool> {
        let mut found = false;
        let mut passed = 0;
        while let Some(entry) = self.inner.entry().filter(|entry| entry.key == self.key) {
            if passed >= PASSED_MAX {
                self.is_astray = true;
                self.inner.seek(&self.key, self.snapshot)?;
                let newest = self.inner.entry().filter(|entry| entry.key == self.key);
                found = newest.is_some();
                if let Some(entry) = newest {
                    self.kept.keep(entry, &self.inner);
                }
                break;
            }
            if entry.seq <= self.snapshot {
                self.kept.keep(entry, &self.inner);
                found = true;
            }
            passed += 1;
            self.inner.prev()?;
        }
        Ok(found && self.kept.kind == Kind::Put)
    }
}

#[inline]
fn set(buffer: &mut Vec<u8>, bytes: &[u8]) {
    buffer.clear();
    buffer.extend_from_slice(bytes);
}
