//! Adversarial keys: a small pool, so that keys collide, and keys near those in the pool.
//!
//! Invariants
//! - A pool holds the key itself, its extensions and its prefixes often enough that every pair of
//!   neighbours in byte order (k, k 00) and (k, k ff) occurs.
//! - Lengths lie at the edges that code cuts at: 8 (an inlined prefix), 128 (a varint's second
//!   byte), 256, a block, and the longest key.

use super::source::Source;
use crate::config::Config;
use crate::ops::Key;

/// The longest key that the engine takes.
pub const KEY_BYTES_MAX: usize = 65_535;

/// How a pool's keys look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// `k00` to `k99`: readable.
    Plain,
    /// 00, 7f, 80, ff and the empty key, up to four bytes: every bound is an edge.
    Edges,
    /// a, aa, aaa, ...: each the prefix of the next.
    Chain,
    /// One long shared prefix, differing in the last bytes.
    Shared,
    /// Eight big-endian bytes, as numbers are stored.
    Number,
    /// Any bytes, of lengths at edges.
    Any,
}

/// Keys of one run.
#[derive(Clone, Debug)]
pub struct Pool {
    keys: Vec<Key>,
    /// The first so many keys are hot.
    hot: usize,
    /// Parts in 16 of draws that go to the hot keys.
    hot_16ths: u64,
}

impl Pool {
    /// A pool of a few to a few hundred keys of one to three shapes.
    pub fn new(source: &mut impl Source, config: &Config) -> Self {
        const SHAPES: &[Shape] =
            &[Shape::Plain, Shape::Edges, Shape::Chain, Shape::Shared, Shape::Number, Shape::Any];
        let count = *source.pick(&[16, 4, 48, 100, 300]);
        let shapes: Vec<Shape> = (0..1 + source.below(3)).map(|_| *source.pick(SHAPES)).collect();
        let shared_len = *source.pick(&[9, 7, 8, 40, 127, 128, 300]);
        let shared = vec![*source.pick(&[b'p', 0xff, 0]); shared_len];
        let keys: Vec<Key> = (0..count)
            .map(|i| shape_key(source, *source_shape(i, &shapes), i, &shared, config))
            .collect();
        let hot = 1 + source.below(count.min(8));
        Self { keys, hot, hot_16ths: *source.pick(&[0, 8, 15]) }
    }

    /// A key of the pool, hot ones more often.
    pub fn key<'a>(&'a self, source: &mut impl Source) -> &'a Key {
        let hot = source.chance(self.hot_16ths, 16);
        let among = if hot { self.hot } else { self.keys.len() };
        &self.keys[source.below(among)]
    }

    /// A key at or next to one of the pool, for reads and bounds.
    pub fn near(&self, source: &mut impl Source) -> Key {
        let mut key = self.key(source).clone();
        match source.below(16) {
            0..8 => {}
            8 => key.push(0),
            9 => key.push(0xff),
            10 | 11 => drop(key.pop()),
            12 => key.truncate(key.len() / 2),
            13 => step(&mut key, 1),
            14 => step(&mut key, u8::MAX),
            _ => key.clear(),
        }
        key.truncate(KEY_BYTES_MAX);
        key
    }
}

fn source_shape(i: usize, shapes: &[Shape]) -> &Shape {
    &shapes[i % shapes.len()]
}

/// Adds `by` to the last byte, wrapping.
fn step(key: &mut Key, by: u8) {
    if let Some(last) = key.last_mut() {
        *last = last.wrapping_add(by);
    }
}

fn shape_key(
    source: &mut impl Source,
    shape: Shape,
    i: usize,
    shared: &[u8],
    config: &Config,
) -> Key {
    const EDGES: &[u8] = &[0, 0xff, 0x7f, 0x80, b'a', 1, 0xfe];
    match shape {
        Shape::Plain => format!("k{i:02}").into_bytes(),
        Shape::Edges => (0..source.below(5)).map(|_| *source.pick(EDGES)).collect(),
        Shape::Chain => vec![*source.pick(&[b'a', 0, 0xff]); i % 24],
        Shape::Shared => {
            let mut key = shared.to_vec();
            key.extend((0..source.below(3)).map(|_| *source.pick(EDGES)));
            key
        }
        Shape::Number => (i as u64 * *source.pick(&[1, 255, 256])).to_be_bytes().to_vec(),
        Shape::Any => {
            let prefix = config.scan_prefix_len as usize;
            let block = config.block_bytes as usize;
            let lens =
                [3, 1, 8, 9, 127, 128, 255, 256, prefix, prefix + 1, block - 1, block, block + 1];
            let long = source.chance(1, 128);
            let len = if long { KEY_BYTES_MAX } else { *source.pick(&lens) };
            let fill = *source.pick(EDGES);
            // The first and the last bytes vary, what lies between does not: long keys stay short
            // words in their text form.
            let mut key = vec![fill; len];
            for at in [0, len.saturating_sub(1)] {
                if let Some(byte) = key.get_mut(at) {
                    *byte = source.draw(255) as u8;
                }
            }
            key
        }
    }
}
