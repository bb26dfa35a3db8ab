//! How the profile is said in RocksDB's words, and what its OPTIONS file answers.
//!
//! - Every named knob is looked up in the newest OPTIONS file, which RocksDB writes at `open` after
//!   it has corrected what it was given. (Setting the stop trigger alone makes it raise that one to
//!   the slowdown trigger; so both are set.)
//! - What no OPTIONS file holds, the capacity of the block cache, is asked as a property.
//! - Whether it computes CRC-32C by the CPU's instruction, which is how its crate was compiled, is
//!   read in its LOG.
//! - Nothing beyond the profile is tuned: the rest stands in the archived file as RocksDB has it.

use crate::engine::{Knob, Result};
use crate::profile::{Filter, Profile, Tuning};
use anyhow::{Context, anyhow};
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, Options, ReadOptions, SliceTransform,
};
use std::collections::BTreeMap;
use std::path::Path;

/// The version that the campaign compares with.
const VERSION: &str = "11.8.1";

const DATABASE: &str = "DBOptions";
const FAMILY: &str = "CFOptions \"default\"";
const TABLE: &str = "TableOptions/BlockBasedTable \"default\"";

/// Bloom bits a key, and the size of a Ribbon filter with the same false positives.
const FILTER_BITS: f64 = 10.0;

/// What the profile asks for.
pub fn options(profile: &Profile) -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    if profile.statistics {
        options.enable_statistics();
    }
    if profile.tuning == Tuning::Defaults {
        return options;
    }
    options.set_write_buffer_size(profile.memtable_bytes as usize);
    options.set_max_write_buffer_number(profile.memtables as i32);
    options.set_target_file_size_base(profile.table_bytes);
    options.set_max_bytes_for_level_base(profile.level_base_bytes);
    options.set_max_bytes_for_level_multiplier(f64::from(profile.level_multiplier));
    options.set_level_zero_file_num_compaction_trigger(profile.l0_trigger as i32);
    options.set_level_zero_slowdown_writes_trigger(profile.l0_slowdown as i32);
    options.set_level_zero_stop_writes_trigger(profile.l0_stop as i32);
    options.set_max_open_files(profile.open_files as i32);
    // Its own default is LZ4; values that repeat would shrink to nothing.
    options.set_compression_type(DBCompressionType::None);
    options.set_block_based_table_factory(&table_options(profile));
    if uses_prefix(profile) {
        let len = profile.scan_prefix_len as usize;
        options.set_prefix_extractor(SliceTransform::create_fixed_prefix(len));
    }
    options
}

fn table_options(profile: &Profile) -> BlockBasedOptions {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&Cache::new_lru_cache(profile.cache_bytes as usize));
    table.set_block_size(profile.block_bytes as usize);
    match profile.filter {
        Filter::None => {}
        Filter::Bloom => table.set_bloom_filter(FILTER_BITS, false),
        Filter::Ribbon => table.set_ribbon_filter(FILTER_BITS),
    }
    table
}

/// Whether tables get a filter over prefixes. It would serve no iterator that seeks in total order.
pub fn uses_prefix(profile: &Profile) -> bool {
    profile.tuning == Tuning::Matched && profile.scan_prefix_len > 0 && !profile.total_order_seek
}

/// How a prefix is scanned.
pub fn scan_options(profile: &Profile) -> ReadOptions {
    let mut options = ReadOptions::default();
    if uses_prefix(profile) {
        options.set_prefix_same_as_start(true);
    } else if profile.total_order_seek {
        options.set_total_order_seek(true);
    }
    options
}

/// The newest OPTIONS file in `dir`: its name and its bytes.
pub fn newest_file(dir: &Path) -> Result<(String, Vec<u8>)> {
    let mut newest = None;
    for entry in std::fs::read_dir(dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let number = name.strip_prefix("OPTIONS-").and_then(|number| number.parse::<u64>().ok());
        newest = newest.max(number.map(|number| (number, name)));
    }
    let (_, name) = newest.ok_or_else(|| anyhow!("no OPTIONS file in {}", dir.display()))?;
    let bytes = std::fs::read(dir.join(&name)).with_context(|| format!("read {name}"))?;
    Ok((name, bytes))
}

/// Whether CRC-32C is fast, as the LOG that `open` began in `dir` has it.
fn checksum_knob(dir: &Path) -> Result<Knob> {
    let log = std::fs::read(dir.join("LOG")).context("read RocksDB's LOG")?;
    let log = String::from_utf8_lossy(&log);
    let line = log.lines().find_map(|line| line.split_once("Fast CRC32 supported: "));
    let got = line.map_or("unknown", |(_, said)| said.trim());
    let got = if got.starts_with("Supported") { "Supported" } else { got };
    Ok(Knob { name: "Fast CRC32".into(), asked: "Supported".into(), got: got.into() })
}

/// The profile's knobs beside what the OPTIONS file, the LOG and the open database say.
pub fn knobs(profile: &Profile, file: &[u8], db: &DB) -> Result<Vec<Knob>> {
    let found = parse(file)?;
    let mut knobs = vec![checksum_knob(db.path())?];
    for (section, name, asked) in asked(profile) {
        let got = found.get(&(section.to_string(), name.to_string()));
        let got = got.cloned().unwrap_or_else(|| "(not in the file)".to_string());
        knobs.push(Knob { name: name.to_string(), asked, got });
    }
    if profile.tuning == Tuning::Matched {
        let capacity = db.property_int_value(rocksdb::properties::BLOCK_CACHE_CAPACITY)?;
        knobs.push(Knob {
            name: "block_cache capacity".to_string(),
            asked: profile.cache_bytes.to_string(),
            got: capacity.map_or_else(|| "unknown".to_string(), |bytes| bytes.to_string()),
        });
    }
    Ok(knobs)
}

/// Section, name, and value as the OPTIONS file would write it.
fn asked(profile: &Profile) -> Vec<(&'static str, &'static str, String)> {
    let version = ("Version", "rocksdb_version", VERSION.to_string());
    if profile.tuning == Tuning::Defaults {
        return vec![version];
    }
    let filter = match profile.filter {
        Filter::None => "nullptr".to_string(),
        // The file has the name alone: how many bits a key it was given, nobody tells back.
        Filter::Bloom => "bloomfilter".to_string(),
        Filter::Ribbon => "ribbonfilter".to_string(),
    };
    let prefix = if uses_prefix(profile) {
        format!("rocksdb.FixedPrefix.{}", profile.scan_prefix_len)
    } else {
        "nullptr".to_string()
    };
    vec![
        version,
        (DATABASE, "max_open_files", profile.open_files.to_string()),
        (FAMILY, "write_buffer_size", profile.memtable_bytes.to_string()),
        (FAMILY, "max_write_buffer_number", profile.memtables.to_string()),
        (FAMILY, "target_file_size_base", profile.table_bytes.to_string()),
        (FAMILY, "max_bytes_for_level_base", profile.level_base_bytes.to_string()),
        (
            FAMILY,
            "max_bytes_for_level_multiplier",
            format!("{:.6}", f64::from(profile.level_multiplier)),
        ),
        (FAMILY, "level0_file_num_compaction_trigger", profile.l0_trigger.to_string()),
        (FAMILY, "level0_slowdown_writes_trigger", profile.l0_slowdown.to_string()),
        (FAMILY, "level0_stop_writes_trigger", profile.l0_stop.to_string()),
        (FAMILY, "compression", "kNoCompression".to_string()),
        (FAMILY, "prefix_extractor", prefix),
        (TABLE, "block_size", profile.block_bytes.to_string()),
        (TABLE, "filter_policy", filter),
    ]
}

/// Values by section and name.
fn parse(file: &[u8]) -> Result<BTreeMap<(String, String), String>> {
    let text = std::str::from_utf8(file).context("the OPTIONS file is not text")?;
    let mut section = String::new();
    let mut found = BTreeMap::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.to_string();
        } else if let Some((name, value)) = line.split_once('=').filter(|_| !line.starts_with('#'))
        {
            found.insert((section.clone(), name.to_string()), value.to_string());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_told_apart_and_comments_left_out() {
        let file =
            b"# a=comment\n[Version]\n  rocksdb_version=11.8.1\n\n[CFOptions \"default\"]\n  \
            a=1\n[DBOptions]\n  a=2\n  empty=\n";
        let found = parse(file).expect("text");
        let get = |section: &str, name: &str| {
            found.get(&(section.to_string(), name.to_string())).map(String::as_str)
        };
        assert_eq!(get("Version", "rocksdb_version"), Some("11.8.1"));
        assert_eq!((get(FAMILY, "a"), get(DATABASE, "a")), (Some("1"), Some("2")));
        assert_eq!((get(DATABASE, "empty"), found.len()), (Some(""), 4));
    }
}
