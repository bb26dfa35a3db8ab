//! Trace files: lines into operations.
//!
//! Invariants
//! - A malformed line is refused with file, line and what was expected, whatever its bytes are;
//!   nothing of the trace runs then.
//! - A line stands for the same operation always: values of a block trace are made from
//!   (lbn, row), so that no two writes store the same bytes.
//!
//! A trace is held in memory as operations; the values of a block trace are made when they are
//! written.
#![allow(clippy::disallowed_methods, reason = "the runner stands outside the engine")]

use super::super::cli::TraceFormat;
use kiban_model::ops::{Case, Op, View};
use kiban_model::value::Value;
use std::fs;
use std::path::Path;

/// The first line of a block trace.
const BLOCK_HEAD: &str = "version,time,op,size,lbn";
/// The longest value of a block trace: the engine's default limit.
const VALUE_BYTES_MAX: u32 = 64 << 20;
/// The longest key of a tsv trace: the engine's limit.
const KEY_BYTES_MAX: usize = 65_535;

/// What a file of this name most likely holds.
#[must_use]
pub fn format_of(file: &Path) -> Option<TraceFormat> {
    match file.extension()?.to_str()? {
        "ops" => Some(TraceFormat::Ops),
        "tsv" => Some(TraceFormat::Tsv),
        "csv" => Some(TraceFormat::Blockio),
        _ => None,
    }
}

/// Reads a trace as a case.
///
/// # Errors
/// A sentence with file, line and what was expected.
pub fn read(file: &Path, format: TraceFormat) -> Result<Case, String> {
    let bytes = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let case = parse(&bytes, format)
        .map_err(|(line, expected)| format!("{}:{line}: expected {expected}", file.display()))?;
    if case.ops.is_empty() {
        return Err(format!("{}: expected at least one operation", file.display()));
    }
    Ok(case)
}

/// Parses a trace.
///
/// # Errors
/// The line, from 1, and what was expected there.
pub fn parse(bytes: &[u8], format: TraceFormat) -> Result<Case, (usize, String)> {
    match format {
        TraceFormat::Ops => {
            let text = std::str::from_utf8(bytes).map_err(|error| {
                let line = 1 + bytes[..error.valid_up_to()].iter().filter(|&&b| b == b'\n').count();
                (line, "text in UTF-8; other bytes are written \\xHH".to_owned())
            })?;
            Case::parse(text).map_err(|error| (error.line, error.expected))
        }
        TraceFormat::Tsv => each_line(bytes, 1, tsv_line),
        TraceFormat::Blockio => {
            let mut lines = bytes.splitn(2, |&byte| byte == b'\n');
            if lines.next().map(trim) != Some(BLOCK_HEAD.as_bytes()) {
                return Err((1, format!("the header `{BLOCK_HEAD}`")));
            }
            each_line(lines.next().unwrap_or_default(), 2, block_line)
        }
    }
}

fn each_line(
    bytes: &[u8],
    first: usize,
    parse: impl Fn(&[u8], usize) -> Result<Op, String>,
) -> Result<Case, (usize, String)> {
    let mut case = Case::default();
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    if bytes.is_empty() {
        return Ok(case);
    }
    for (number, line) in (first..).zip(bytes.split(|&byte| byte == b'\n')) {
        case.ops.push(parse(line, number).map_err(|expected| (number, expected))?);
    }
    Ok(case)
}

fn tsv_line(line: &[u8], _: usize) -> Result<Op, String> {
    let Some(tab) = line.iter().position(|&byte| byte == b'\t') else {
        return Err(format!("a key, a tab and a value, found {}", shown(line)));
    };
    if tab > KEY_BYTES_MAX {
        return Err(format!("a key of at most {KEY_BYTES_MAX} bytes, found one of {tab}"));
    }
    let value = Value::Bytes(line[tab + 1..].to_vec());
    Ok(Op::Put { key: line[..tab].to_vec(), value, durable: false })
}

fn block_line(line: &[u8], number: usize) -> Result<Op, String> {
    let wanted = || format!("five columns {BLOCK_HEAD}, found {}", shown(line));
    let text = std::str::from_utf8(trim(line)).map_err(|_| wanted())?;
    let columns: Vec<&str> = text.split(',').collect();
    let [version, time, op, size, lbn] = columns[..] else { return Err(wanted()) };
    let column = |name: &str, text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse::<u64>().ok()).flatten().ok_or_else(|| {
            format!("a number below 2^64 as {name}, found {}", shown(text.as_bytes()))
        })
    };
    column("version", version)?;
    column("time", time)?;
    let key = column("lbn", lbn)?.to_be_bytes().to_vec();
    let size = u32::try_from(column("size", size)?).ok().filter(|&size| size <= VALUE_BYTES_MAX);
    let len = size.ok_or_else(|| format!("a size of at most {VALUE_BYTES_MAX} bytes"))?;
    match op {
        "2a" => {
            // A seed of 32 bits from row and lbn: rows alone keep any two writes apart until 2^32.
            let lbn = u64::from_be_bytes(key[..].try_into().expect("invariant: eight bytes"));
            let seed = (number as u64 - 1) ^ (lbn << 32 >> 32).rotate_left(17);
            let value = Value::Made { seed: (seed ^ (seed >> 32)) as u32, len };
            Ok(Op::Put { key, value, durable: false })
        }
        "28" => Ok(Op::Get { key, view: View::Live }),
        other => Err(format!("2a (write) or 28 (read) as op, found {}", shown(other.as_bytes()))),
    }
}

/// Without the carriage return that some tools leave.
fn trim(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// A line as it can be shown: short, and without control characters.
fn shown(line: &[u8]) -> String {
    const SHOWN_MAX: usize = 60;
    let cut = &line[..line.len().min(SHOWN_MAX)];
    let more = if line.len() > SHOWN_MAX { "..." } else { "" };
    format!("`{}{more}`", cut.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_lines_write_and_read() {
        let text =
            b"version,time,op,size,lbn\r\n1,5,2a,512,258\n1,6,28,4096,258\r\n1,7,2a,512,258\n";
        let case = parse(text, TraceFormat::Blockio).expect("well-formed");
        assert_eq!(case.ops.len(), 3);
        let (Op::Put { key, value: one, .. }, Op::Put { value: two, .. }) =
            (&case.ops[0], &case.ops[2])
        else {
            panic!("rows one and three write");
        };
        assert_eq!((&key[..], one.len()), (&[0, 0, 0, 0, 0, 0, 1, 2][..], 512));
        assert_ne!(one.to_vec(), two.to_vec());
        assert_eq!(case.ops[1], Op::Get { key: key.clone(), view: View::Live });
    }

    #[test]
    fn tsv_keeps_bytes_as_they_are() {
        let case = parse(b"a\tb\tc\r\n\t\n\xff\t\0\n", TraceFormat::Tsv).expect("well-formed");
        let pairs: Vec<(Vec<u8>, Vec<u8>)> = case
            .ops
            .into_iter()
            .map(|op| match op {
                Op::Put { key, value, .. } => (key, value.to_vec()),
                other => panic!("{other:?}"),
            })
            .collect();
        let wanted: [(&[u8], &[u8]); 3] = [(b"a", b"b\tc\r"), (b"", b""), (b"\xff", b"\0")];
        assert_eq!(pairs, wanted.map(|(key, value)| (key.to_vec(), value.to_vec())));
    }

    #[test]
    fn malformed_lines_are_refused_with_number_and_expectation() {
        let block = |row: &str| format!("{BLOCK_HEAD}\n1,5,2a,512,1\n{row}\n").into_bytes();
        for (bytes, format, line, expected) in [
            (b"x,y\n".to_vec(), TraceFormat::Blockio, 1, "header"),
            (Vec::new(), TraceFormat::Blockio, 1, "header"),
            (block("1,5,2a,512"), TraceFormat::Blockio, 3, "five columns"),
            (block("1,5,2a,512,1,1"), TraceFormat::Blockio, 3, "five columns"),
            (block("1,5,2b,512,1"), TraceFormat::Blockio, 3, "2a (write) or 28 (read)"),
            (block("1,5,2a,-512,1"), TraceFormat::Blockio, 3, "size, found `-512`"),
            (block("1,5,2a,99999999999,1"), TraceFormat::Blockio, 3, "at most"),
            (block("1,5,2a,512,99999999999999999999"), TraceFormat::Blockio, 3, "as lbn"),
            (block("1,,2a,512,1"), TraceFormat::Blockio, 3, "as time"),
            (block(""), TraceFormat::Blockio, 3, "five columns"),
            (b"a\tb\nplain\n".to_vec(), TraceFormat::Tsv, 2, "a tab and a value, found `plain`"),
            (b"a\tb\n\n".to_vec(), TraceFormat::Tsv, 2, "a tab"),
            ([&[b'k'; 65_536][..], b"\tv"].concat(), TraceFormat::Tsv, 1, "at most 65535"),
            (b"sync\n\xff\n".to_vec(), TraceFormat::Ops, 2, "UTF-8"),
            (b"sync\nfly\n".to_vec(), TraceFormat::Ops, 2, ""),
        ] {
            let (at, what) = parse(&bytes, format).expect_err("malformed");
            assert_eq!(at, line, "{what}");
            assert!(what.contains(expected), "{what}");
        }
    }
}
