//! The memory of one memtable: words for the links, bytes for the entries.
//!
//! Each slab is one piece of memory of the whole capacity that is not touched before it is given
//! out: the system backs a page when it is first written, so a memtable of 4 MiB with three entries
//! costs a few pages, and a tiny one a small allocation. Chunks that grow would do the same for
//! more: one dependent load on every step of a search.
//!
//! Invariants
//! - U1: one [`Pen`] exists per arena, and only its owner gives out and writes.
//! - U2: words and bytes below the given counts are initialised, the others are not. A word never
//!   moves and is only ever used as an atomic; bytes are written once, before their id is given
//!   out, and never again.
//! - U3: a reader has its ids from words that it read with acquire and that were stored with
//!   release after U2 was done for what they name; so it never touches what is not initialised.
//! - U4: both slabs live as long as the arena, so that a borrow of the arena keeps them.
//!
//! Why not safe: readers look at bytes while the writer fills others beside them, with no lock;
//! safe Rust has no word for "written once, then published by another word". Links are
//! `AtomicU32`s of their own and not cast from the bytes, since they have other sizes in loom and
//! shuttle. Loom can't see plain bytes: a cell without size stands for every eight of them, is
//! touched at each access, and costs nothing in the std form.
//!
//! It knows nothing of order: that is `skiplist`'s. Nothing is freed singly.
#![allow(unsafe_code)]

use crate::env::sync::{AtomicU32, AtomicUsize, Ordering, UnsafeCell};
use std::mem::MaybeUninit;
use std::ptr::{NonNull, copy_nonoverlapping, drop_in_place, slice_from_raw_parts_mut};

/// Bytes that share one shadow cell. Shorter than any entry, so that no two begin in one cell.
const SHADOW_BYTES: usize = 8;

/// Memory for `capacity` of `T`, with nothing in it.
struct Slab<T> {
    base: NonNull<T>,
    capacity: usize,
}

impl<T> Slab<T> {
    fn with_capacity(capacity: usize) -> Self {
        let memory = Box::leak(Box::<[T]>::new_uninit_slice(capacity));
        Self { base: NonNull::from(memory).cast(), capacity }
    }
}

impl<T> Drop for Slab<T> {
    fn drop(&mut self) {
        let memory = self.base.as_ptr().cast::<MaybeUninit<T>>();
        let memory = slice_from_raw_parts_mut(memory, self.capacity);
        // SAFETY: `with_capacity` leaked this box, and let no one else have it. Whether anything in
        // it is initialised does not matter: nothing is dropped but the memory.
        drop(unsafe { Box::from_raw(memory) });
    }
}

/// Two slabs, and how much of each is given out.
pub(super) struct Arena {
    words: Slab<AtomicU32>,
    words_given: AtomicUsize,
    bytes: Slab<u8>,
    bytes_given: AtomicUsize,
    /// What loom sees of the bytes.
    shadow: Box<[UnsafeCell<()>]>,
}

// SAFETY: U1 to U3: what threads share is written by one of them before the others can name it.
unsafe impl Sync for Arena {}
// SAFETY: the slabs belong to the arena alone, wherever it goes.
unsafe impl Send for Arena {}

/// The right to write to one arena (U1).
pub(super) struct Pen(());

impl Arena {
    /// An arena with room for so many words and bytes.
    pub(super) fn new(words: usize, bytes: usize) -> (Pen, Self) {
        // An index into either slab is a u32.
        assert!(u32::try_from(words.max(bytes)).is_ok());
        let arena = Self {
            words: Slab::with_capacity(words),
            words_given: AtomicUsize::new(0),
            bytes: Slab::with_capacity(bytes),
            bytes_given: AtomicUsize::new(0),
            shadow: (0..bytes.div_ceil(SHADOW_BYTES)).map(|_| UnsafeCell::new(())).collect(),
        };
        (Pen(()), arena)
    }

    /// How many words are given out.
    pub(super) fn words_given(&self) -> usize {
        self.words_given.load(Ordering::Relaxed)
    }

    /// How many bytes are given out.
    pub(super) fn bytes_given(&self) -> usize {
        self.bytes_given.load(Ordering::Relaxed)
    }

    /// How many more words can be given out.
    pub(super) fn words_left(&self) -> usize {
        self.words.capacity - self.words_given()
    }

    /// How many more bytes can be given out.
    pub(super) fn bytes_left(&self) -> usize {
        self.bytes.capacity - self.bytes_given()
    }

    /// One word.
    ///
    /// # Safety
    /// The word was given out, to this thread or by way of U3.
    #[inline]
    pub(super) unsafe fn word(&self, index: u32) -> &AtomicU32 {
        debug_assert!((index as usize) < self.words.capacity);
        // SAFETY: given out, so below the capacity.
        let word = unsafe { self.words.base.add(index as usize) };
        // SAFETY: U2 and U4: initialised, and an atomic until the arena ends.
        unsafe { word.as_ref() }
    }

    /// The `len` bytes from `start` on, which is where some were given out.
    ///
    /// # Safety
    /// The bytes were given out together from `start` on, to this thread or by way of U3.
    #[inline]
    pub(super) unsafe fn bytes(&self, start: u32, len: usize) -> &[u8] {
        debug_assert!(start as usize + len <= self.bytes.capacity);
        self.shadow[start as usize / SHADOW_BYTES].with(|_| ());
        // SAFETY: given out, so within the capacity.
        let base = unsafe { self.bytes.base.add(start as usize) };
        // SAFETY: U2 and U4: initialised, and never written again.
        unsafe { std::slice::from_raw_parts(base.as_ptr(), len) }
    }

    /// Gives out words that hold `values`, and then `zeros` zeros.
    ///
    /// # Safety
    /// The pen is this arena's.
    pub(super) unsafe fn push_words(&self, _: &mut Pen, values: [u32; 3], zeros: usize) -> u32 {
        let start = self.words_given();
        let len = values.len() + zeros;
        assert!(len <= self.words_left(), "invariant: `has_room` was asked before an insert");
        for i in 0..len {
            // SAFETY: within the capacity, as asserted.
            let word = unsafe { self.words.base.add(start + i) };
            let value = values.get(i).copied().unwrap_or(0);
            // SAFETY: U1 and U2: not given out yet, so nobody else is here and nothing was in it.
            unsafe { word.write(AtomicU32::new(value)) };
        }
        self.words_given.store(start + len, Ordering::Relaxed);
        start as u32
    }

    /// Gives out bytes that hold `parts`, one after the other.
    ///
    /// # Safety
    /// The pen is this arena's.
    pub(super) unsafe fn push_bytes(&self, _: &mut Pen, parts: [&[u8]; 3]) -> u32 {
        let start = self.bytes_given();
        let len: usize = parts.iter().map(|part| part.len()).sum();
        assert!(len <= self.bytes_left(), "invariant: `has_room` was asked before an insert");
        debug_assert!(len >= SHADOW_BYTES);
        self.shadow[start / SHADOW_BYTES].with_mut(|_| ());
        let mut end = start;
        for part in parts {
            // SAFETY: within the capacity, as asserted of all parts together.
            let to = unsafe { self.bytes.base.add(end) };
            // SAFETY: U1 and U2: not given out yet, so nobody else is here, and the caller can hold
            // no borrow that overlaps.
            unsafe { copy_nonoverlapping(part.as_ptr(), to.as_ptr(), part.len()) };
            end += part.len();
        }
        self.bytes_given.store(end, Ordering::Relaxed);
        start as u32
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let given = slice_from_raw_parts_mut(self.words.base.as_ptr(), self.words_given());
        // SAFETY: U2: these and no others are initialised, and nobody borrows the arena any more.
        // (Atomics of the std form need no drop; those of the checked forms do.)
        unsafe { drop_in_place(given) };
    }
}
