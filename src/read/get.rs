//! Point reads.
//!
//! Invariants
//! - R2, R3: the first source that holds an entry at or below the sequence decides.
//! - A borrowed read copies nothing; values from memtables are always copied out by `get`.

use crate::base::key::{EntryRef, Kind, SeqNo};
use crate::base::slice::Slice;
use crate::engine::Core;
use crate::engine::view::View;
use crate::env::sync::Arc;
use crate::error::Result;
use crate::table::key_hash;
use crate::version::Version;

impl Core {
    /// Reads in the view and at the sequence of now.
    #[inline]
    fn read<R>(&self, read: impl FnOnce(&View, SeqNo) -> Result<R>) -> Result<R> {
        self.health.check_readable()?;
        let changes = self.view.changes();
        let (view, published) = self.view.read_point(&self.published);
        let answer = read(&view, published);
        drop(view);
        if self.view.changes() != changes {
            // G2: it may have pinned what goes.
            self.reader_ended();
        }
        answer
    }

    /// The view and the sequence of a read that outlives a call.
    pub(super) fn lasting_read_point(&self) -> (Arc<View>, SeqNo) {
        self.view.lasting_read_point(&self.published)
    }

    /// Runs `found` on the value of `key`, borrowed, at `at` or at what is published now.
    pub(crate) fn get_with<R>(
        &self,
        key: &[u8],
        at: Option<SeqNo>,
        found: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.read(|view, published| {
            self.lookup(view, key, at.unwrap_or(published), |entry| match entry.kind {
                Kind::Put => Some(found(entry.value)),
                Kind::Delete => None,
            })
        })
        .map(Option::flatten)
    }

    /// The value of `key` as a slice of its own or of what it pins.
    pub(crate) fn get(&self, key: &[u8], at: Option<SeqNo>) -> Result<Option<Slice>> {
        self.read(|view, published| self.get_in(view, key, at.unwrap_or(published)))
    }

    /// As [`Core::get`], in a view.
    pub(crate) fn get_in(&self, view: &View, key: &[u8], at: SeqNo) -> Result<Option<Slice>> {
        let copied = |entry: EntryRef<'_>| match entry.kind {
            Kind::Put => Some(Slice::copy(entry.value)),
            Kind::Delete => None,
        };
        if let Some(entry) = view.in_memory(key, at) {
            return Ok(copied(entry));
        }
        let hash = key_hash(key);
        for slice in slices_for(&view.version, key) {
            let meta = &*slice.meta;
            let table = self.tables.of(&meta.identity(), &meta.kept)?;
            let copy_max = self.options.value_copy_bytes_max;
            if let Some((kind, _, value)) = table.get(key, hash, at, copy_max)? {
                return Ok((kind == Kind::Put).then_some(value));
            }
        }
        Ok(None)
    }

    /// The prefix that tables' filters can be asked for, in a scan of `prefix`.
    pub(crate) fn filter_prefix(&self, prefix: Option<&[u8]>) -> Option<Arc<[u8]>> {
        let len = self.options.scan_prefix_len?;
        Some(Arc::from(prefix?.get(..len)?))
    }

    fn lookup<R>(
        &self,
        view: &View,
        key: &[u8],
        at: SeqNo,
        found: impl FnOnce(EntryRef<'_>) -> R,
    ) -> Result<Option<R>> {
        // R2, R3: the first source that answers decides, with a removal too.
        if let Some(entry) = view.in_memory(key, at) {
            return Ok(Some(found(entry)));
        }
        let hash = key_hash(key);
        let mut found = Some(found);
        for slice in slices_for(&view.version, key) {
            let meta = &*slice.meta;
            let table = self.tables.of(&meta.identity(), &meta.kept)?;
            let answer = table.get_with(key, hash, at, |entry| {
                (found.take().expect("one table answers, once"))(entry)
            })?;
            if answer.is_some() {
                return Ok(answer);
            }
        }
        Ok(None)
    }

    /// The values of `keys` in one view; the tables are asked in key order.
    pub(crate) fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        at: Option<SeqNo>,
    ) -> Result<Vec<Option<Slice>>> {
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_by(|&a, &b| keys[a].as_ref().cmp(keys[b].as_ref()));
        self.read(|view, published| {
            let at = at.unwrap_or(published);
            let mut values = vec![None; keys.len()];
            for index in order {
                values[index] = self.get_in(view, keys[index].as_ref(), at)?;
            }
            Ok(values)
        })
    }
}

/// The slices that may hold `key`, newest run first.
fn slices_for<'a>(
    version: &'a Version,
    key: &'a [u8],
) -> impl Iterator<Item = &'a crate::version::TableSlice> {
    version.runs.iter().filter_map(move |run| run.find(key))
}
