//! Random numbers that stay the same for ever: a plan and a seed give the same trace with every
//! version of every library, which is why no crate's generator is used.

/// One step of SplitMix64, as a function.
#[must_use]
pub fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// A small generator: SplitMix64 with a counter.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// One stream for each `(seed, stream)`.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(mix(seed ^ mix(stream)))
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let out = mix(self.0);
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        out
    }

    /// A number below `bound`, which is not zero; its bias is below `bound / 2^64`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Puts `items` in a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

/// A permutation of `0..n` without a table: a walk over a Feistel network that skips what is out of
/// range.
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    n: u64,
    half_bits: u32,
    seed: u64,
}

impl Permutation {
    /// Of the numbers below `n`.
    #[must_use]
    pub fn new(n: u64, seed: u64) -> Self {
        let bits = 64 - n.saturating_sub(1).leading_zeros();
        Self { n, half_bits: bits.div_ceil(2).max(1), seed }
    }

    /// Where `i`, which is below `n`, goes.
    #[must_use]
    pub fn at(&self, i: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let mut x = i;
        loop {
            let (mut left, mut right) = (x >> self.half_bits, x & mask);
            for round in 0..4 {
                let next = left ^ (mix(right ^ self.seed.rotate_left(round * 13)) & mask);
                (left, right) = (right, next);
            }
            x = (left << self.half_bits) | right;
            if x < self.n {
                return x;
            }
        }
    }
}

/// Ranks with a Zipf distribution, as YCSB draws them (exponent 0.99, the method of Gray et al.).
#[derive(Clone, Debug)]
pub struct Zipf {
    n: u64,
    zeta: f64,
    eta: f64,
    alpha: f64,
    second: f64,
}

impl Zipf {
    const THETA: f64 = 0.99;

    /// Over the ranks below `n`.
    #[must_use]
    pub fn new(n: u64) -> Self {
        let theta = Self::THETA;
        let zeta = zeta(n);
        let eta = (1.0 - (2.0 / n as f64).powf(1.0 - theta)) / (1.0 - zeta_two() / zeta);
        Self { n, zeta, eta, alpha: 1.0 / (1.0 - theta), second: zeta_two() }
    }

    /// A rank; 0 is the most frequent.
    pub fn rank(&self, rng: &mut Rng) -> u64 {
        let u = rng.unit();
        let scaled = u * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < self.second {
            return 1.min(self.n - 1);
        }
        let rank = self.n as f64 * (self.eta * u - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.n - 1)
    }
}

fn zeta_two() -> f64 {
    1.0 + 0.5f64.powf(Zipf::THETA)
}

/// The sum of `i^-theta` up to `n`: exact for the first terms, an integral for the rest.
fn zeta(n: u64) -> f64 {
    let exact = n.min(100_000);
    let head: f64 = (1..=exact).map(|i| (i as f64).powf(-Zipf::THETA)).sum();
    let power = 1.0 - Zipf::THETA;
    let tail = ((n as f64 + 0.5).powf(power) - (exact as f64 + 0.5).powf(power)) / power;
    head + tail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trace_of_a_seed_never_changes() {
        let mut rng = Rng::new(20_261_008, 1);
        let first: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        assert_eq!(first, [0x68D7_9751_C2B5_3665, 0x682C_23B9_9C22_77A7, 0xA722_841E_09F8_0DE5]);
    }

    #[test]
    fn a_permutation_meets_each_number_once() {
        for n in [1, 2, 3, 100, 1000, 4097] {
            let permutation = Permutation::new(n, 7);
            let mut seen: Vec<u64> = (0..n).map(|i| permutation.at(i)).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..n).collect::<Vec<_>>(), "n = {n}");
        }
    }

    #[test]
    fn zipf_ranks_fall_off_as_they_should() {
        let (zipf, mut rng) = (Zipf::new(1000), Rng::new(1, 1));
        let mut hits = vec![0u32; 1000];
        for _ in 0..200_000 {
            hits[zipf.rank(&mut rng) as usize] += 1;
        }
        let share = f64::from(hits[0]) / 200_000.0;
        assert!((share - 1.0 / zeta(1000)).abs() < 0.01, "{share}");
        assert!(hits[0] > hits[9] && hits[9] > hits[99] && hits[99] > 0);
    }
}
