//! Whether a crash may leave a given tree of names and bytes.
//!
//! Invariants
//! - It asks the fault model byte by byte: a byte is durable, or one that a write since put there,
//!   or, where nothing was ever written, zero or stale. Which images [`Snapshot::images`] would
//!   have drawn does not matter.
//! - A file that two names lead to has one content.
//! - What is not admitted is told with its name, and why.
//!
//! It makes no image.

use super::file::FileNode;
use super::snapshot::Snapshot;
use super::tree::{Ino, Node, ROOT};
use std::collections::BTreeMap;

/// What stands under a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seen {
    /// A directory.
    Dir,
    /// A file with these bytes.
    File(Vec<u8>),
}

/// Everything below a directory, by path from there, each with a `/` before it.
pub type Listing = BTreeMap<String, Seen>;

/// A name that stands, and the files that it may lead to.
struct Named<'a> {
    path: String,
    bytes: &'a Vec<u8>,
    files: Vec<Ino>,
}

impl Snapshot {
    /// Whether a power cut at this moment may leave `seen` below the root.
    ///
    /// # Errors
    /// The first part that it may not leave, in words.
    pub fn admits(&self, seen: &Listing) -> Result<(), String> {
        let mut named = Vec::new();
        self.admits_dir(ROOT, "", seen, &mut named)?;
        let mut chosen = BTreeMap::new();
        if choose(&named, &mut chosen) {
            return Ok(());
        }
        let paths: Vec<&str> = named.iter().map(|named| &*named.path).collect();
        Err(format!("{}: no choice of files fits all of their names", paths.join(", ")))
    }

    fn admits_dir<'a>(
        &self,
        dir: Ino,
        path: &str,
        seen: &'a Listing,
        named: &mut Vec<Named<'a>>,
    ) -> Result<(), String> {
        let Ok(node) = self.tree().dir(dir) else { return Err(format!("{path}: no directory")) };
        let below = format!("{path}/");
        for (found, _) in seen.range(below.clone()..) {
            let Some(name) = found.strip_prefix(&below) else { break };
            if !name.contains('/') && !node.names.contains_key(name) {
                return Err(format!("{found}: nobody ever made this name"));
            }
        }
        for (name, values) in &node.names {
            let path = format!("{path}/{name}");
            let inos: Vec<Option<Ino>> = values.versions().map(|(_, ino)| ino).collect();
            match seen.get(&path) {
                None if inos.contains(&None) => {}
                None => return Err(format!("{path}: is missing, and was synced")),
                Some(Seen::Dir) => {
                    let dirs = inos.iter().flatten().find(|ino| self.tree().dir(**ino).is_ok());
                    let ino = dirs.ok_or_else(|| format!("{path}: was never a directory"))?;
                    self.admits_dir(*ino, &path, seen, named)?;
                }
                Some(Seen::File(bytes)) => {
                    let (mut files, mut why) = (Vec::new(), String::from("was never a file"));
                    for ino in inos.into_iter().flatten() {
                        let Node::File(file) = &self.tree().nodes[ino] else { continue };
                        match self.admits_bytes(file, bytes) {
                            Ok(()) => files.push(ino),
                            Err(error) => why = error,
                        }
                    }
                    if files.is_empty() {
                        return Err(format!("{path}: {why}"));
                    }
                    named.push(Named { path, bytes, files });
                }
            }
        }
        Ok(())
    }

    fn admits_bytes(&self, file: &FileNode, bytes: &[u8]) -> Result<(), String> {
        let len = bytes.len() as u64;
        let lens: Vec<u64> = file.lens().versions().map(|(_, len)| len).collect();
        if !lens.contains(&len) {
            return Err(format!("{len} bytes long, where {lens:?} may be"));
        }
        let sources = self.tree().stale.len() as u16 + 1;
        let stale = |at: u64, byte: u8| {
            byte == 0 || (0..sources).any(|n| self.source(n).get(at as usize) == Some(&byte))
        };
        for (at, &byte) in (0..).zip(bytes) {
            if !file.may_hold(at, byte, stale) {
                return Err(format!("byte {at} is {byte:#04x}, which is neither old nor new"));
            }
        }
        Ok(())
    }
}

/// Gives each name a file, so that a file has one content.
fn choose<'a>(named: &[Named<'a>], chosen: &mut BTreeMap<Ino, &'a Vec<u8>>) -> bool {
    let Some((first, rest)) = named.split_first() else { return true };
    first.files.iter().any(|&ino| match chosen.get(&ino) {
        Some(bytes) => *bytes == first.bytes && choose(rest, chosen),
        None => {
            chosen.insert(ino, first.bytes);
            let found = choose(rest, chosen);
            if !found {
                chosen.remove(&ino);
            }
            found
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Disk;
    use std::path::Path;

    fn listing(disk: &Disk) -> Listing {
        let files = disk.files().into_iter();
        files
            .map(|(path, _)| {
                let bytes = disk.get_file(&path).expect("a file that is listed");
                (path, Seen::File(bytes))
            })
            .collect()
    }

    fn disk() -> Disk {
        let mut disk = Disk::new();
        disk.put_file("/a", &[1; 700]).expect("a first file");
        disk.put_file("/old", &[9; 600]).expect("another");
        let fd = disk.open(Path::new("/a"), true).expect("it is there");
        disk.write_at(fd, 300, &[2; 900]).expect("a write");
        disk.set_len(fd, 1000).expect("a shorter length");
        disk.rename(Path::new("/old"), Path::new("/new")).expect("a new name");
        disk
    }

    #[test]
    fn every_image_that_is_drawn_is_admitted() {
        let snapshot = disk().snapshot();
        let mut images = 0;
        for image in snapshot.images(3000, 7) {
            assert_eq!(snapshot.admits(&listing(&image.disk)), Ok(()), "{}", image.choice);
            images += 1;
        }
        assert!(images > 50, "{images}");
    }

    #[test]
    fn what_no_crash_leaves_is_told_with_its_reason() {
        let snapshot = disk().snapshot();
        let good = listing(&snapshot.image(&snapshot.all()));
        for (path, file, why) in [
            ("/a", None, "/a: is missing"),
            ("/a", Some(vec![1; 650]), "/a: 650 bytes long"),
            ("/a", Some([vec![1; 10], vec![7], vec![1; 689]].concat()), "/a: byte 10"),
            ("/b", Some(vec![]), "/b: nobody"),
            ("/new", Some(vec![8; 600]), "/new: byte 0"),
        ] {
            let mut seen = good.clone();
            match file {
                Some(bytes) => seen.insert(path.to_owned(), Seen::File(bytes)),
                None => seen.remove(path),
            };
            let told = snapshot.admits(&seen).expect_err(why);
            assert!(told.starts_with(why), "{told}");
        }
        let mut both = good;
        both.insert("/old".to_owned(), Seen::File(vec![9; 600]));
        assert_eq!(snapshot.admits(&both), Ok(()), "either name of a rename may stand");
    }
}
