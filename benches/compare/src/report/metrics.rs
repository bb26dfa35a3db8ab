//! What one trial says: figures by name, each with its unit and which direction is better.
//!
//! - A figure that is unknown is left out, never zero.
//! - In a stage in which one group makes its calls and another calls for as long as that takes, the
//!   slower the first is, the more calls the second makes: no figure takes the calls of both
//!   together. Reads and writes apart stand for it.

use crate::engine::Account;
use crate::histogram::Percentiles;
use crate::host::process::Memory;
use crate::plan::{Row, Stage};
use crate::supervise::record::Record;
use crate::trial::{Figures, StageFigures};

/// Which direction is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// A higher figure.
    Higher,
    /// A lower one.
    Lower,
    /// Neither: it is there to be read, and no ratio is made of it.
    Neither,
}

/// A kind of figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name in scoreboard.json.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Which direction is better.
    pub better: Better,
}

macro_rules! metrics {
    ($($name:literal $unit:literal $better:ident,)*) => {
        /// Every kind of figure, in the order of the board.
        pub const METRICS: &[Metric] = &[$(
            Metric { name: $name, unit: $unit, better: Better::$better },
        )*];
    };
}

metrics! {
    "ops_per_s" "1/s" Higher,
    "reads_per_s" "1/s" Higher,
    "writes_per_s" "1/s" Higher,
    "read_p50" "us" Lower,
    "read_p95" "us" Lower,
    "read_p99" "us" Lower,
    "read_p999" "us" Lower,
    "read_p9999" "us" Lower,
    "read_max" "us" Lower,
    "write_p50" "us" Lower,
    "write_p95" "us" Lower,
    "write_p99" "us" Lower,
    "write_p999" "us" Lower,
    "write_p9999" "us" Lower,
    "write_max" "us" Lower,
    "arrivals_per_s" "1/s" Neither,
    "arrivals_unserved" "calls" Neither,
    "start_lag_p99" "us" Neither,
    "cpu_per_op" "us" Lower,
    "queue_wait_per_s" "ms/s" Neither,
    "syncs_per_4000" "calls" Lower,
    "rss_peak" "MiB" Lower,
    "anon_peak" "MiB" Lower,
    "file_peak" "MiB" Neither,
    "open_files_peak" "files" Neither,
    "ops_per_s_settled" "1/s" Higher,
    "end_sync" "ms" Lower,
    "end_flush" "ms" Neither,
    "settle" "ms" Neither,
    "settled" "0 or 1" Neither,
    "process_write_amplification" "x" Lower,
    "table_write_amplification" "x" Neither,
    "stall" "ms" Neither,
    "disk_logical" "MiB" Lower,
    "disk_allocated" "MiB" Lower,
    "load" "ms" Neither,
    "load_settle" "ms" Neither,
    "settle_before" "ms" Neither,
    "residency" "%" Neither,
    "create" "ms" Neither,
    "close" "ms" Neither,
    "reopen" "ms" Neither,
}

/// The kind of figure called `name`.
#[must_use]
pub fn metric(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}

/// A row's name with one of its stages: the row's own, where it has one stage.
#[must_use]
pub fn stage_row(row: &str, stages: usize, stage: &str) -> String {
    if stages == 1 { row.to_string() } else { format!("{row}/{stage}") }
}

/// Whether one group of the stage ends by itself, and another only with it.
#[must_use]
pub fn is_lopsided(stage: &Stage) -> bool {
    let endless = stage.group.iter().filter(|group| group.calls == 0).count();
    endless > 0 && endless < stage.group.len()
}

/// What a trial says: row (with stage), metric, figure; `row` is what it was asked to do.
#[must_use]
pub fn of(record: &Record, row: Option<&Row>) -> Vec<(String, &'static str, f64)> {
    let Some(outcome) = &record.outcome else { return Vec::new() };
    let figures = &outcome.figures;
    let stages = figures.stages.len();
    let mut all = Vec::new();
    let asked = row.map_or(&[][..], |row| &row.stages);
    let mut lopsided = asked.iter().filter(|stage| is_lopsided(stage));
    for stage in &figures.stages {
        let row = stage_row(&record.row, stages, &stage.name);
        let both = lopsided.clone().all(|one| one.name != stage.name);
        let own = of_stage(stage).into_iter().filter(|(name, _)| both || !TAKES_ALL.contains(name));
        all.extend(own.map(|(name, figure)| (row.clone(), name, figure)));
    }
    if !outcome.receipts.is_empty() {
        let mut whole = of_whole(figures);
        if stages > 1 {
            whole.extend(of_stages(&figures.stages));
        }
        if lopsided.next().is_some() {
            whole.retain(|(name, _)| !TAKES_ALL.contains(name));
        }
        all.extend(whole.into_iter().map(|(name, figure)| (record.row.clone(), name, figure)));
    }
    all
}

type Figure = (&'static str, f64);

/// Figures that take all calls together, of whatever kind.
const TAKES_ALL: [&str; 3] = ["ops_per_s", "cpu_per_op", "ops_per_s_settled"];

fn of_stage(stage: &StageFigures) -> Vec<Figure> {
    let mut all = Vec::new();
    let seconds = stage.wall_ns as f64 / 1e9;
    let per_s = |count: u64| count as f64 / seconds;
    all.push(("ops_per_s", per_s(stage.calls)));
    const READ: [&str; 6] =
        ["read_p50", "read_p95", "read_p99", "read_p999", "read_p9999", "read_max"];
    const WRITE: [&str; 6] =
        ["write_p50", "write_p95", "write_p99", "write_p999", "write_p9999", "write_max"];
    for (rate, names, calls) in
        [("reads_per_s", READ, stage.reads), ("writes_per_s", WRITE, stage.writes)]
    {
        if let Some(calls) = calls {
            all.push((rate, per_s(calls.count)));
            all.extend(names.into_iter().zip(latencies(&calls)));
        }
    }
    if stage.rate_per_s > 0.0 {
        all.push(("arrivals_per_s", stage.rate_per_s));
        all.push(("arrivals_unserved", stage.arrivals_unserved as f64));
    }
    if let Some(lag) = stage.start_lag {
        all.push(("start_lag_p99", lag.p99_ns as f64 / 1e3));
    }
    all.push(("cpu_per_op", stage.cpu_ns as f64 / 1e3 / stage.calls.max(1) as f64));
    all.push(("queue_wait_per_s", stage.queue_wait_ns as f64 / 1e6 / seconds));
    if let Some(writes) = stage.writes {
        all.push(("syncs_per_4000", stage.syncs.durable() as f64 * 4000.0 / writes.count as f64));
    }
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    if stage.peak_is_own {
        all.push(("rss_peak", mib(stage.memory.peak)));
    }
    all.push(("anon_peak", mib(stage.memory.anon)));
    all.push(("file_peak", mib(stage.memory.file)));
    all.extend(stage.open_files.map(|files| ("open_files_peak", files as f64)));
    all.extend(stall_ms(&stage.account).map(|ms| ("stall", ms)));
    all
}

fn latencies(calls: &Percentiles) -> [f64; 6] {
    let all =
        [calls.p50_ns, calls.p95_ns, calls.p99_ns, calls.p999_ns, calls.p9999_ns, calls.max_ns];
    all.map(|ns| ns as f64 / 1e3)
}

/// The time that writes stalled, over all causes; unknown where a cause has no time.
fn stall_ms(account: &Account) -> Option<f64> {
    if account.stalls.is_empty() {
        return None;
    }
    let ns: Option<u64> = account.stalls.values().map(|stall| stall.ns).sum();
    ns.map(|ns| ns as f64 / 1e6)
}

/// The most memory over several stages.
fn of_stages(stages: &[StageFigures]) -> Vec<Figure> {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let memory = stages.iter().fold(Memory::default(), |most, stage| most.max(stage.memory));
    let mut all = vec![("anon_peak", mib(memory.anon)), ("file_peak", mib(memory.file))];
    if stages.iter().all(|stage| stage.peak_is_own) {
        all.push(("rss_peak", mib(memory.peak)));
    }
    all
}

fn of_whole(figures: &Figures) -> Vec<Figure> {
    let ms = |ns: u64| ns as f64 / 1e6;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let mut all = vec![
        ("end_sync", ms(figures.end_sync_ns)),
        ("end_flush", ms(figures.flush_ns)),
        ("create", ms(figures.create_ns)),
        ("close", ms(figures.close_ns)),
        ("reopen", ms(figures.reopen_ns)),
        ("load", ms(figures.load_ns)),
        ("disk_logical", mib(figures.size_closed.logical)),
        ("disk_allocated", mib(figures.size_closed.allocated)),
    ];
    all.extend(figures.load_settle.map(|settle| ("load_settle", ms(settle.ns))));
    all.extend(figures.settle_before.map(|settle| ("settle_before", ms(settle.ns))));
    if let Some(residency) = figures.residency {
        let percent = 100.0 * residency.resident as f64 / residency.total.max(1) as f64;
        all.push(("residency", percent));
    }
    if let Some(settle) = figures.settle {
        all.push(("settle", ms(settle.ns)));
        all.push(("settled", f64::from(u8::from(settle.settled))));
        let calls: u64 = figures.stages.iter().map(|stage| stage.calls).sum();
        let wall: u64 = figures.stages.iter().map(|stage| stage.wall_ns).sum();
        let all_ns = wall + figures.end_sync_ns + figures.flush_ns + settle.ns;
        all.push(("ops_per_s_settled", calls as f64 * 1e9 / all_ns.max(1) as f64));
    }
    if figures.user_bytes > 0 {
        let user = figures.user_bytes as f64;
        all.push(("process_write_amplification", figures.io.write_bytes as f64 / user));
        let account = &figures.account;
        let tables = account.flush_bytes.zip(account.compaction_bytes);
        all.extend(tables.map(|(flushed, merged)| {
            ("table_write_amplification", (flushed + merged) as f64 / user)
        }));
    }
    all
}
