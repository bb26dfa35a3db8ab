//! A run's result as a page: totals, matrix, kill matrix, failure reports, verdict.
//!
//! Invariants
//! - The page shows what the report holds and judges nothing: the verdict is the report's.
//! - A failure report is whole in itself: promise, seed, revision, options, shrunk operations,
//!   last events, expected and got, and a line to paste that replays it.

use super::page::{Block, Cell, Page, Table, Tone};
use crate::report::{Cells, ContainRow, Failure, MutantResult, PowerRow, Report, Verdict};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The page of `report`; `files` are the shrunk cases that were written, by token.
#[must_use]
pub fn page(report: &Report, files: &BTreeMap<String, String>) -> Page {
    let mut page = Page {
        title: title(&report.command).to_owned(),
        verdict: verdict(report),
        tone: tone(report.verdict),
        ..Page::default()
    };
    if !report.cells.matrix.is_empty() {
        page.section("Stages and faults", matrix(&report.cells));
    }
    if !report.corruption.is_empty() {
        page.section("Corruption sweep", vec![Block::Table(corruption(report))]);
    }
    if !report.power.is_empty() {
        page.section("File systems", vec![Block::Table(systems(&report.power))]);
    }
    if !report.contain.is_empty() {
        page.section("States", vec![Block::Table(states(&report.contain))]);
        page.section("Failed syncs", vec![Block::Table(failed_syncs(&report.contain))]);
    }
    if !report.mutants.is_empty() {
        page.section("Kill matrix", vec![Block::Table(kills(&report.mutants))]);
    }
    if !report.counters.is_empty() {
        page.section("Counters", vec![Block::Table(counters(&report.counters))]);
    }
    for failure in &report.failures {
        let text = failure_text(report, failure, files);
        page.section("", vec![Block::Verbatim(text)]);
    }
    page.section("", vec![Block::Facts(facts(report))]);
    page
}

fn title(command: &str) -> &str {
    match command {
        "run" => "crash campaign",
        "sweep" => "exhaustive sweep",
        "mutants" => "seeded bugs",
        "kill" => "killed processes",
        "power" => "power cuts on real file systems",
        "merge" => "merged result",
        other => other,
    }
}

fn tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Held => Tone::Good,
        Verdict::Broken | Verdict::Hung | Verdict::Diverged => Tone::Bad,
        Verdict::Environment | Verdict::Hollow | Verdict::Interrupted => Tone::Doubtful,
    }
}

/// The verdict as a sentence that begins with its word.
#[must_use]
pub fn verdict(report: &Report) -> String {
    match report.verdict {
        Verdict::Held if !report.part_of.is_empty() => format!(
            "HELD: every promise held, as far as the time was enough ({}).",
            report.part_of.join(", ")
        ),
        Verdict::Held if report.mutants.is_empty() => "HELD: every promise held.".to_owned(),
        Verdict::Held => format!("HELD: all {} seeded bugs were killed.", report.mutants.len()),
        Verdict::Broken => {
            let mut promises: Vec<&str> = report.failures.iter().map(|f| &*f.promise).collect();
            promises.sort_unstable();
            promises.dedup();
            let wrong: u64 = report.corruption.iter().map(|c| c.wrong).sum();
            match wrong {
                0 => format!("BROKEN: {}.", promises.join(", ")),
                _ => format!("BROKEN: {wrong} damaged files gave a wrong answer (C1)."),
            }
        }
        Verdict::Hung => format!("HUNG: {} cases did not end in time.", report.failures_all),
        Verdict::Diverged => "DIVERGED: the replay did not do what the run had done.".to_owned(),
        Verdict::Environment => format!(
            "ENVIRONMENT: {}. Nothing is known about the promises.",
            report.environment.as_deref().unwrap_or("the machine refused")
        ),
        Verdict::Interrupted => "INTERRUPTED: every promise held so far.".to_owned(),
        Verdict::Hollow => format!("HOLLOW: {}.", hollow(report)),
    }
}

/// Why a run in which nothing broke says nothing.
fn hollow(report: &Report) -> String {
    let mut why = Vec::new();
    if let Some(control) = report.control.as_deref().filter(|&control| control != "alive") {
        let what = if control.starts_with("unfinished") { "finish" } else { "survive" };
        why.push(format!("the unmutated engine did not {what} the layers ({control})"));
    }
    if !report.nothing_of.is_empty() {
        why.push(format!("nothing was looked at of {}", report.nothing_of.join(", ")));
    }
    let ids = |fate| {
        let of_fate = report.mutants.iter().filter(|mutant| mutant.fate() == fate);
        of_fate.map(|mutant| &*mutant.id).collect::<Vec<_>>().join(", ")
    };
    for (fate, what) in [("lives", "lived"), ("unfinished", "were not looked for to the end")] {
        let ids = ids(fate);
        if !ids.is_empty() {
            why.push(format!("seeded bugs {what}: {ids}"));
        }
    }
    if report.totals.cases == 0 && report.mutants.is_empty() {
        why.push("no case ran".to_owned());
    }
    if !report.counters_zero.is_empty() {
        why.push(format!("counters never fired: {}", report.counters_zero.join(", ")));
    }
    if !report.cells.missing.is_empty() {
        why.push(format!("cells never reached: {}", report.cells.missing.join(", ")));
    }
    why.join("; ")
}

fn facts(report: &Report) -> Vec<(String, String)> {
    let totals = &report.totals;
    let mut facts: Vec<(String, String)> = Vec::new();
    let mut fact = |name: &str, value: String| facts.push((name.to_owned(), value));
    fact("seed", format!("{:#x} ({})", report.seed, report.seed));
    fact("revision", report.revision.clone());
    if !report.profile.is_empty() {
        fact("profile", report.profile.clone());
    }
    if !report.shard.is_empty() {
        fact("shard", report.shard.clone());
    }
    if let Some(sequences) = report.sequences {
        fact("sequences", grouped(sequences));
    }
    if let Some(kib) = report.memory_kib {
        fact("memory at the most, MiB", grouped(kib / 1024));
    }
    if let Some(kills) = report.kills_in_recovery {
        fact("kills in recovery", grouped(kills));
    }
    for (name, n) in [
        ("cases", totals.cases),
        ("operations", totals.ops),
        ("crash images", totals.images),
        ("nested images", totals.images_nested),
        ("duplicate images", totals.images_duplicate),
        ("schedules", totals.schedules),
        ("points of the row", totals.row_points),
        ("errors injected", totals.errors_injected),
    ] {
        if n > 0 {
            fact(name, grouped(n));
        }
    }
    if totals.images > 0 {
        let (ops, runs) = (totals.median_ops(), totals.median_runs());
        fact("median image", format!("{ops} operations since creation, {runs} runs"));
    }
    if report.cells.reachable > 0 {
        fact("cells hit", format!("{} of {}", report.cells.hit, report.cells.reachable));
    }
    for (name, rate) in [
        ("images per second and core", report.rates.images_per_second_core),
        ("lockstep operations per second and core", report.rates.lockstep_ops_per_second_core),
    ] {
        if rate > 0.0 {
            fact(name, format!("{rate:.0}"));
        }
    }
    if let Some(control) = &report.control {
        fact("control", control.clone());
    }
    if !report.digest.is_empty() {
        fact("digest", report.digest.clone());
    }
    fact("elapsed", format!("{:.1} s", report.elapsed_s));
    facts
}

/// Digits in groups of three.
#[must_use]
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// One row a stage, one column a fault; a cell says how many of its reachable outcomes were seen.
fn matrix(cells: &Cells) -> Vec<Block> {
    let mut faults: Vec<&str> = Vec::new();
    let mut stages: Vec<&str> = Vec::new();
    for cell in &cells.matrix {
        if !faults.contains(&&*cell.fault) {
            faults.push(&cell.fault);
        }
        if !stages.contains(&&*cell.stage) {
            stages.push(&cell.stage);
        }
    }
    let mut head = vec!["stage"];
    head.extend(&faults);
    let mut table = Table::new(&head);
    for stage in stages {
        let mut row = vec![Cell::from(stage)];
        row.extend(faults.iter().map(|fault| matrix_cell(cells, stage, fault)));
        table.row(row);
    }
    vec![
        Block::Table(table),
        Block::Note(
            "A cell says how many of the outcomes that it can have were seen, and in how many \
             images or errors. \".\" can't happen."
                .to_owned(),
        ),
    ]
}

fn matrix_cell(cells: &Cells, stage: &str, fault: &str) -> Cell {
    let here = || cells.matrix.iter().filter(|c| c.stage == stage && c.fault == fault);
    let reachable = here().filter(|c| c.unreachable.is_none()).count();
    let seen = here().filter(|c| c.unreachable.is_none() && c.hits > 0).count();
    let hits: u64 = here().map(|c| c.hits).sum();
    if here().any(|c| c.unreachable.is_some() && c.hits > 0) {
        Cell::toned(format!("{hits} unforeseen"), Tone::Bad)
    } else if reachable == 0 {
        Cell::toned(".", Tone::Muted)
    } else {
        let tone = if seen == reachable { Tone::Good } else { Tone::Bad };
        Cell::toned(format!("{seen}/{reachable} {hits}"), tone)
    }
}

fn corruption(report: &Report) -> Table {
    let mut table = Table::new(&[
        "file",
        "part",
        "damage",
        "tried",
        "detected",
        "undecidable",
        "harmless",
        "wrong",
    ]);
    for found in &report.corruption {
        let tone = if found.wrong > 0 { Tone::Bad } else { Tone::Good };
        table.row(vec![
            (&*found.file).into(),
            (&*found.part).into(),
            (&*found.damage).into(),
            found.tried.to_string().into(),
            found.detected.to_string().into(),
            found.undecidable.to_string().into(),
            found.harmless.to_string().into(),
            Cell::toned(found.wrong.to_string(), tone),
        ]);
    }
    table
}

fn systems(rows: &[PowerRow]) -> Table {
    let mut table = Table::new(&[
        "fs",
        "sessions",
        "writes",
        "flushes",
        "images",
        "nested",
        "lossy",
        "torn",
        "refused",
        "device errors",
        "poisoned",
        "ms/image",
        "recorder",
    ]);
    for row in rows {
        let mut cells = vec![Cell::from(&*row.fs)];
        let counts = [
            row.sessions,
            row.writes,
            row.flushes,
            row.images,
            row.nested,
            row.lossy,
            row.torn,
            row.refused,
            row.device_errors,
            row.poisoned,
        ];
        cells.extend(counts.map(|n| grouped(n).into()));
        cells.push(format!("{:.1}", row.image_ms).into());
        cells.push(format!("{:.2} x", row.recorder_times).into());
        table.row(cells);
    }
    table
}

fn states(rows: &[ContainRow]) -> Table {
    let mut table = Table::new(&[
        "fs",
        "calls",
        "sequences",
        "images",
        "states",
        "outside",
        "refused",
        "device errors",
        "simulated",
        "never seen",
    ]);
    for row in rows {
        let mut cells = vec![Cell::from(&*row.fs)];
        let counts = [row.calls, row.sequences, row.images, row.states];
        cells.extend(counts.map(|n| grouped(n).into()));
        let tone = if row.outside > 0 { Tone::Bad } else { Tone::Good };
        cells.push(Cell::toned(grouped(row.outside), tone));
        let counts = [row.refused, row.device_errors, row.simulated];
        cells.extend(counts.map(|n| grouped(n).into()));
        let unseen = (row.simulated - row.simulated_seen) as f64 / row.simulated.max(1) as f64;
        cells.push(format!("{:.0} %", unseen * 100.0).into());
        table.row(cells);
    }
    table
}

fn failed_syncs(rows: &[ContainRow]) -> Table {
    let names: Vec<&str> = rows.iter().map(|row| &*row.fs).collect();
    let mut table = Table::new(&[&["what was seen"], &names[..]].concat());
    let seen: std::collections::BTreeSet<&str> =
        rows.iter().flat_map(|row| row.failed_syncs.keys().map(|what| &**what)).collect();
    for what in seen {
        let mut cells = vec![Cell::from(what)];
        let count = |row: &ContainRow| row.failed_syncs.get(what).copied().unwrap_or(0);
        cells.extend(rows.iter().map(|row| Cell::from(grouped(count(row)))));
        table.row(cells);
    }
    table
}

fn kills(mutants: &[MutantResult]) -> Table {
    let mut table =
        Table::new(&["bug", "killed by", "broke", "cases", "ops", "shrunk ops", "seconds"]);
    for mutant in mutants {
        let short = mutant.looked.iter().filter(|looked| looked.end == "unfinished");
        let short = short.map(|looked| format!(" ({looked})")).collect::<String>();
        let by = match mutant.fate() {
            "killed" => Cell::toned(mutant.layers.join(" ") + &short, Tone::Good),
            "lives" => Cell::toned("LIVES", Tone::Bad),
            _ => Cell::toned(format!("UNFINISHED{short}"), Tone::Doubtful),
        };
        table.row(vec![
            (&*mutant.id).into(),
            by,
            (&*mutant.promise).into(),
            mutant.cases.to_string().into(),
            mutant.ops.to_string().into(),
            mutant.shrunk_ops.to_string().into(),
            format!("{:.1}", mutant.seconds).into(),
        ]);
    }
    table
}

fn counters(counters: &BTreeMap<String, u64>) -> Table {
    let mut table = Table::new(&["counter", "fired"]);
    for (name, &n) in counters {
        let tone = if n > 0 { Tone::Good } else { Tone::Bad };
        table.row(vec![(&**name).into(), Cell::toned(n.to_string(), tone)]);
    }
    table
}

/// One failure as text, without the files it was written to.
#[must_use]
pub fn failure(report: &Report, failure: &Failure) -> String {
    failure_text(report, failure, &BTreeMap::new())
}

fn failure_text(report: &Report, failure: &Failure, files: &BTreeMap<String, String>) -> String {
    let title = title(&report.command);
    let mut out = format!("FAILED {title}: {} ({})\n", failure.what, failure.promise);
    let mut line = |text: std::fmt::Arguments<'_>| {
        writeln!(out, "{text}").expect("invariant: a string takes every write");
    };
    let revision: String = failure.revision.chars().take(12).collect();
    line(format_args!(
        "  seed {:#x}  case {}  commit {revision}  profile {}",
        failure.seed,
        failure.case,
        if report.profile.is_empty() { "-" } else { &report.profile }
    ));
    failure.options.lines().for_each(|options| line(format_args!("  {options}")));
    if !failure.at.is_empty() {
        line(format_args!("  at   {}", failure.at));
    }
    if !failure.shrunk.is_empty() {
        line(format_args!("  shrunk {} ops -> {}:", failure.ops, failure.shrunk_ops));
        failure.shrunk.lines().for_each(|op| line(format_args!("    {op}")));
    }
    if !failure.events.is_empty() {
        line(format_args!("  last events:"));
        failure.events.iter().for_each(|event| line(format_args!("    {event}")));
    }
    line(format_args!("  expected {}", failure.expected));
    line(format_args!("  got      {}", failure.got));
    if !failure.token.is_empty() {
        line(format_args!("replay:  {}", failure.replay_line()));
    }
    if let Some(file) = files.get(&failure.token) {
        line(format_args!("shrunk:  cargo run --release -p kiban-crash -- replay {file}"));
    }
    out.truncate(out.trim_end().len());
    out
}

#[cfg(test)]
mod tests;
