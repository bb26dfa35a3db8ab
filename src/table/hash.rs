//! The hash of a user key, as point index and filters use it.
//!
//! Invariants
//! - It is XXH3 with 64 bits and seed 0, and part of the format: it never changes.
//! - A read hashes its key once and asks every table with the same value.

/// The hash of `key`.
#[inline]
#[must_use]
pub fn key_hash(key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_frozen() {
        assert_eq!(key_hash(b""), 0x2d06_8005_38d3_94c2);
    }
}
