//! Holds boards against targets: every target is met, missed, or not measured, and only the first
//! is well.
//!
//! - The median decides; where the board calls the ratio even, the verdict says so.
//! - A board that proves nothing, by `boards`, measures nothing: no figure of it meets a target,
//!   and none misses one.

mod boards;
#[cfg(test)]
mod tests;

use crate::cli::Usage;
use anyhow::Result;
pub use boards::Held;
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};

/// A file of targets.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Targets {
    /// The targets.
    pub target: Vec<Target>,
}

/// One target; it has exactly one condition.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// What it is about, in words.
    pub what: String,
    /// The rows, as the board calls them: each must meet the condition.
    pub rows: Vec<String>,
    /// The kind of figure.
    pub metric: String,
    /// Whose figure it is.
    pub engine: String,
    /// Against whom; for `ratio_min` and `ratio_above`.
    pub against: Option<String>,
    /// The least median ratio; above 1 favours `engine`.
    pub ratio_min: Option<f64>,
    /// What the median ratio must exceed: a tie is a miss.
    pub ratio_above: Option<f64>,
    /// The greatest median.
    pub value_max: Option<f64>,
    /// The least median.
    pub value_min: Option<f64>,
    /// Over the rows in their order: how far a median may lie below the greatest of those before
    /// it, as a share.
    pub fall_max: Option<f64>,
    /// The least number of trials, or pairs.
    #[serde(default)]
    pub trials_min: usize,
}

/// What came of one target in one row.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Met; with what was seen.
    Met(String),
    /// Missed; with what was seen.
    Missed(String),
    /// No board has the row, it has too few trials, or what it has proves nothing.
    NotMeasured(String),
}

/// Reads targets and checks that each has one condition.
///
/// # Errors
/// [`Usage`], naming the target.
pub fn read_targets(path: &Path) -> Result<Targets> {
    let text = fs::read_to_string(path)
        .map_err(|error| Usage(format!("no targets {}: {error}", path.display())))?;
    parse_targets(&text).map_err(|what| Usage(format!("{}: {what}", path.display())).into())
}

fn parse_targets(text: &str) -> Result<Targets, String> {
    let targets: Targets = toml::from_str(text).map_err(|error| error.to_string())?;
    for target in &targets.target {
        let ratios = [target.ratio_min, target.ratio_above];
        let values = [target.value_max, target.value_min, target.fall_max];
        let ratios = ratios.iter().flatten().count();
        let one = ratios + values.iter().flatten().count() == 1;
        let sided = (ratios == 1) == target.against.is_some();
        let known = crate::report::metrics::metric(&target.metric).is_some();
        if !one || !sided || target.rows.is_empty() || !known {
            return Err(format!(
                "{:?} needs rows, a known metric, one condition, and against with ratio_min or \
                 ratio_above alone",
                target.what
            ));
        }
    }
    Ok(targets)
}

/// What a board says about a target's row.
struct Seen {
    met: bool,
    count: usize,
    /// What was counted.
    of: &'static str,
    text: String,
}

/// The verdicts on one target.
#[must_use]
pub fn judge(target: &Target, boards: &[Held]) -> Vec<(String, Verdict)> {
    let mut best: f64 = 0.0;
    let rows = target.rows.iter();
    rows.map(|row| (row.clone(), judge_row(target, row, &mut best, boards))).collect()
}

fn judge_row(target: &Target, row: &str, best: &mut f64, boards: &[Held]) -> Verdict {
    let plan = row.split('/').next().unwrap_or_default();
    let Some(held) = boards.iter().find(|held| held.board.plan == plan) else {
        return Verdict::NotMeasured(format!("no board of the plan {plan}"));
    };
    let seen = match &target.against {
        Some(against) => see_ratio(target, row, against, held),
        None => see_value(target, row, best, held),
    };
    let mut engines = vec![target.engine.as_str()];
    engines.extend(target.against.as_deref());
    let doubt = held.doubt(row, &engines);
    match (seen, doubt) {
        (None, None) => Verdict::NotMeasured("no such figure".into()),
        (None, Some(why)) => Verdict::NotMeasured(format!("{why}; no such figure")),
        (Some(seen), Some(why)) => Verdict::NotMeasured(format!("{why}; it gave {}", seen.text)),
        // Too few trials prove nothing, whatever they gave.
        (Some(seen), None) if seen.count < target.trials_min => Verdict::NotMeasured(format!(
            "{}: {}, {} are needed; they gave {}",
            seen.of, seen.count, target.trials_min, seen.text
        )),
        (Some(seen), None) if seen.met => Verdict::Met(seen.text),
        (Some(seen), None) => Verdict::Missed(seen.text),
    }
}

fn see_ratio(target: &Target, row: &str, against: &str, held: &Held) -> Option<Seen> {
    let ratio = held.board.ratios.iter().find(|ratio| {
        ratio.row == row
            && ratio.metric == target.metric
            && ratio.engine == target.engine
            && ratio.against == against
    })?;
    let (met, condition) = if let Some(bound) = target.ratio_above {
        (ratio.median > bound, format!("above {bound:.3}"))
    } else {
        let least = target.ratio_min.unwrap_or(f64::INFINITY);
        (ratio.median >= least, format!("at least {least:.3}"))
    };
    let even = if ratio.is_even() { " (even)" } else { "" };
    let text = format!(
        "{:.3} [{:.3}, {:.3}]{even} against {against}, target {condition}",
        ratio.median, ratio.min, ratio.max
    );
    Some(Seen { met, count: ratio.pairs, of: "pairs", text })
}

fn see_value(target: &Target, row: &str, best: &mut f64, held: &Held) -> Option<Seen> {
    let figure = held.board.rows.iter().find(|figure| {
        figure.row == row && figure.metric == target.metric && figure.engine == target.engine
    })?;
    let (value, unit) = (figure.median, &figure.unit);
    *best = best.max(value);
    let (met, condition) = if let Some(most) = target.value_max {
        (value <= most, format!("at most {most}"))
    } else if let Some(least) = target.value_min {
        (value >= least, format!("at least {least}"))
    } else {
        let least = *best * (1.0 - target.fall_max.unwrap_or(0.0));
        (value >= least, format!("at least {least:.3}, from the peak before it"))
    };
    let text = format!("{value:.3} {unit}, target {condition}");
    Some(Seen { met, count: figure.trials, of: "trials", text })
}

/// Checks the boards below `dirs` against the targets; whether every target is met.
///
/// # Errors
/// [`Usage`] for targets, directories or boards that are not what they should be, or do not belong
/// together.
pub fn run(targets: &Path, dirs: &[PathBuf]) -> Result<bool> {
    let plans = boards::plans_of(targets);
    let targets = read_targets(targets)?;
    let boards = boards::read(dirs, &plans)?;
    let (mut met, mut missed, mut unmeasured) = (0, 0, 0);
    for target in &targets.target {
        for (row, verdict) in judge(target, &boards) {
            let (word, seen, count) = match &verdict {
                Verdict::Met(seen) => ("met", seen, &mut met),
                Verdict::Missed(seen) => ("MISSED", seen, &mut missed),
                Verdict::NotMeasured(why) => ("NOT MEASURED", why, &mut unmeasured),
            };
            *count += 1;
            println!("{word:12}  {row} {} {}: {seen}", target.engine, target.metric);
        }
    }
    println!("{met} met, {missed} missed, {unmeasured} not measured");
    Ok(missed + unmeasured == 0)
}
