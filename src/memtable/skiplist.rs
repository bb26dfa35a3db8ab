//! The sorted list of a memtable: one writer, readers that never wait.
//!
//! A node is a few words of the arena: the key's rank as two words, the place of the entry's bytes,
//! and one link for each level. The rank lies beside the links so that a search touches one cache
//! line a node, and the bytes only where ranks are equal. It is the eight bytes after the stem, a
//! beginning that the keys of the memtable before this one had in common: keys that all begin with
//! one word would otherwise have one rank. The head is the node
//! at word 0; no link leads back to it, so a link of 0 is the end.
//!
//! Invariants
//! - K1: level 0 holds every node in entry order; a level holds a subset of the level below.
//! - K2: a node is linked, from level 0 up, after its bytes, rank and own links are written; each
//!   link to it is stored with release. Links are read with acquire (the arena's U3).
//! - K3: nodes are never unlinked or changed: a node once seen stays what it is.
//! - K4: heights come from a generator with a fixed seed: the same inserts make the same list.
//! - K5: ranks never contradict the order of keys. Whatever sorts before every key with the stem
//!   has the least rank, whatever sorts after them the greatest.
//!
//! A reader may see a node before its sequence is published; it asks for sequences at or below the
//! published one, and the order of the list then leads it past newer ones.
//!
//! Why not safe: indices stand for borrows of the arena; what makes them good is K2, which the
//! compiler can't see. Every such step is a call of the arena with its reason.
//!
//! It removes nothing and knows no snapshots.
#![allow(unsafe_code)]

use super::arena::{Arena, Pen};
use crate::base::key::{EntryRef, KEY_BYTES_MAX, Kind, SeqNo, cmp_entries, key_prefix};
use crate::env::sync::{Arc, AtomicU32, AtomicUsize, Ordering};
use std::cmp;

/// Levels of the list; with a quarter of the nodes on each next one, enough for 16 million.
const HEIGHT_MAX: usize = 12;

/// The words of a node before its links.
const RANK_HIGH: u32 = 0;
const RANK_LOW: u32 = 1;
const ENTRY: u32 = 2;
const LINKS: u32 = 3;

/// The bytes of an entry before its key: sequence and kind (8), value length (4), key length (2).
const ENTRY_HEAD: usize = 14;

/// The words that are counted for an entry. It takes a third of a link more than one in the mean,
/// and never more than two in the mean beyond `LINKS_SLACK` (`the_links_counted_are_enough`).
const ENTRY_WORDS: usize = LINKS as usize + 2;
const LINKS_SLACK: usize = 32;

/// The words of a list before its first entry.
const LIST_WORDS: usize = LINKS as usize + HEIGHT_MAX + LINKS_SLACK;

/// What an entry takes beside its key and value.
const ENTRY_OVERHEAD: usize = ENTRY_HEAD + ENTRY_WORDS * WORD;
const WORD: usize = size_of::<u32>();

/// The most that an arena may be asked to hold. A batch that needs more can't be written.
pub const ARENA_BYTES_MAX: usize = u32::MAX as usize;

/// Where heights start from (K4). With this one the second and third node are on several levels,
/// so that a loom model of three inserts has to do with more than level 0.
const SEED: u64 = 0x2bc8_2a45_c69a_3c42;

/// The newest writes in memory, sorted. Readers share it; see the module.
pub struct Memtable {
    arena: Arena,
    /// What the keys probably begin with.
    stem: Box<[u8]>,
    /// Of both slabs together.
    capacity: usize,
    /// Of the words.
    entries_max: usize,
    /// The levels in use. A stale value costs a reader time, never an entry.
    height: AtomicU32,
    len: AtomicUsize,
}

/// The one that may insert into a memtable.
pub struct MemtableWriter {
    table: Arc<Memtable>,
    /// Made with `table.arena`, and never changed for another.
    pen: Pen,
    /// The nodes before the place of the last insert, on each level: where keys come in order the
    /// next search ends before it begins.
    splice: [Node; HEIGHT_MAX],
    random: u64,
}

/// A node of the list: the index of its first word. One that is at hand was read from a link with
/// acquire, or is the head's, or the writer made it: K2 holds, and its words may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node(u32);

const HEAD: Node = Node(0);

/// A node of a list that the place keeps alive.
pub(super) struct Place {
    table: Arc<Memtable>,
    node: Option<Node>,
}

/// A key and sequence to look for.
struct Target<'a> {
    rank: u64,
    key: &'a [u8],
    seq: SeqNo,
}

impl Memtable {
    /// An empty memtable for `arena_bytes` of entries with their overhead, and the one who may
    /// write to it. Memory is touched as it is needed, from the first few bytes on.
    ///
    /// `arena_bytes` is at most [`ARENA_BYTES_MAX`]; see [`Memtable::room_for`].
    #[must_use]
    pub fn with_room(arena_bytes: usize) -> (MemtableWriter, Arc<Self>) {
        Self::with_stem(arena_bytes, Box::default())
    }

    /// As [`Memtable::with_room`], for keys that probably begin with `stem`; any key may come.
    #[must_use]
    pub fn with_stem(arena_bytes: usize, stem: Box<[u8]>) -> (MemtableWriter, Arc<Self>) {
        // Each slab for the worst that the other one leaves it: entries without key and value, and
        // one entry with all.
        Self::with_slabs(arena_bytes, arena_bytes / ENTRY_OVERHEAD, arena_bytes, stem)
    }

    /// What all keys here begin with; what they were expected to, where there are less than two.
    #[must_use]
    pub fn common_stem(&self) -> Box<[u8]> {
        let first = self.next(HEAD, 0);
        let (last, _) = self.descend(|_| true, |_, _| ());
        let Some(first) = first.filter(|&first| first != last) else { return self.stem.clone() };
        let ((first, _), (last, _)) = (self.key_and_seq(first), self.key_and_seq(last));
        if first == last {
            return self.stem.clone();
        }
        // Sorted: what the first and the last have in common, all have.
        let common = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        Box::from(&first[..common])
    }

    /// An empty memtable for one large batch, with slabs of its size.
    ///
    /// [`Memtable::room_for`] it is at most [`ARENA_BYTES_MAX`].
    #[must_use]
    pub fn with_room_for(entries: usize, payload_bytes: usize) -> (MemtableWriter, Arc<Self>) {
        let arena_bytes = Self::room_for(entries, payload_bytes);
        let bytes = arena_bytes - entries * ENTRY_WORDS * WORD;
        Self::with_slabs(arena_bytes, entries, bytes, Box::default())
    }

    fn with_slabs(
        capacity: usize,
        entries: usize,
        bytes: usize,
        stem: Box<[u8]>,
    ) -> (MemtableWriter, Arc<Self>) {
        assert!(capacity <= ARENA_BYTES_MAX, "no room for {capacity} bytes in one memtable");
        let (mut pen, arena) = Arena::new(LIST_WORDS + entries * ENTRY_WORDS, bytes);
        // SAFETY: made in one call.
        let head = unsafe { arena.push_words(&mut pen, [0; 3], HEIGHT_MAX) };
        assert_eq!(Node(head), HEAD);
        let (height, len) = (AtomicU32::new(1), AtomicUsize::new(0));
        let table = Arc::new(Self { arena, stem, capacity, entries_max: entries, height, len });
        let splice = [HEAD; HEIGHT_MAX];
        let writer = MemtableWriter { table: table.clone(), pen, splice, random: SEED };
        (writer, table)
    }

    /// The `arena_bytes` that take `entries` with `payload_bytes` of keys and values together.
    #[must_use]
    pub fn room_for(entries: usize, payload_bytes: usize) -> usize {
        entries.saturating_mul(ENTRY_OVERHEAD).saturating_add(payload_bytes)
    }

    /// Whether `entries` with `payload_bytes` of keys and values together are within the room: for
    /// the writer exactly, for others as of a moment ago.
    #[must_use]
    pub fn has_room(&self, entries: usize, payload_bytes: usize) -> bool {
        let len = self.len();
        let entries_after = len.saturating_add(entries);
        let heads = entries.saturating_mul(ENTRY_HEAD);
        let used = len * ENTRY_WORDS * WORD + self.arena.bytes_given();
        entries_after <= self.entries_max
            && heads.saturating_add(payload_bytes) <= self.arena.bytes_left()
            && used.saturating_add(Self::room_for(entries, payload_bytes)) <= self.capacity
    }

    /// The newest version of `key` at or below `seq_max`, a removal included.
    ///
    /// A hash index to a key's newest node would save most of the search, but takes memory and a
    /// second publication for each insert; it can come behind this signature.
    #[must_use]
    pub fn get(&self, key: &[u8], seq_max: SeqNo) -> Option<EntryRef<'_>> {
        let (_, found) = self.find(&self.target(key, seq_max));
        found.map(|node| self.entry(node)).filter(|entry| entry.key == key)
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Whether nothing was inserted yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory in use, links and heads of entries included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.arena.bytes_given() + self.arena.words_given() * WORD
    }

    #[inline]
    fn word(&self, node: Node, word: u32) -> &AtomicU32 {
        // SAFETY: K2 (see `Node`), and the word is one before the links, or the link of a level on
        // which the node was found or is being linked.
        unsafe { self.arena.word(node.0 + word) }
    }

    #[inline]
    fn link(&self, node: Node, level: usize) -> &AtomicU32 {
        self.word(node, LINKS + level as u32)
    }

    #[inline]
    fn next(&self, node: Node, level: usize) -> Option<Node> {
        match self.link(node, level).load(Ordering::Acquire) {
            0 => None,
            next => Some(Node(next)),
        }
    }

    #[inline]
    fn target<'a>(&self, key: &'a [u8], seq: SeqNo) -> Target<'a> {
        // K5.
        let rank = match key.strip_prefix(&*self.stem) {
            Some(rest) => key_prefix(rest),
            None if *key < *self.stem => 0,
            None => u64::MAX,
        };
        Target { rank, key, seq }
    }

    #[inline]
    fn rank(&self, node: Node) -> u64 {
        // Relaxed here and for the entry: written before the node was linked (K2).
        let high = self.word(node, RANK_HIGH).load(Ordering::Relaxed);
        let low = self.word(node, RANK_LOW).load(Ordering::Relaxed);
        u64::from(high) << 32 | u64::from(low)
    }

    /// Where a node's entry is, the length of its key and of its value, and its packed sequence and
    /// kind.
    #[inline]
    fn entry_head(&self, node: Node) -> (u32, usize, usize, u64) {
        debug_assert_ne!(node, HEAD, "the head has no entry");
        let start = self.word(node, ENTRY).load(Ordering::Relaxed);
        // SAFETY: K2, and every entry begins with a head.
        let head = unsafe { self.arena.bytes(start, ENTRY_HEAD) };
        let head: &[u8; ENTRY_HEAD] = head.try_into().expect("invariant: this is the length");
        let (seq_kind, rest) = head.split_first_chunk().expect("invariant: a head is longer");
        let (value_len, rest) = rest.split_first_chunk().expect("invariant: a head is longer");
        let (key_len, _) = rest.split_first_chunk().expect("invariant: a head is as long");
        let (key_len, value_len) = (u16::from_le_bytes(*key_len), u32::from_le_bytes(*value_len));
        (start, usize::from(key_len), value_len as usize, u64::from_le_bytes(*seq_kind))
    }

    #[inline]
    fn key_and_seq(&self, node: Node) -> (&[u8], SeqNo) {
        let (start, key_len, _, seq_kind) = self.entry_head(node);
        // SAFETY: K2, and the key follows the head.
        let bytes = unsafe { self.arena.bytes(start, ENTRY_HEAD + key_len) };
        (&bytes[ENTRY_HEAD..], SeqNo(seq_kind >> 8))
    }

    #[inline]
    fn entry(&self, node: Node) -> EntryRef<'_> {
        let (start, key_len, value_len, seq_kind) = self.entry_head(node);
        // SAFETY: K2, and key and value follow the head.
        let bytes = unsafe { self.arena.bytes(start, ENTRY_HEAD + key_len + value_len) };
        let (key, value) = bytes[ENTRY_HEAD..].split_at(key_len);
        let kind = Kind::from_byte(seq_kind as u8).expect("invariant: it was written from a kind");
        EntryRef { key, seq: SeqNo(seq_kind >> 8), kind, value }
    }

    #[inline]
    fn cmp(&self, node: Node, target: &Target<'_>) -> cmp::Ordering {
        self.rank(node).cmp(&target.rank).then_with(|| {
            let (key, seq) = self.key_and_seq(node);
            cmp_entries(key, seq, target.key, target.seq)
        })
    }

    /// Goes down to level 0: the last node that is `before` (or the head), and the one after it.
    /// `turn` is told the last node before on each level that is passed.
    ///
    /// The node after is the one that was compared: reading the link again could find a newer one
    /// in between that nobody has compared.
    #[inline]
    fn descend(
        &self,
        before: impl Fn(Node) -> bool,
        mut turn: impl FnMut(usize, Node),
    ) -> (Node, Option<Node>) {
        let mut at = HEAD;
        let mut level = self.height.load(Ordering::Relaxed) as usize - 1;
        let mut beyond = None;
        loop {
            let next = self.next(at, level);
            // What was compared on the level above is not compared again.
            if next != beyond {
                if let Some(node) = next.filter(|&node| before(node)) {
                    at = node;
                    continue;
                }
                beyond = next;
            }
            turn(level, at);
            if level == 0 {
                return (at, beyond);
            }
            level -= 1;
        }
    }

    /// The last node before `target`, and the first at or after it.
    #[inline]
    fn find(&self, target: &Target<'_>) -> (Node, Option<Node>) {
        self.descend(|node| self.cmp(node, target).is_lt(), |_, _| ())
    }
}

impl Place {
    /// A place in `table`, on nothing yet.
    pub(super) fn new(table: Arc<Memtable>) -> Self {
        Self { table, node: None }
    }

    /// The entry here.
    #[inline]
    pub(super) fn entry(&self) -> Option<EntryRef<'_>> {
        self.node.map(|node| self.table.entry(node))
    }

    /// To the first entry.
    pub(super) fn go_first(&mut self) {
        self.node = self.table.next(HEAD, 0);
    }

    /// To the last entry.
    pub(super) fn go_last(&mut self) {
        let (last, _) = self.table.descend(|_| true, |_, _| ());
        self.node = Some(last).filter(|&node| node != HEAD);
    }

    /// To the first entry at or after (`key`, `seq`).
    pub(super) fn go_at_or_after(&mut self, key: &[u8], seq: SeqNo) {
        (_, self.node) = self.table.find(&self.table.target(key, seq));
    }

    /// To the last entry whose key is below `key`.
    pub(super) fn go_before(&mut self, key: &[u8]) {
        // No entry of `key` itself is before its newest possible version.
        let (last, _) = self.table.find(&self.table.target(key, SeqNo::MAX));
        self.node = Some(last).filter(|&node| node != HEAD);
    }

    /// To the next entry.
    #[inline]
    pub(super) fn go_next(&mut self) {
        let node = self.node.expect("invariant: a cursor moves only from an entry");
        self.node = self.table.next(node, 0);
    }

    /// To the entry before. By a search from the head: links backwards would have to be published
    /// together with those forwards, and more is read forwards.
    pub(super) fn go_prev(&mut self) {
        let node = self.node.expect("invariant: a cursor moves only from an entry");
        let (key, seq) = self.table.key_and_seq(node);
        let (last, _) = self.table.find(&self.table.target(key, seq));
        self.node = Some(last).filter(|&node| node != HEAD);
    }
}

impl MemtableWriter {
    /// The memtable that this one writes to.
    #[must_use]
    pub fn table(&self) -> &Arc<Memtable> {
        &self.table
    }

    /// Inserts a version. Readers can come across it at once; it is visible when its sequence is.
    ///
    /// The caller has asked [`Memtable::has_room`]; no (key, sequence) comes twice.
    pub fn insert(&mut self, key: &[u8], seq: SeqNo, kind: Kind, value: &[u8]) {
        assert!(key.len() <= KEY_BYTES_MAX && seq <= SeqNo::MAX);
        let value_len = u32::try_from(value.len()).expect("invariant: values have a limit");
        let target = self.table.target(key, seq);
        self.find_splice(&target);

        let mut head = [0; ENTRY_HEAD];
        head[..8].copy_from_slice(&(seq.0 << 8 | kind as u64).to_le_bytes());
        head[8..12].copy_from_slice(&value_len.to_le_bytes());
        head[12..].copy_from_slice(&(key.len() as u16).to_le_bytes());
        let table = &*self.table;
        // SAFETY: the pen is this arena's (see the field).
        let entry = unsafe { table.arena.push_bytes(&mut self.pen, [&head, key, value]) };
        let height = next_height(&mut self.random);
        let words = [(target.rank >> 32) as u32, target.rank as u32, entry];
        // SAFETY: the pen is this arena's (see the field).
        let node = Node(unsafe { table.arena.push_words(&mut self.pen, words, height) });

        for level in 0..height {
            let next = table.link(self.splice[level], level).load(Ordering::Relaxed);
            table.link(node, level).store(next, Ordering::Relaxed);
        }
        for level in 0..height {
            // K2: from here on readers find the node.
            table.link(self.splice[level], level).store(node.0, Ordering::Release);
            self.splice[level] = node;
        }
        if height > table.height.load(Ordering::Relaxed) as usize {
            table.height.store(height as u32, Ordering::Relaxed);
        }
        table.len.store(table.len() + 1, Ordering::Relaxed);
    }

    /// Sets `splice` to the nodes before `target`.
    fn find_splice(&mut self, target: &Target<'_>) {
        let table = &*self.table;
        let last = self.splice[0];
        // Between the last insert and its successor: then so on every level.
        if last != HEAD
            && table.cmp(last, target).is_lt()
            && table.next(last, 0).is_none_or(|next| table.cmp(next, target).is_gt())
        {
            return;
        }
        let before = |node| {
            let order = table.cmp(node, target);
            assert!(order.is_ne(), "invariant: a sequence is used once (C2)");
            order.is_lt()
        };
        let splice = &mut self.splice;
        splice.fill(HEAD);
        table.descend(before, |level, node| splice[level] = node);
    }
}

/// One level in every case, and each further one in a quarter of the cases that had the last.
fn next_height(random: &mut u64) -> usize {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    let quarters = (*random >> 32).trailing_zeros() as usize / 2;
    (1 + quarters).min(HEIGHT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_links_counted_are_enough() {
        let mut random = SEED;
        let mut links = 0;
        for entries in 1..=2_000_000 {
            links += next_height(&mut random);
            assert!(links <= 2 * entries + LINKS_SLACK, "after {entries}");
        }
    }
}
