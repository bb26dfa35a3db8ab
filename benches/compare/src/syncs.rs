//! Compares the counted sync calls of each engine with strace's, and with the engine's own count.
//!
//! The count that the campaign relies on is made by functions in this binary that stand before
//! libc's. A crate that makes raw system calls would escape them: strace sees those too.

use crate::cli::Usage;
use crate::kill::{chosen, scratch};
use crate::sync_count::SyncCount;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const CALLS: [&str; 4] = ["fdatasync", "fsync", "msync", "sync_file_range"];

/// Compares for every engine asked for; whether all agree.
///
/// # Errors
/// [`Usage`] where there is no strace, or no such engine.
pub fn run(names: &[String], writes: u64) -> Result<bool> {
    let names = chosen(names)?;
    if Command::new("strace").arg("-V").output().is_err() {
        return Err(Usage("there is no strace".into()).into());
    }
    let mut well = true;
    for name in names {
        let dir = scratch(&format!("syncs-{name}"));
        std::fs::create_dir_all(&dir)?;
        let (counted, own, traced) =
            count(&name, writes, &dir).with_context(|| format!("{name} in {}", dir.display()))?;
        std::fs::remove_dir_all(&dir)?;
        let agrees = counted == traced && counted.durable() > 0;
        well &= agrees;
        let own_word = own.map_or("keeps no count".into(), |own: u64| format!("says {own}"));
        println!(
            "{name}: {writes} synced writes, counted {}, strace {}, the engine {own_word}: {}",
            words(&counted),
            words(&traced),
            if agrees { "agree" } else { "DIFFER" }
        );
    }
    Ok(well)
}

fn words(count: &SyncCount) -> String {
    let counts = [count.fdatasync, count.fsync, count.msync, count.sync_file_range];
    let parts = CALLS.iter().zip(counts).filter(|(_, n)| *n > 0);
    let parts: Vec<String> = parts.map(|(name, n)| format!("{n} {name}")).collect();
    if parts.is_empty() { "none".into() } else { parts.join(" + ") }
}

/// The counts of the writes alone, from the binary, the engine and strace. What strace saw before
/// the first write and after the last lies outside two marks that the victim writes.
fn count(name: &str, writes: u64, dir: &Path) -> Result<(SyncCount, Option<u64>, SyncCount)> {
    let trace = dir.with_extension("strace");
    let mut command = Command::new("strace");
    let filter = format!("trace=write,{}", CALLS.join(","));
    command.args(["-f", "-s", "16", "-e", &filter, "-e", "signal=none", "-o"]).arg(&trace);
    command.arg(std::env::current_exe()?);
    command.args(["victim", "--durable", "--count", "--threads", "1", "--engine", name]);
    command.args(["--writes", &writes.to_string(), "--dir"]).arg(dir);
    let output = command.output().context("strace")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    let stdout = String::from_utf8(output.stdout)?;
    let line = stdout.lines().find_map(|line| line.strip_prefix("counted "));
    let (counted, own) = serde_json::from_str(line.context("it counted nothing")?)?;
    let text = std::fs::read_to_string(&trace)?;
    std::fs::remove_file(&trace)?;
    Ok((counted, own, traced(&text)))
}

fn traced(text: &str) -> SyncCount {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut open = false;
    for line in text.lines() {
        if line.contains("write(1, \"open") {
            open = true;
        } else if line.contains("write(1, \"counted") {
            open = false;
        }
        // A call that another thread interrupted has two lines; the first has the name and "(".
        let call = CALLS.iter().find(|call| {
            line.split_whitespace().nth(1).is_some_and(|word| word.starts_with(&format!("{call}(")))
        });
        if let Some(call) = call.filter(|_| open) {
            *counts.entry(call).or_default() += 1;
        }
    }
    let at = |name: &str| counts.get(name).copied().unwrap_or(0);
    SyncCount {
        fdatasync: at(CALLS[0]),
        fsync: at(CALLS[1]),
        msync: at(CALLS[2]),
        sync_file_range: at(CALLS[3]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_counted_between_its_marks() {
        let text = "7 fsync(3) = 0\n7 write(1, \"open\\n\", 5) = 5\n\
                    8 fdatasync(4 <unfinished ...>\n7 fsync(3) = 0\n\
                    8 <... fdatasync resumed>) = 0\n7 write(1, \"counted [{\"..., 90) = 90\n\
                    7 fdatasync(4) = 0\n";
        let want = SyncCount { fdatasync: 1, fsync: 1, ..SyncCount::default() };
        assert_eq!(traced(text), want);
    }
}
