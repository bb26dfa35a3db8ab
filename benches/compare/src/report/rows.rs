//! Rows and ratios: medians over trials, and medians of ratios inside one repetition.

use super::Results;
use super::conditions::Conditions;
use super::metrics::{self, Better, METRICS};
use crate::plan::FLOOR;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What `scoreboard.json` holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Board {
    /// The plan.
    pub plan: String,
    /// The revision, with "-dirty" where the checkout had changes.
    pub revision: String,
    /// Its conditions; none in boards of an older form.
    #[serde(default)]
    pub conditions: Option<Conditions>,
    /// Figures.
    pub rows: Vec<RowFigure>,
    /// Ratios.
    pub ratios: Vec<Ratio>,
    /// Totals.
    pub totals: Totals,
}

/// One figure of one contestant in one row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RowFigure {
    /// The row, with its stage where there are several.
    pub row: String,
    /// The contestant.
    pub engine: String,
    /// The kind of figure.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// The median of the trials.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// How many trials.
    pub trials: usize,
}

/// One contestant against another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The row, with its stage where there are several.
    pub row: String,
    /// The kind of figure.
    pub metric: String,
    /// Whose ratio it is: above 1 favours this one.
    pub engine: String,
    /// Against whom.
    pub against: String,
    /// The median of the ratios inside one repetition.
    pub median: f64,
    /// The least of them.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// How many pairs.
    pub pairs: usize,
}

impl Ratio {
    /// Whether the range says nothing: it spans 1.
    #[must_use]
    pub fn is_even(&self) -> bool {
        self.min <= 1.0 && self.max >= 1.0
    }
}

/// Totals of a campaign.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Trials that count.
    pub valid: usize,
    /// Trials that do not.
    pub invalid: usize,
    /// Of the valid ones, those with statistics on, which are in no ratio.
    pub diagnostic: usize,
    /// Pairs of trials that make ratios.
    pub pairs: usize,
    /// Calls of all stages of all valid trials; loading, warming and verification apart.
    pub foreground_operations: u64,
}

type Key = (usize, String, String);

/// Figures by row, contestant and metric, then by repetition.
fn collect(results: &Results) -> BTreeMap<Key, BTreeMap<u32, f64>> {
    let mut figures: BTreeMap<Key, BTreeMap<u32, f64>> = BTreeMap::new();
    for record in results.counted() {
        for (row, metric, figure) in metrics::of(record, results.row(&record.row)) {
            let at = METRICS.iter().position(|one| one.name == metric);
            let at = at.expect("metrics::of gives only listed ones");
            let key = (at, row, record.contestant.clone());
            figures.entry(key).or_default().insert(record.repetition, figure);
        }
    }
    figures
}

/// The board of a campaign.
#[must_use]
pub fn board(results: &Results) -> Board {
    let figures = collect(results);
    let mut rows: Vec<RowFigure> = figures
        .iter()
        .map(|((at, row, engine), trials)| {
            let (median, min, max) = spread(trials.values().copied());
            RowFigure {
                row: row.clone(),
                engine: engine.clone(),
                metric: METRICS[*at].name.into(),
                unit: METRICS[*at].unit.into(),
                median,
                min,
                max,
                trials: trials.len(),
            }
        })
        .collect();
    let place = |row: &str| place(results, row);
    rows.sort_by_key(|row| place(&row.row));
    let mut ratios = ratios(&figures);
    ratios.sort_by_key(|ratio| place(&ratio.row));
    let pins = &results.campaign.pins;
    let dirty = if pins.dirty { "-dirty" } else { "" };
    Board {
        plan: results.campaign.plan.clone(),
        revision: format!("{}{dirty}", pins.revision),
        conditions: Some(Conditions::of(results)),
        totals: totals(results),
        rows,
        ratios,
    }
}

/// The place of a row in the plan.
fn place(results: &Results, row: &str) -> usize {
    let rows = results.campaign.rows.iter();
    let fits = rows.enumerate().filter(|(_, one)| {
        row.strip_prefix(one.name.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    fits.max_by_key(|(_, one)| one.name.len()).map_or(usize::MAX, |(i, _)| i)
}

/// Of Kiban, and each of its variants, against every other contestant.
fn ratios(figures: &BTreeMap<Key, BTreeMap<u32, f64>>) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for ((at, row, engine), own) in figures.iter().filter(|((_, _, engine), _)| is_kiban(engine)) {
        let metric = &METRICS[*at];
        if metric.better == Better::Neither {
            continue;
        }
        let first = (*at, row.clone(), String::new());
        let same = figures.range(first..).take_while(|((a, r, _), _)| a == at && r == row);
        for ((_, _, against), other) in same.filter(|((_, _, against), _)| against != engine) {
            // The floor holds no data: only its calls can be compared.
            let of_calls = metric.name == "ops_per_s" || metric.name.starts_with("write_");
            if against == FLOOR && !of_calls {
                continue;
            }
            let pairs: Vec<f64> = own
                .iter()
                .filter_map(|(repetition, own)| ratio(metric.better, *own, *other.get(repetition)?))
                .collect();
            if pairs.is_empty() {
                continue;
            }
            let (median, min, max) = spread(pairs.iter().copied());
            ratios.push(Ratio {
                row: row.clone(),
                metric: metric.name.into(),
                engine: engine.clone(),
                against: against.clone(),
                median,
                min,
                max,
                pairs: pairs.len(),
            });
        }
    }
    ratios
}

/// Whether a contestant is Kiban, in any variant.
#[must_use]
pub fn is_kiban(contestant: &str) -> bool {
    contestant.split(':').next() == Some("kiban")
}

/// Above 1 where `own` is the better; none where one of them is zero.
fn ratio(better: Better, own: f64, other: f64) -> Option<f64> {
    let ratio = match better {
        Better::Higher => own / other,
        Better::Lower => other / own,
        Better::Neither => return None,
    };
    (ratio.is_finite() && ratio > 0.0).then_some(ratio)
}

/// The median, the least and the greatest; the median of an even number is the mean of the middle
/// two.
fn spread(figures: impl Iterator<Item = f64>) -> (f64, f64, f64) {
    let mut sorted: Vec<f64> = figures.collect();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    assert!(n > 0, "a figure has a trial");
    let median = if n % 2 == 1 { sorted[n / 2] } else { (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0 };
    (median, sorted[0], sorted[n - 1])
}

fn totals(results: &Results) -> Totals {
    let valid = results.records.iter().filter(|record| record.is_valid());
    let mut per_group: BTreeMap<(&str, u32), (usize, usize)> = BTreeMap::new();
    for record in results.counted() {
        let group = per_group.entry((record.row.as_str(), record.repetition)).or_default();
        let side = if is_kiban(&record.contestant) { &mut group.0 } else { &mut group.1 };
        *side += 1;
    }
    let stages = valid.clone().filter_map(|record| record.outcome.as_ref());
    let stages = stages.flat_map(|outcome| &outcome.figures.stages);
    Totals {
        valid: valid.clone().count(),
        invalid: results.records.iter().filter(|record| !record.is_valid()).count(),
        diagnostic: valid.clone().filter(|record| record.diagnostic).count(),
        pairs: per_group
            .values()
            .map(|(own, other)| own * other + own * own.saturating_sub(1) / 2)
            .sum(),
        foreground_operations: stages.map(|stage| stage.calls).sum(),
    }
}
