//! The point index: from the hash of a key to the restart point to look behind.
//!
//! Invariants
//! - One item per distinct user key: 16 bits of its hash and the 16-bit ordinal of the restart
//!   point before its newest version. No item with the key's bits means: the key is not here.
//! - A bucket is one cache line of 16 items, filled from the front. A key whose bucket is full
//!   stands in the next bucket that is not, so a search ends at the first bucket with room.
//! - It is a hint: a reader compares the whole key, and checks the section's checksum first.
//!
//! Why not a perfect hash: it takes twice a whole merge to build. Why not one byte per block, as a
//! hash index inside of blocks would: it can't be asked before the block is known.

use super::format::SECTION_ALIGN;

/// Restart points that a point index can tell apart; one value marks an empty item.
pub const RESTARTS_MAX: usize = 65_535;
const ITEMS: usize = 16;
const EMPTY: u16 = u16::MAX;

/// A key's hash with the ordinal of its restart point in the low 16 bits.
#[inline]
#[must_use]
pub fn pack(hash: u64, restart: usize) -> u64 {
    (hash & !0xffff) | (restart as u64 & 0xffff)
}

/// The bucket and the 16 bits that a hash stands for. The low 16 bits of the hash take no part.
#[inline]
fn place(hash: u64, buckets: usize) -> (usize, u16) {
    ((((hash >> 32) * buckets as u64) >> 32) as usize, (hash >> 16) as u16)
}

/// The size of a point index over `keys` keys: four fifths of the items are used.
#[must_use]
pub fn bytes_for(keys: usize) -> usize {
    (keys * 5 / (4 * ITEMS) + 1) * SECTION_ALIGN
}

/// Builds the point index of packed hashes.
#[must_use]
pub fn build(packed: &[u64]) -> Vec<u8> {
    let bytes = bytes_for(packed.len());
    let buckets = bytes / SECTION_ALIGN;
    let mut out = vec![0; bytes];
    for line in out.chunks_exact_mut(SECTION_ALIGN) {
        line[2 * ITEMS..].fill(0xff);
    }
    let mut used = vec![0u8; buckets];
    for &hash in packed {
        let (mut bucket, bits) = place(hash, buckets);
        while used[bucket] as usize == ITEMS {
            bucket = if bucket + 1 == buckets { 0 } else { bucket + 1 };
        }
        let at = bucket * SECTION_ALIGN + 2 * used[bucket] as usize;
        out[at..at + 2].copy_from_slice(&bits.to_le_bytes());
        out[at + 2 * ITEMS..at + 2 * ITEMS + 2].copy_from_slice(&(hash as u16).to_le_bytes());
        used[bucket] += 1;
    }
    out
}

/// The restart points that a key with one hash may stand behind, one after the other.
pub struct Probe<'a> {
    points: &'a [u8],
    bits: u16,
    bucket: usize,
    buckets_left: usize,
    /// Items of the bucket that have the bits and were not returned yet.
    hits: u32,
    line: &'a [u8; SECTION_ALIGN],
}

impl<'a> Probe<'a> {
    /// Starts a search; `None` if the index has no whole bucket.
    #[inline]
    #[must_use]
    pub fn new(points: &'a [u8], hash: u64) -> Option<Self> {
        let buckets = points.len() / SECTION_ALIGN;
        let (bucket, bits) = place(hash, buckets);
        let line = line(points, bucket)?;
        let hits = hits(line, bits);
        Some(Self { points, bits, bucket, buckets_left: buckets - 1, hits, line })
    }
}

impl Iterator for Probe<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        loop {
            if self.hits != 0 {
                let item = self.hits.trailing_zeros() as usize;
                self.hits &= self.hits - 1;
                let restart = item_restart(self.line, item);
                if restart == EMPTY {
                    // An unused item whose zero bits look like the key's; the used ones are before.
                    return None;
                }
                return Some(usize::from(restart));
            }
            if item_restart(self.line, ITEMS - 1) == EMPTY || self.buckets_left == 0 {
                return None;
            }
            self.buckets_left -= 1;
            self.bucket += 1;
            self.line = line(self.points, self.bucket).or_else(|| {
                self.bucket = 0;
                line(self.points, 0)
            })?;
            self.hits = hits(self.line, self.bits);
        }
    }
}

#[inline]
fn line(points: &[u8], bucket: usize) -> Option<&[u8; SECTION_ALIGN]> {
    points.get(bucket * SECTION_ALIGN..)?.first_chunk()
}

/// Bit `i` tells whether item `i` has `bits`. Written so that the compiler makes it one compare.
#[inline]
fn hits(line: &[u8; SECTION_ALIGN], bits: u16) -> u32 {
    let mut hits = 0;
    for (i, pair) in line[..2 * ITEMS].chunks_exact(2).enumerate() {
        hits |= u32::from(u16::from_le_bytes([pair[0], pair[1]]) == bits) << i;
    }
    hits
}

#[inline]
fn item_restart(line: &[u8; SECTION_ALIGN], item: usize) -> u16 {
    let at = 2 * ITEMS + 2 * item;
    u16::from_le_bytes([line[at], line[at + 1]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::hash::key_hash;

    #[test]
    fn every_key_leads_to_its_restart_point_and_few_others_lead_anywhere() {
        let packed: Vec<u64> =
            (0..20_000u64).map(|k| pack(key_hash(&k.to_be_bytes()), k as usize / 3)).collect();
        let points = build(&packed);
        let probe = |k: u64| Probe::new(&points, key_hash(&k.to_be_bytes())).expect("has buckets");
        assert!((0..20_000).all(|k| probe(k).any(|r| r == k as usize / 3)));
        let wrong = (20_000..120_000).filter(|&k| probe(k).next().is_some()).count();
        assert!(wrong < 100, "{wrong} of 100,000 absent keys have a candidate");
    }

    #[test]
    fn keys_of_one_hash_fill_many_buckets_and_are_all_found() {
        let packed: Vec<u64> = (0..500).map(|r| pack(u64::MAX, r)).collect();
        let points = build(&packed);
        let found: Vec<usize> = Probe::new(&points, u64::MAX).expect("has buckets").collect();
        assert_eq!(found, (0..500).collect::<Vec<_>>());
    }

    #[test]
    fn an_index_without_room_ends_the_search() {
        let full = [7u8; 3 * SECTION_ALIGN];
        assert_eq!(Probe::new(&full, 0x0707_0707_0707_0707).expect("has buckets").count(), 48);
        assert!(Probe::new(&[], 1).is_none());
    }
}
