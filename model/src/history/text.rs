//! The text form of a history: one line for each call, readable, and parsed back exactly.
//!
//! ```text
//! # comment
//! c0 1..4 put a 1 -> 1              c1 2..3 get a -> !
//! c0 5..8 write put a 2 ; delete b -> 3
//! c1 6..7 multi_get a b -> 2 !      c1 9..10 range >=a - -> a=2 c=""
//! c1 11..12 snapshot 7 -> 3         c1 13..14 get@7 a -> 2
//! c0 15..16 put_durable c x -> refused
//! c0 17.. put c y -> unknown        c2 18..19 sync -> ok
//! at 6 ordered 2 put a 2 ; delete b
//! ```
//!
//! A client, the instants of invocation and return, the call, and behind the arrow what it gave: a
//! write its sequence, `refused` or `unknown`; a read its values, with `!` for none; a scan its
//! entries; a snapshot its sequence or `ok`; a sync `ok` or `poisoned`. Keys, values and bounds are
//! those of the text form of operations.
//!
//! Invariant: `parse(print(x)) == x`, the order of commits included.

use super::event::{Call, Event, History, Ordered, Outcome, Saw};
use crate::ops::{Key, Record, Span};
use crate::text::{ParseError, Words, bytes_text, hi_text, lo_text, number, parse_bytes};
use std::fmt;

/// A recorded order of commits in which there is none.
const NOTHING_ORDERED: &str = "ordered nothing";
/// The word for no value. It stands for no bytes: their text never holds it.
const NONE: &str = "!";

fn write_records(f: &mut fmt::Formatter<'_>, records: &[Record]) -> fmt::Result {
    for (i, record) in records.iter().enumerate() {
        write!(f, "{} {record}", if i == 0 { "" } else { " ;" })?;
    }
    Ok(())
}

fn value_text(value: Option<&[u8]>) -> String {
    value.map_or_else(|| NONE.into(), bytes_text)
}

impl fmt::Display for Saw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, "")
    }
}

impl Saw {
    fn write(&self, f: &mut fmt::Formatter<'_>, at: &str) -> fmt::Result {
        match self {
            Self::Keys(keys) => {
                f.write_str(if keys.len() == 1 { "get" } else { "multi_get" })?;
                f.write_str(at)?;
                keys.iter().try_for_each(|(key, _)| write!(f, " {}", bytes_text(key)))?;
                f.write_str(" ->")?;
                let mut values = keys.iter().map(|(_, value)| value.as_deref());
                values.try_for_each(|value| write!(f, " {}", value_text(value)))
            }
            Self::Scan(span, entries) => {
                match span {
                    Span::Range(lo, hi) => write!(f, "range{at} {} {}", lo_text(lo), hi_text(hi))?,
                    Span::Prefix(prefix) => write!(f, "prefix{at} {}", bytes_text(prefix))?,
                }
                f.write_str(" ->")?;
                let mut entries = entries.iter();
                entries.try_for_each(|(k, v)| write!(f, " {}={}", bytes_text(k), bytes_text(v)))
            }
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let returned = self.returned.map_or_else(String::new, |instant| instant.to_string());
        write!(f, "c{} {}..{returned} ", self.client, self.invoked)?;
        match &self.call {
            Call::Write { records, durable, outcome } => {
                f.write_str(if *durable { "write_durable" } else { "write" })?;
                write_records(f, records)?;
                match outcome {
                    Outcome::Done(seq) => write!(f, " -> {seq}"),
                    Outcome::Refused => f.write_str(" -> refused"),
                    Outcome::Unknown => f.write_str(" -> unknown"),
                }
            }
            Call::Read { at: Some(id), saw } => saw.write(f, &format!("@{id}")),
            Call::Read { at: None, saw } => saw.write(f, ""),
            Call::Snapshot { id, seq: Some(seq) } => write!(f, "snapshot {id} -> {seq}"),
            Call::Snapshot { id, seq: None } => write!(f, "snapshot {id} -> ok"),
            Call::Sync { poisoned: false } => f.write_str("sync -> ok"),
            Call::Sync { poisoned: true } => f.write_str("sync -> poisoned"),
        }
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.events.iter().try_for_each(|event| writeln!(f, "{event}"))?;
        if self.ordered.as_ref().is_some_and(Vec::is_empty) {
            writeln!(f, "{NOTHING_ORDERED}")?;
        }
        for piece in self.ordered.iter().flatten() {
            write!(f, "at {} ordered {}", piece.at, piece.first)?;
            write_records(f, &piece.records)?;
            writeln!(f)?;
        }
        Ok(())
    }
}

fn words(text: &str) -> Words<'_> {
    Words(text.split_whitespace())
}

fn none_left(words: &mut Words) -> Result<(), String> {
    words.0.next().map_or(Ok(()), |extra| Err(format!("the end, not `{extra}`")))
}

fn outcome(text: &str) -> Result<Outcome, String> {
    Ok(match text {
        "refused" => Outcome::Refused,
        "unknown" => Outcome::Unknown,
        seq => Outcome::Done(number(seq)?),
    })
}

fn keys(call: &mut Words, result: &mut Words) -> Result<Saw, String> {
    let keys: Vec<Key> = call.0.by_ref().map(parse_bytes).collect::<Result<_, _>>()?;
    let pair = |key| {
        let value = match result.word("a value for each key")? {
            NONE => None,
            text => Some(parse_bytes(text)?),
        };
        Ok((key, value))
    };
    keys.into_iter().map(pair).collect::<Result<_, String>>().map(Saw::Keys)
}

fn scan(verb: &str, call: &mut Words, result: &mut Words) -> Result<Saw, String> {
    let span = call.span(verb)?;
    let entry = |text: &str| {
        let (key, value) = text.split_once('=').ok_or("`key=value`")?;
        Ok((parse_bytes(key)?, parse_bytes(value)?))
    };
    let entries = result.0.by_ref().map(entry).collect::<Result<_, String>>()?;
    Ok(Saw::Scan(span, entries))
}

fn call(text: &str, result: &str) -> Result<Call, String> {
    let (mut call, mut given) = (words(text), words(result));
    let verb = call.word("a call")?;
    let (verb, at) = match verb.split_once('@') {
        Some((verb, id)) => (verb, Some(number(id)?)),
        None => (verb, None),
    };
    let is_write = matches!(
        verb,
        "put" | "delete" | "write" | "put_durable" | "delete_durable" | "write_durable"
    );
    let parsed = if is_write {
        let (single, durable) = match verb.strip_suffix("_durable") {
            Some(verb) => (verb, true),
            None => (verb, false),
        };
        let records = match single {
            "write" => call.records()?,
            verb => vec![call.record(verb)?],
        };
        let outcome = outcome(given.word("a sequence, `refused` or `unknown`")?)?;
        Call::Write { records, durable, outcome }
    } else {
        match verb {
            "get" | "multi_get" => Call::Read { at, saw: keys(&mut call, &mut given)? },
            "range" | "prefix" => Call::Read { at, saw: scan(verb, &mut call, &mut given)? },
            "snapshot" => {
                let id = number(call.word("a snapshot's name")?)?;
                let seq = match given.word("a sequence or `ok`")? {
                    "ok" => None,
                    seq => Some(number(seq)?),
                };
                Call::Snapshot { id, seq }
            }
            "sync" => Call::Sync {
                poisoned: match given.word("`ok` or `poisoned`")? {
                    "ok" => false,
                    "poisoned" => true,
                    other => return Err(format!("`ok` or `poisoned`, not `{other}`")),
                },
            },
            _ => return Err(format!("a call, not `{verb}`")),
        }
    };
    none_left(&mut call)?;
    none_left(&mut given)?;
    Ok(parsed)
}

fn event(line: &str) -> Result<Event, String> {
    let rest = line.strip_prefix('c').ok_or("a client, as `c0`")?;
    let (client, rest) = rest.split_once(' ').ok_or("instants behind the client")?;
    let (instants, rest) = rest.trim_start().split_once(' ').ok_or("a call")?;
    let (invoked, returned) = instants.split_once("..").ok_or("`invoked..returned`")?;
    let returned = if returned.is_empty() { None } else { Some(number(returned)?) };
    let (text, result) = rest.split_once("->").ok_or("`->` and a result")?;
    Ok(Event {
        client: number(client)?,
        invoked: number(invoked)?,
        returned,
        call: call(text, result)?,
    })
}

fn ordered(line: &str) -> Result<Ordered, String> {
    let mut words = words(line);
    let at = number(words.word("an instant")?)?;
    if words.word("`ordered`")? != "ordered" {
        return Err("`ordered`".into());
    }
    Ok(Ordered { at, first: number(words.word("a sequence")?)?, records: words.records()? })
}

impl History {
    /// A history from its text; blank lines and lines that start with `#` are skipped. A line `at`
    /// makes the order of commits a recorded one.
    ///
    /// # Errors
    /// The first line that is malformed.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut history = Self::default();
        for (i, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if line == NOTHING_ORDERED {
                history.ordered.get_or_insert_default();
                continue;
            }
            let done = match line.strip_prefix("at ") {
                Some(rest) => {
                    ordered(rest).map(|piece| history.ordered.get_or_insert_default().push(piece))
                }
                None => event(line).map(|event| history.events.push(event)),
            };
            done.map_err(|expected| ParseError { line: i + 1, expected })?;
        }
        history.events.sort_by_key(|event| (event.invoked, event.client));
        Ok(history)
    }
}
