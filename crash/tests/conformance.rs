//! The simulated disk and a real directory are asked the same questions and must answer alike.
//!
//! Invariants
//! - Equal are: data, lengths, names, the number of bytes done, and the kind of every error.
//! - The questions are seeded; none needs a crash or a fault, which a real directory has not.
//!
//! Left out, because the engine never asks: opening, locking or syncing a directory as if it were
//! a file, `..`, and files longer than the simulated disk takes.

use kiban::env::fs::{File, Fs, LockGuard, LockKind, OpenMode};
use kiban::env::os::OsFs;
use kiban_crash::adapter::SimFs;
use kiban_crash::disk::Disk;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

/// One of the two sides: a file system and what was opened on it.
struct Side {
    fs: Arc<dyn Fs>,
    root: PathBuf,
    files: Vec<Arc<dyn File>>,
    locks: Vec<Box<dyn LockGuard>>,
}

#[derive(Clone, Debug)]
enum Ask {
    Create(String),
    Open(String, OpenMode),
    Close(usize),
    Rename(String, String),
    Link(String, String),
    Unlink(String),
    Mkdir(String),
    List(String),
    SyncDir(String),
    Lock(String, LockKind),
    Unlock(usize),
    Exists(String),
    Write(usize, u64, Vec<u8>),
    Read(usize, u64, usize),
    Map(usize, u64),
    Sync(usize, bool),
    SetLen(usize, u64),
    Preallocate(usize, u64),
    Len(usize),
}

/// The answer as text, so that sides compare and differences print.
fn told<T: Debug>(answer: io::Result<T>) -> String {
    match answer {
        Ok(value) => format!("{value:?}"),
        Err(e) if e.kind() != io::ErrorKind::WouldBlock => {
            // Errors without a stable kind (`EBADF`) are told apart by their number.
            format!("{:?} {:?}", e.kind(), e.raw_os_error())
        }
        // std answers a held lock in a type of its own, without a number.
        Err(e) => format!("{:?}", e.kind()),
    }
}

impl Side {
    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn with_file<T: Debug>(&self, at: usize, f: impl Fn(&dyn File) -> io::Result<T>) -> String {
        if self.files.is_empty() {
            return String::new();
        }
        told(f(&*self.files[at % self.files.len()]))
    }

    fn opened(&mut self, file: io::Result<Arc<dyn File>>) -> String {
        told(file.map(|file| self.files.push(file)))
    }

    fn answer(&mut self, ask: &Ask) -> String {
        match ask {
            Ask::Create(name) => self.opened(self.fs.create(&self.path(name))),
            Ask::Open(name, mode) => self.opened(self.fs.open(&self.path(name), *mode)),
            Ask::Close(at) => {
                if !self.files.is_empty() {
                    self.files.remove(at % self.files.len());
                }
                String::new()
            }
            Ask::Rename(from, to) => told(self.fs.rename(&self.path(from), &self.path(to))),
            Ask::Link(from, to) => told(self.fs.link(&self.path(from), &self.path(to))),
            Ask::Unlink(name) => told(self.fs.unlink(&self.path(name))),
            Ask::Mkdir(name) => told(self.fs.mkdir(&self.path(name))),
            Ask::List(name) => told(self.fs.list(&self.path(name))),
            Ask::SyncDir(name) => told(self.fs.sync_dir(&self.path(name))),
            Ask::Lock(name, kind) => {
                let lock = self.fs.lock(&self.path(name), *kind);
                told(lock.map(|lock| self.locks.push(lock)))
            }
            Ask::Unlock(at) => {
                if !self.locks.is_empty() {
                    self.locks.remove(at % self.locks.len());
                }
                String::new()
            }
            Ask::Exists(name) => told(self.fs.exists(&self.path(name))),
            Ask::Write(at, offset, bytes) => self.with_file(*at, |f| f.write_at(*offset, bytes)),
            Ask::Read(at, offset, len) => self.with_file(*at, |f| {
                let mut buf = vec![0xEE; *len];
                let n = f.read_at(*offset, &mut buf)?;
                Ok((n, buf))
            }),
            Ask::Map(at, len) => self.with_file(*at, |f| Ok(f.map(*len)?.to_vec())),
            Ask::Sync(at, true) => self.with_file(*at, |f| f.sync_all()),
            Ask::Sync(at, false) => self.with_file(*at, |f| f.sync_data()),
            Ask::SetLen(at, len) => self.with_file(*at, |f| f.set_len(*len)),
            Ask::Preallocate(at, len) => self.with_file(*at, |f| f.preallocate(*len)),
            Ask::Len(at) => self.with_file(*at, |f| f.len()),
        }
    }
}

const FILES: &[&str] = &["a", "b", "c", "d/a", "d/b", "a/x", "no/x", "d/e/f"];
const DIRS: &[&str] = &["d", "d/e", "no/dir", "a/dir", "."];

fn ask(rng: &mut Rng) -> Ask {
    let file = |rng: &mut Rng| FILES[rng.below(FILES.len() as u64) as usize].to_owned();
    let dir = |rng: &mut Rng| DIRS[rng.below(DIRS.len() as u64) as usize].to_owned();
    let any = |rng: &mut Rng| if rng.below(6) == 0 { dir(rng) } else { file(rng) };
    let small = |rng: &mut Rng| [0, 1, 7, 100, 511, 512, 4096, 9000][rng.below(8) as usize];
    let at = rng.below(1 << 20) as usize;
    match rng.below(24) {
        0 | 1 => Ask::Create(any(rng)),
        2 => Ask::Open(file(rng), OpenMode::Read),
        3 => Ask::Open(any(rng), OpenMode::ReadWrite),
        4 => Ask::Close(at),
        5 => Ask::Rename(any(rng), any(rng)),
        6 => Ask::Link(any(rng), any(rng)),
        7 => Ask::Unlink(any(rng)),
        8 => Ask::Mkdir(any(rng)),
        9 => Ask::List(any(rng)),
        10 => Ask::SyncDir(dir(rng)),
        11 => {
            let kind = [LockKind::Shared, LockKind::Exclusive][rng.below(2) as usize];
            Ask::Lock(file(rng), kind)
        }
        12 => Ask::Unlock(at),
        13 => Ask::Exists(any(rng)),
        14..=16 => {
            let len = small(rng) as usize;
            let fill = rng.below(256) as u8;
            Ask::Write(at, small(rng), (0..len).map(|i| fill.wrapping_add(i as u8)).collect())
        }
        17 | 18 => Ask::Read(at, small(rng), small(rng) as usize),
        19 => Ask::Map(at, small(rng)),
        20 => Ask::Sync(at, rng.below(2) == 0),
        21 => Ask::SetLen(at, small(rng)),
        22 => Ask::Preallocate(at, small(rng)),
        _ => Ask::Len(at),
    }
}

/// Whether the question is one that only a real directory answers in its own way.
fn left_out(sides: &[Side; 2], ask: &Ask) -> bool {
    let real = &sides[1];
    let is_dir = |name: &String| real.fs.list(&real.path(name)).is_ok();
    let is_file =
        |name: &String| !is_dir(name) && matches!(real.fs.exists(&real.path(name)), Ok(true));
    match ask {
        Ask::Open(name, OpenMode::Read) | Ask::Lock(name, _) => is_dir(name),
        Ask::SyncDir(name) => is_file(name),
        // `.` as a name to change: Linux has a word of its own for each case.
        Ask::Rename(a, b) | Ask::Link(a, b) => a == "." || b == ".",
        Ask::Create(a) | Ask::Mkdir(a) | Ask::Unlink(a) | Ask::Open(a, _) => a == ".",
        _ => false,
    }
}

fn tree(path: &Path, at: &Side, text: &mut String) {
    let names = at.fs.list(path).expect("a directory that was listed");
    for name in names {
        let path = path.join(name);
        text.push_str(&format!("{:?} ", path.strip_prefix(&at.root).expect("below the root")));
        match at.fs.list(&path) {
            Ok(_) => tree(&path, at, text),
            Err(_) => {
                let bytes = kiban::env::fs::read_file(&*at.fs, &path, 1 << 20);
                text.push_str(&format!("{:?}\n", bytes.expect("a file that was listed")));
            }
        }
    }
}

#[test]
fn both_answer_alike() {
    let mut asked = 0;
    for seed in 1..=60 {
        let temp = tempfile::tempdir().expect("a temporary directory");
        let sim = SimFs::new(Disk::new());
        sim.mkdir(Path::new("/db")).expect("the first directory");
        let side = |fs: Arc<dyn Fs>, root: &Path| Side {
            fs,
            root: root.to_path_buf(),
            files: Vec::new(),
            locks: Vec::new(),
        };
        let mut sides = [side(Arc::new(sim), Path::new("/db")), side(Arc::new(OsFs), temp.path())];
        let mut rng = Rng(seed * 0x9e37_79b9);
        for step in 0..300 {
            let ask = ask(&mut rng);
            if left_out(&sides, &ask) {
                continue;
            }
            asked += 1;
            let answers = [0, 1].map(|i| sides[i].answer(&ask));
            assert_eq!(answers[0], answers[1], "seed {seed} step {step}: {ask:?}, sim left");
        }
        let [sim, real] = [0, 1].map(|i| {
            let mut text = String::new();
            tree(&sides[i].root, &sides[i], &mut text);
            text
        });
        assert_eq!(sim, real, "seed {seed}: what stands at the end, sim left");
    }
    assert!(asked > 10_000, "only {asked} questions");
}
