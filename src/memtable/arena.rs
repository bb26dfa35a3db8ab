//! The memory of one memtable: words for the links, bytes for the entries.
//!
//! Both slabs grow by chunks that double, so that a tiny memtable costs a few hundred bytes and a
//! large one never zeroes megabytes at once. An id says where its chunk is: ids from 2^k up to
//! 2^(k+1) are chunk k's, and 0 is nobody's, so that a link of 0 ends a list.
//!
//! Invariants
//! - A1: one [`Tail`] exists per arena, and only through it are chunks made and bytes written.
//! - A2: a chunk's slot is filled once, before any id in it is given out, and emptied by no one.
//! - A3: an entry's bytes are written once, before its id is given out, and never again.
//! - A4: a reader has its ids from links that it read with acquire and that were stored with
//!   release after A2 and A3 were done; so it never sees an unfilled slot or unwritten bytes.
//! - A5: an entry lies in one chunk. What it leaves at a chunk's end is counted as used.
//! - A6: chunks live as long as the arena, so that a borrow of the arena keeps them.
//!
//! Why not safe: readers look at bytes and chunk slots while the writer fills others beside them,
//! with no lock; safe Rust has no word for "written once, then published by another word". Links
//! are `AtomicU32`s of their own and not cast from the bytes, since they have other sizes in loom
//! and shuttle. Loom can't see plain bytes: a cell without size stands for every eight of them, is
//! touched at each access, and costs nothing in the std form.
//!
//! It knows nothing of order: that is `skiplist`'s. Nothing is ever freed singly.
#![allow(unsafe_code)]

use crate::env::sync::{AtomicU32, UnsafeCell};
use std::mem::ManuallyDrop;
use std::num::NonZeroU32;
use std::ptr::{NonNull, copy_nonoverlapping};

/// Chunks of a slab: one for every power of two below 2^32.
const CHUNKS: usize = 32;

/// Bytes that share one shadow cell. Shorter than any entry, so that no two begin in one cell.
const SHADOW_BYTES: usize = 8;

/// The most that an arena may be asked to hold: whatever is admitted then fits in the last chunk.
pub const ARENA_BYTES_MAX: usize = 1 << 31;

/// Where something lies in a slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id(NonZeroU32);

impl Id {
    /// The id that a link holds; `None` for the end of a list.
    #[inline]
    pub(super) fn from_link(link: u32) -> Option<Self> {
        NonZeroU32::new(link).map(Self)
    }

    /// The id as a link holds it.
    #[inline]
    pub(super) fn link(self) -> u32 {
        self.0.get()
    }

    fn at(id: u64) -> Self {
        let id = u32::try_from(id).expect("invariant: an id is below 2^32, as chunks are");
        Self(NonZeroU32::new(id).expect("invariant: an id is in a chunk, and chunk 0 starts at 1"))
    }

    #[inline]
    fn chunk(self) -> usize {
        self.0.ilog2() as usize
    }

    #[inline]
    fn offset(self) -> usize {
        (self.0.get() ^ (1 << self.0.ilog2())) as usize
    }
}

/// A piece of memory that is not initialised until it is written.
struct Bytes {
    base: NonNull<u8>,
    len: usize,
    /// What loom sees of the bytes; without size in the other forms.
    shadow: Box<[UnsafeCell<()>]>,
}

impl Bytes {
    fn none() -> Self {
        Self::with_len(0)
    }

    fn with_len(len: usize) -> Self {
        let mut memory = ManuallyDrop::new(Vec::<u8>::with_capacity(len));
        let base = NonNull::new(memory.as_mut_ptr()).expect("invariant: a vec is never null");
        let len = memory.capacity();
        let cells = len.div_ceil(SHADOW_BYTES);
        Self { base, len, shadow: (0..cells).map(|_| UnsafeCell::new(())).collect() }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // SAFETY: `with_len` took this memory from a vec of this capacity, and let no one else
        // have it.
        drop(unsafe { Vec::from_raw_parts(self.base.as_ptr(), 0, self.len) });
    }
}

/// The chunks of one memtable.
pub(super) struct Arena {
    words: [UnsafeCell<Box<[AtomicU32]>>; CHUNKS],
    bytes: [UnsafeCell<Bytes>; CHUNKS],
}

// SAFETY: A1 to A4: what threads share is written by one of them before the others can name it.
unsafe impl Sync for Arena {}
// SAFETY: the memory belongs to the arena alone (`Bytes::with_len`), wherever it goes.
unsafe impl Send for Arena {}

/// The free end of an arena, and what has been used of it: the right to write (A1).
pub(super) struct Tail {
    words: Span,
    bytes: Span,
    capacity: usize,
    used: usize,
    allocated: usize,
}

/// The free part of a slab's newest chunk, and which chunk comes next.
struct Span {
    next: u64,
    end: u64,
    chunk: u32,
    given: usize,
}

impl Span {
    fn starting_at_chunk(chunk: u32) -> Self {
        Self { next: 0, end: 0, chunk, given: 0 }
    }

    fn left(&self) -> usize {
        usize::try_from(self.end - self.next).expect("invariant: a chunk's length is a usize")
    }

    /// Takes `len` off the free part, which must hold them.
    fn take(&mut self, len: usize) -> Id {
        debug_assert!(len <= self.left());
        let id = Id::at(self.next);
        self.next += len as u64;
        self.given += len;
        id
    }

    /// Goes on to a chunk that holds `need`, as long as `wish` if it may be. Returns its number
    /// and length.
    fn go_on(&mut self, need: usize, wish: usize) -> (usize, usize) {
        let chunk = self.chunk.max(need.next_power_of_two().ilog2());
        assert!((chunk as usize) < CHUNKS, "invariant: `has_room` was asked before every insert");
        let full = 1usize << chunk;
        // At least a quarter: however wrong a wish is, chunks stay few.
        let len = wish.max(full / 4).max(need).min(full);
        self.next = 1 << chunk;
        self.end = self.next + len as u64;
        self.chunk = chunk + 1;
        (chunk as usize, len)
    }
}

impl Arena {
    /// An arena for `capacity` bytes, links included, with nothing in it and nothing allocated.
    pub(super) fn new(capacity: usize) -> (Tail, Self) {
        assert!(capacity <= ARENA_BYTES_MAX, "an arena of {capacity} bytes is over the limit");
        let first = |share: usize, min, max| (capacity / share).max(1).ilog2().clamp(min, max);
        let tail = Tail {
            words: Span::starting_at_chunk(first(16, 4, 8)),
            bytes: Span::starting_at_chunk(first(4, 6, 10)),
            capacity,
            used: 0,
            allocated: 0,
        };
        let arena = Self {
            words: std::array::from_fn(|_| UnsafeCell::new(Box::default())),
            bytes: std::array::from_fn(|_| UnsafeCell::new(Bytes::none())),
        };
        (tail, arena)
    }

    /// The words from `id` to its chunk's end.
    ///
    /// # Safety
    /// `id` is of this arena's words, and came to this thread as A4 says.
    #[inline]
    pub(super) unsafe fn words(&self, id: Id) -> &[AtomicU32] {
        let chunk = self.words[id.chunk()].with(|slot| {
            // SAFETY: A2 and A4: the slot was filled before the caller could have the id, and is
            // not written again while the arena lives (A6).
            unsafe { &*slot }
        });
        &chunk[id.offset()..]
    }

    /// The `len` bytes from `id`.
    ///
    /// # Safety
    /// `id` is of this arena's bytes, came to this thread as A4 says, and `len` bytes were written
    /// there.
    #[inline]
    pub(super) unsafe fn bytes(&self, id: Id, len: usize) -> &[u8] {
        let chunk = self.bytes[id.chunk()].with(|slot| {
            // SAFETY: as in `words`.
            unsafe { &*slot }
        });
        let offset = id.offset();
        assert!(offset + len <= chunk.len);
        chunk.shadow[offset / SHADOW_BYTES].with(|_| ());
        // SAFETY: within the chunk, as asserted.
        let start = unsafe { chunk.base.add(offset) };
        // SAFETY: A3: these bytes were written before the caller could have the id, and are never
        // written again.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), len) }
    }

    /// Gives out `len` words, all zero.
    ///
    /// # Safety
    /// `tail` was made with this arena.
    pub(super) unsafe fn push_words(&self, tail: &mut Tail, len: usize) -> Id {
        if tail.words.left() < len {
            let (chunk, words) = tail.go_on_with_words(len);
            let zeros = (0..words).map(|_| AtomicU32::new(0)).collect();
            self.words[chunk].with_mut(|slot| {
                // SAFETY: A1 and A2: only the owner of the tail is here, and no id in this chunk
                // has been given out, so no reader looks at the slot.
                unsafe { *slot = zeros }
            });
        }
        tail.used += len * size_of::<u32>();
        tail.words.take(len)
    }

    /// Writes `parts` one after the other, and gives out where they begin.
    ///
    /// # Safety
    /// `tail` was made with this arena.
    pub(super) unsafe fn push_bytes(&self, tail: &mut Tail, parts: [&[u8]; 3]) -> Id {
        let len = parts.iter().map(|part| part.len()).sum();
        debug_assert!(len >= SHADOW_BYTES);
        if tail.bytes.left() < len {
            let (chunk, bytes) = tail.go_on_with_bytes(len);
            let memory = Bytes::with_len(bytes);
            self.bytes[chunk].with_mut(|slot| {
                // SAFETY: as in `push_words`.
                unsafe { *slot = memory }
            });
        }
        tail.used += len;
        let id = tail.bytes.take(len);
        let chunk = self.bytes[id.chunk()].with(|slot| {
            // SAFETY: A1: the only one who could write the slot is here.
            unsafe { &*slot }
        });
        let mut offset = id.offset();
        chunk.shadow[offset / SHADOW_BYTES].with_mut(|_| ());
        for part in parts {
            assert!(offset + part.len() <= chunk.len);
            // SAFETY: within the chunk, as asserted.
            let to = unsafe { chunk.base.add(offset) };
            // SAFETY: A1 and A3: nobody reads or writes these bytes before the id is given out, and
            // a fresh piece of the arena overlaps nothing that the caller can hold.
            unsafe { copy_nonoverlapping(part.as_ptr(), to.as_ptr(), part.len()) };
            offset += part.len();
        }
        id
    }
}

impl Tail {
    /// What was given out, ends of chunks that were left included.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// What was taken from the system.
    pub(super) fn allocated(&self) -> usize {
        self.allocated
    }

    /// Whether `len` more bytes are within the capacity.
    pub(super) fn has_room(&self, len: usize) -> bool {
        self.used.checked_add(len).is_some_and(|used| used <= self.capacity)
    }

    fn go_on_with_words(&mut self, need: usize) -> (usize, usize) {
        self.used += self.words.left() * size_of::<u32>();
        // As many as the rest of the arena will want, if it goes on as it began, and an eighth:
        // words are zeroed at once, and so are in memory whether they are used or not.
        let rest = self.capacity.saturating_sub(self.used);
        let wish = match self.words.given {
            0 => usize::MAX,
            given => (given / 8 * 9).saturating_mul(rest) / self.used,
        };
        let (chunk, len) = self.words.go_on(need, wish);
        self.allocated += len * size_of::<u32>();
        (chunk, len)
    }

    fn go_on_with_bytes(&mut self, need: usize) -> (usize, usize) {
        self.used += self.bytes.left();
        // The ends that were left don't count here: whatever is admitted from now on must fit when
        // this is the last chunk.
        let wish = self.capacity.saturating_sub(self.bytes.given);
        let (chunk, len) = self.bytes.go_on(need, wish);
        self.allocated += len;
        (chunk, len)
    }
}
