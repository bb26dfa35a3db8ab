//! The sorted list of a memtable: one writer, readers that never wait.
//!
//! A node is a few words of the arena: the key's first eight bytes as two words, the id of the
//! entry's bytes, and one link for each level. The prefix lies beside the links so that a search
//! touches one cache line a node, and the bytes only where prefixes are equal.
//!
//! Invariants
//! - K1: level 0 holds every node in entry order; a level holds a subset of the level below.
//! - K2: a node is linked, from level 0 up, after its bytes, prefix and own links are written; each
//!   link to it is stored with release. Links are read with acquire (the arena's A4).
//! - K3: nodes are never unlinked or changed: a node once seen stays what it is.
//! - K4: heights come from a generator with a fixed seed: the same inserts make the same list.
//!
//! A reader may see a node before its sequence is published; it asks for sequences at or below the
//! published one, and the order of the list then leads it past newer ones.
//!
//! Why not safe: ids stand for borrows of the arena; what makes them good is K2, which the
//! compiler can't see. Every such step is a call of the arena with its reason.
//!
//! It removes nothing and knows no snapshots. A hash index beside the list was left out: see
//! `Memtable::get`.
#![allow(unsafe_code)]

use super::arena::{Arena, Id, Tail};
use crate::base::key::{EntryRef, KEY_BYTES_MAX, Kind, SeqNo, cmp_entries, key_prefix};
use crate::env::sync::{Arc, AtomicU32, AtomicUsize, Ordering};
use std::cmp;

/// Levels of the list; with a quarter of the nodes on each next one, enough for 16 million.
const HEIGHT_MAX: usize = 12;

/// The words of a node before its links.
const PREFIX_HIGH: usize = 0;
const PREFIX_LOW: usize = 1;
const ENTRY: usize = 2;
const LINKS: usize = 3;

/// The bytes of an entry before its key: sequence and kind (8), value length (4), key length (2).
const ENTRY_HEAD: usize = 14;

/// What an entry takes beside its key and value, with a link more than the mean of one and a third.
const ENTRY_OVERHEAD: usize = ENTRY_HEAD + (LINKS + 2) * size_of::<u32>();

/// What a list takes before its first entry.
const LIST_OVERHEAD: usize = (LINKS + HEIGHT_MAX) * size_of::<u32>();

/// The newest writes in memory, sorted. Readers share it; see the module.
pub struct Memtable {
    arena: Arena,
    head: Id,
    /// The levels in use. A stale value costs a reader time, never an entry.
    height: AtomicU32,
    len: AtomicUsize,
    used: AtomicUsize,
    allocated: AtomicUsize,
}

/// The one that may insert into a memtable.
pub struct MemtableWriter {
    table: Arc<Memtable>,
    /// Made with `table.arena`, and never changed for another.
    tail: Tail,
    /// The nodes before the place of the last insert, on each level: where keys come in order the
    /// next search ends before it begins.
    splice: [Id; HEIGHT_MAX],
    random: u64,
}

/// A node, looked up.
#[derive(Clone, Copy)]
struct Node<'a> {
    id: Id,
    words: &'a [AtomicU32],
}

/// A node of a list that the place keeps alive.
pub(super) struct Place {
    table: Arc<Memtable>,
    node: Option<Id>,
}

/// A key and sequence to look for.
struct Target<'a> {
    prefix: u64,
    key: &'a [u8],
    seq: SeqNo,
}

impl<'a> Target<'a> {
    #[inline]
    fn new(key: &'a [u8], seq: SeqNo) -> Self {
        Self { prefix: key_prefix(key), key, seq }
    }
}

impl<'a> Node<'a> {
    #[inline]
    fn prefix(&self) -> u64 {
        // Relaxed here and for the entry's id: written before the node was linked (K2).
        let high = self.words[PREFIX_HIGH].load(Ordering::Relaxed);
        let low = self.words[PREFIX_LOW].load(Ordering::Relaxed);
        u64::from(high) << 32 | u64::from(low)
    }

    #[inline]
    fn link(&self, level: usize) -> &'a AtomicU32 {
        &self.words[LINKS + level]
    }
}

impl Memtable {
    /// An empty memtable for `arena_bytes` of entries with their overhead, and the one who may
    /// write to it. Memory is taken as it is needed, a few hundred bytes at first.
    ///
    /// `arena_bytes` is at most [`super::ARENA_BYTES_MAX`]; see [`Memtable::room_for`].
    #[must_use]
    pub fn with_room(arena_bytes: usize) -> (MemtableWriter, Arc<Self>) {
        let (mut tail, arena) = Arena::new(arena_bytes);
        // SAFETY: made in one call.
        let head = unsafe { arena.push_words(&mut tail, LINKS + HEIGHT_MAX) };
        let table = Arc::new(Self {
            arena,
            head,
            height: AtomicU32::new(1),
            len: AtomicUsize::new(0),
            used: AtomicUsize::new(tail.used()),
            allocated: AtomicUsize::new(tail.allocated()),
        });
        let splice = [head; HEIGHT_MAX];
        let writer =
            MemtableWriter { table: table.clone(), tail, splice, random: 0x9e37_79b9_7f4a_7c15 };
        (writer, table)
    }

    /// The `arena_bytes` that take `entries` with `payload_bytes` of keys and values together.
    #[must_use]
    pub fn room_for(entries: usize, payload_bytes: usize) -> usize {
        entries
            .saturating_mul(ENTRY_OVERHEAD)
            .saturating_add(payload_bytes)
            .saturating_add(LIST_OVERHEAD)
    }

    /// The newest version of `key` at or below `seq_max`, a removal included.
    ///
    /// A hash index to the newest node would save half of a search's time, but takes memory and a
    /// second publication for each insert; it can come behind this signature.
    #[must_use]
    pub fn get(&self, key: &[u8], seq_max: SeqNo) -> Option<EntryRef<'_>> {
        let (_, found) = self.find(&Target::new(key, seq_max));
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

    /// How much of the arena is used.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// How much memory was taken from the system, parts not used yet included.
    #[must_use]
    pub fn bytes_allocated(&self) -> usize {
        self.allocated.load(Ordering::Relaxed)
    }

    #[inline]
    fn node(&self, id: Id) -> Node<'_> {
        // SAFETY: private, and called with the head, with what `next` has read, and with nodes that
        // such a call has returned: K2 holds for all.
        Node { id, words: unsafe { self.arena.words(id) } }
    }

    #[inline]
    fn next(&self, node: Node<'_>, level: usize) -> Option<Id> {
        Id::from_link(node.link(level).load(Ordering::Acquire))
    }

    /// The length of a node's key and of its value, and its packed sequence and kind.
    #[inline]
    fn entry_head(&self, entry: Id) -> (usize, usize, u64) {
        // SAFETY: read from a node (K2), and every entry has a head.
        let head = unsafe { self.arena.bytes(entry, ENTRY_HEAD) };
        let (seq_kind, rest) = head.split_first_chunk().expect("invariant: a head has its length");
        let (value_len, rest) = rest.split_first_chunk().expect("invariant: a head has its length");
        let (key_len, _) = rest.split_first_chunk().expect("invariant: a head has its length");
        let (key_len, value_len) = (u16::from_le_bytes(*key_len), u32::from_le_bytes(*value_len));
        (usize::from(key_len), value_len as usize, u64::from_le_bytes(*seq_kind))
    }

    #[inline]
    fn entry_id(&self, node: Node<'_>) -> Id {
        let id = Id::from_link(node.words[ENTRY].load(Ordering::Relaxed));
        id.expect("invariant: the head is never asked for its entry")
    }

    #[inline]
    fn key_and_seq(&self, node: Node<'_>) -> (&[u8], SeqNo) {
        let id = self.entry_id(node);
        let (key_len, _, seq_kind) = self.entry_head(id);
        // SAFETY: K2, and the key follows the head.
        let bytes = unsafe { self.arena.bytes(id, ENTRY_HEAD + key_len) };
        (&bytes[ENTRY_HEAD..], SeqNo(seq_kind >> 8))
    }

    #[inline]
    fn entry(&self, node: Node<'_>) -> EntryRef<'_> {
        let id = self.entry_id(node);
        let (key_len, value_len, seq_kind) = self.entry_head(id);
        // SAFETY: K2, and key and value follow the head.
        let bytes = unsafe { self.arena.bytes(id, ENTRY_HEAD + key_len + value_len) };
        let (key, value) = bytes[ENTRY_HEAD..].split_at(key_len);
        let kind = Kind::from_byte(seq_kind as u8).expect("invariant: kinds are written as bytes");
        EntryRef { key, seq: SeqNo(seq_kind >> 8), kind, value }
    }

    #[inline]
    fn cmp(&self, node: Node<'_>, target: &Target<'_>) -> cmp::Ordering {
        node.prefix().cmp(&target.prefix).then_with(|| {
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
    fn descend<'a>(
        &'a self,
        before: impl Fn(Node<'a>) -> bool,
        mut turn: impl FnMut(usize, Id),
    ) -> (Node<'a>, Option<Node<'a>>) {
        let mut at = self.node(self.head);
        let mut level = self.height.load(Ordering::Relaxed) as usize - 1;
        let mut beyond: Option<Node<'a>> = None;
        loop {
            let next = self.next(at, level);
            if next == beyond.map(|node| node.id) {
                // Compared on the level above, or the end of the list on both.
            } else if let Some(id) = next {
                let node = self.node(id);
                if before(node) {
                    at = node;
                    continue;
                }
                beyond = Some(node);
            } else {
                beyond = None;
            }
            turn(level, at.id);
            if level == 0 {
                return (at, beyond);
            }
            level -= 1;
        }
    }

    /// The last node before `target`, and the first at or after it.
    #[inline]
    fn find(&self, target: &Target<'_>) -> (Node<'_>, Option<Node<'_>>) {
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
        // The id was read from this table's links by one of the moves below.
        self.node.map(|id| self.table.entry(self.table.node(id)))
    }

    /// To the first entry.
    pub(super) fn to_first(&mut self) {
        self.node = self.table.next(self.table.node(self.table.head), 0);
    }

    /// To the last entry.
    pub(super) fn to_last(&mut self) {
        let (last, _) = self.table.descend(|_| true, |_, _| ());
        self.node = self.unless_head(last.id);
    }

    /// To the first entry at or after (`key`, `seq`).
    pub(super) fn to_at_or_after(&mut self, key: &[u8], seq: SeqNo) {
        let (_, found) = self.table.find(&Target::new(key, seq));
        self.node = found.map(|node| node.id);
    }

    /// To the last entry whose key is below `key`.
    pub(super) fn to_before(&mut self, key: &[u8]) {
        // No entry of `key` itself is before its newest possible version.
        let (last, _) = self.table.find(&Target::new(key, SeqNo::MAX));
        self.node = self.unless_head(last.id);
    }

    /// To the next entry.
    #[inline]
    pub(super) fn to_next(&mut self) {
        let id = self.node.expect("invariant: a cursor moves only from an entry");
        self.node = self.table.next(self.table.node(id), 0);
    }

    /// To the entry before. By a search from the head: links backwards would have to be published
    /// together with those forwards, and more is read forwards.
    pub(super) fn to_prev(&mut self) {
        let id = self.node.expect("invariant: a cursor moves only from an entry");
        let (key, seq) = self.table.key_and_seq(self.table.node(id));
        let (last, _) = self.table.find(&Target::new(key, seq));
        self.node = self.unless_head(last.id);
    }

    fn unless_head(&self, id: Id) -> Option<Id> {
        (id != self.table.head).then_some(id)
    }
}

impl MemtableWriter {
    /// The memtable that this one writes to.
    #[must_use]
    pub fn table(&self) -> &Arc<Memtable> {
        &self.table
    }

    /// Whether `entries` with `payload_bytes` of keys and values together are within the room.
    #[must_use]
    pub fn has_room(&self, entries: usize, payload_bytes: usize) -> bool {
        let overhead = entries.saturating_mul(ENTRY_OVERHEAD);
        self.tail.has_room(overhead.saturating_add(payload_bytes))
    }

    /// Inserts a version. Readers can come across it at once; it is visible when its sequence is.
    ///
    /// The caller has asked [`MemtableWriter::has_room`]; no (key, sequence) comes twice.
    pub fn insert(&mut self, key: &[u8], seq: SeqNo, kind: Kind, value: &[u8]) {
        assert!(key.len() <= KEY_BYTES_MAX && seq <= SeqNo::MAX);
        let value_len = u32::try_from(value.len()).expect("invariant: values have a limit");
        let target = Target::new(key, seq);
        self.find_splice(&target);

        let mut head = [0; ENTRY_HEAD];
        head[..8].copy_from_slice(&(seq.0 << 8 | kind as u64).to_le_bytes());
        head[8..12].copy_from_slice(&value_len.to_le_bytes());
        head[12..].copy_from_slice(&(key.len() as u16).to_le_bytes());
        let table = &*self.table;
        // SAFETY: the tail is this arena's (see the field).
        let entry = unsafe { table.arena.push_bytes(&mut self.tail, [&head, key, value]) };
        let height = next_height(&mut self.random);
        // SAFETY: the tail is this arena's (see the field).
        let id = unsafe { table.arena.push_words(&mut self.tail, LINKS + height) };

        let node = table.node(id);
        node.words[PREFIX_HIGH].store((target.prefix >> 32) as u32, Ordering::Relaxed);
        node.words[PREFIX_LOW].store(target.prefix as u32, Ordering::Relaxed);
        node.words[ENTRY].store(entry.link(), Ordering::Relaxed);
        for level in 0..height {
            let next = table.node(self.splice[level]).link(level).load(Ordering::Relaxed);
            node.link(level).store(next, Ordering::Relaxed);
        }
        for level in 0..height {
            // K2: from here on readers find the node.
            table.node(self.splice[level]).link(level).store(id.link(), Ordering::Release);
            self.splice[level] = id;
        }
        if height > table.height.load(Ordering::Relaxed) as usize {
            table.height.store(height as u32, Ordering::Relaxed);
        }
        table.len.store(table.len.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        table.used.store(self.tail.used(), Ordering::Relaxed);
        table.allocated.store(self.tail.allocated(), Ordering::Relaxed);
    }

    /// Sets `splice` to the nodes before `target`.
    fn find_splice(&mut self, target: &Target<'_>) {
        let table = &*self.table;
        let last = table.node(self.splice[0]);
        // Between the last insert and its successor: then so on every level.
        if last.id != table.head
            && table.cmp(last, target).is_lt()
            && table.next(last, 0).is_none_or(|id| table.cmp(table.node(id), target).is_gt())
        {
            return;
        }
        let before = |node| {
            let order = table.cmp(node, target);
            assert!(order.is_ne(), "invariant: a sequence is used once (C2)");
            order.is_lt()
        };
        let splice = &mut self.splice;
        splice.fill(table.head);
        table.descend(before, |level, id| splice[level] = id);
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
