//! A wrapper that panics on any breach of the cursor contract, by the caller or by the cursor.
//!
//! Checked of the caller
//! - moves only from an entry, and only in the direction of the last seek.
//!
//! Checked of the cursor
//! - where a seek lands, as far as the landing entry shows; strict order from entry to entry;
//! - the entry stays the same between moves;
//! - R4: after an error no entry, and the same error at every move until the next seek.
//!
//! It copies every key, so it stands around cursors in tests, not in production.

use super::Cursor;
use crate::base::key::{EntryRef, SeqNo, cmp_entries};
use crate::base::slice::Slice;
use crate::error::{Error, Result};
use std::cmp::Ordering;

/// A cursor, and what is known of where it stands.
pub struct Checked<C> {
    inner: C,
    state: State,
    /// The key and sequence that the cursor stands on.
    at: Option<(Vec<u8>, SeqNo)>,
}

enum State {
    Unpositioned,
    Moving(Direction),
    Failed(Error),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

impl<C: Cursor> Checked<C> {
    /// A wrapper around a cursor, at any point of its life.
    #[must_use]
    pub fn new(inner: C) -> Self {
        Self { inner, state: State::Unpositioned, at: None }
    }

    /// The cursor inside.
    #[must_use]
    pub fn into_inner(self) -> C {
        self.inner
    }

    /// Notes what a seek or move came to.
    fn note(&mut self, result: Result<()>, direction: Direction) -> Result<()> {
        self.at = self.inner.entry().map(|entry| (entry.key.to_vec(), entry.seq));
        self.state = match &result {
            Ok(()) => State::Moving(direction),
            Err(error) => {
                assert!(self.at.is_none(), "R4: a cursor shows an entry after {error}");
                State::Failed(error.clone())
            }
        };
        result
    }

    fn step(&mut self, direction: Direction) -> Result<()> {
        match &self.state {
            State::Unpositioned => panic!("a cursor was moved before its first seek"),
            State::Failed(first) => {
                let first = first.to_string();
                let again = self.take_step(direction);
                let again = again.expect_err("R4: a failed cursor moved without a seek");
                assert_eq!(first, again.to_string(), "R4: a failed cursor changed its error");
                assert!(self.inner.entry().is_none(), "R4: a failed cursor shows an entry");
                Err(again)
            }
            State::Moving(last) => {
                assert_eq!(*last, direction, "a cursor turned without a seek");
                let from = self.at.take().expect("a cursor was moved from past the end");
                let result = self.take_step(direction);
                let result = self.note(result, direction);
                if let Some((key, seq)) = &self.at {
                    let order = cmp_entries(&from.0, from.1, key, *seq);
                    let expected = match direction {
                        Direction::Forward => Ordering::Less,
                        Direction::Backward => Ordering::Greater,
                    };
                    assert_eq!(order, expected, "a cursor's entries are out of order");
                }
                result
            }
        }
    }

    fn take_step(&mut self, direction: Direction) -> Result<()> {
        match direction {
            Direction::Forward => self.inner.next(),
            Direction::Backward => self.inner.prev(),
        }
    }
}

impl<C: Cursor> Cursor for Checked<C> {
    fn seek_first(&mut self) -> Result<()> {
        let result = self.inner.seek_first();
        self.note(result, Direction::Forward)
    }

    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        let result = self.inner.seek(key, seq);
        let result = self.note(result, Direction::Forward);
        if let Some(at) = &self.at {
            let order = cmp_entries(&at.0, at.1, key, seq);
            assert!(order.is_ge(), "a cursor landed before what it sought");
        }
        result
    }

    fn seek_last(&mut self) -> Result<()> {
        let result = self.inner.seek_last();
        self.note(result, Direction::Backward)
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let result = self.inner.seek_before(key);
        let result = self.note(result, Direction::Backward);
        if let Some((at, _)) = &self.at {
            assert!(at.as_slice() < key, "a cursor landed at or after what it sought before");
        }
        result
    }

    fn next(&mut self) -> Result<()> {
        self.step(Direction::Forward)
    }

    fn prev(&mut self) -> Result<()> {
        self.step(Direction::Backward)
    }

    fn entry(&self) -> Option<EntryRef<'_>> {
        let entry = self.inner.entry();
        let now = entry.map(|entry| (entry.key, entry.seq));
        let noted = self.at.as_ref().map(|(key, seq)| (key.as_slice(), *seq));
        assert_eq!(now, noted, "a cursor's entry changed without a move");
        entry
    }

    fn pinned_value(&self) -> Option<Slice> {
        let value = self.inner.pinned_value();
        let borrowed = self.entry().map(|entry| entry.value);
        assert_eq!(value.as_deref(), borrowed, "a pinned value differs from the borrowed one");
        value
    }
}
