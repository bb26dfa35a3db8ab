//! The simulated disk by script, and its fault model against the book.
//!
//! Invariants
//! - Every rule of the fault model has a case in `tests/disk/*.txt`: what the calls answer, and
//!   every state that a crash may leave. Lines that start with `>` are answers;
//!   `UPDATE_GOLDEN=1` writes them anew.
//! - Canaries stand in the scripts as `must` and `never`: a state that has to be among those of the
//!   last crash, and one that must not be. They are checked in update mode too.
//! - `docs/DURABILITY.md` begins with the words at the top of the disk, and its tables have every
//!   call and every fault.
//!
//! A state is written as `path=bytes` words, `.` for a zero byte, `?` for noise of stale blocks.
#![allow(clippy::disallowed_methods)] // Golden files are real files.

use kiban_crash::disk::{Disk, Errno, FAULTS, Fault, FaultPlan, Fd, LockId, Op, Rule, Ticket};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A disk and what the lines of a script call by name.
#[derive(Default)]
struct Script {
    disk: Disk,
    files: BTreeMap<String, Fd>,
    tickets: BTreeMap<String, Ticket>,
    locks: BTreeMap<String, LockId>,
    map: Option<Arc<[u8]>>,
    states: BTreeSet<String>,
}

fn shown(bytes: &[u8]) -> String {
    let one = |&b: &u8| match b {
        0 => '.',
        b if b.is_ascii_alphanumeric() => char::from(b),
        _ => '?',
    };
    bytes.iter().map(one).collect()
}

fn state(disk: &Disk) -> String {
    let mut words = Vec::new();
    for (path, _) in disk.files() {
        let bytes = disk.get_file(&path).expect("a file that was listed");
        words.push(format!("{}={}", &path[1..], shown(&bytes)));
    }
    if words.is_empty() { "(nothing)".to_owned() } else { words.join(" ") }
}

impl Script {
    fn fd(&self, name: &str) -> io::Result<Fd> {
        self.files.get(name).copied().ok_or_else(|| io::Error::other("not open in this script"))
    }

    /// Runs one line and gives its answer, empty if there is none.
    fn line(&mut self, line: &str) -> Result<String, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let word = |i: usize| words.get(i).copied().unwrap_or("");
        match words[0] {
            "case" => *self = Self::default(),
            "crash" => {
                // Each seed tears writes at another cut.
                let snapshot = self.disk.snapshot();
                let images = (0..16).flat_map(|seed| snapshot.images(20_000, seed));
                self.states = images.map(|image| state(&image.disk)).collect();
                return Ok(self.states.iter().map(|s| format!("{s}\n")).collect());
            }
            "must" | "never" => {
                let wanted = line[words[0].len()..].trim();
                let held = self.states.contains(wanted);
                if held != (words[0] == "must") {
                    return Err(format!("`{line}` does not hold"));
                }
            }
            "fault" => {
                let op = Op::ALL.iter().copied().find(|op| op.name() == word(2));
                let fault = Fault::named(word(1)).ok_or("no such fault")?;
                let rule = Rule::new(fault).op(op.ok_or("no such call")?);
                self.disk.plan = FaultPlan::one(rule);
            }
            "restart" => self.disk.restart(),
            "kill" => self.disk = self.disk.snapshot().killed(),
            "state" => return Ok(format!("{}\n", state(&self.disk))),
            "violations" => {
                let all = self.disk.violations().iter();
                return Ok(all.map(|v| format!("{v}\n")).collect());
            }
            _ => {
                let answer = self.call(&words);
                return Ok(answer.unwrap_or_else(|e| {
                    let errno = e.raw_os_error().map_or("", |number| Errno(number).name());
                    format!("{errno} ({:?})\n", e.kind())
                }));
            }
        }
        Ok(String::new())
    }

    fn call(&mut self, words: &[&str]) -> io::Result<String> {
        let word = |i: usize| words.get(i).copied().unwrap_or("");
        let number = |i: usize| word(i).parse::<u64>().map_err(io::Error::other);
        let (name, path) = (word(1).to_owned(), Path::new(word(1)));
        match words[0] {
            "create" => {
                let fd = self.disk.create(path)?;
                self.files.insert(name, fd);
            }
            "open" => {
                let fd = self.disk.open(path, true)?;
                self.files.insert(word(2).to_owned(), fd);
            }
            "close" => self.disk.close(self.fd(&name)?),
            "rename" => self.disk.rename(path, Path::new(word(2)))?,
            "link" => self.disk.link(path, Path::new(word(2)))?,
            "unlink" => self.disk.unlink(path)?,
            "mkdir" => self.disk.mkdir(path)?,
            "sync_dir" => self.disk.sync_dir(path)?,
            "sync_data" => self.disk.sync_data(self.fd(&name)?)?,
            "sync_all" => self.disk.sync_all(self.fd(&name)?)?,
            "begin" => {
                let ticket = self.disk.sync_begin(self.fd(&name)?, false)?;
                self.tickets.insert(name, ticket);
            }
            "end" => {
                let ticket = self.tickets.remove(&name);
                self.disk.sync_end(ticket.ok_or(io::ErrorKind::NotFound)?)?;
            }
            "write" => {
                let n = self.disk.write_at(self.fd(&name)?, number(2)?, word(3).as_bytes())?;
                if n < word(3).len() {
                    return Ok(format!("{n}\n"));
                }
            }
            "set_len" => self.disk.set_len(self.fd(&name)?, number(2)?)?,
            "preallocate" => self.disk.preallocate(self.fd(&name)?, number(2)?)?,
            "read" => {
                let fd = self.fd(&name)?;
                let mut bytes = vec![0; self.disk.len(fd)? as usize];
                let n = self.disk.read_at(fd, 0, &mut bytes)?;
                return Ok(format!("{}\n", shown(&bytes[..n])));
            }
            "map" => {
                let fd = self.fd(&name)?;
                self.map = Some(self.disk.map(fd, number(2)?)?);
            }
            "unmap" => self.map = None,
            "list" => return Ok(format!("{}\n", self.disk.list(path)?.join(" "))),
            "exists" => return Ok(format!("{}\n", self.disk.exists(path)?)),
            "lock" | "share" => {
                let lock = self.disk.lock(path, words[0] == "lock")?;
                self.locks.insert(name, lock);
            }
            "unlock" => {
                let lock = self.locks.remove(&name);
                self.disk.unlock(lock.ok_or(io::ErrorKind::NotFound)?);
            }
            other => return Err(io::Error::other(format!("no such line: {other}"))),
        }
        Ok(String::new())
    }
}

/// Runs a file of cases and gives it back with the answers of now.
fn run(text: &str) -> Result<String, String> {
    let mut script = Script::default();
    let mut out = String::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('>')) {
        out.push_str(line);
        out.push('\n');
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let answer = script.line(line).map_err(|e| format!("line {}: {e}", number + 1))?;
        for part in answer.lines() {
            let _ = writeln!(out, "> {part}");
        }
    }
    Ok(out)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn golden(path: &Path, now: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, now).expect("the golden file is written");
        return;
    }
    let then = std::fs::read_to_string(path).expect("the golden file is read");
    for (number, (then, now)) in then.lines().zip(now.lines()).enumerate() {
        assert_eq!(then, now, "{}:{}", path.display(), number + 1);
    }
    assert_eq!(then.len(), now.len(), "{} ends elsewhere", path.display());
}

#[test]
fn scripts() {
    let dir = root().join("crash/tests/disk");
    let mut cases = 0;
    for entry in std::fs::read_dir(dir).expect("the directory of the scripts") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("a script");
        cases += text.lines().filter(|line| line.starts_with("case ")).count();
        let now = run(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        golden(&path, &now);
    }
    assert!(cases >= 30, "only {cases} cases");
}

/// The alarm itself: a canary that does not hold is an error.
#[test]
fn a_false_canary_is_heard() {
    let script = "case x\ncreate a\nwrite a 0 xy\ncrash\n";
    assert!(run(&format!("{script}never (nothing)\n")).is_err());
    assert!(run(&format!("{script}must a=zz\n")).is_err());
    assert!(run(&format!("{script}must a=xy\nnever a=yx\n")).is_ok());
}

/// Which fault may meet which call, as the book shows it.
fn fault_table() -> String {
    let mut text = String::from("| call |");
    FAULTS.iter().for_each(|(name, _)| {
        let _ = write!(text, " {name} |");
    });
    text.push_str("\n| --- |");
    text.push_str(&" --- |".repeat(FAULTS.len()));
    text.push('\n');
    for &op in Op::ALL {
        let _ = write!(text, "| {} |", op.name());
        for (_, fault) in FAULTS {
            text.push_str(if fault.applies(op) { " x |" } else { "  |" });
        }
        text.push('\n');
    }
    text
}

#[test]
fn the_book_says_what_the_disk_says() {
    let code = include_str!("../src/disk/mod.rs");
    let header = code.lines().map_while(|line| line.strip_prefix("//!"));
    let model: String =
        header.map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line))).collect();
    let path = root().join("docs/DURABILITY.md");
    let book = std::fs::read_to_string(&path).unwrap_or_default();
    let split = book.find("\n## Calls and guarantees").map_or(book.len(), |at| at + 1);
    let rest = &book[split..];
    for op in Op::ALL {
        let row = format!("\n| `{}` |", op.name());
        assert!(rest.contains(&row), "no row of guarantees for {}", op.name());
    }
    let table = rest.find("\n| call | eio ").map_or(rest.len(), |at| at + 1);
    // What was seen on real file systems follows, by hand.
    let seen = book.find("\n## What real").expect("the book tells of real file systems");
    golden(&path, &format!("{model}\n{}{}{}", &rest[..table], fault_table(), &book[seen..]));
}
