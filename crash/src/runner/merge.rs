//! Makes one result of the results of shards.
//!
//! Invariants
//! - Only parts of one whole are joined: same command, revision, seed and profile; shards named
//!   I/N with one N and no I twice. Anything else is refused with exit code 2.
//! - The union is judged anew: a cell that one shard reached is reached. Where a shard is missing,
//!   the rest is judged as a run cut short, so that nothing is called hollow for want of it.
//! - The order of the arguments changes nothing.
#![allow(clippy::disallowed_methods, reason = "the runner stands outside the engine")]

use super::cli::Shard;
use crate::report::Report;
use std::fs;
use std::path::{Path, PathBuf};

/// The joined result, and a sentence on what is missing.
#[derive(Debug)]
pub struct Merged {
    /// The result, judged.
    pub report: Report,
    /// What a reader should know about it.
    pub missing: Option<String>,
}

/// Reads and joins.
///
/// # Errors
/// A sentence that names the directory and what is wrong with it.
pub fn merge(dirs: &[PathBuf]) -> Result<Merged, String> {
    let mut parts = Vec::new();
    for dir in dirs {
        let report = read(dir)?;
        let shard: Shard = match &*report.shard {
            "" => Shard::WHOLE,
            text => text.parse().map_err(|e| format!("{}: shard {text}: {e}", dir.display()))?,
        };
        parts.push((shard, dir, report));
    }
    parts.sort_by_key(|(shard, ..)| shard.index);
    refuse_strangers(&parts)?;
    let count = parts[0].0.count;
    let gone: Vec<String> = (1..=count)
        .filter(|index| parts.iter().all(|(shard, ..)| shard.index != *index))
        .map(|index| format!("{index}/{count}"))
        .collect();
    let digests: Vec<&str> = parts.iter().map(|(.., report)| &*report.digest).collect();
    let mut merged = Report { digest: join_digests(&digests), ..parts[0].2.clone() };
    for (.., report) in &parts[1..] {
        merged.absorb(report);
        merged.jobs += report.jobs;
    }
    merged.shard = String::new();
    merged.directed_whole &= gone.is_empty();
    merged.judge();
    let missing = (!gone.is_empty()).then(|| {
        format!("shards {} are missing: silent counters and cells are not judged", gone.join(", "))
    });
    Ok(Merged { report: merged, missing })
}

fn read(dir: &Path) -> Result<Report, String> {
    let file = dir.join("report.json");
    let text = fs::read_to_string(&file).map_err(|error| {
        format!("{}: {error}; expected a directory that --out of a shard filled", file.display())
    })?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))
}

/// Refuses what are not parts of one whole.
fn refuse_strangers(parts: &[(Shard, &PathBuf, Report)]) -> Result<(), String> {
    let Some((first, first_dir, one)) = parts.first() else {
        return Err("expected at least one directory".to_owned());
    };
    for (at, (shard, dir, report)) in parts.iter().enumerate().skip(1) {
        for (what, a, b) in [
            ("command", one.command.clone(), report.command.clone()),
            ("revision", one.revision.clone(), report.revision.clone()),
            ("seed", one.seed.to_string(), report.seed.to_string()),
            ("profile", one.profile.clone(), report.profile.clone()),
            ("shard count", first.count.to_string(), shard.count.to_string()),
        ] {
            if a != b {
                let (first_dir, dir) = (first_dir.display(), dir.display());
                return Err(format!("{dir}: {what} is {b}, but {a} in {first_dir}"));
            }
        }
        let (before, before_dir, _) = &parts[at - 1];
        if before.index == shard.index {
            let (before_dir, dir) = (before_dir.display(), dir.display());
            return Err(format!("{dir}: shard {shard} is in {before_dir} already"));
        }
    }
    Ok(())
}

/// Digests of parts can't be that of the whole, since that one is taken in case order; joined in
/// shard order they still change when any part changes.
fn join_digests(digests: &[&str]) -> String {
    match digests {
        [one] => (*one).to_owned(),
        many => many.join("+"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Cell, Cells, Totals, Verdict};
    use std::collections::BTreeMap;

    fn shard(index: u32, hits: u64) -> Report {
        let cell = Cell {
            stage: "log.sync".into(),
            fault: "power".into(),
            outcome: "kept".into(),
            hits,
            unreachable: None,
        };
        let mut report = Report {
            command: "run".into(),
            seed: 7,
            shard: format!("{index}/2"),
            totals: Totals { cases: 10, images: 5, ..Totals::default() },
            directed_whole: true,
            cells: Cells { matrix: vec![cell], ..Cells::default() },
            counters: BTreeMap::from([("stall entered".to_owned(), hits)]),
            digest: format!("d{index}"),
            ..Report::default()
        };
        report.judge();
        report
    }

    fn put(reports: &[Report]) -> (tempfile::TempDir, Vec<PathBuf>) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut dirs = Vec::new();
        for (at, report) in reports.iter().enumerate() {
            let place = dir.path().join(at.to_string());
            fs::create_dir(&place).expect("a directory");
            let text = serde_json::to_string(report).expect("plain data");
            fs::write(place.join("report.json"), text).expect("a file");
            dirs.push(place);
        }
        (dir, dirs)
    }

    #[test]
    fn the_union_is_judged_in_any_order() {
        let (_dir, mut dirs) = put(&[shard(1, 0), shard(2, 3)]);
        let one = merge(&dirs).expect("parts of one whole");
        assert_eq!(one.report.verdict, Verdict::Held);
        assert_eq!((one.report.totals.cases, one.report.cells.hit), (20, 1));
        assert_eq!((&*one.report.digest, one.missing), ("d1+d2", None));
        dirs.reverse();
        assert_eq!(merge(&dirs).expect("the same parts").report, one.report);
    }

    #[test]
    fn a_missing_shard_is_said_and_fails_nothing() {
        let (_dir, dirs) = put(&[shard(1, 0)]);
        let merged = merge(&dirs).expect("one part");
        assert_eq!(merged.report.verdict, Verdict::Held);
        assert!(merged.missing.expect("2/2 is missing").contains("2/2"));
    }

    #[test]
    fn strangers_are_refused_by_name() {
        let other = Report { seed: 8, ..shard(2, 1) };
        for (reports, wanted) in [
            (vec![shard(1, 1), shard(1, 1)], "already"),
            (vec![shard(1, 1), other], "seed is 8, but 7"),
            (vec![Report { shard: "5/2".into(), ..shard(1, 1) }], "expected I/N"),
        ] {
            let (_dir, dirs) = put(&reports);
            let refused = merge(&dirs).expect_err("no parts of one whole");
            assert!(refused.contains(wanted), "{refused}");
        }
        let refused = merge(&[PathBuf::from("/nowhere/x")]).expect_err("no such directory");
        assert!(refused.contains("/nowhere/x/report.json"), "{refused}");
    }
}
