//! Looks at a whole database, from every side.
//!
//! Invariants
//! - S2: a scan forward, one backward and a point read of every key agree.
//! - D3: nothing is there that no victim wrote.
//! - What is wrong is told, and looking goes on.

use super::plan::{self, KEYS};
use kiban::{Error, Kiban, KibanOptions, SharedKiban, Slice};
use kiban_model::driver::Door;
use std::path::Path;

/// Opens a database through either front door.
///
/// # Errors
/// The engine's.
pub fn open(dir: &Path, options: KibanOptions, shared: bool) -> Result<Door, Error> {
    if shared {
        return SharedKiban::open(dir, options).map(Door::Shared);
    }
    Kiban::open(dir, options).map(|db| Door::Exclusive(Box::new(db)))
}

/// All keys and the ids of their values; `wrong` hears of promises that are broken.
///
/// # Errors
/// The engine's.
pub fn whole(db: &Door, wrong: &mut dyn FnMut(&str, &str)) -> Result<Vec<(u32, u64)>, Error> {
    let (mut forward, mut known) = (Vec::new(), Vec::new());
    for entry in db.range::<&[u8]>(..)? {
        let (key, value) = entry?;
        match (plan::key_of(&key), plan::id_of(&value)) {
            (Some(number), Some(id)) => known.push((number, id)),
            _ => wrong("D3", &format!("nobody wrote key {key:?} with {} bytes", value.len())),
        }
        forward.push((key, value));
    }
    let backward: Result<Vec<_>, Error> = db.snapshot()?.range::<&[u8]>(..)?.rev().collect();
    let equal =
        |(a, b): (&(Slice, Slice), &(Slice, Slice))| a.0[..] == b.0[..] && a.1[..] == b.1[..];
    let backward = backward?;
    if forward.len() != backward.len() || !forward.iter().zip(backward.iter().rev()).all(equal) {
        wrong("S2", "a scan forward and one backward differ");
    }
    let mut found = 0;
    for number in 0..KEYS {
        let key = plan::key(number);
        let value = db.get(&key)?;
        found += usize::from(value.is_some());
        let scanned = forward.binary_search_by(|(other, _)| other[..].cmp(&key[..]));
        let scanned = scanned.ok().map(|at| &forward[at].1);
        if value.as_deref() != scanned.map(|value| &value[..]) {
            wrong("S2", &format!("get and scan differ at key {number}"));
        }
    }
    if found != forward.len() {
        wrong("S2", &format!("{found} gets found something, {} scanned", forward.len()));
    }
    Ok(known)
}
