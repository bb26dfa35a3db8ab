//! Value lengths, most of them small, the rest at the exact boundaries of the options.
//!
//! Invariants
//! - For every limit L that a value's length is compared with, L-1, L and L+1 are drawn.
//! - The longest value is drawn so seldom that a run's bytes stay in the hundreds of KiB.

use super::source::Source;
use crate::config::Config;
use crate::value::Value;

/// The lengths of one run's values.
#[derive(Clone, Debug)]
pub struct Sizes {
    edges: Vec<u32>,
    /// Parts in 64 of values with a length at an edge.
    edges_64ths: u64,
    /// Small values are shorter than this.
    small: u64,
    /// Parts in 16 of values that do not compress.
    made_16ths: u64,
}

impl Sizes {
    /// Lengths for one run.
    ///
    /// `edges_64ths` are the shares of lengths at an edge to choose from.
    pub fn new(source: &mut impl Source, config: &Config, edges_64ths: &[u64]) -> Self {
        let mut limits = vec![
            config.value_copy_bytes_max,
            config.block_bytes,
            config.memtable_bytes / 2,
            128,
            256,
        ];
        if source.chance(1, 4) {
            limits.extend([config.memtable_bytes, config.log_bytes, config.table_bytes_max]);
            limits.extend([16_384, 65_536]);
        }
        let around = |&limit: &u64| [limit.saturating_sub(1), limit, limit + 1];
        let within = |len: &u64| *len <= config.value_bytes_max;
        let edges = limits.iter().flat_map(around).filter(within).map(|len| len as u32).collect();
        Self {
            edges,
            edges_64ths: *source.pick(edges_64ths),
            small: *source.pick(&[9, 2, 33, 100]),
            made_16ths: *source.pick(&[4, 0, 16]),
        }
    }

    /// A value. Readable ones carry a number, so that a stale one is told from a fresh one.
    pub fn value(&self, source: &mut impl Source) -> Value {
        let edge = source.chance(self.edges_64ths, 64);
        let len = if edge { *source.pick(&self.edges) } else { source.draw(self.small) as u32 };
        if source.chance(self.made_16ths, 16) {
            return Value::Made { seed: source.draw(999) as u32, len };
        }
        let mut bytes = source.draw(99_999).to_string().into_bytes();
        bytes.resize(len as usize, b'x');
        Value::Bytes(bytes)
    }
}
