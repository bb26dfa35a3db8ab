//! Scans: an iterator over the visible keys of one view, from both ends.
//!
//! Invariants
//! - S1, S2: it reads one view at one sequence; both ends see the same keys, and meet.
//! - The front moves only forward and the back only backward, each over cursors of its own, so no
//!   cursor ever turns round.
//! - An error is yielded once, then `None`; `status` keeps it until the next seek (R4).
//! - It owns what it needs: no lifetime, `Send`. Its view pins the tables that it reads (G2).

use crate::base::key::{SeqNo, prefix_successor};
use crate::base::slice::Slice;
use crate::cursor::merge::Merge;
use crate::cursor::visible::Visible;
use crate::engine::Core;
use crate::engine::source::Source;
use crate::engine::view::View;
use crate::env::sync::Arc;
use crate::error::{Error, Result};
use crate::table::Purpose;
use crate::version::KeyRange;

type KeyScan = Visible<Merge<Source>>;

/// The range of a scan: from inclusive, to exclusive.
#[derive(Clone, Debug)]
pub(crate) struct ScanRange {
    range: KeyRange,
    /// Every key of the range begins with this.
    prefix: Option<Vec<u8>>,
}

impl ScanRange {
    pub(crate) fn new(range: KeyRange) -> Self {
        Self { range, prefix: None }
    }

    pub(crate) fn prefix(prefix: &[u8]) -> Self {
        let (lo, hi) = (Some(prefix.to_vec()), prefix_successor(prefix));
        Self { range: KeyRange { lo, hi }, prefix: Some(prefix.to_vec()) }
    }
}

/// An iterator over keys and values in byte order: ascending from the front, descending from the
/// back.
///
/// It sees the database as it was when the iterator was made, whatever is written afterwards. It
/// keeps memtables and tables of that moment alive, so one that lives long holds memory and disk.
/// After `close` it yields [`Error::Closed`].
pub struct Iter {
    core: Arc<Core>,
    view: Arc<View>,
    at: SeqNo,
    range: ScanRange,
    /// The part of the range that the last seek left.
    window: KeyRange,
    front: Option<KeyScan>,
    back: Option<KeyScan>,
    /// Both ends have met, or one of them has reached the other bound.
    done: bool,
    status: Option<Error>,
}

impl Iter {
    pub(crate) fn new(core: Arc<Core>, at: Option<SeqNo>, range: ScanRange) -> Result<Self> {
        core.health.check_readable()?;
        let (view, published) = core.lasting_read_point();
        let at = at.unwrap_or(published);
        let window = range.range.clone();
        let (front, back, status) = (None, None, None);
        Ok(Self { core, view, at, range, window, front, back, done: false, status })
    }

    /// Moves to the part of the range at and above `key`: the next front item is the first there,
    /// the next back item the last of the range. Clears an error.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) {
        self.restart();
        let key = key.as_ref();
        if self.window.lo.as_deref().is_none_or(|lo| lo < key) {
            self.window.lo = Some(key.to_vec());
        }
    }

    /// Moves to the part of the range at and below `key`: the next back item is the last there, the
    /// next front item the first of the range. Clears an error.
    pub fn seek_back(&mut self, key: impl AsRef<[u8]>) {
        self.restart();
        let above = just_above(key.as_ref());
        if self.window.hi.as_ref().is_none_or(|hi| above < *hi) {
            self.window.hi = Some(above);
        }
    }

    /// The error that ended the iteration since the last seek, if one did.
    ///
    /// # Errors
    /// That one.
    pub fn status(&self) -> Result<()> {
        self.status.clone().map_or(Ok(()), Err)
    }

    fn restart(&mut self) {
        self.window.clone_from(&self.range.range);
        (self.front, self.back, self.status) = (None, None, None);
        self.done = false;
    }

    /// Cursors over every source of the view, newest first, not positioned yet.
    fn key_scan(&self) -> KeyScan {
        let prefix = self.core.filter_prefix(self.range.prefix.as_deref());
        let sources = Source::all(&self.view, &self.core.tables, Purpose::Read, prefix.as_ref());
        let KeyRange { lo, hi } = self.window.clone();
        Visible::within(Merge::new(sources), self.at, lo, hi)
    }

    fn advance_front(&mut self) -> Result<Option<(Slice, Slice)>> {
        self.core.health.check_readable()?;
        if let Some(front) = &mut self.front {
            front.next_visible()?;
        } else {
            let mut front = self.key_scan();
            front.seek_first()?;
            self.front = Some(front);
        }
        Ok(self.shown(&self.front, &self.back, |front, back| front >= back))
    }

    fn advance_back(&mut self) -> Result<Option<(Slice, Slice)>> {
        self.core.health.check_readable()?;
        if let Some(back) = &mut self.back {
            back.prev_visible()?;
        } else {
            let mut back = self.key_scan();
            back.seek_last()?;
            self.back = Some(back);
        }
        Ok(self.shown(&self.back, &self.front, |back, front| back <= front))
    }

    /// What `this` end stands on, to keep, unless it has met the other end.
    fn shown(
        &self,
        this: &Option<KeyScan>,
        other: &Option<KeyScan>,
        met: impl FnOnce(&[u8], &[u8]) -> bool,
    ) -> Option<(Slice, Slice)> {
        let this = this.as_ref()?;
        let entry = this.entry()?;
        let other = other.as_ref().and_then(Visible::entry);
        if other.is_some_and(|other| met(entry.key, other.key)) {
            return None;
        }
        let short = entry.value.len() <= self.core.options.value_copy_bytes_max;
        let value = if short { Slice::copy(entry.value) } else { this.pinned_value()? };
        Some((Slice::copy(entry.key), value))
    }

    fn step(
        &mut self,
        advance: impl FnOnce(&mut Self) -> Result<Option<(Slice, Slice)>>,
    ) -> Option<Result<(Slice, Slice)>> {
        if self.done || self.status.is_some() {
            return None;
        }
        match advance(self) {
            Ok(Some(item)) => Some(Ok(item)),
            Ok(None) => {
                self.done = true;
                None
            }
            Err(error) => {
                self.status = Some(error.clone());
                Some(Err(error))
            }
        }
    }
}

/// The least key above `key`.
pub(crate) fn just_above(key: &[u8]) -> Vec<u8> {
    let mut above = key.to_vec();
    above.push(0);
    above
}

impl Iterator for Iter {
    type Item = Result<(Slice, Slice)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(Self::advance_front)
    }
}

impl DoubleEndedIterator for Iter {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(Self::advance_back)
    }
}

impl Drop for Iter {
    fn drop(&mut self) {
        // Let go first: what it pinned may be collected then (G2).
        (self.front, self.back) = (None, None);
        self.view = self.core.view.load();
        self.core.reader_ended();
    }
}

impl std::fmt::Debug for Iter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Iter").field("at", &self.at).field("range", &self.range).finish()
    }
}
