//! Bytes as text: segments joined by `+`, each literal or `unit*count`; `""` for none.
//!
//! Invariants
//! - `parse_bytes(bytes_text(b)) == b`, and the text is one word of printable ASCII.
//! - No text stands for more than a bounded number of bytes.

use super::number;
use std::fmt::Write as _;

/// The longest bytes that text may stand for: beyond every limit of the engine, and bounded.
pub(super) const TEXT_BYTES_MAX: usize = 1 << 27;
/// A run of one byte is printed as `b*n` from this length.
const RUN_MIN: usize = 9;

/// `bytes` as text.
#[must_use]
pub fn bytes_text(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "\"\"".into();
    }
    let mut out = String::new();
    let mut rest = bytes;
    let mut after_literal = false;
    while let Some(&first) = rest.first() {
        let run = rest.iter().take_while(|&&b| b == first).count();
        let is_run = run >= RUN_MIN;
        if !out.is_empty() && (is_run || !after_literal) {
            out.push('+');
        }
        push_byte(&mut out, first);
        if is_run {
            let _ = write!(out, "*{run}");
        }
        after_literal = !is_run;
        rest = &rest[if is_run { run } else { 1 }..];
    }
    out
}

/// `bytes` as text for a report: long ones cut, with their length.
#[must_use]
pub fn brief(bytes: &[u8]) -> String {
    const SHOWN_MAX: usize = 32;
    let text = bytes_text(bytes);
    if text.len() <= 2 * SHOWN_MAX {
        return text;
    }
    let head = bytes_text(&bytes[..bytes.len().min(SHOWN_MAX)]);
    format!("{head}..({} bytes)", bytes.len())
}

fn push_byte(out: &mut String, byte: u8) {
    if byte.is_ascii_alphanumeric() || b"_./:-%$".contains(&byte) {
        out.push(char::from(byte));
    } else {
        let _ = write!(out, "\\x{byte:02x}");
    }
}

/// Bytes from text.
///
/// # Errors
/// What was expected.
pub fn parse_bytes(text: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    if text == "\"\"" {
        return Ok(out);
    }
    for segment in text.split('+') {
        let (unit, count) = match segment.split_once('*') {
            Some((unit, count)) => (unit, number(count)?),
            None => (segment, 1),
        };
        let unit = parse_literal(unit)?;
        let total = (unit.len() as u64).saturating_mul(count).saturating_add(out.len() as u64);
        if total > TEXT_BYTES_MAX as u64 {
            return Err(format!("at most {TEXT_BYTES_MAX} bytes"));
        }
        for _ in 0..count {
            out.extend_from_slice(&unit);
        }
    }
    Ok(out)
}

fn parse_literal(text: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte == b'\\' {
            let hex = rest.get(1..3).filter(|_| rest[0] == b'x');
            let hex = hex.and_then(|h| std::str::from_utf8(h).ok());
            let byte = hex.and_then(|h| u8::from_str_radix(h, 16).ok());
            out.push(byte.ok_or_else(|| format!("`\\xHH` in `{text}`"))?);
            rest = &rest[3..];
        } else {
            out.push(byte);
        }
    }
    if out.is_empty() {
        return Err("bytes, or `\"\"` for none".into());
    }
    Ok(out)
}
