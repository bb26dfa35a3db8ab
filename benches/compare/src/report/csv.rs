//! Every figure of every trial, as CSV with LF line endings.

use super::Results;
use super::metrics::{self, metric};
use std::fmt::Write;

/// The table, its head included.
#[must_use]
pub fn write(results: &Results) -> String {
    let mut text = String::from(
        "place,row,engine,repetition,diagnostic,valid,metric,unit,value,invalid_because\n",
    );
    for record in &results.records {
        let head = |row: &str| {
            format!(
                "{},{},{},{},{},{}",
                record.place,
                field(row),
                field(&record.contestant),
                record.repetition,
                record.diagnostic,
                record.is_valid()
            )
        };
        let why = field(&record.invalid.join("; "));
        let figures = metrics::of(record, results.row(&record.row));
        if figures.is_empty() {
            let _ = writeln!(text, "{},,,,{why}", head(&record.row));
        }
        for (row, name, figure) in figures {
            let unit = metric(name).map_or("", |metric| metric.unit);
            let _ = writeln!(text, "{},{name},{},{figure},{why}", head(&row), field(unit));
        }
    }
    text
}

/// A field, quoted where it must be.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\"").replace(['\n', '\r'], " "))
    } else {
        text.to_string()
    }
}
