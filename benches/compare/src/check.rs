//! Holds boards against targets: every target is met, missed, or not measured, and only the first
//! is well.

use crate::cli::Usage;
use crate::report::rows::Board;
use crate::supervise::record;
use anyhow::{Context, Result};
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
    /// Against whom; for `ratio_min`.
    pub against: Option<String>,
    /// The least median ratio; above 1 favours `engine`.
    pub ratio_min: Option<f64>,
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
    /// No board has the row, or too few trials.
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
        let conditions = [target.ratio_min, target.value_max, target.value_min, target.fall_max];
        let one = conditions.iter().flatten().count() == 1;
        let sided = target.ratio_min.is_some() == target.against.is_some();
        let known = crate::report::metrics::metric(&target.metric).is_some();
        if !one || !sided || target.rows.is_empty() || !known {
            return Err(format!(
                "{:?} needs rows, a known metric, one condition, and against with ratio_min alone",
                target.what
            ));
        }
    }
    Ok(targets)
}

/// The verdicts on one target.
#[must_use]
pub fn judge(target: &Target, boards: &[Board]) -> Vec<(String, Verdict)> {
    let mut best: f64 = 0.0;
    let rows = target.rows.iter().map(|row| {
        let verdict = match (&target.against, target.ratio_min) {
            (Some(against), Some(least)) => judge_ratio(target, row, against, least, boards),
            _ => judge_value(target, row, &mut best, boards),
        };
        (row.clone(), verdict)
    });
    rows.collect()
}

fn judge_ratio(target: &Target, row: &str, against: &str, least: f64, boards: &[Board]) -> Verdict {
    let mut all = boards.iter().flat_map(|board| &board.ratios);
    let found = all.find(|ratio| {
        ratio.row == row
            && ratio.metric == target.metric
            && ratio.engine == target.engine
            && ratio.against == against
    });
    let Some(ratio) = found else { return Verdict::NotMeasured("no such ratio".into()) };
    let seen = format!(
        "{:.3} [{:.3}, {:.3}] against {against}, target {least:.3}",
        ratio.median, ratio.min, ratio.max
    );
    verdict(target, ratio.pairs, "pairs", ratio.median >= least, seen)
}

/// Too few trials prove nothing, whatever they gave.
fn verdict(target: &Target, count: usize, of: &str, met: bool, seen: String) -> Verdict {
    let least = target.trials_min;
    match met {
        _ if count < least => {
            Verdict::NotMeasured(format!("{of}: {count}, {least} are needed; they gave {seen}"))
        }
        true => Verdict::Met(seen),
        false => Verdict::Missed(seen),
    }
}

fn judge_value(target: &Target, row: &str, best: &mut f64, boards: &[Board]) -> Verdict {
    let mut all = boards.iter().flat_map(|board| &board.rows);
    let found = all.find(|figure| {
        figure.row == row && figure.metric == target.metric && figure.engine == target.engine
    });
    let Some(figure) = found else { return Verdict::NotMeasured("no such row".into()) };
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
    let seen = format!("{value:.3} {unit}, target {condition}");
    verdict(target, figure.trials, "trials", met, seen)
}

/// Checks the boards below `dirs` against the targets; whether every target is met.
///
/// # Errors
/// [`Usage`] for targets or directories that are not what they should be.
pub fn run(targets: &Path, dirs: &[PathBuf]) -> Result<bool> {
    let targets = read_targets(targets)?;
    let mut boards = Vec::new();
    for dir in dirs {
        find_boards(dir, &mut boards)?;
    }
    if boards.is_empty() {
        return Err(Usage("no scoreboard.json below these directories".into()).into());
    }
    let (mut met, mut missed, mut unmeasured) = (0, 0, 0);
    for target in &targets.target {
        for (row, verdict) in judge(target, &boards) {
            let (word, seen) = match &verdict {
                Verdict::Met(seen) => ("met", seen),
                Verdict::Missed(seen) => ("MISSED", seen),
                Verdict::NotMeasured(why) => ("NOT MEASURED", why),
            };
            match verdict {
                Verdict::Met(_) => met += 1,
                Verdict::Missed(_) => missed += 1,
                Verdict::NotMeasured(_) => unmeasured += 1,
            }
            println!("{word:12}  {row} {} {}: {seen}", target.engine, target.metric);
        }
    }
    println!("{met} met, {missed} missed, {unmeasured} not measured");
    Ok(missed + unmeasured == 0)
}

fn find_boards(dir: &Path, boards: &mut Vec<Board>) -> Result<()> {
    if !dir.is_dir() {
        return Err(Usage(format!("{} is no directory", dir.display())).into());
    }
    let file = dir.join("scoreboard.json");
    if file.is_file() {
        boards.push(record::read(&file)?);
        return Ok(());
    }
    let mut below: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            below.push(path);
        }
    }
    below.sort();
    below.iter().try_for_each(|dir| find_boards(dir, boards))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::rows::{Ratio, RowFigure};

    fn board() -> Board {
        let figure = |row: &str, median: f64| RowFigure {
            row: row.into(),
            engine: "kiban".into(),
            metric: "ops_per_s".into(),
            unit: "1/s".into(),
            median,
            min: median,
            max: median,
            trials: 3,
        };
        let ratio = Ratio {
            row: "a/1".into(),
            metric: "ops_per_s".into(),
            engine: "kiban".into(),
            against: "rocksdb".into(),
            median: 1.5,
            min: 0.9,
            max: 1.6,
            pairs: 3,
        };
        let rows = vec![figure("a/1", 90.0), figure("a/2", 100.0), figure("a/3", 89.0)];
        Board { rows, ratios: vec![ratio], ..Board::default() }
    }

    fn verdicts(condition: &str) -> Vec<Verdict> {
        let text = format!(
            "[[target]]\nwhat = \"w\"\nmetric = \"ops_per_s\"\nengine = \"kiban\"\n{condition}"
        );
        let targets = parse_targets(&text).expect("a target");
        let judged = judge(&targets.target[0], &[board()]);
        judged.into_iter().map(|(_, verdict)| verdict).collect()
    }

    #[test]
    fn ratios_are_met_missed_or_not_measured() {
        let at = |least: &str, more: &str| {
            let text =
                format!("rows = [\"a/1\"]\nagainst = \"rocksdb\"\nratio_min = {least}{more}");
            verdicts(&text).remove(0)
        };
        assert!(matches!(at("1.5", ""), Verdict::Met(_)));
        assert!(matches!(at("1.51", ""), Verdict::Missed(_)));
        assert!(matches!(at("1.0", "\ntrials_min = 5"), Verdict::NotMeasured(_)));
        let other = "rows = [\"a/9\"]\nagainst = \"rocksdb\"\nratio_min = 1";
        assert!(matches!(verdicts(other)[..], [Verdict::NotMeasured(_)]));
    }

    #[test]
    fn values_and_falls_are_held_against_their_bounds() {
        assert!(matches!(verdicts("rows = [\"a/1\"]\nvalue_max = 90")[..], [Verdict::Met(_)]));
        assert!(matches!(verdicts("rows = [\"a/1\"]\nvalue_min = 91")[..], [Verdict::Missed(_)]));
        let fall = verdicts("rows = [\"a/1\", \"a/2\", \"a/3\"]\nfall_max = 0.1");
        assert!(matches!(fall[..], [Verdict::Met(_), Verdict::Met(_), Verdict::Missed(_)]));
    }

    #[test]
    fn a_target_without_one_condition_is_refused() {
        for text in ["rows = []\nvalue_max = 1", "rows = [\"a\"]", "rows = [\"a\"]\nratio_min = 1"]
        {
            let text =
                format!("[[target]]\nwhat = \"w\"\nmetric = \"ops_per_s\"\nengine = \"k\"\n{text}");
            assert!(parse_targets(&text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_targets_of_the_project_are_well_formed() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"));
        let targets = read_targets(&path.join("../../docs/performance/targets.toml"));
        let targets = targets.expect("docs/performance/targets.toml");
        let plans = crate::plan::all_rows(&path.join("plans")).expect("the plans");
        for target in &targets.target {
            for row in &target.rows {
                assert!(plans.contains(row), "{}: no plan has the row {row}", target.what);
            }
        }
    }
}
