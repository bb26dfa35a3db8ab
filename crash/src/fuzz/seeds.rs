//! The seed corpus. `UPDATE_GOLDEN=1 cargo test -p kiban-crash --test corpus` writes it anew.
//!
//! - For each decoder a few whole files as raw input, so that a fuzzer starts behind the magic
//!   numbers and checksums; for every target some random choices of several lengths.
//! - Inputs that a fuzzer found and that are worth keeping lie beside them under other names.

use super::{RAW, decode, table};
use kiban_model::generate::Seed;

const LENGTHS: [usize; 5] = [8, 40, 160, 400, 1200];

/// The seeds of one target: names and bytes.
#[must_use]
pub fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let mut seed = Seed(target.bytes().map(u64::from).sum());
    let mut seeds = Vec::new();
    for (i, len) in LENGTHS.into_iter().enumerate() {
        let mut bytes: Vec<u8> = (0..len).map(|_| seed.next_u64() as u8).collect();
        bytes[0] = 1 + i as u8;
        seeds.push((format!("choices-{len}"), bytes));
    }
    for (i, mut bytes) in wholes(target).into_iter().enumerate() {
        bytes.insert(0, RAW);
        seeds.push((format!("whole-{i}"), bytes));
    }
    seeds
}

/// Whole files for a decoder.
fn wholes(target: &str) -> Vec<Vec<u8>> {
    let choices = |n: u64| {
        let mut seed = Seed(n);
        (0..300).map(|_| seed.next_u64() as u8).collect::<Vec<_>>()
    };
    let make: fn(&[u8]) -> Vec<u8> = match target {
        "wal_reader" => decode::whole_log,
        "manifest" => decode::whole_manifest,
        "batch" => decode::whole_records,
        "table_open" => table::whole_table,
        _ => return Vec::new(),
    };
    (0..4).map(|n| make(&choices(n))).collect()
}
