//! One file: its durable bytes and what lies above them.
//!
//! Invariants
//! - A read is the durable bytes with every visible patch laid over them in order, cut at the
//!   length now; a byte that neither holds is zero.
//! - A sync folds exactly the dirty patches up to its stamp; a patch whose sync failed is never
//!   folded again and stays a choice of every crash until something durable covers it.
//! - Durable bytes are shared by count: a snapshot or an image copies none of them.
//!
//! It knows no names, no faults and no paths.
#![allow(clippy::disallowed_types)] // `OnceLock` caches a hash: nobody ever waits for it.

use std::sync::{Arc, OnceLock};

/// Orders changes: each has one, later changes have greater ones.
pub(super) type Stamp = u64;

/// A value that is durable in one version and has later ones that a crash may or may not keep.
#[derive(Clone, Debug)]
pub(super) struct Values<T> {
    durable: T,
    later: Vec<(Stamp, T)>,
    /// Changes up to this stamp met a failed sync: no later sync makes them durable.
    stuck: Stamp,
}

impl<T: Copy + PartialEq> Values<T> {
    pub(super) fn new(durable: T) -> Self {
        Self { durable, later: Vec::new(), stuck: 0 }
    }

    pub(super) fn now(&self) -> T {
        self.later.last().map_or(self.durable, |&(_, value)| value)
    }

    pub(super) fn is_dirty(&self) -> bool {
        !self.later.is_empty()
    }

    /// Every version that a crash may leave, the durable one first.
    pub(super) fn versions(&self) -> impl Iterator<Item = (Stamp, T)> + '_ {
        std::iter::once((0, self.durable)).chain(self.later.iter().copied())
    }

    pub(super) fn set(&mut self, stamp: Stamp, value: T) {
        if value != self.now() {
            self.later.push((stamp, value));
        }
    }

    pub(super) fn sync(&mut self, upto: Stamp) {
        let stuck = self.stuck;
        let last = self.later.iter().rposition(|&(stamp, _)| stamp > stuck && stamp <= upto);
        if let Some(last) = last {
            self.durable = self.later[last].1;
            self.later.drain(..=last);
        }
    }

    pub(super) fn fail(&mut self, upto: Stamp) {
        self.stuck = self.stuck.max(upto);
    }

    /// The lie of a failed sync ends.
    pub(super) fn heal(&mut self) {
        self.stuck = 0;
    }
}

/// Durable bytes. The file may be longer: what is not here is zero.
#[derive(Debug, Default)]
pub(super) struct Content {
    bytes: Vec<u8>,
    hash: OnceLock<u64>,
}

impl Content {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, hash: OnceLock::new() }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A hash of the bytes without the zeros at the end, computed once per content.
    fn hash(&self) -> u64 {
        *self.hash.get_or_init(|| {
            let end = self.bytes.iter().rposition(|&b| b != 0).map_or(0, |last| last + 1);
            xxhash_rust::xxh3::xxh3_64(&self.bytes[..end])
        })
    }

    /// The bytes of `this`, alone, with room for `end` of them.
    fn change(this: &mut Arc<Self>, end: usize) -> &mut Vec<u8> {
        if Arc::get_mut(this).is_none() {
            let mut bytes = Vec::with_capacity(end.max(this.bytes.len()));
            bytes.extend_from_slice(&this.bytes);
            *this = Arc::new(Self::new(bytes));
        }
        let own = Arc::get_mut(this).expect("invariant: the count was made one above");
        own.hash = OnceLock::new();
        if own.bytes.len() < end {
            own.bytes.resize(end, 0);
        }
        &mut own.bytes
    }
}

/// What a patch puts down.
#[derive(Clone, Debug)]
enum Data {
    Bytes(Arc<[u8]>),
    /// Zeros, as a truncation leaves for whoever extends the file again.
    Zero(u64),
}

/// How a patch stands to memory and to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    /// Seen by reads; the next sync writes it.
    Dirty,
    /// Its sync failed and the kernel calls it clean: seen by reads (until the call of that
    /// number, if any), written by nobody, and perhaps on the device.
    Stuck(Option<u64>),
    /// Its sync failed and reads see the old bytes; yet it may be on the device.
    Hidden,
}

#[derive(Clone, Debug)]
struct Patch {
    stamp: Stamp,
    at: u64,
    data: Data,
    page: Page,
}

impl Patch {
    fn end(&self) -> u64 {
        self.at
            + match &self.data {
                Data::Bytes(bytes) => bytes.len() as u64,
                Data::Zero(len) => *len,
            }
    }

    /// Lays the part in `from..to` over `target`, whose first byte is the file's byte `base`.
    fn lay(&self, target: &mut [u8], base: u64, from: u64, to: u64) {
        let from = from.max(self.at).max(base);
        let to = to.min(self.end()).min(base + target.len() as u64);
        if from >= to {
            return;
        }
        let target = &mut target[(from - base) as usize..(to - base) as usize];
        match &self.data {
            Data::Bytes(bytes) => {
                target.copy_from_slice(&bytes[(from - self.at) as usize..(to - self.at) as usize])
            }
            Data::Zero(_) => target.fill(0),
        }
    }

    /// The part of it in `from..to`, if any.
    fn part(&self, from: u64, to: u64) -> Option<Patch> {
        let (from, to) = (from.max(self.at), to.min(self.end()));
        if from >= to {
            return None;
        }
        let data = match &self.data {
            Data::Bytes(bytes) => {
                Data::Bytes(Arc::from(&bytes[(from - self.at) as usize..(to - self.at) as usize]))
            }
            Data::Zero(_) => Data::Zero(to - from),
        };
        Some(Patch { stamp: self.stamp, at: from, data, page: self.page })
    }
}

/// Blocks of the file that no durable write has filled.
#[derive(Clone, Copy, Debug)]
struct Fresh {
    stamp: Stamp,
    from: u64,
    to: u64,
    /// Preallocated: a sync does not end it, only a synced write of the bytes does.
    lasting: bool,
}

/// What a failed sync leaves in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// The new bytes, called clean.
    New,
    /// The old bytes.
    Old,
    /// The new bytes for so many calls, then the old ones.
    NewFor(u32),
}

/// What a crash does to one patch. The numbers count bytes of the patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    None,
    All,
    Prefix(u32),
    Suffix(u32),
    /// Pieces of 8 to 512 bytes, chosen by the seed.
    Pieces(u32),
}

/// Stale bytes under what was never written: where from, and which blocks (0: all of them).
pub(super) struct Stale<'a> {
    pub(super) source: &'a [u8],
    pub(super) seed: u32,
}

const SECTOR: u64 = 512;

#[derive(Clone, Debug)]
pub(super) struct FileNode {
    content: Arc<Content>,
    lens: Values<u64>,
    patches: Vec<Patch>,
    fresh: Vec<Fresh>,
    /// Counts failed syncs that every handle hears of.
    pub(super) errors: u32,
}

impl FileNode {
    pub(super) fn new(content: Arc<Content>, len: u64) -> Self {
        let lens = Values::new(len);
        Self { content, lens, patches: Vec::new(), fresh: Vec::new(), errors: 0 }
    }

    pub(super) fn len(&self) -> u64 {
        self.lens.now()
    }

    pub(super) fn lens(&self) -> &Values<u64> {
        &self.lens
    }

    /// Stamp and length of each patch; zeros have no length worth a tear.
    pub(super) fn patches(&self) -> impl Iterator<Item = (Stamp, u32)> + '_ {
        self.patches.iter().map(|p| match &p.data {
            Data::Bytes(bytes) => (p.stamp, bytes.len() as u32),
            Data::Zero(_) => (p.stamp, 1),
        })
    }

    pub(super) fn patch_range(&self, index: usize) -> (u64, u64) {
        (self.patches[index].at, self.patches[index].end())
    }

    pub(super) fn has_fresh(&self) -> bool {
        !self.fresh.is_empty()
    }

    pub(super) fn read(&self, at: u64, buf: &mut [u8]) -> usize {
        let n = self.len().saturating_sub(at).min(buf.len() as u64) as usize;
        let buf = &mut buf[..n];
        let held = self.content.bytes.get(at as usize..).unwrap_or_default();
        let held = &held[..held.len().min(n)];
        buf[..held.len()].copy_from_slice(held);
        buf[held.len()..].fill(0);
        for patch in self.patches.iter().filter(|p| p.page != Page::Hidden) {
            patch.lay(buf, at, 0, u64::MAX);
        }
        n
    }

    pub(super) fn write(&mut self, stamp: Stamp, at: u64, bytes: &[u8]) {
        let end = at + bytes.len() as u64;
        self.grow(stamp, end, false);
        let data = Data::Bytes(Arc::from(bytes));
        self.patches.push(Patch { stamp, at, data, page: Page::Dirty });
    }

    /// Makes the length at least `len`.
    pub(super) fn grow(&mut self, stamp: Stamp, len: u64, lasting: bool) {
        let now = self.len();
        if len > now {
            self.fresh.push(Fresh { stamp, from: now, to: len, lasting });
            self.lens.set(stamp, len);
        }
    }

    pub(super) fn set_len(&mut self, stamp: Stamp, len: u64) {
        let now = self.len();
        if len < now {
            let data = Data::Zero(now - len);
            self.patches.push(Patch { stamp, at: len, data, page: Page::Dirty });
            self.lens.set(stamp, len);
        } else {
            self.grow(stamp, len, false);
        }
    }

    /// Makes durable what was changed up to `upto`: all of it, or (`all` false) the bytes and as
    /// much of the length as reading them needs.
    pub(super) fn sync(&mut self, upto: Stamp, all: bool) {
        let mut above: Vec<Patch> = Vec::new();
        let mut needed = 0;
        for patch in std::mem::take(&mut self.patches) {
            // A truncation is no data: only a sync of all covers it.
            let zero = matches!(patch.data, Data::Zero(_));
            if patch.page != Page::Dirty || patch.stamp > upto || (zero && !all) {
                above.push(patch);
                continue;
            }
            let (from, to) = (patch.at, patch.end());
            needed = needed.max(to);
            // Zeros need no room of their own.
            let held = self.content.bytes.len() as u64;
            let end = if zero { to.min(held) } else { to };
            patch.lay(Content::change(&mut self.content, end as usize), 0, from, end);
            if !above.is_empty() {
                above = above
                    .iter()
                    .flat_map(|p| [p.part(0, from), p.part(to, u64::MAX)])
                    .flatten()
                    .collect();
            }
            self.written(from, to);
        }
        self.patches = above;
        self.fresh.retain(|f| f.lasting || f.stamp > upto || (!all && f.to > needed));
        if all {
            self.lens.sync(upto);
        } else {
            self.lens.sync_at_least(upto, needed);
        }
        let len = self.lens.now();
        if !self.lens.is_dirty() && self.content.bytes.len() as u64 > len {
            Content::change(&mut self.content, 0).truncate(len as usize);
        }
    }

    /// The device holds `from..to` now: nothing stale can show there.
    fn written(&mut self, from: u64, to: u64) {
        if self.fresh.iter().any(|f| f.from < to && from < f.to) {
            let cut = |f: &Fresh| {
                let left = Fresh { to: f.to.min(from), ..*f };
                let right = Fresh { from: f.from.max(to), ..*f };
                [left, right].into_iter().filter(|f| f.from < f.to)
            };
            self.fresh = self.fresh.iter().flat_map(cut).collect();
        }
    }

    /// A sync of what was changed up to `upto` failed at call number `call`.
    pub(super) fn fail_sync(&mut self, upto: Stamp, pages: Pages, call: u64) {
        for patch in &mut self.patches {
            if patch.page == Page::Dirty && patch.stamp <= upto {
                patch.page = match pages {
                    Pages::New => Page::Stuck(None),
                    Pages::Old => Page::Hidden,
                    Pages::NewFor(calls) => Page::Stuck(Some(call + u64::from(calls))),
                };
            }
        }
        self.lens.fail(upto);
    }

    /// Drops pages from memory that call number `call` finds evicted.
    pub(super) fn evict(&mut self, call: u64) {
        for patch in &mut self.patches {
            if matches!(patch.page, Page::Stuck(Some(at)) if at <= call) {
                patch.page = Page::Hidden;
            }
        }
    }

    pub(super) fn evicts(&self) -> bool {
        self.patches.iter().any(|p| matches!(p.page, Page::Stuck(Some(_))))
    }

    /// The content as reads see it.
    pub(super) fn visible(&self) -> Arc<Content> {
        if self.patches.is_empty() && self.content.bytes.len() as u64 <= self.len() {
            return self.content.clone();
        }
        let ends = self.patches.iter().map(Patch::end);
        let end = ends.max().unwrap_or(0).max(self.content.bytes.len() as u64).min(self.len());
        let mut bytes = vec![0; end as usize];
        self.read(0, &mut bytes);
        Arc::new(Content::new(bytes))
    }

    pub(super) fn hash(&self) -> u64 {
        self.visible().hash()
    }

    /// The file after a crash: of length `len`, with each patch as `keep` says.
    pub(super) fn survive(
        &self,
        len: u64,
        keep: impl Fn(usize) -> Keep,
        stale: Option<Stale<'_>>,
    ) -> Self {
        let lost = (0..self.patches.len()).all(|i| keep(i) == Keep::None);
        if lost && stale.is_none() && self.content.bytes.len() as u64 <= len {
            return Self::new(self.content.clone(), len);
        }
        let mut bytes = self.content.bytes.clone();
        if let Some(stale) = stale {
            for fresh in &self.fresh {
                lay_stale(&mut bytes, fresh.from, fresh.to.min(len), &stale);
            }
        }
        for (i, patch) in self.patches.iter().enumerate() {
            let (at, end) = (patch.at, patch.end());
            let keep = keep(i);
            let (from, to) = match keep {
                Keep::None => continue,
                Keep::All | Keep::Pieces(_) => (at, end),
                Keep::Prefix(n) => (at, end.min(at + u64::from(n))),
                Keep::Suffix(n) => (at.max(end - u64::from(n).min(end)), end),
            };
            let zero = matches!(patch.data, Data::Zero(_));
            let needed = if zero { bytes.len() as u64 } else { to.min(len) };
            if bytes.len() < needed as usize {
                bytes.resize(needed as usize, 0);
            }
            let Keep::Pieces(seed) = keep else {
                patch.lay(&mut bytes, 0, from, to);
                continue;
            };
            let piece = 8 << (seed % 7);
            for start in (from / piece..=to / piece).map(|n| n * piece) {
                if mix(u64::from(seed) ^ start) & 1 == 1 {
                    patch.lay(&mut bytes, 0, start, start + piece);
                }
            }
        }
        bytes.truncate(len as usize);
        Self::new(Arc::new(Content::new(bytes)), len)
    }

    /// Whether a crash may leave `byte` at `at`; `stale` says whether it may be stale there.
    pub(super) fn may_hold(&self, at: u64, byte: u8, stale: impl Fn(u64, u8) -> bool) -> bool {
        let durable = self.content.bytes.get(at as usize).copied().unwrap_or(0);
        let put = |patch: &Patch| {
            (patch.at..patch.end()).contains(&at)
                && match &patch.data {
                    Data::Bytes(bytes) => bytes[(at - patch.at) as usize] == byte,
                    Data::Zero(_) => byte == 0,
                }
        };
        let fresh = || self.fresh.iter().any(|fresh| (fresh.from..fresh.to).contains(&at));
        durable == byte || self.patches.iter().any(put) || (fresh() && stale(at, byte))
    }

    /// Changes the durable bytes of a clean file, for damage to the media.
    pub(super) fn damage(&mut self, len: u64, change: impl FnOnce(&mut Vec<u8>)) {
        let bytes = Content::change(&mut self.content, self.lens.now() as usize);
        change(bytes);
        bytes.truncate(len as usize);
        self.lens = Values::new(len);
    }
}

impl Values<u64> {
    /// The length is durable as far as `needed`; what lies beyond stays a choice.
    fn sync_at_least(&mut self, upto: Stamp, needed: u64) {
        let synced = self.later.iter().take_while(|&&(stamp, _)| stamp <= upto);
        let at_sync = synced.last().map_or(self.durable, |&(_, len)| len);
        let needed = needed.min(at_sync);
        if self.durable < needed {
            self.durable = needed;
            let whole = at_sync == needed;
            self.later.retain(|&(stamp, len)| stamp > upto || (!whole && len > needed));
        }
    }
}

/// Fills blocks of `from..to` with what `stale.source` holds at the same offset.
fn lay_stale(bytes: &mut Vec<u8>, from: u64, to: u64, stale: &Stale<'_>) {
    let to = to.min(stale.source.len() as u64);
    let mut at = from;
    while at < to {
        let end = ((at / SECTOR + 1) * SECTOR).min(to);
        if stale.seed == 0 || mix(u64::from(stale.seed) ^ (at / SECTOR)) & 1 == 1 {
            if bytes.len() < end as usize {
                bytes.resize(end as usize, 0);
            }
            let range = at as usize..end as usize;
            bytes[range.clone()].copy_from_slice(&stale.source[range]);
        }
        at = end;
    }
}

/// One step of splitmix64 (Steele, Lea and Flood 2014) on `x`.
pub(super) fn mix(x: u64) -> u64 {
    let z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
