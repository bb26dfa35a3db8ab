//! The board as one HTML page that needs nothing else: no script, no font, no image from outside.
//!
//! It reads at the width of a telephone and of a desk: tables scroll inside their own box, charts
//! take the width they get.

use super::Results;
use super::accounts;
use super::chart::{self, Bar, Line};
use super::documented::Documented;
use super::markdown::{self, NOT_GIVEN, number};
use super::notes::{self, Notes};
use super::rows::{Board, Ratio};
use std::fmt::Write;

const STYLE: &str = include_str!("board.css");

/// The page.
#[must_use]
pub fn write(results: &Results, board: &Board, documented: &Documented, notes: &Notes) -> String {
    let campaign = &results.campaign;
    let totals = &board.totals;
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>Kiban compare: {plan}</title><style>{STYLE}</style></head><body>\n\
         <header><h1>{plan}</h1><p>{about}</p>\
         <p class=\"totals\">{valid} trials valid, {invalid} invalid, {pairs} pairs, {ops} \
         foreground operations. Revision <code>{revision}</code>.</p>\
         <p>A ratio is taken inside one repetition; its bar ends at the median, the thin line is \
         the range. Right of 1 Kiban is ahead; a bar whose range spans 1 is \
         grey.</p><p>{reading}</p></header>\n",
        plan = escape(&board.plan),
        reading = escape(&markdown::READING.join(" ").replace('`', "")),
        about = escape(&campaign.about),
        valid = totals.valid,
        invalid = totals.invalid,
        pairs = totals.pairs,
        ops = number(totals.foreground_operations as f64),
        revision = escape(&board.revision.chars().take(18).collect::<String>()),
    );
    page.push_str("<main><h2>Observed</h2>");
    for (name, lines) in sweeps(board) {
        let _ = writeln!(
            page,
            "<section><h3>{} by threads, operations per second</h3>{}</section>",
            escape(&name),
            chart::lines(&lines)
        );
    }
    for row in markdown::row_names(board) {
        section(&mut page, board, documented, &row);
    }
    own_accounts(&mut page, results);
    for (heading, lines) in [
        ("Not proven", &notes.not_proven),
        ("Deviations", &notes.deviations),
        ("Limits", &notes.limits),
    ] {
        let _ = write!(page, "<h2>{heading}</h2><ul>");
        for line in lines {
            let _ = write!(page, "<li>{}</li>", escape(line));
        }
        page.push_str("</ul>\n");
    }
    page.push_str("<h2>Machine and engines</h2><div class=\"box\"><table class=\"facts\">");
    let pins = &campaign.pins;
    let hashes = [
        ("binary SHA-256".to_string(), pins.binary_sha256.clone()),
        ("plan SHA-256".to_string(), pins.plan_sha256.clone()),
        ("sources SHA-256".to_string(), pins.inputs_sha256.clone()),
        ("analysis SHA-256".to_string(), pins.analysis_sha256.clone()),
    ];
    let engines = pins.engines.iter().map(|(engine, version)| (engine.clone(), version.clone()));
    for (name, value) in campaign.machine.facts.iter().cloned().chain(engines).chain(hashes) {
        let _ = write!(page, "<tr><th>{}</th><td>{}</td></tr>", escape(&name), escape(&value));
    }
    page.push_str("</table></div></main></body></html>\n");
    page
}

fn section(page: &mut String, board: &Board, documented: &Documented, row: &str) {
    let _ = write!(page, "<section><h3>{}</h3>", escape(row));
    let ratios = markdown::ratios(board, row);
    for metric in ["ops_per_s", "reads_per_s", "writes_per_s", "read_p99", "write_p99"] {
        let bars: Vec<Bar> =
            ratios.iter().filter(|ratio| ratio.metric == metric).map(|ratio| bar(ratio)).collect();
        if !bars.is_empty() {
            let _ = write!(page, "<figure><figcaption>{metric}</figcaption>");
            page.push_str(&chart::ratios(&bars));
            page.push_str("</figure>");
        }
    }
    figures(page, board, documented, row);
    if !ratios.is_empty() {
        ratio_table(page, documented, row, &ratios);
    }
    page.push_str("</section>\n");
}

fn own_accounts(page: &mut String, results: &Results) {
    let lines = accounts::lines(results);
    if lines.is_empty() {
        return;
    }
    page.push_str("<section><h3>By the engines' own accounts</h3><div class=\"box\"><table><tr>");
    for name in accounts::HEAD {
        let _ = write!(page, "<th>{name}</th>");
    }
    page.push_str("</tr>");
    for line in lines {
        page.push_str("<tr>");
        for field in line {
            let _ = write!(page, "<td>{}</td>", escape(&field));
        }
        page.push_str("</tr>");
    }
    page.push_str("</table></div></section>\n");
}

fn bar(ratio: &Ratio) -> Bar {
    let label = match ratio.engine.as_str() {
        "kiban" => format!("against {}", ratio.against),
        variant => format!("{variant} against {}", ratio.against),
    };
    Bar { label, median: ratio.median, min: ratio.min, max: ratio.max }
}

fn figures(page: &mut String, board: &Board, documented: &Documented, row: &str) {
    let engines = markdown::engines(board, row);
    page.push_str(
        "<details open><summary>Figures</summary><div class=\"box\"><table><tr><th></th>",
    );
    for engine in &engines {
        let _ = write!(page, "<th>{}</th>", escape(engine));
    }
    page.push_str("</tr>");
    for metric in markdown::metrics_of(board, row) {
        let name = metric.name.replace('_', "_<wbr>");
        let _ = write!(page, "<tr><th>{name} <small>{}</small></th>", metric.unit);
        for engine in &engines {
            match markdown::figure(board, row, engine, metric.name) {
                None => page.push_str("<td class=\"none\">unknown</td>"),
                Some(one) => {
                    let _ = write!(page, "<td>{}", number(one.median));
                    if one.trials > 1 {
                        let (low, high) = (number(one.min), number(one.max));
                        let _ = write!(page, "<small>{low} to {high}</small>");
                    }
                    let given = markdown::given(documented, row, engine, metric.name);
                    if given != NOT_GIVEN || notes::is_rate_of(board, row, metric.name) {
                        let _ = write!(page, "<small>documented: {}</small>", escape(&given));
                    }
                    page.push_str("</td>");
                }
            }
        }
        page.push_str("</tr>");
    }
    page.push_str("</table></div></details>");
}

fn ratio_table(page: &mut String, documented: &Documented, row: &str, ratios: &[&Ratio]) {
    page.push_str(
        "<details><summary>Ratios</summary><div class=\"box\"><table><tr><th>ratio</th>\
         <th>against</th><th>median</th><th>range</th><th>reads as</th><th>documented</th></tr>",
    );
    for ratio in ratios {
        let pair = format!("{}/{}", ratio.engine, ratio.against);
        let _ = write!(
            page,
            "<tr><th>{} {}</th><td>{}</td><td>{:.3}</td><td>{:.3} to {:.3}</td><td>{}</td>\
             <td>{}</td></tr>",
            escape(&ratio.engine),
            ratio.metric,
            escape(&ratio.against),
            ratio.median,
            ratio.min,
            ratio.max,
            markdown::verdict(ratio),
            escape(&markdown::given(documented, row, &pair, &ratio.metric))
        );
    }
    page.push_str("</table></div></details>");
}

/// Rows that differ in their thread count alone, `NAME-tN`, as lines.
fn sweeps(board: &Board) -> Vec<(String, Vec<Line>)> {
    let mut sweeps: Vec<(String, Vec<Line>)> = Vec::new();
    for figure in board.rows.iter().filter(|figure| figure.metric == "ops_per_s") {
        let (stem, awake) = match figure.row.strip_suffix("+awake") {
            Some(stem) => (stem, " +awake"),
            None => (figure.row.as_str(), ""),
        };
        let Some((name, count)) = stem.rsplit_once("-t") else { continue };
        let Ok(count) = count.parse::<u32>() else { continue };
        let name = format!("{name}{awake}");
        let at = sweeps.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
            sweeps.push((name, Vec::new()));
            sweeps.len() - 1
        });
        let lines = &mut sweeps[at].1;
        let line = lines.iter().position(|line| line.label == figure.engine).unwrap_or_else(|| {
            lines.push(Line { label: figure.engine.clone(), points: Vec::new() });
            lines.len() - 1
        });
        lines[line].points.push((f64::from(count), figure.median));
    }
    for (_, lines) in &mut sweeps {
        for line in lines.iter_mut() {
            line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
    }
    sweeps.retain(|(_, lines)| lines.iter().any(|line| line.points.len() > 1));
    sweeps
}

/// Text for a page.
#[must_use]
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
