//! The bodies of the fuzz targets: any bytes in, a panic out if a promise is broken.
//!
//! - [`decode`]: logs, manifests and batches. [`table`]: tables. [`lockstep`]: operations beside
//!   the oracle, without and with crashes.
//! - [`Input`]: raw bytes, or a valid file that was mutated, its checksums made right again or not.
//!
//! Invariants
//! - A target is a function of its bytes: no clock, no randomness, no real file.
//! - What was not mutated must come back whole; what was, must give an answer or a typed error.
//! - `fuzz/fuzz_targets` and `tests/corpus.rs` call the same functions.

pub mod decode;
pub mod lockstep;
pub mod seeds;
pub mod table;

use crate::adapter::SimFs;
use crate::disk::Disk;
use arbitrary::Unstructured;
use kiban::env::{Env, random::SeededRandom};
use std::sync::Arc;

/// A target: its name, which is its file in `fuzz/fuzz_targets` and its folder in `fuzz/corpus`,
/// and its body.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 6] = [
    ("wal_reader", decode::wal_reader),
    ("table_open", table::table_open),
    ("manifest", decode::manifest),
    ("batch", decode::batch),
    ("ops", lockstep::ops),
    ("ops_crash", lockstep::ops_crash),
];

/// The first byte of an input that is taken as it is; any other makes a structured one.
pub const RAW: u8 = 0;

/// What a decoder is given.
pub enum Input<'a> {
    /// Bytes as they are.
    Raw(&'a [u8]),
    /// Choices from which a valid file is made.
    Made(Unstructured<'a>),
}

impl<'a> Input<'a> {
    /// Takes the first byte of `data` for the kind.
    #[must_use]
    pub fn new(data: &'a [u8]) -> Self {
        match data.split_first() {
            Some((&RAW, rest)) => Self::Raw(rest),
            Some((_, rest)) => Self::Made(Unstructured::new(rest)),
            None => Self::Raw(data),
        }
    }
}

/// A number up to `max`; 0 where the choices ran out.
pub(crate) fn up_to(u: &mut Unstructured<'_>, max: u64) -> u64 {
    u.int_in_range(0..=max).unwrap_or(0)
}

/// How a file was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutated {
    /// Not at all: it must come back whole.
    No,
    /// Bytes were changed or cut off, checksums left as they were.
    Damaged,
    /// Bytes were changed, and checksums made right again: anything may come back, but no panic.
    Sealed,
}

/// Changes up to eight bytes of `bytes`, cuts it, copies a piece over another, or leaves it.
pub(crate) fn mutate(
    u: &mut Unstructured<'_>,
    bytes: &mut Vec<u8>,
    seal: impl FnOnce(&mut [u8]),
) -> Mutated {
    let before = bytes.clone();
    for _ in 0..up_to(u, 8) {
        if bytes.is_empty() {
            break;
        }
        let last = bytes.len() as u64 - 1;
        let at = up_to(u, last) as usize;
        match up_to(u, 5) {
            0 => bytes.truncate(at),
            1 => {
                let from = up_to(u, last) as usize;
                let len = (up_to(u, 64) as usize).min(bytes.len() - at.max(from));
                bytes.copy_within(from..from + len, at);
            }
            2 => bytes[at] = 0xff,
            3 => bytes[at] = bytes[at].wrapping_add(1),
            _ => bytes[at] ^= up_to(u, 255) as u8,
        }
    }
    let sealed = up_to(u, 1) == 1 && *bytes != before;
    if sealed {
        seal(bytes);
    }
    match () {
        () if *bytes == before => Mutated::No,
        () if sealed => Mutated::Sealed,
        () => Mutated::Damaged,
    }
}

/// An empty disk with the directory `/db`, and an environment over it.
pub(crate) fn world(seed: u64) -> (SimFs, Env) {
    let mut disk = Disk::new();
    disk.set_log_max(0);
    disk.mkdir("/db".as_ref()).expect("an empty disk has room");
    disk.sync_dir("/".as_ref()).expect("an empty disk has room");
    let fs = SimFs::new(disk);
    let env = env(&fs, seed);
    (fs, env)
}

/// An environment over `fs`; ids come from `seed`.
pub(crate) fn env(fs: &SimFs, seed: u64) -> Env {
    Env {
        fs: Arc::new(fs.clone()),
        clock: Arc::new(fs.clone()),
        random: Arc::new(SeededRandom::new(seed)),
        probe: None,
    }
}

/// Demands that an error, if there is one, is of a kind that bad bytes may have.
pub(crate) fn typed<T>(result: kiban::Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(kiban::Error::Corruption { .. } | kiban::Error::UnsupportedFormat { .. }) => None,
        Err(other) => panic!("C1: bad bytes gave {other:?}"),
    }
}
