//! Trees of names and bytes: what a mounted image shows, and what the simulated disk draws.
//!
//! Invariant: equal trees have equal hashes, wherever they came from.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "outside the engine")]

use crate::disk::{Disk, Listing, Seen, Snapshot};
use crate::report::ContainRow;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

/// Everything below a directory, but for what the file system itself puts there.
pub(super) fn listing(root: &Path) -> io::Result<Listing> {
    let mut listing = Listing::new();
    let mut todo = vec![(root.to_owned(), String::new())];
    while let Some((dir, path)) = todo.pop() {
        for entry in std::fs::read_dir(&dir)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_empty() && name == "lost+found" {
                continue;
            }
            let path = format!("{path}/{name}");
            if entry.file_type()?.is_dir() {
                todo.push((entry.path(), path.clone()));
                listing.insert(path, Seen::Dir);
            } else {
                listing.insert(path, Seen::File(std::fs::read(entry.path())?));
            }
        }
    }
    Ok(listing)
}

pub(super) fn hash(listing: &Listing) -> u64 {
    let mut text = Vec::new();
    for (path, seen) in listing {
        text.extend_from_slice(path.as_bytes());
        match seen {
            Seen::Dir => text.push(0),
            Seen::File(bytes) => {
                text.push(1);
                text.extend((bytes.len() as u64).to_le_bytes());
                text.extend_from_slice(bytes);
            }
        }
    }
    xxh3_64(&text)
}

/// Images of each moment of a sequence that the simulated disk draws, at the most.
const SIMULATED_MAX: usize = 200;

/// How many states the model has for the moments of a sequence, and how many of them were seen.
pub(super) fn tightness(moments: &[Snapshot], seen: &BTreeSet<u64>, row: &mut ContainRow) {
    let mut states = BTreeSet::new();
    for snapshot in moments {
        for image in snapshot.images(SIMULATED_MAX, 1) {
            states.insert(hash(&simulated(&image.disk)));
        }
    }
    row.simulated += states.len() as u64;
    row.simulated_seen += states.intersection(seen).count() as u64;
}

fn simulated(disk: &Disk) -> Listing {
    let mut listing: Listing = disk.dirs().into_iter().map(|path| (path, Seen::Dir)).collect();
    for (path, _) in disk.files() {
        if let Ok(bytes) = disk.get_file(&path) {
            listing.insert(path, Seen::File(bytes));
        }
    }
    listing
}
