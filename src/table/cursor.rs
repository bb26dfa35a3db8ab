//! A cursor over a table's entries, all versions included.
//!
//! Invariants
//! - R4: after an error there is no entry, and every call but an absolute seek returns the same
//!   error again.
//! - A cursor moves in one direction from one absolute seek to the next. Moving from past the end
//!   is a bug of the caller.
//! - Forward it keeps one key and rebuilds the next one in place. Backward it decodes the entries
//!   behind one restart point together and walks them from the end.
//! - A maintenance cursor reads past every cache and checks all that it reads, the order of the
//!   entries included: what it shows can be written out again.

use super::block::Place;
use super::entry::{RawEntry, decode};
use super::format::Section;
use super::held::{Held, Stream};
use super::index::IndexView;
use super::reader::Table;
use crate::base::key::{EntryRef, Kind, SeqNo};
use crate::base::slice::Slice;
use crate::cursor::Cursor;
use crate::env::sync::Arc;
use crate::error::{Error, Result};
use std::ops::Range;

/// What a cursor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Reads for a user.
    Read,
    /// Rewriting and checking.
    Maintain,
}

/// Where a cursor stands. Kept small: it is written at every step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the first seek.
    Unset,
    /// On an entry, going forward.
    Forward,
    /// On an entry, going backward.
    Backward,
    /// Past the last or before the first entry.
    Past,
    /// An error stands in `error`.
    Failed,
}

/// An entry of the interval that a backward cursor walks.
struct Back {
    key: Range<usize>,
    seq: SeqNo,
    kind: Kind,
    value: Range<usize>,
}

/// A cursor over one table.
pub struct TableCursor {
    table: Arc<Table>,
    purpose: Purpose,
    state: State,
    error: Option<Error>,
    index: Held,
    restarts: Held,
    opened: bool,
    stream: Stream,
    /// The block under the cursor, if `block_held`.
    block: usize,
    block_offset: u64,
    held: Held,
    block_held: bool,
    /// Between the entry under the cursor and the next one.
    next_at: Place,
    key: Vec<u8>,
    seq: SeqNo,
    kind: Kind,
    value: Range<usize>,
    entry_at: usize,
    shared: usize,
    /// Whether `key` and `seq` are those of the entry before, for the order check.
    follows: bool,
    /// Backward: entries of the interval up to the one under the cursor, their keys, its ordinal.
    back: Vec<Back>,
    back_keys: Vec<u8>,
    interval: usize,
}

impl Table {
    /// A cursor over all entries, not positioned yet.
    #[must_use]
    pub fn cursor(self: &Arc<Self>, purpose: Purpose) -> TableCursor {
        TableCursor {
            table: self.clone(),
            purpose,
            state: State::Unset,
            error: None,
            index: Held::Scratch,
            restarts: Held::Scratch,
            opened: false,
            stream: Stream::default(),
            block: 0,
            block_offset: 0,
            held: Held::Scratch,
            block_held: false,
            next_at: Place { value_at: 0, key_at: 0, end: 0 },
            key: Vec::new(),
            seq: SeqNo::ZERO,
            kind: Kind::Put,
            value: 0..0,
            entry_at: 0,
            shared: 0,
            follows: false,
            back: Vec::new(),
            back_keys: Vec::new(),
            interval: 0,
        }
    }
}

impl Cursor for TableCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.guarded(|c| {
            c.open()?;
            c.load_block(0)?;
            c.next_at = c.place_of(0)?.1;
            c.follows = false;
            c.key.clear();
            c.step()
        })
    }

    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.guarded(|c| c.seek_forward(key, seq))
    }

    fn seek_last(&mut self) -> Result<()> {
        self.guarded(|c| {
            c.open()?;
            c.interval = c.table.properties.restarts as usize - 1;
            c.load_interval(None)?;
            c.step_back()
        })
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.guarded(|c| c.seek_backward(key))
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if self.state != State::Forward {
            return self.cannot_move("next");
        }
        let result = self.step();
        self.settle(result)
    }

    fn prev(&mut self) -> Result<()> {
        if self.state != State::Backward {
            return self.cannot_move("prev");
        }
        let result = self.step_back();
        self.settle(result)
    }

    #[inline]
    fn entry(&self) -> Option<EntryRef<'_>> {
        let value = |range: &Range<usize>| {
            &self.held.bytes(&self.table, &self.stream)[range.start..range.end]
        };
        match self.state {
            State::Forward => Some(EntryRef {
                key: &self.key,
                seq: self.seq,
                kind: self.kind,
                value: value(&self.value),
            }),
            State::Backward => self.back.last().map(|back| EntryRef {
                key: &self.back_keys[back.key.clone()],
                seq: back.seq,
                kind: back.kind,
                value: value(&back.value),
            }),
            State::Unset | State::Past | State::Failed => None,
        }
    }

    /// Pins the map or the block; copies what a maintenance cursor reads past them.
    fn pinned_value(&self) -> Option<Slice> {
        let value = self.entry()?.value;
        let range = match self.state {
            State::Backward => self.back.last()?.value.clone(),
            _ => self.value.clone(),
        };
        Some(match &self.held {
            Held::Map(block) => {
                Slice::pin(self.table.clone(), block.start + range.start, range.len())
            }
            Held::Own(block) => Slice::pin(block.clone(), range.start, range.len()),
            Held::Stream(_) | Held::Scratch => Slice::copy(value),
        })
    }
}

impl TableCursor {
    /// The table under the cursor.
    #[must_use]
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Where the entry that a forward cursor stands on is: its block, that one's offset in the
    /// file, and its place there; and how many bytes it shares with the key before.
    pub(super) fn place(&self) -> (usize, u64, Place, usize) {
        let place = Place { value_at: self.value.start, key_at: self.entry_at, ..self.next_at };
        (self.block, self.block_offset, place, self.shared)
    }

    #[inline]
    fn guarded(&mut self, seek: impl FnOnce(&mut Self) -> Result<State>) -> Result<()> {
        let result = seek(self);
        self.settle(result)
    }

    /// Takes the state that a move came to.
    #[inline]
    fn settle(&mut self, result: Result<State>) -> Result<()> {
        match result {
            Ok(state) => {
                self.state = state;
                Ok(())
            }
            Err(e) => self.fail(e),
        }
    }

    #[cold]
    fn fail(&mut self, e: Error) -> Result<()> {
        self.block_held = false;
        self.state = State::Failed;
        self.error = Some(e.clone());
        Err(e)
    }

    #[cold]
    fn cannot_move(&self, which: &str) -> Result<()> {
        match (self.state, &self.error) {
            (State::Failed, Some(e)) => Err(e.clone()),
            (state, _) => panic!("{which} on a cursor that stands {state:?}"),
        }
    }

    /// Gets hold of the index and the restart points, once.
    fn open(&mut self) -> Result<()> {
        if self.opened {
            return Ok(());
        }
        if self.purpose == Purpose::Maintain {
            self.stream = Stream::open(&self.table)?;
        }
        self.index = self.section(Section::Index)?;
        self.restarts = self.section(Section::Restarts)?;
        self.opened = true;
        Ok(())
    }

    fn section(&self, section: Section) -> Result<Held> {
        let piece = self.table.properties.section(section);
        let piece = piece.expect("invariant: checked with the properties");
        let bytes = match self.purpose {
            Purpose::Read => self.table.source.section(section, piece)?,
            Purpose::Maintain => self.table.source.section_afresh(section, piece)?,
        };
        Ok(Held::new(bytes, piece.range()))
    }

    fn index(&self) -> IndexView<'_> {
        self.table.view(self.index.bytes(&self.table, &self.stream))
    }

    /// The block of a restart point and, if that is the block that is held, its place there.
    fn place_of(&self, restart: usize) -> Result<(usize, Place)> {
        let restarts = self.restarts.bytes(&self.table, &self.stream);
        let restart = self.table.restart(restarts, restart)?;
        if restart.block != self.block || !self.block_held {
            return Ok((restart.block, Place { value_at: 0, key_at: 0, end: 0 }));
        }
        let len = self.held.bytes(&self.table, &self.stream).len();
        Ok((restart.block, self.table.place(restart, self.block_offset, len)?))
    }

    fn load_block(&mut self, ordinal: usize) -> Result<()> {
        if self.block_held && self.block == ordinal {
            return Ok(());
        }
        self.block_held = false;
        let handle = self.index().handle(ordinal).ok_or_else(|| self.table.bad_index())?;
        self.held = match self.purpose {
            Purpose::Read => {
                let bytes = self.table.source.block(ordinal, handle, self.table.codec)?;
                Held::new(bytes, handle.piece.range())
            }
            Purpose::Maintain => self.stream.load(&self.table, handle)?,
        };
        self.block = ordinal;
        self.block_offset = u64::from(handle.piece.offset);
        self.block_held = true;
        Ok(())
    }

    /// Moves to the entry at `next_at`, or to the first one of the next block.
    #[inline]
    fn step(&mut self) -> Result<State> {
        loop {
            let Place { value_at, key_at, end } = self.next_at;
            if key_at >= end {
                let next = self.block + 1;
                if next >= self.table.properties.blocks as usize {
                    return Ok(State::Past);
                }
                self.load_block(next)?;
                let first = self.table.restarts_of(&self.index(), next)?.start;
                self.next_at = self.place_of(first)?.1;
                continue;
            }
            let block = self.held.bytes(&self.table, &self.stream);
            let damaged = |what| self.table.source.damaged(self.block_offset + key_at as u64, what);
            let entry = decode(block, key_at, end).map_err(damaged)?;
            let value = value_at..value_at + entry.value_len;
            if value.end > end {
                return Err(damaged("a value is longer than its block"));
            }
            if entry.shared > self.key.len() {
                return Err(damaged("an entry shares more than the key before it has"));
            }
            if self.purpose == Purpose::Maintain && self.follows && !self.ascends(&entry) {
                return Err(damaged("entries are out of order"));
            }
            self.key.truncate(entry.shared);
            self.key.extend_from_slice(entry.suffix);
            self.seq = entry.seq();
            self.kind = entry.kind;
            self.shared = entry.shared;
            self.next_at = Place { value_at: value.end, key_at: entry.end, end };
            self.value = value;
            self.entry_at = key_at;
            self.follows = true;
            return Ok(State::Forward);
        }
    }

    /// Whether `entry` is above the one before it.
    #[inline]
    fn ascends(&self, entry: &RawEntry<'_>) -> bool {
        let rest = &self.key[entry.shared..];
        rest.cmp(entry.suffix).then(entry.seq().cmp(&self.seq)).is_lt()
    }

    fn seek_forward(&mut self, key: &[u8], seq: SeqNo) -> Result<State> {
        self.open()?;
        let block = self.index().find(key, seq.0);
        if block == self.table.properties.blocks as usize {
            return Ok(State::Past);
        }
        self.load_block(block)?;
        let restart = self.last_below(key, seq.0)?.1;
        self.next_at = self.place_of(restart)?.1;
        self.follows = false;
        self.key.clear();
        loop {
            let state = self.step()?;
            let below = state == State::Forward
                && self.key.as_slice().cmp(key).then(seq.cmp(&self.seq)).is_lt();
            if !below {
                return Ok(state);
            }
        }
    }

    /// In the block that is held, as [`Table::last_below`].
    fn last_below(&self, key: &[u8], seq: u64) -> Result<(usize, usize)> {
        let block = self.held.bytes(&self.table, &self.stream);
        let restarts = self.restarts.bytes(&self.table, &self.stream);
        let range = self.table.restarts_of(&self.index(), self.block)?;
        self.table.last_below(block, self.block_offset, restarts, range, key, seq)
    }

    fn seek_backward(&mut self, key: &[u8]) -> Result<State> {
        self.open()?;
        let block = self.index().find(key, u64::MAX);
        if block == self.table.properties.blocks as usize {
            self.interval = self.table.properties.restarts as usize - 1;
            self.load_interval(None)?;
            return self.step_back();
        }
        self.load_block(block)?;
        let (below, restart) = self.last_below(key, u64::MAX)?;
        self.interval = restart;
        self.back.clear();
        if below > 0 {
            self.load_interval(Some(key))?;
        }
        self.step_back()
    }

    /// Decodes the entries of the interval, those at or above `key` left out. [`Self::step_back`]
    /// then goes to the last one.
    fn load_interval(&mut self, key: Option<&[u8]>) -> Result<()> {
        self.back.clear();
        self.back_keys.clear();
        let (block, _) = self.place_of(self.interval)?;
        self.load_block(block)?;
        let (_, place) = self.place_of(self.interval)?;
        let Place { mut value_at, key_at: mut at, mut end } = place;
        if self.interval + 1 < self.table.properties.restarts as usize {
            let (next_block, next) = self.place_of(self.interval + 1)?;
            if next_block == block {
                end = end.min(next.key_at);
            }
        }
        let bytes = self.held.bytes(&self.table, &self.stream);
        let mut last = 0..0;
        while at < end {
            let damaged = |what| self.table.source.damaged(self.block_offset + at as u64, what);
            let entry = decode(bytes, at, end).map_err(damaged)?;
            if entry.shared > last.len() {
                return Err(damaged("an entry shares more than the key before it has"));
            }
            let start = self.back_keys.len();
            self.back_keys.extend_from_within(last.start..last.start + entry.shared);
            self.back_keys.extend_from_slice(entry.suffix);
            last = start..self.back_keys.len();
            if key.is_some_and(|key| &self.back_keys[last.clone()] >= key) {
                break;
            }
            let value = value_at..value_at + entry.value_len;
            if value.end > bytes.len() {
                return Err(damaged("a value is longer than its block"));
            }
            value_at = value.end;
            self.back.push(Back { key: last.clone(), seq: entry.seq(), kind: entry.kind, value });
            at = entry.end;
        }
        // One too many, for the step that follows to take off.
        self.back.push(Back { key: 0..0, seq: SeqNo::ZERO, kind: Kind::Put, value: 0..0 });
        Ok(())
    }

    fn step_back(&mut self) -> Result<State> {
        self.back.pop();
        while self.back.is_empty() {
            if self.interval == 0 {
                return Ok(State::Past);
            }
            self.interval -= 1;
            self.load_interval(None)?;
            self.back.pop();
        }
        Ok(State::Backward)
    }
}
