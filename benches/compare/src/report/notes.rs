//! What stands beside the figures: what they do not prove, where the run deviated, what limits it.

use super::Results;
use super::conditions::is_release;
use super::rows::{Board, Ratio, is_kiban};
use crate::plan::Plan;
use crate::supervise::pins::manifest_dir;
use std::collections::BTreeSet;

/// Sentences by heading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// What the figures do not prove.
    pub not_proven: Vec<String>,
    /// Where the run differs from what the plan says, or from a quiet machine.
    pub deviations: Vec<String>,
    /// What no run of this plan can tell.
    pub limits: Vec<String>,
}

/// The metrics whose ratios decide.
pub const DECIDING: [&str; 9] = [
    "ops_per_s",
    "read_p50",
    "read_p99",
    "write_p50",
    "write_p99",
    "write_p999",
    "write_max",
    "rss_peak",
    "disk_logical",
];

/// The rates that decide in `ops_per_s`'s stead where calls of two kinds can't be taken together.
const RATES_APART: [&str; 2] = ["reads_per_s", "writes_per_s"];

/// Whether a ratio of the board decides.
#[must_use]
pub fn decides(board: &Board, ratio: &Ratio) -> bool {
    let metric = ratio.metric.as_str();
    DECIDING.contains(&metric)
        || (RATES_APART.contains(&metric) && is_rate_of(board, &ratio.row, metric))
}

/// Whether a metric is the row's rate: that of all calls, or, where there is none, one of those
/// apart.
#[must_use]
pub fn is_rate_of(board: &Board, row: &str, metric: &str) -> bool {
    let together = || board.rows.iter().any(|one| one.row == row && one.metric == "ops_per_s");
    metric == "ops_per_s" || (RATES_APART.contains(&metric) && !together())
}

const LIMITS: [&str; 10] = [
    "One machine, one file system, one process; a virtual machine's disk says little about another \
     one's absolute times.",
    "Process write bytes are bytes that the process made dirty, not what the device wrote.",
    "Sampled memory can miss short peaks of the anonymous and the file-backed part; the peak of \
     their sum is the kernel's own, and the campaign's own tables are in it for every engine.",
    "Debt, stalls and runs are each engine's own words; they are not compared between engines.",
    "Budgets are matched, the policy of merging is each engine's own: RocksDB's triggers count \
     files of level 0, Kiban's limits all runs, and are three higher for the other levels that \
     RocksDB uses.",
    "Settling is allowed to every engine alike before the first stage, and its time is stated.",
    "\"Reduced\" asks the kernel to drop the pages of the database's files; what stayed is given \
     as residency. No global cache is dropped, so nothing here is called cold.",
    "Rows with a memory limit have one by control group, page cache included, from the open before \
     the first stage until background work has come to rest after the last; an rlimit bounds no \
     page cache, and is not used in its stead.",
    "In open-loop rows the rates are shares of what the same engine reached in the same trial, so \
     a faster engine is asked for more.",
    "Bases are loaded anew in each trial by the same calls; none is copied.",
];

/// The notes of a campaign.
#[must_use]
pub fn notes(results: &Results, board: &Board, again: Option<&Board>) -> Notes {
    Notes {
        not_proven: not_proven(results, board, again),
        deviations: deviations(results),
        limits: LIMITS.map(str::to_string).to_vec(),
    }
}

fn not_proven(results: &Results, board: &Board, again: Option<&Board>) -> Vec<String> {
    let mut all = Vec::new();
    let doubts = board.conditions.iter().flat_map(|conditions| conditions.doubts());
    let doubts: Vec<&str> = doubts.collect();
    if !doubts.is_empty() {
        all.push(format!("No target counts as measured by this board: {}.", doubts.join("; ")));
    }
    let even: Vec<String> = board
        .ratios
        .iter()
        .filter(|ratio| decides(board, ratio) && ratio.is_even())
        .map(|ratio| format!("{} {} against {}", ratio.row, ratio.metric, ratio.against))
        .collect();
    if !even.is_empty() {
        all.push(format!("Even, since the range of the ratios spans 1: {}.", even.join("; ")));
    }
    if results.campaign.pins.trials < 3 {
        let trials = results.campaign.pins.trials;
        all.push(format!(
            "Trials of each row and engine that were asked for: {trials}; 3 are needed."
        ));
    }
    let cpus = results.campaign.cpus;
    let over = results.campaign.rows.iter().filter(|row| row.threads() as usize > cpus);
    let over: Vec<&str> = over.map(|row| row.name.as_str()).collect();
    if !over.is_empty() {
        all.push(format!(
            "Oversubscribed, more threads than the {cpus} CPUs: {}.",
            over.join(", ")
        ));
    }
    let (mut unsettled, mut uneven) = (BTreeSet::new(), BTreeSet::new());
    for record in results.counted() {
        let figures = record.outcome.as_ref().map(|outcome| &outcome.figures);
        let settle = figures.and_then(|figures| figures.settle);
        if settle.is_some_and(|settle| !settle.settled) {
            unsettled.insert(format!("{} {}", record.row, record.contestant));
        }
        if figures.is_some_and(|figures| !figures.settled_before_stages()) {
            uneven.insert(format!("{} {}", record.row, record.contestant));
        }
    }
    if !uneven.is_empty() {
        let list: Vec<String> = uneven.into_iter().collect();
        all.push(format!(
            "Background work of what came before ran into a stage, the bound was over: {}.",
            list.join(", ")
        ));
    }
    if !unsettled.is_empty() {
        let list: Vec<String> = unsettled.into_iter().collect();
        all.push(format!(
            "Background work had not come to rest within the bound: {}.",
            list.join(", ")
        ));
    }
    all.push(match again {
        None => "Whether a second run would give the same: none was compared.".into(),
        Some(again) => stability(board, again),
    });
    all
}

/// Which ratios of two runs lie outside each other's ranges.
fn stability(board: &Board, again: &Board) -> String {
    let (mut stable, mut unstable) = (0, Vec::new());
    for ratio in board.ratios.iter().filter(|ratio| decides(board, ratio)) {
        let same = again.ratios.iter().find(|other| {
            other.row == ratio.row
                && other.metric == ratio.metric
                && other.engine == ratio.engine
                && other.against == ratio.against
        });
        let Some(other) = same else { continue };
        let inside = |x: f64, low: f64, high: f64| low <= x && x <= high;
        if inside(ratio.median, other.min, other.max) && inside(other.median, ratio.min, ratio.max)
        {
            stable += 1;
        } else {
            unstable.push(format!(
                "{} {} against {} ({:.2}, then {:.2})",
                ratio.row, ratio.metric, ratio.against, ratio.median, other.median
            ));
        }
    }
    if unstable.is_empty() {
        return format!(
            "A second run gave the same: all {stable} medians lie in each other's range."
        );
    }
    format!(
        "Unstable between two runs, the medians outside each other's range ({stable} others were \
         inside): {}.",
        unstable.join("; ")
    )
}

fn deviations(results: &Results) -> Vec<String> {
    let (campaign, mut all) = (&results.campaign, Vec::new());
    if campaign.pins.dirty {
        all.push("The checkout had changes that no revision has.".into());
    }
    if !is_release(campaign) {
        all.push("This was no release build: no figure is to be compared.".into());
    }
    if campaign.pins.busy_allowed {
        all.push(
            "A busy machine was allowed: the load guard measured, and refused nothing.".to_string(),
        );
    }
    if results.analysed_by_others() {
        all.push("The board was made by other sources than the campaign pinned.".into());
    }
    for (what, why) in &campaign.left_out {
        all.push(format!("Left out: {what}: {why}."));
    }
    for record in results.records.iter().filter(|record| !record.is_valid()) {
        let why = record.invalid.join("; ");
        all.push(format!(
            "Invalid: trial {}, {} {}, repetition {}: {why}.",
            record.place, record.row, record.contestant, record.repetition
        ));
    }
    let trials = |diagnostic: bool| {
        results.records.iter().filter(move |record| record.diagnostic == diagnostic).count()
    };
    let due: usize = campaign.pins.rows.iter().map(|(_, names)| names.len()).sum();
    let due = due * campaign.pins.trials as usize;
    if trials(false) < due {
        let (done, missing) = (trials(false), due - trials(false));
        all.push(format!("Broken off: {done} of {due} trials have a record, {missing} do not."));
    }
    if let Ok(plan) = Plan::parse_file(&manifest_dir().join("plans"), &campaign.plan) {
        let run: BTreeSet<&str> = campaign.pins.rows.iter().map(|(row, _)| row.as_str()).collect();
        let missing = plan.rows.iter().filter(|row| !run.contains(row.name.as_str()));
        let missing: Vec<&str> = missing.map(|row| row.name.as_str()).collect();
        if !missing.is_empty() {
            all.push(format!("Rows of the plan that were not asked for: {}.", missing.join(", ")));
        }
        let names = |names: &[String]| names.iter().cloned().collect::<BTreeSet<String>>();
        let planned = plan.rows.iter().flat_map(|row| &row.contestants);
        let planned: Vec<String> = planned.map(|one| one.name.clone()).collect();
        let ran: Vec<String> =
            campaign.pins.rows.iter().flat_map(|(_, names)| names.clone()).collect();
        let missing: Vec<String> = names(&planned).difference(&names(&ran)).cloned().collect();
        if !missing.is_empty() {
            all.push(format!("In no row, though the plan has them: {}.", missing.join(", ")));
        }
        if campaign.pins.trials < plan.text.trials {
            let (trials, planned) = (campaign.pins.trials, plan.text.trials);
            all.push(format!("{trials} trials instead of the plan's {planned}."));
        }
    }
    let unplanned: Vec<String> = unexpected_plans();
    if !unplanned.is_empty() {
        all.push(format!(
            "Plans that exist and are not run by the campaign: {}.",
            unplanned.join(", ")
        ));
    }
    if all.is_empty() {
        all.push("None.".into());
    }
    all
}

/// The plans that say of themselves that they are not expected to be run.
fn unexpected_plans() -> Vec<String> {
    let plans = crate::plan::all(&manifest_dir().join("plans")).unwrap_or_default();
    let plans = plans.into_iter().filter(|plan| !plan.text.expected);
    plans.map(|plan| plan.text.name).collect()
}

/// Whether any trial was Kiban's.
#[must_use]
pub fn has_kiban(board: &Board) -> bool {
    board.rows.iter().any(|row| is_kiban(&row.engine))
}
