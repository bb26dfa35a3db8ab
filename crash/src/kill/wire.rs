//! What a victim tells its parent over a pipe, and how that is written down.
//!
//! Invariants
//! - A note goes into the pipe by one write of at most `PIPE_BUF` bytes, which the kernel never
//!   tears or mixes with another thread's. What is in the pipe outlives the victim.
//! - The order of notes respects real time: a call that was told as issued after another was told
//!   as done began after that one returned.
//! - A victim whose parent is gone ends.
#![allow(clippy::disallowed_types, reason = "outside the engine")]

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;

/// What a pipe takes in one piece, whatever else is written to it.
const NOTE_BYTES_MAX: usize = 4096;
const HEAD_BYTES: usize = 24;

macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// What a note says; each kind says what its numbers mean.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Kind { $($(#[doc = $doc])* $name,)* }

        impl Kind {
            const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

kinds! {
    /// The database is about to be opened.
    Opening,
    /// It is open: `a` is its last sequence, `b` the digest of what it shows.
    Opened,
    /// Step `n` of `writer` is about to be made.
    Issued,
    /// It returned without an error; a write's sequence is `a`.
    Done,
    /// It was refused and has no effect: the handle was closed.
    Refused,
    /// It failed; `text` says how, `a` is 1 where the operating system refused, and `b` is 1 where
    /// the handle acknowledges no write any more (P1).
    Failed,
    /// The receipt of a write was called with `Ok`.
    Durable,
    /// A thread entered the stage with number `n` and stays there.
    Frozen,
    /// The database shows key `n` with value `a`.
    Entry,
    /// All entries were told: `a` is the last sequence, `b` the digest.
    Examined,
    /// A read gave the value `a`, whose writer had asked for a sync.
    Seen,
    /// Checkpoint `n` of this life is about to be made.
    Copying,
    /// It returned without an error.
    Copied,
    /// The checkpoint that is `n`th among those asked for shows a state with the hash `b`.
    Copy,
    /// An examination is done: `a` is the hash of what was shown, `b` that of what it left there.
    Answered,
    /// The engine did what it must not: `text` is the promise, a space, and what happened.
    Wrong,
    /// The victim closed the database and ends by itself.
    Ended,
}

/// One note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// What it says.
    pub kind: Kind,
    /// Which thread.
    pub writer: u8,
    /// Which step or key.
    pub n: u32,
    /// A number.
    pub a: u64,
    /// Another.
    pub b: u64,
    /// Words.
    pub text: String,
}

impl Note {
    /// One without numbers.
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        Self { kind, writer: 0, n: 0, a: 0, b: 0, text: String::new() }
    }

    /// One about a step.
    #[must_use]
    pub fn step(kind: Kind, writer: u8, n: u32) -> Self {
        Self { writer, n, ..Self::new(kind) }
    }

    /// One with two numbers.
    #[must_use]
    pub fn numbers(kind: Kind, a: u64, b: u64) -> Self {
        Self { a, b, ..Self::new(kind) }
    }

    /// One with words.
    #[must_use]
    pub fn words(kind: Kind, text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::new(kind) }
    }

    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut end = self.text.len().min(NOTE_BYTES_MAX - HEAD_BYTES);
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let mut bytes = vec![self.kind as u8, self.writer];
        bytes.extend(u16::try_from(end).expect("below the limit of a note").to_le_bytes());
        bytes.extend(self.n.to_le_bytes());
        bytes.extend(self.a.to_le_bytes());
        bytes.extend(self.b.to_le_bytes());
        bytes.extend(&self.text.as_bytes()[..end]);
        bytes
    }

    /// The note that `bytes` begins with, and its length; `None` while it is not all there.
    ///
    /// # Errors
    /// No victim writes this.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, String> {
        let Some(head) = bytes.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let kind = Kind::ALL.get(usize::from(head[0]));
        let kind = *kind.ok_or_else(|| format!("a note of kind {}", head[0]))?;
        let end = HEAD_BYTES + usize::from(u16::from_le_bytes([head[2], head[3]]));
        let Some(text) = bytes.get(HEAD_BYTES..end) else { return Ok(None) };
        let number = |at: usize| {
            let bytes = head[at..].first_chunk().expect("inside the head");
            u64::from_le_bytes(*bytes)
        };
        let n = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        let text = String::from_utf8_lossy(text).into_owned();
        let note = Self { kind, writer: head[1], n, a: number(8), b: number(16), text };
        Ok(Some((note, end)))
    }
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, writer, n, a, b, text } = self;
        write!(f, "{kind:?} writer {writer} n {n} a {a} b {b:#x} {text}")
    }
}

/// The victim's end of the pipe.
#[derive(Debug)]
pub struct Teller(File);

impl Teller {
    /// The one at standard output. Nothing else may write there.
    ///
    /// # Errors
    /// There is none.
    pub fn stdout() -> std::io::Result<Self> {
        Ok(Self(File::from(std::io::stdout().as_fd().try_clone_to_owned()?)))
    }

    /// One that writes to `file`.
    #[must_use]
    pub fn to(file: File) -> Self {
        Self(file)
    }

    /// Puts a note into the pipe. Without a parent at its other end the process ends.
    pub fn tell(&self, note: &Note) {
        if (&self.0).write_all(&note.encode()).is_err() {
            std::process::exit(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_comes_back_whole_or_not_at_all() {
        let text = "é".repeat(3000);
        for note in [
            Note::step(Kind::Issued, 7, 400_000),
            Note::numbers(Kind::Opened, u64::MAX, 1),
            Note::words(Kind::Wrong, "S1 a snapshot changed"),
            Note::words(Kind::Failed, text.as_str()),
        ] {
            let bytes = note.encode();
            assert!(bytes.len() <= NOTE_BYTES_MAX);
            let (back, len) = Note::decode(&bytes).expect("valid").expect("whole");
            assert_eq!((back.kind, back.n, back.a, len), (note.kind, note.n, note.a, bytes.len()));
            assert!(note.text.starts_with(&back.text));
            for cut in [0, 1, HEAD_BYTES - 1, bytes.len() - 1] {
                assert_eq!(Note::decode(&bytes[..cut]), Ok(None));
            }
        }
        assert!(Note::decode(&[99; 64]).is_err());
    }
}
