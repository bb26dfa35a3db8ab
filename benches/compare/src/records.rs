//! The records: for each number one key and, for each generation of it, one value.
//!
//! - Keys and values are functions of seed, number and generation, so every answer can be checked
//!   without a copy of the data.
//! - A value tells its key and its generation: an old value, and another key's, are wrong answers.
//!   The rest of it is constant for a seed.
//! - `order` lists the numbers below `n` in the byte order of their keys.

use crate::random::{Rng, mix};
use serde::{Deserialize, Serialize};

/// What the records look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Eight-byte keys, the number in big-endian order.
    Number,
    /// Text under an 18-byte prefix for each agent, newest first: 26-byte keys.
    Agent,
    /// JSON memories of about `value_bytes`, keys of 23 bytes.
    Memory,
}

/// The generation of a key that is not there.
pub const ABSENT: u32 = 0;
/// Bytes of an agent's prefix.
pub const AGENT_PREFIX_BYTES: usize = 18;
const TAG_BYTES: usize = 8;
/// Digits of a number in a text.
const HEX_BYTES: usize = 16;
const POOL_BYTES: usize = 64 << 10;

/// All records of one row.
#[derive(Clone, Debug)]
pub struct Records {
    kind: Kind,
    seed: u64,
    value_bytes: usize,
    agents: u64,
    /// Constant bytes of the seed, from which the values' bodies are cut.
    pool: Vec<u8>,
}

impl Records {
    /// Records of `kind`; `agents` counts for [`Kind::Agent`] alone.
    #[must_use]
    pub fn new(kind: Kind, seed: u64, value_bytes: usize, agents: u64) -> Self {
        let mut rng = Rng::new(seed, 0x7265_636F);
        let pool_bytes = POOL_BYTES + value_bytes;
        let pool = match kind {
            Kind::Number => (0..pool_bytes).map(|_| rng.next_u64() as u8).collect(),
            Kind::Agent | Kind::Memory => words(&mut rng, pool_bytes),
        };
        Self { kind, seed, value_bytes, agents: agents.max(1), pool }
    }

    /// The key of `number`, into `out`.
    pub fn key(&self, number: u64, out: &mut Vec<u8>) {
        out.clear();
        match self.kind {
            Kind::Number => out.extend_from_slice(&number.to_be_bytes()),
            Kind::Agent => {
                self.prefix(number % self.agents, out);
                out.extend_from_slice(&(!(number / self.agents)).to_be_bytes());
            }
            Kind::Memory => {
                out.extend_from_slice(b"memory/");
                push_hex(number, out);
            }
        }
    }

    /// The prefix of all keys of `agent`, into `out`.
    pub fn prefix(&self, agent: u64, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(b"a/");
        push_hex(mix(self.seed ^ agent), out);
        debug_assert_eq!(out.len(), AGENT_PREFIX_BYTES, "two bytes and sixteen digits");
    }

    /// How many agents there are.
    #[must_use]
    pub fn agents(&self) -> u64 {
        self.agents
    }

    /// The value of `number` in `generation`, into `out`.
    pub fn value(&self, number: u64, generation: u32, out: &mut Vec<u8>) {
        out.clear();
        self.pieces(number, generation, |piece| {
            out.extend_from_slice(piece);
            true
        });
    }

    /// Whether `got` is the value of `number` in `generation`. It lies inside timed calls, so it
    /// compares in place: nothing is allocated or copied.
    #[must_use]
    pub fn is_value(&self, number: u64, generation: u32, got: &[u8]) -> bool {
        let mut rest = got;
        let all = self.pieces(number, generation, |piece| {
            let after = rest.strip_prefix(piece);
            rest = after.unwrap_or(rest);
            after.is_some()
        });
        all && rest.is_empty()
    }

    /// The generation in `first..=last` whose value `got` is, if there is one.
    #[must_use]
    pub fn generation(&self, number: u64, first: u32, last: u32, got: &[u8]) -> Option<u32> {
        (first.max(ABSENT + 1)..=last).find(|generation| self.is_value(number, *generation, got))
    }

    /// Bytes of key and value of `number`.
    #[must_use]
    pub fn bytes(&self, number: u64) -> u64 {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        self.key(number, &mut key);
        self.value(number, 1, &mut value);
        (key.len() + value.len()) as u64
    }

    /// The numbers below `n`, in the byte order of their keys.
    pub fn order(&self, n: u64) -> Box<dyn Iterator<Item = u64> + '_> {
        match self.kind {
            Kind::Number | Kind::Memory => Box::new(0..n),
            Kind::Agent => {
                let mut agents: Vec<u64> = (0..self.agents.min(n)).collect();
                agents.sort_by_key(|agent| mix(self.seed ^ agent));
                let (agents_all, newest) = (self.agents, n.saturating_sub(1));
                Box::new(agents.into_iter().flat_map(move |agent| {
                    let last = (newest - agent) / agents_all;
                    (0..=last).rev().map(move |round| round * agents_all + agent)
                }))
            }
        }
    }

    fn tag(&self, number: u64, generation: u32) -> u64 {
        mix(self.seed ^ mix(number ^ (u64::from(generation) << 40)))
    }

    /// Hands the parts of a value to `piece` in their order, until it returns false; whether it
    /// never did. What is written and what is checked come from here alone.
    #[inline]
    fn pieces(&self, number: u64, generation: u32, mut piece: impl FnMut(&[u8]) -> bool) -> bool {
        let tag = self.tag(number, generation);
        let at = (tag as usize) % POOL_BYTES;
        match self.kind {
            Kind::Number => {
                let tag_bytes = TAG_BYTES.min(self.value_bytes);
                piece(&tag.to_be_bytes()[..tag_bytes])
                    && piece(&self.pool[..self.value_bytes - tag_bytes])
            }
            Kind::Agent => {
                let rest = self.value_bytes.saturating_sub(HEX_BYTES);
                piece(&hex(tag)) && piece(&self.pool[at..at + rest])
            }
            Kind::Memory => {
                let kind: &[u8] = match tag % 3 {
                    0 => b"fact",
                    1 => b"event",
                    _ => b"preference",
                };
                let [id, etag, kind_is, text, end]: [&[u8]; 5] = [
                    b"{\"id\":\"",
                    b"\",\"etag\":\"",
                    b"\",\"kind\":\"",
                    b"\",\"text\":\"",
                    b"\"}",
                ];
                let fixed = [id, etag, kind_is, kind, text, end].map(<[u8]>::len);
                let fixed = fixed.iter().sum::<usize>() + 2 * HEX_BYTES;
                // Ten per cent about the size that is asked for.
                let spread = self.value_bytes / 10;
                let bytes = self.value_bytes - spread + (tag >> 32) as usize % (2 * spread + 1);
                let words = &self.pool[at..at + bytes.saturating_sub(fixed)];
                let (number, tag) = (hex(number), hex(tag));
                [id, &number, etag, &tag, kind_is, kind, text, words, end].into_iter().all(piece)
            }
        }
    }
}

fn push_hex(x: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&hex(x));
}

fn hex(x: u64) -> [u8; HEX_BYTES] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    std::array::from_fn(|i| DIGITS[(x >> (4 * (HEX_BYTES - 1 - i))) as usize & 15])
}

/// Words of lower-case letters, with spaces.
fn words(rng: &mut Rng, bytes: usize) -> Vec<u8> {
    const PARTS: [&str; 24] = [
        "ka", "mi", "to", "ren", "sol", "ver", "an", "dia", "lo", "pet", "ur", "gan", "ni", "sha",
        "bel", "or", "tem", "qui", "fa", "dro", "el", "zu", "wen", "hi",
    ];
    let mut text = Vec::with_capacity(bytes + 8);
    while text.len() < bytes {
        for _ in 0..1 + rng.below(4) {
            text.extend_from_slice(PARTS[rng.below(PARTS.len() as u64) as usize].as_bytes());
        }
        text.push(b' ');
    }
    text.truncate(bytes);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> [Records; 3] {
        [
            Records::new(Kind::Number, 1, 128, 1),
            Records::new(Kind::Agent, 1, 200, 7),
            Records::new(Kind::Memory, 1, 250, 1),
        ]
    }

    #[test]
    fn the_order_is_that_of_the_keys() {
        for records in all() {
            for n in [0, 1, 5, 7, 8, 100] {
                let mut keys = Vec::new();
                for number in records.order(n) {
                    let mut key = Vec::new();
                    records.key(number, &mut key);
                    keys.push(key);
                }
                assert_eq!(keys.len() as u64, n);
                assert!(keys.is_sorted(), "{:?}", records.kind);
            }
        }
    }

    #[test]
    fn a_value_is_no_other_keys_and_no_older_one() {
        for records in all() {
            let mut value = Vec::new();
            records.value(5, 2, &mut value);
            assert!(records.is_value(5, 2, &value));
            assert!(!records.is_value(5, 1, &value) && !records.is_value(6, 2, &value));
            assert_eq!(records.generation(5, 1, 3, &value), Some(2));
            assert_eq!(records.generation(5, 3, 4, &value), None);
            for i in 0..value.len() {
                let mut wrong = value.clone();
                wrong[i] ^= 1;
                assert!(!records.is_value(5, 2, &wrong), "byte {i}");
            }
            assert!(!records.is_value(5, 2, &value[1..]) && !records.is_value(5, 2, &[]));
            assert!(!records.is_value(5, 2, &value[..value.len() - 1]));
            value.push(b' ');
            assert!(!records.is_value(5, 2, &value), "one byte too many");
        }
    }

    #[test]
    fn sizes_are_those_of_the_documents() {
        let [number, agent, memory] = all();
        let mut value = Vec::new();
        assert_eq!(number.bytes(3), 8 + 128);
        assert_eq!(agent.bytes(3), 26 + 200);
        let mut total = 0;
        for i in 0..1000 {
            memory.value(i, 1, &mut value);
            total += value.len();
            let json: serde_json::Value = serde_json::from_slice(&value).expect("JSON");
            assert_eq!(json["id"].as_str().map(str::len), Some(16));
        }
        assert!((245..=255).contains(&(total / 1000)), "{total}");
    }
}
