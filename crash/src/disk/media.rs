//! Damage of class M, done to an image: what was synced is not there any more, or not as it was.
//!
//! Invariants
//! - Damage is done to a disk on which everything is durable (an image, or one put together by
//!   `put_file`), and changes nothing but what it names.

use super::errno::Errno;
use super::frame::Disk;
use std::io;

/// One damage to one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// One bit of one byte.
    Flip {
        /// The byte.
        at: u64,
        /// The bit, 0 to 7.
        bit: u8,
    },
    /// Bytes read as zero: a block that was never written, or that the device gave up.
    Zero {
        /// The first byte.
        at: u64,
        /// How many.
        len: u64,
    },
    /// The file ends early.
    Truncate {
        /// Its new length.
        len: u64,
    },
    /// A misdirected write: the bytes at `from` also stand at `to`.
    Duplicate {
        /// The first byte of the source.
        from: u64,
        /// The first byte of the target.
        to: u64,
        /// How many.
        len: u64,
    },
    /// Two ranges have changed places.
    Swap {
        /// The first byte of one.
        a: u64,
        /// The first byte of the other.
        b: u64,
        /// How many in each.
        len: u64,
    },
    /// Bytes of a freed file, or noise, stand there: a write that the device lost.
    Stale {
        /// The first byte.
        at: u64,
        /// How many.
        len: u64,
        /// Which source, as in [`super::Pick::Stale`].
        source: u16,
    },
    /// The name is gone.
    Remove,
}

impl Disk {
    /// Damages the file at `path`. Ranges are cut at the end of the file.
    ///
    /// # Errors
    /// `NotFound`, `IsADirectory`.
    pub fn damage(&mut self, path: &str, damage: Damage) -> io::Result<()> {
        let ino = self.tree.lookup(path)?;
        let len = self.tree.file(ino)?.len();
        if damage == Damage::Remove {
            let (dir, name) = self.tree.locate(path)?;
            self.tree.dir_mut(dir)?.names.remove(name);
            return Ok(());
        }
        let stale = match damage {
            Damage::Stale { source, .. } => self.snapshot().source(source).to_vec(),
            _ => Vec::new(),
        };
        let end = if let Damage::Truncate { len: to } = damage { to.min(len) } else { len };
        let file = self.tree.file_mut(ino).map_err(|_| Errno::EISDIR)?;
        file.damage(end, |bytes| apply(bytes, damage, &stale));
        Ok(())
    }

    /// Puts the bytes of one file's range over another file's: a block that went elsewhere.
    ///
    /// # Errors
    /// `NotFound`, `IsADirectory`.
    pub fn misdirect(&mut self, from: &str, to: &str, at: u64, len: u64) -> io::Result<()> {
        let source = self.get_file(from)?;
        let ino = self.tree.lookup(to)?;
        let end = self.tree.file(ino)?.len();
        let file = self.tree.file_mut(ino)?;
        file.damage(end, |bytes| {
            for i in at as usize..((at + len) as usize).min(bytes.len()) {
                bytes[i] = source.get(i).copied().unwrap_or(0);
            }
        });
        Ok(())
    }
}

fn apply(bytes: &mut [u8], damage: Damage, stale: &[u8]) {
    let end = bytes.len();
    let cut = |at: u64, len: u64| (at as usize).min(end)..((at + len) as usize).min(end);
    match damage {
        Damage::Flip { at, bit } => {
            if let Some(byte) = bytes.get_mut(at as usize) {
                *byte ^= 1 << (bit % 8);
            }
        }
        Damage::Zero { at, len } => bytes[cut(at, len)].fill(0),
        Damage::Duplicate { from, to, len } => {
            let len = len.min((end as u64).saturating_sub(from.max(to)));
            let source = cut(from, len);
            if !source.is_empty() {
                bytes.copy_within(source, to as usize);
            }
        }
        Damage::Swap { a, b, len } => {
            let len = len.min((end as u64).saturating_sub(a.max(b))).min(a.abs_diff(b));
            for i in 0..len {
                bytes.swap((a + i) as usize, (b + i) as usize);
            }
        }
        Damage::Stale { at, len, .. } => {
            for i in cut(at, len) {
                bytes[i] = stale.get(i).copied().unwrap_or(0);
            }
        }
        Damage::Truncate { .. } | Damage::Remove => {}
    }
}
