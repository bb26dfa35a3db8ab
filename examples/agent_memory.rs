//! Memories of many agents in one database: written as they come, recalled newest first.
//!
//! A key is the agent's name in eight bytes and a counter in eight more, big end first, so that an
//! agent's memories lie side by side in the order in which they were made.
//! `cargo run --example agent_memory` runs it in a temporary directory; the tests run it too.

use kiban::{Kiban, KibanOptions, Result, Slice};
use std::path::Path;

const AGENT_BYTES: usize = 8;

/// The memories of all agents.
pub struct Memories {
    db: Kiban,
}

impl Memories {
    /// Opens the memories in `path`. The options build an index for single reads and a filter for
    /// prefixes of the length of an agent's name.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self { db: Kiban::open(path, KibanOptions::agent_memory(AGENT_BYTES))? })
    }

    fn key(agent: &str, number: u64) -> Vec<u8> {
        let mut key = vec![0; AGENT_BYTES];
        key[..agent.len()].copy_from_slice(agent.as_bytes());
        key.extend(number.to_be_bytes());
        key
    }

    /// Adds a memory; it is durable when this returns.
    pub fn remember(&mut self, agent: &str, number: u64, text: &str) -> Result<()> {
        self.db.put_durable(Self::key(agent, number), text).map(drop)
    }

    /// Removes a memory.
    pub fn forget(&mut self, agent: &str, number: u64) -> Result<()> {
        self.db.delete(Self::key(agent, number)).map(drop)
    }

    /// The newest `count` memories of an agent, newest first.
    pub fn recall(&self, agent: &str, count: usize) -> Result<Vec<Slice>> {
        let prefix = &Self::key(agent, 0)[..AGENT_BYTES];
        let newest_first = self.db.prefix(prefix)?.rev();
        newest_first.take(count).map(|item| item.map(|(_, text)| text)).collect()
    }
}

/// Runs the example in `dir` and returns what it printed.
pub fn run(dir: &Path) -> Result<String> {
    let path = dir.join("memories");
    let mut memories = Memories::open(&path)?;
    for number in 0..100 {
        memories.remember("ada", number, &format!("ada saw thing {number}"))?;
        memories.remember("bob", number, &format!("bob did thing {number}"))?;
    }
    memories.forget("ada", 99)?;

    let mut out = String::new();
    for agent in ["ada", "bob", "eve"] {
        for text in memories.recall(agent, 2)? {
            out += &format!("{agent}: {}\n", String::from_utf8_lossy(&text));
        }
    }
    // A flush puts them into a table; recall finds them there as well.
    memories.db.flush()?;
    out += &format!("ada has {} memories\n", memories.recall("ada", usize::MAX)?.len());
    memories.db.close()?;
    print!("{out}");
    Ok(out)
}

#[allow(dead_code)]
fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    Ok(run(dir.path()).map(drop)?)
}
