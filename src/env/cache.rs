//! A bounded concurrent map from keys to shared values, in the form that the build asks for.
//!
//! Invariants
//! - The values' weights add up to no more than the capacity, but for what a value just put in
//!   may take until the next call. A value heavier than its share is not kept.
//! - What stays and what goes depends on the calls alone: no random hasher, no core count (F1).
//!
//! In std form it is quick_cache. In the checked forms it is a plain map under one lock, oldest
//! out first: a crate's own locks would be unseen by the model, and its loom or shuttle features
//! would reach the std build through feature unification.

use super::sync::Arc;
use std::hash::Hash;

/// Something that takes room in a cache.
pub trait Weigh {
    /// The room, in bytes. Always the same.
    fn weight(&self) -> u64;
}

/// A bounded map. Cheap when empty.
pub struct Cache<K, V>(form::Cache<K, V>);

impl<K: Eq + Hash + Ord + Clone, V: Weigh> Cache<K, V> {
    /// A map for values that weigh `capacity` together, each `weight_usual` or so.
    #[must_use]
    pub fn new(capacity: u64, weight_usual: u64) -> Self {
        Self(form::new(capacity, weight_usual))
    }

    /// The value of `key`, if it is still here.
    #[inline]
    pub fn get(&self, key: &K) -> Option<Arc<V>> {
        form::get(&self.0, key)
    }

    /// Keeps `value` for a while.
    pub fn insert(&self, key: K, value: Arc<V>) {
        form::insert(&self.0, key, value);
    }

    /// What the values here weigh.
    #[must_use]
    pub fn weight(&self) -> u64 {
        form::weight(&self.0)
    }
}

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
mod form {
    use super::{Arc, Hash, Weigh};
    use quick_cache::sync::DefaultLifecycle;
    use quick_cache::{OptionsBuilder, Weighter};
    use std::hash::{BuildHasher, Hasher};

    pub type Cache<K, V> =
        quick_cache::sync::Cache<K, Arc<V>, ByWeight, Mixed, DefaultLifecycle<K, Arc<V>>>;

    /// A shard takes nothing over its share of the capacity, and a section of a table may have
    /// hundreds of KiB.
    const SHARD_BYTES_MIN: u64 = 4 << 20;

    #[derive(Clone)]
    pub struct ByWeight;

    impl<K, V: Weigh> Weighter<K, Arc<V>> for ByWeight {
        fn weight(&self, _key: &K, value: &Arc<V>) -> u64 {
            value.weight()
        }
    }

    /// Multiplies and folds; keys hold random table ids, so nothing better is needed.
    #[derive(Clone, Default)]
    pub struct Mixed(u64);

    impl BuildHasher for Mixed {
        type Hasher = Self;

        fn build_hasher(&self) -> Self {
            self.clone()
        }
    }

    impl Hasher for Mixed {
        fn finish(&self) -> u64 {
            self.0
        }

        fn write(&mut self, bytes: &[u8]) {
            for chunk in bytes.chunks(8) {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                self.write_u64(u64::from_le_bytes(word));
            }
        }

        fn write_u32(&mut self, value: u32) {
            self.write_u64(u64::from(value));
        }

        fn write_u64(&mut self, value: u64) {
            let product =
                u128::from(self.0 ^ value ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93_u128;
            self.0 = (product >> 64) as u64 ^ product as u64;
        }

        fn write_u128(&mut self, value: u128) {
            self.write_u64(value as u64);
            self.write_u64((value >> 64) as u64);
        }
    }

    pub fn new<K: Eq + Hash, V: Weigh>(capacity: u64, weight_usual: u64) -> Cache<K, V> {
        let shards = (capacity / SHARD_BYTES_MIN).clamp(1, 16) as usize;
        let items = usize::try_from(capacity / weight_usual.max(1)).unwrap_or(usize::MAX);
        let options = OptionsBuilder::new()
            .shards(shards)
            .estimated_items_capacity(items.clamp(16, 1 << 24))
            .weight_capacity(capacity)
            .build()
            .expect("invariant: both capacities are given");
        Cache::with_options(options, ByWeight, Mixed::default(), DefaultLifecycle::default())
    }

    #[inline]
    pub fn get<K: Eq + Hash, V: Weigh>(cache: &Cache<K, V>, key: &K) -> Option<Arc<V>> {
        cache.get(key)
    }

    pub fn insert<K: Eq + Hash, V: Weigh>(cache: &Cache<K, V>, key: K, value: Arc<V>) {
        cache.insert(key, value);
    }

    pub fn weight<K: Eq + Hash, V: Weigh>(cache: &Cache<K, V>) -> u64 {
        cache.weight()
    }
}

#[cfg(any(feature = "loom", feature = "shuttle"))]
mod form {
    use super::super::sync::Mutex;
    use super::{Arc, Weigh};
    use std::collections::{BTreeMap, VecDeque};

    pub type Cache<K, V> = Mutex<State<K, V>>;

    pub struct State<K, V> {
        map: BTreeMap<K, Arc<V>>,
        order: VecDeque<K>,
        weight: u64,
        capacity: u64,
    }

    pub fn new<K: Ord, V>(capacity: u64, _weight_usual: u64) -> Cache<K, V> {
        Mutex::new(State { map: BTreeMap::new(), order: VecDeque::new(), weight: 0, capacity })
    }

    pub fn get<K: Ord, V>(cache: &Cache<K, V>, key: &K) -> Option<Arc<V>> {
        cache.lock().map.get(key).cloned()
    }

    pub fn insert<K: Ord + Clone, V: Weigh>(cache: &Cache<K, V>, key: K, value: Arc<V>) {
        let mut state = cache.lock();
        let weight = value.weight();
        if weight > state.capacity || state.map.contains_key(&key) {
            return;
        }
        while state.weight + weight > state.capacity {
            let oldest = state.order.pop_front().expect("invariant: weight is of values in order");
            let gone = state.map.remove(&oldest).expect("invariant: order holds the map's keys");
            state.weight -= gone.weight();
        }
        state.weight += weight;
        state.order.push_back(key.clone());
        state.map.insert(key, value);
    }

    pub fn weight<K: Ord, V>(cache: &Cache<K, V>) -> u64 {
        cache.lock().weight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bytes(u64);

    impl Weigh for Bytes {
        fn weight(&self) -> u64 {
            self.0
        }
    }

    /// Which of many keys are still there after a fixed run of calls.
    fn survivors() -> Vec<u64> {
        let cache = Cache::new(1000, 10);
        for key in 0..500u64 {
            cache.insert(key, Arc::new(Bytes(10)));
            cache.get(&(key / 2));
            assert!(cache.weight() <= 1000);
        }
        (0..500).filter(|key| cache.get(key).is_some()).collect()
    }

    #[test]
    fn weight_is_bounded_and_what_stays_depends_on_the_calls_alone() {
        let first = survivors();
        assert!((50..=100).contains(&first.len()), "{} stay", first.len());
        assert_eq!(first, survivors());
    }

    #[test]
    fn a_value_over_the_capacity_is_not_kept_and_takes_nothing_out() {
        let cache = Cache::new(100, 10);
        cache.insert(1, Arc::new(Bytes(10)));
        cache.insert(2, Arc::new(Bytes(101)));
        assert!(cache.get(&2).is_none());
        assert!(cache.get(&1).is_some());
    }
}
