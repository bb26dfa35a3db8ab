//! The board as Markdown.

use super::Results;
use super::accounts;
use super::documented::Documented;
use super::metrics::{METRICS, Metric};
use super::notes::{self, Notes};
use super::rows::{Board, Ratio, RowFigure};
use std::fmt::Write;

/// The board's text.
#[must_use]
pub fn write(results: &Results, board: &Board, documented: &Documented, notes: &Notes) -> String {
    let campaign = &results.campaign;
    let mut text = format!("# Board: {}\n\n{}\n\n", board.plan, campaign.about);
    let totals = &board.totals;
    let _ = writeln!(
        text,
        "{} trials valid ({} of them diagnostic), {} invalid, {} pairs, {} foreground \
         operations.\n",
        totals.valid,
        totals.diagnostic,
        totals.invalid,
        totals.pairs,
        grouped(totals.foreground_operations)
    );
    let _ = writeln!(text, "Revision `{}`.\n", board.revision);
    let command: Vec<String> =
        campaign.command.iter().skip(1).map(|word| format!("`{word}`")).collect();
    let _ = writeln!(text, "Command: {}.\n", command.join(" "));
    let _ = writeln!(
        text,
        "A ratio is taken inside one repetition, the median of those is shown with its range, and \
         above 1 favours Kiban.\nLatencies are microseconds, medians of the trials' own \
         percentiles.\n\n{}\n",
        READING.join("\n")
    );
    text.push_str("## Machine and engines\n\n| fact | value |\n| --- | --- |\n");
    for (name, value) in &campaign.machine.facts {
        let _ = writeln!(text, "| {} | {} |", cell(name), cell(value));
    }
    for (engine, version) in &campaign.pins.engines {
        let _ = writeln!(text, "| {} | {} |", cell(engine), cell(version));
    }
    for (name, hash) in [
        ("binary SHA-256", &campaign.pins.binary_sha256),
        ("plan SHA-256", &campaign.pins.plan_sha256),
        ("sources SHA-256", &campaign.pins.inputs_sha256),
        ("analysis SHA-256", &campaign.pins.analysis_sha256),
    ] {
        let _ = writeln!(text, "| {name} | `{hash}` |");
    }
    text.push_str("\n## Observed\n");
    for row in row_names(board) {
        write_row(&mut text, board, documented, &row);
    }
    let accounts = accounts::lines(results);
    if !accounts.is_empty() {
        text.push_str("\n### By the engines' own accounts\n\n");
        let _ = writeln!(text, "| {} |\n|{}", accounts::HEAD.join(" | "), " --- |".repeat(8));
        for line in accounts {
            let _ = writeln!(text, "| {} |", line.map(|field| cell(&field)).join(" | "));
        }
    }
    for (heading, lines) in [
        ("Not proven", &notes.not_proven),
        ("Deviations", &notes.deviations),
        ("Limits", &notes.limits),
    ] {
        let _ = writeln!(text, "\n## {heading}\n");
        for line in lines {
            let _ = writeln!(text, "- {}", line.replace('\n', " "));
        }
    }
    text
}

/// The rows, in the board's order.
#[must_use]
pub fn row_names(board: &Board) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for figure in &board.rows {
        if !names.contains(&figure.row) {
            names.push(figure.row.clone());
        }
    }
    names
}

/// The contestants of a row.
#[must_use]
pub fn engines<'a>(board: &'a Board, row: &str) -> Vec<&'a str> {
    let mut engines: Vec<&str> =
        board.rows.iter().filter(|one| one.row == row).map(|one| one.engine.as_str()).collect();
    // Kiban first, its variants after it, the floor last.
    engines.sort_by_key(|engine| (*engine == "floor", !engine.starts_with("kiban"), *engine));
    engines.dedup();
    engines
}

/// One figure.
#[must_use]
pub fn figure<'a>(
    board: &'a Board,
    row: &str,
    engine: &str,
    metric: &str,
) -> Option<&'a RowFigure> {
    board.rows.iter().find(|one| one.row == row && one.engine == engine && one.metric == metric)
}

/// Kinds of figures that the row has.
#[must_use]
pub fn metrics_of(board: &Board, row: &str) -> Vec<&'static Metric> {
    let has =
        |metric: &&Metric| board.rows.iter().any(|one| one.row == row && one.metric == metric.name);
    METRICS.iter().filter(has).collect()
}

/// The deciding ratios of a row.
#[must_use]
pub fn ratios<'a>(board: &'a Board, row: &str) -> Vec<&'a Ratio> {
    let of_row = board.ratios.iter().filter(|ratio| ratio.row == row);
    of_row.filter(|ratio| notes::decides(board, ratio)).collect()
}

fn write_row(text: &mut String, board: &Board, documented: &Documented, row: &str) {
    let engines = engines(board, row);
    let _ = writeln!(text, "\n### {row}\n");
    let _ = writeln!(text, "| figure | {} |", engines.join(" | "));
    let _ = writeln!(text, "| --- |{}", " --- |".repeat(engines.len()));
    for metric in metrics_of(board, row) {
        let cells: Vec<String> =
            engines.iter().map(|engine| spread(figure(board, row, engine, metric.name))).collect();
        let _ = writeln!(text, "| {} ({}) | {} |", metric.name, metric.unit, cells.join(" | "));
        let given: Vec<String> =
            engines.iter().map(|engine| given(documented, row, engine, metric.name)).collect();
        let any = given.iter().any(|cell| cell != NOT_GIVEN);
        if any || notes::is_rate_of(board, row, metric.name) {
            let _ = writeln!(text, "| documented {} | {} |", metric.name, given.join(" | "));
        }
    }
    let ratios = ratios(board, row);
    if ratios.is_empty() {
        return;
    }
    text.push_str("\n| ratio | against | median | range | reads as | documented |\n");
    text.push_str("| --- | --- | --- | --- | --- | --- |\n");
    for ratio in ratios {
        let pair = format!("{}/{}", ratio.engine, ratio.against);
        let _ = writeln!(
            text,
            "| {} {} | {} | {:.3} | {:.3} to {:.3} | {} | {} |",
            ratio.engine,
            ratio.metric,
            ratio.against,
            ratio.median,
            ratio.min,
            ratio.max,
            verdict(ratio),
            given(documented, row, &pair, &ratio.metric)
        );
    }
}

/// How verdicts are to be read, on every form of the board.
pub const READING: [&str; 4] = [
    "A ratio reads as \"ahead\" where it was above 1 in every repetition, \"behind\" where it was \
     below 1 in every one, and \"even\" where its range spans 1.",
    "An even ratio shows no difference on this machine, whatever its median is.",
    "With three or five repetitions \"ahead\" is an observation of these runs, and no test of \
     significance.",
    "`check` judges the median alone, says \"even\" beside it where it is, and counts nothing as \
     measured that was taken on a busy machine, from a changed checkout, by no release build, with \
     another plan, or of an engine that failed in this row for anything but the load.",
];

/// What a ratio says.
#[must_use]
pub fn verdict(ratio: &Ratio) -> &'static str {
    match (ratio.is_even(), ratio.median > 1.0) {
        (true, _) => "even",
        (false, true) => "ahead",
        (false, false) => "behind",
    }
}

/// What stands where the documents give nothing.
pub const NOT_GIVEN: &str = "not given";

/// The documented figure, in words.
#[must_use]
pub fn given(documented: &Documented, row: &str, engine: &str, metric: &str) -> String {
    let figures = documented.of(row, engine, metric).map(|figure| {
        let range =
            figure.range.map(|[low, high]| format!(" [{} to {}]", number(low), number(high)));
        format!("{}{} ({})", number(figure.value), range.unwrap_or_default(), figure.source)
    });
    let all: Vec<String> = figures.collect();
    if all.is_empty() { NOT_GIVEN.into() } else { all.join("; ") }
}

fn spread(figure: Option<&RowFigure>) -> String {
    figure.map_or("unknown".into(), |one| {
        if one.trials == 1 {
            number(one.median)
        } else {
            format!("{} [{} to {}]", number(one.median), number(one.min), number(one.max))
        }
    })
}

/// A figure with about three digits.
#[must_use]
pub fn number(x: f64) -> String {
    match x.abs() {
        0.0 => "0".into(),
        a if a >= 1000.0 => grouped(x.round() as u64),
        a if a >= 100.0 => format!("{x:.0}"),
        a if a >= 10.0 => format!("{x:.1}"),
        _ => format!("{x:.2}"),
    }
}

fn grouped(x: u64) -> String {
    let digits = x.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
