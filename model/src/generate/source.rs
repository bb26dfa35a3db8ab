//! Where a generator's choices come from.
//!
//! Invariants
//! - The smallest choice is the simplest one, and a source that ran dry gives it: shrinking a
//!   source's numbers toward zero, or cutting its end off, simplifies what it generates.
//! - Equal sources give equal choices on every machine.

/// A source of choices.
pub trait Source {
    /// A number from 0 to `max`, both included.
    fn draw(&mut self, max: u64) -> u64;

    /// Whether there is nothing left to draw from; a seed never runs dry.
    fn is_dry(&self) -> bool {
        false
    }

    /// A number below `n`, which is not 0.
    fn below(&mut self, n: usize) -> usize {
        self.draw(n as u64 - 1) as usize
    }

    /// True `n` times in `of`; a source that ran dry says no.
    fn chance(&mut self, n: u64, of: u64) -> bool {
        of - 1 - self.draw(of - 1) < n
    }

    /// One of `items`, which are not empty.
    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// An index, drawn by weight. The weights' sum is not 0.
    fn weighted(&mut self, weights: &[u32]) -> usize {
        let total: u64 = weights.iter().map(|&w| u64::from(w)).sum();
        let mut left = self.draw(total - 1);
        for (i, &weight) in weights.iter().enumerate() {
            if left < u64::from(weight) {
                return i;
            }
            left -= u64::from(weight);
        }
        unreachable!("the draw is below the sum of the weights")
    }
}

/// Choices from a seed (splitmix64, Steele, Lea and Flood 2014).
#[derive(Clone, Debug)]
pub struct Seed(pub u64);

impl Seed {
    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// `bits` spread evenly over 0..=max, in order.
fn scale(bits: u64, max: u64) -> u64 {
    ((u128::from(bits) * (u128::from(max) + 1)) >> 64) as u64
}

impl Source for Seed {
    fn draw(&mut self, max: u64) -> u64 {
        scale(self.next_u64(), max)
    }
}

/// Choices from a list of numbers, such as proptest shrinks.
#[derive(Clone, Debug)]
pub struct Choices {
    numbers: std::vec::IntoIter<u64>,
}

impl Choices {
    /// Draws from `numbers` in order, then zeros.
    #[must_use]
    pub fn new(numbers: Vec<u64>) -> Self {
        Self { numbers: numbers.into_iter() }
    }
}

impl Source for Choices {
    fn draw(&mut self, max: u64) -> u64 {
        scale(self.numbers.next().unwrap_or(0), max)
    }

    fn is_dry(&self) -> bool {
        self.numbers.len() == 0
    }
}

impl Source for arbitrary::Unstructured<'_> {
    fn draw(&mut self, max: u64) -> u64 {
        // Out of bytes is not an error here: the simplest choice follows.
        self.int_in_range(0..=max).unwrap_or(0)
    }

    fn is_dry(&self) -> bool {
        self.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dry_source_gives_the_simplest_choice() {
        let mut dry = Choices::new(vec![]);
        assert!(dry.is_dry());
        assert_eq!((dry.draw(9), dry.chance(1, 2), dry.weighted(&[0, 3])), (0, false, 1));
        assert!(dry.chance(1, 1));
    }

    #[test]
    fn a_seed_reaches_both_ends() {
        let mut seed = Seed(7);
        let drawn: Vec<u64> = (0..200).map(|_| seed.draw(3)).collect();
        assert!((0..=3).all(|n| drawn.contains(&n)));
        assert!(seed.draw(u64::MAX) != seed.draw(u64::MAX));
    }
}
