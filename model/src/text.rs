//! The text form of operations and cases: one line each, readable, and parsed back exactly.
//!
//! ```text
//! # comment
//! option memtable_bytes 4096
//! put k07 x*4096            sync                      iter 2 range >=a <b
//! put_durable "" @17*100    get@3 k07                 iter 2 walk ffb/10
//! write put a 1 ; delete b  range@1 >=a - f           iter 2 seek_back k b/1
//! delete user:\xff+k*9      prefix user: b/3          reopen drop block_bytes=64
//! ```
//!
//! Bytes are segments joined by `+`: literal with `\xHH` escapes, or `unit*count`; the empty
//! string is `""`; `@seed*length` is a made value. Bounds are `>=key`, `>key`, `<key`, `<=key` or
//! `-`. `verb@slot` reads at the snapshot in that slot. A walk is turns and a limit.
//!
//! Invariants
//! - `parse(print(x)) == x` for every operation and case; tests hold it.
//! - A malformed line is refused with its number and what was expected, whatever its bytes are.

mod bytes;

pub use bytes::{brief, bytes_text, parse_bytes};

use crate::config::Config;
use crate::ops::{Case, Key, Op, Record, Span, View, Walk};
use crate::value::Value;
use bytes::TEXT_BYTES_MAX;
use std::fmt::{self, Write as _};
use std::ops::Bound;

/// A line that is not an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The line, from 1.
    pub line: usize,
    /// What was expected there.
    pub expected: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: expected {}", self.line, self.expected)
    }
}

impl std::error::Error for ParseError {}

pub(crate) fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("a number, not `{text}`"))
}

fn value_text(value: &Value) -> String {
    match value {
        Value::Bytes(bytes) => bytes_text(bytes),
        Value::Made { seed, len } => format!("@{seed}*{len}"),
    }
}

fn parse_value(text: &str) -> Result<Value, String> {
    let Some(made) = text.strip_prefix('@') else {
        return Ok(Value::Bytes(parse_bytes(text)?));
    };
    let (seed, len) = made.split_once('*').ok_or("`@seed*length`")?;
    let len: u32 = number(len)?;
    if len as usize > TEXT_BYTES_MAX {
        return Err(format!("at most {TEXT_BYTES_MAX} bytes"));
    }
    Ok(Value::Made { seed: number(seed)?, len })
}

pub(crate) fn lo_text(bound: &Bound<Key>) -> String {
    match bound {
        Bound::Included(key) => format!(">={}", bytes_text(key)),
        Bound::Excluded(key) => format!(">{}", bytes_text(key)),
        Bound::Unbounded => "-".into(),
    }
}

pub(crate) fn hi_text(bound: &Bound<Key>) -> String {
    match bound {
        Bound::Included(key) => format!("<={}", bytes_text(key)),
        Bound::Excluded(key) => format!("<{}", bytes_text(key)),
        Bound::Unbounded => "-".into(),
    }
}

fn parse_bound(text: &str, sign: char) -> Result<Bound<Key>, String> {
    if text == "-" {
        return Ok(Bound::Unbounded);
    }
    let rest =
        text.strip_prefix(sign).ok_or_else(|| format!("`{sign}key`, `{sign}=key` or `-`"))?;
    Ok(match rest.strip_prefix('=') {
        Some(key) => Bound::Included(parse_bytes(key)?),
        None => Bound::Excluded(parse_bytes(rest)?),
    })
}

fn at(view: View) -> String {
    match view {
        View::Live => String::new(),
        View::Snapshot(slot) => format!("@{slot}"),
    }
}

fn span_text(span: &Span, view: View) -> String {
    match span {
        Span::Range(lo, hi) => format!("range{} {} {}", at(view), lo_text(lo), hi_text(hi)),
        Span::Prefix(prefix) => format!("prefix{} {}", at(view), bytes_text(prefix)),
    }
}

impl fmt::Display for Walk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for i in 0..u32::from(self.period()) {
            f.write_char(if self.is_back(i) { 'b' } else { 'f' })?;
        }
        self.limit.map_or(Ok(()), |limit| write!(f, "/{limit}"))
    }
}

fn parse_walk(text: &str) -> Result<Walk, String> {
    let (turns, limit) = match text.split_once('/') {
        Some((turns, limit)) => (turns, Some(number(limit)?)),
        None => (text, None),
    };
    let known = turns.bytes().all(|b| b == b'f' || b == b'b');
    if turns.is_empty() || turns.len() > usize::from(Walk::PERIOD_MAX) || !known {
        return Err("1 to 16 turns `f` or `b`, then perhaps `/limit`".into());
    }
    let bits = turns.bytes().rev().fold(0, |bits, b| bits << 1 | u16::from(b == b'b'));
    Ok(Walk::new(bits, turns.len() as u8, limit))
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "put {} {}", bytes_text(&self.key), value_text(value)),
            None => write!(f, "delete {}", bytes_text(&self.key)),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let durably = |durable: bool| if durable { "_durable" } else { "" };
        match self {
            Self::Put { key, value, durable } => {
                write!(f, "put{} {} {}", durably(*durable), bytes_text(key), value_text(value))
            }
            Self::Delete { key, durable } => {
                write!(f, "delete{} {}", durably(*durable), bytes_text(key))
            }
            Self::Batch { records, durable } => {
                write!(f, "write{}", durably(*durable))?;
                for (i, record) in records.iter().enumerate() {
                    write!(f, "{} {record}", if i == 0 { "" } else { " ;" })?;
                }
                Ok(())
            }
            Self::Get { key, view } => write!(f, "get{} {}", at(*view), bytes_text(key)),
            Self::GetWith { key, view } => write!(f, "get_with{} {}", at(*view), bytes_text(key)),
            Self::MultiGet { keys, view } => {
                write!(f, "multi_get{}", at(*view))?;
                keys.iter().try_for_each(|key| write!(f, " {}", bytes_text(key)))
            }
            Self::Scan { span, view, walk } => write!(f, "{} {walk}", span_text(span, *view)),
            Self::IterOpen { slot, span, view } => {
                write!(f, "iter {slot} {}", span_text(span, *view))
            }
            Self::IterWalk { slot, walk } => write!(f, "iter {slot} walk {walk}"),
            Self::IterSeek { slot, key, back, walk } => {
                let verb = if *back { "seek_back" } else { "seek" };
                write!(f, "iter {slot} {verb} {} {walk}", bytes_text(key))
            }
            Self::IterDrop { slot } => write!(f, "iter {slot} drop"),
            Self::SnapOpen { slot } => write!(f, "snapshot {slot}"),
            Self::SnapDrop { slot } => write!(f, "release {slot}"),
            Self::Compact { lo, hi } => write!(f, "compact {} {}", lo_text(lo), hi_text(hi)),
            Self::Reopen { by_drop, changes } => {
                f.write_str(if *by_drop { "reopen drop" } else { "reopen" })?;
                changes.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
            }
            plain => f.write_str(Self::KINDS[plain.kind()]),
        }
    }
}

/// The words of one line.
pub(crate) struct Words<'a>(pub(crate) std::str::SplitWhitespace<'a>);

impl<'a> Words<'a> {
    pub(crate) fn word(&mut self, expected: &str) -> Result<&'a str, String> {
        self.0.next().ok_or_else(|| expected.to_string())
    }

    pub(crate) fn key(&mut self) -> Result<Key, String> {
        parse_bytes(self.word("a key")?)
    }

    fn slot(&mut self) -> Result<u8, String> {
        number(self.word("a slot")?)
    }

    fn bounds(&mut self) -> Result<(Bound<Key>, Bound<Key>), String> {
        let lo = parse_bound(self.word("a lower bound")?, '>')?;
        Ok((lo, parse_bound(self.word("an upper bound")?, '<')?))
    }

    pub(crate) fn span(&mut self, verb: &str) -> Result<Span, String> {
        match verb {
            "range" => self.bounds().map(|(lo, hi)| Span::Range(lo, hi)),
            "prefix" => self.key().map(Span::Prefix),
            _ => Err("`range` or `prefix`".into()),
        }
    }

    pub(crate) fn record(&mut self, verb: &str) -> Result<Record, String> {
        let key = self.key()?;
        let value = match verb {
            "put" => Some(parse_value(self.word("a value")?)?),
            "delete" => None,
            _ => return Err("`put` or `delete`".into()),
        };
        Ok(Record { key, value })
    }

    pub(crate) fn records(&mut self) -> Result<Vec<Record>, String> {
        let mut records = Vec::new();
        while let Some(verb) = self.0.next() {
            let verb = match (verb, records.is_empty()) {
                (";", false) => self.word("`put` or `delete`")?,
                (verb, true) => verb,
                _ => return Err("`;` between records".into()),
            };
            records.push(self.record(verb)?);
        }
        Ok(records)
    }

    fn iter(&mut self) -> Result<Op, String> {
        let slot = self.slot()?;
        let (verb, view) = verb_view(self.word("range, prefix, walk, seek, seek_back or drop")?)?;
        Ok(match verb {
            "walk" => Op::IterWalk { slot, walk: parse_walk(self.word("a walk")?)? },
            "seek" | "seek_back" => {
                let key = self.key()?;
                let walk = parse_walk(self.word("a walk")?)?;
                Op::IterSeek { slot, key, back: verb == "seek_back", walk }
            }
            "drop" => Op::IterDrop { slot },
            _ => Op::IterOpen { slot, span: self.span(verb)?, view },
        })
    }

    fn reopen(&mut self) -> Result<Op, String> {
        let mut by_drop = false;
        let mut changes = Vec::new();
        for word in self.0.by_ref() {
            if word == "drop" && !by_drop && changes.is_empty() {
                by_drop = true;
                continue;
            }
            let (name, value) = word.split_once('=').ok_or("`option=value`")?;
            changes.push((option_name(name)?, number(value)?));
        }
        Ok(Op::Reopen { by_drop, changes })
    }
}

fn option_name(name: &str) -> Result<&'static str, String> {
    let known = Config::NAMES.iter().find(|&&known| known == name);
    known.copied().ok_or_else(|| format!("an option's name, not `{name}`"))
}

fn verb_view(word: &str) -> Result<(&str, View), String> {
    match word.split_once('@') {
        Some((verb, slot)) => Ok((verb, View::Snapshot(number(slot)?))),
        None => Ok((word, View::Live)),
    }
}

/// One operation from one line.
///
/// # Errors
/// What was expected instead.
pub fn parse_op(line: &str) -> Result<Op, String> {
    let mut words = Words(line.split_whitespace());
    let (verb, view) = verb_view(words.word("an operation")?)?;
    let takes_view = matches!(verb, "get" | "get_with" | "multi_get" | "range" | "prefix");
    if view != View::Live && !takes_view {
        return Err(format!("no snapshot after `{verb}`"));
    }
    let op = match verb {
        "put" | "put_durable" => Op::Put {
            key: words.key()?,
            value: parse_value(words.word("a value")?)?,
            durable: verb == "put_durable",
        },
        "delete" | "delete_durable" => {
            Op::Delete { key: words.key()?, durable: verb == "delete_durable" }
        }
        "write" | "write_durable" => {
            Op::Batch { records: words.records()?, durable: verb == "write_durable" }
        }
        "get" => Op::Get { key: words.key()?, view },
        "get_with" => Op::GetWith { key: words.key()?, view },
        "multi_get" => {
            let keys: Result<_, _> = words.0.by_ref().map(parse_bytes).collect();
            Op::MultiGet { keys: keys?, view }
        }
        "range" | "prefix" => {
            let span = words.span(verb)?;
            Op::Scan { span, view, walk: parse_walk(words.word("a walk")?)? }
        }
        "iter" => words.iter()?,
        "snapshot" => Op::SnapOpen { slot: words.slot()? },
        "release" => Op::SnapDrop { slot: words.slot()? },
        "compact" => words.bounds().map(|(lo, hi)| Op::Compact { lo, hi })?,
        "reopen" => words.reopen()?,
        "sync" => Op::Sync,
        "flush" => Op::Flush,
        "step" => Op::Step,
        "close" => Op::Close,
        "read_only" => Op::ReadOnly,
        "second_open" => Op::SecondOpen,
        "verify" => Op::Verify,
        "stats" => Op::Stats,
        "checkpoint" => Op::Checkpoint,
        "backup" => Op::Backup,
        _ => return Err(format!("an operation, not `{verb}`")),
    };
    match words.0.next() {
        Some(extra) => Err(format!("the end of the line, not `{extra}`")),
        None => Ok(op),
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in Config::default().changes_to(&self.config) {
            writeln!(f, "option {name} {value}")?;
        }
        self.ops.iter().try_for_each(|op| writeln!(f, "{op}"))
    }
}

impl Case {
    /// A case from its text: options that differ from the defaults, then operations. Blank lines
    /// and lines that start with `#` are skipped.
    ///
    /// # Errors
    /// The first line that is malformed.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut case = Self::default();
        for (i, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            case.line(line).map_err(|expected| ParseError { line: i + 1, expected })?;
        }
        Ok(case)
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let Some(option) = line.strip_prefix("option ") else {
            self.ops.push(parse_op(line)?);
            return Ok(());
        };
        let (name, value) = option.trim().split_once(' ').ok_or("`option name value`")?;
        self.config.set(option_name(name)?, number(value.trim())?);
        Ok(())
    }
}
