//! A Bloom filter whose bits for one key lie in one cache line.
//!
//! Invariants
//! - "Not here" is always true: a reader checks the section's checksum before it asks.
//! - The number of bits per key stands in the properties, never among the bits.
//!
//! It serves keys where there is no point index, and key prefixes.

use super::format::SECTION_ALIGN;

const LINE_BITS_LOG2: u32 = 9;

/// Bits to set per key, for a filter of `bits_per_key`.
#[must_use]
pub fn probes_for(bits_per_key: u32) -> u8 {
    // Bits times ln 2; a filter in lines gains nothing from more than eight.
    (bits_per_key * 69 / 100).clamp(1, 8) as u8
}

/// Builds a filter. Of each hash the high 48 bits take part.
#[must_use]
pub fn build(hashes: &[u64], bits_per_key: u32) -> Vec<u8> {
    let line_bits = 8 * SECTION_ALIGN;
    let lines = (hashes.len() * bits_per_key as usize).div_ceil(line_bits).max(1);
    let mut out = vec![0; lines * SECTION_ALIGN];
    let probes = probes_for(bits_per_key);
    for &hash in hashes {
        let start = line_of(hash, lines) * SECTION_ALIGN;
        for bit in bits(hash, probes) {
            out[start + bit / 8] |= 1 << (bit % 8);
        }
    }
    out
}

/// Whether a key with this hash may be in the filter.
#[inline]
#[must_use]
pub fn may_contain(filter: &[u8], probes: u8, hash: u64) -> bool {
    let start = line_of(hash, filter.len() / SECTION_ALIGN) * SECTION_ALIGN;
    let Some(line) = filter.get(start..start + SECTION_ALIGN) else {
        return true;
    };
    bits(hash, probes).all(|bit| line[bit / 8] & 1 << (bit % 8) != 0)
}

#[inline]
fn line_of(hash: u64, lines: usize) -> usize {
    (((hash >> 32) * lines as u64) >> 32) as usize
}

#[inline]
fn bits(hash: u64, probes: u8) -> impl Iterator<Item = usize> {
    // An odd step through 32 bits visits distinct values; the top nine bits choose the place.
    let mut at = ((hash >> 16) as u32).wrapping_mul(0x9e37_79b9);
    let step = ((hash >> 24) as u32).wrapping_mul(0x85eb_ca6b) | 1;
    (0..probes).map(move |_| {
        let bit = at >> (32 - LINE_BITS_LOG2);
        at = at.wrapping_add(step);
        bit as usize
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::hash::key_hash;

    #[test]
    fn no_key_is_missed_and_few_others_are_let_through() {
        let hash = |k: u64| key_hash(&k.to_le_bytes()) & !0xffff;
        for (bits_per_key, wrong_max) in [(10, 2_500), (16, 500)] {
            let hashes: Vec<u64> = (0..10_000).map(hash).collect();
            let filter = build(&hashes, bits_per_key);
            let probes = probes_for(bits_per_key);
            assert!(hashes.iter().all(|&h| may_contain(&filter, probes, h)));
            let wrong =
                (10_000..110_000).filter(|&k| may_contain(&filter, probes, hash(k))).count();
            assert!(wrong < wrong_max, "{wrong} of 100,000 at {bits_per_key} bits");
        }
    }

    #[test]
    fn an_empty_filter_lets_everything_through() {
        assert!(may_contain(&[], 6, 99));
    }
}
