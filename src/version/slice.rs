//! A table as a version names it, and the part of it that is visible.
//!
//! Invariants
//! - `lo` is set only if it is above the table's first key, `hi` only if it is at or below the
//!   last, and the part between holds a key for all that the bounds tell: a slice that can show
//!   nothing does not exist.
//! - The sequence range and the counts of a [`TableMeta`] are those of the whole table, whatever
//!   part of it is visible.

use crate::base::key::{FileNumber, SeqNo, TableId};
use crate::env::sync::Arc;
use crate::table::KeptTable;

/// A half-open range of user keys; `None` is unbounded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key in it.
    pub lo: Option<Vec<u8>>,
    /// The first key above it.
    pub hi: Option<Vec<u8>>,
}

impl KeyRange {
    /// Every key.
    pub const ALL: Self = Self { lo: None, hi: None };

    /// Whether `key` is in it.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        self.lo.as_deref().is_none_or(|lo| lo <= key)
            && self.hi.as_deref().is_none_or(|hi| key < hi)
    }

    /// Whether no key can be in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!((&self.lo, &self.hi), (Some(lo), Some(hi)) if lo >= hi)
            || self.hi.as_deref() == Some(b"")
    }
}

/// What a manifest says of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableMeta {
    /// The number in its file's name.
    pub number: FileNumber,
    /// Its identity, in every block checksum.
    pub id: TableId,
    /// Its file's length.
    pub bytes: u64,
    /// Its footer's checksum, which ties the file to this entry.
    pub footer_crc: u32,
    /// The smallest key in it.
    pub first_key: Vec<u8>,
    /// The largest key in it.
    pub last_key: Vec<u8>,
    /// How many entries it has.
    pub entries: u64,
    /// How many of them are tombstones.
    pub tombstones: u64,
    /// The smallest sequence in it.
    pub seq_min: SeqNo,
    /// The largest sequence in it.
    pub seq_max: SeqNo,
    /// The table while it is open: no part of the entry.
    pub kept: KeptTable,
}

/// The visible part of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSlice {
    /// The table.
    pub meta: Arc<TableMeta>,
    /// The first visible key; `None` for all from the table's first on.
    pub lo: Option<Vec<u8>>,
    /// The first key no longer visible; `None` for all up to the table's last.
    pub hi: Option<Vec<u8>>,
}

impl TableSlice {
    /// The whole table.
    #[must_use]
    pub fn whole(meta: Arc<TableMeta>) -> Self {
        Self { meta, lo: None, hi: None }
    }

    /// No visible key is below this one.
    #[inline]
    #[must_use]
    pub fn lower(&self) -> &[u8] {
        self.lo.as_deref().unwrap_or(&self.meta.first_key)
    }

    /// Whether a visible key may be at or above `key`.
    #[inline]
    #[must_use]
    pub fn reaches(&self, key: &[u8]) -> bool {
        match &self.hi {
            Some(hi) => key < &hi[..],
            None => key <= &self.meta.last_key[..],
        }
    }

    /// Whether `key` may be visible in it.
    #[inline]
    #[must_use]
    pub fn covers(&self, key: &[u8]) -> bool {
        self.lower() <= key && self.reaches(key)
    }

    /// Whether a visible key may be in `range`.
    #[must_use]
    pub fn overlaps(&self, range: &KeyRange) -> bool {
        range.hi.as_deref().is_none_or(|hi| self.lower() < hi)
            && range.lo.as_deref().is_none_or(|lo| self.reaches(lo))
            && !range.is_empty()
    }

    /// Whether one key may be visible in both.
    #[must_use]
    pub fn overlaps_slice(&self, other: &Self) -> bool {
        self.reaches(other.lower()) && other.reaches(self.lower())
    }

    /// Whether every visible key of it is below every one of `other`.
    #[must_use]
    pub fn is_before(&self, other: &Self) -> bool {
        !self.reaches(other.lower())
    }

    /// The visible range.
    #[must_use]
    pub fn range(&self) -> KeyRange {
        let mut above_last = self.meta.last_key.clone();
        above_last.push(0);
        let hi = self.hi.clone().unwrap_or(above_last);
        KeyRange { lo: Some(self.lower().to_vec()), hi: Some(hi) }
    }

    /// The same slice without what its table's keys already bound; `None` if no key can be visible.
    #[must_use]
    pub fn bounded(meta: Arc<TableMeta>, lo: Option<Vec<u8>>, hi: Option<Vec<u8>>) -> Option<Self> {
        let lo = lo.filter(|lo| *lo > meta.first_key);
        let hi = hi.filter(|hi| *hi <= meta.last_key);
        let slice = Self { meta, lo, hi };
        slice.check().is_ok().then_some(slice)
    }

    /// What is left of it below and above `range`.
    #[must_use]
    pub fn without(&self, range: &KeyRange) -> (Option<Self>, Option<Self>) {
        let below = range.lo.as_ref().and_then(|lo| {
            let hi = self.hi.as_ref().map_or(lo, |hi| hi.min(lo));
            Self::bounded(self.meta.clone(), self.lo.clone(), Some(hi.clone()))
        });
        let above = range.hi.as_ref().and_then(|hi| {
            let lo = self.lo.as_ref().map_or(hi, |lo| lo.max(hi));
            Self::bounded(self.meta.clone(), Some(lo.clone()), self.hi.clone())
        });
        (below, above)
    }

    /// Whether table and bounds make sense.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), String> {
        let meta = &*self.meta;
        let table = meta.number.0;
        if meta.first_key > meta.last_key {
            return Err(format!("table {table} ends before it begins"));
        }
        if meta.entries == 0 || meta.tombstones > meta.entries {
            return Err(format!("table {table} has {} entries", meta.entries));
        }
        if meta.seq_min == SeqNo::ZERO || meta.seq_min > meta.seq_max {
            return Err(format!(
                "table {table} has sequences {:?}..={:?}",
                meta.seq_min, meta.seq_max
            ));
        }
        let lo_fits = self.lo.as_ref().is_none_or(|lo| *lo > meta.first_key);
        let hi_fits =
            self.hi.as_ref().is_none_or(|hi| *hi <= meta.last_key && *hi > meta.first_key);
        if !lo_fits || !hi_fits || !self.reaches(self.lower()) {
            return Err(format!("table {table} has visible bounds that do not fit its keys"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
