//! What the engines say about their own work: tables written, logs, stalls by cause.
//!
//! Each engine counts by its own definitions, and some only with their statistics on, which slows
//! them: those stand in diagnostic trials, marked as such, and in no ratio. Nothing here is
//! compared.

use super::Results;
use crate::engine::Account;
use crate::trial::Figures;
use std::collections::BTreeMap;

/// The head of the table.
pub const HEAD: [&str; 8] = [
    "row",
    "engine",
    "statistics",
    "table write amplification",
    "process write amplification",
    "log bytes to user bytes",
    "flushes and compactions",
    "stalls by cause",
];

/// One line for each row, contestant and kind of trial that wrote: that of the last valid trial.
#[must_use]
pub fn lines(results: &Results) -> Vec<[String; 8]> {
    let mut last: BTreeMap<(usize, &str, bool), &Figures> = BTreeMap::new();
    for record in results.records.iter().filter(|record| record.is_valid()) {
        let row = results.campaign.rows.iter().position(|row| row.name == record.row);
        let figures = record.outcome.as_ref().map(|outcome| &outcome.figures);
        if let (Some(row), Some(figures)) = (row, figures)
            && figures.user_bytes > 0
        {
            last.insert((row, &record.contestant, record.diagnostic), figures);
        }
    }
    let line = |((row, engine, diagnostic), figures): (&(usize, &str, bool), &&Figures)| {
        let (account, user) = (&figures.account, figures.user_bytes as f64);
        let to_user = |bytes: Option<u64>| {
            bytes.map_or("unknown".into(), |bytes| format!("{:.2}", bytes as f64 / user))
        };
        let tables = account.flush_bytes.zip(account.compaction_bytes).map(|(a, b)| a + b);
        let count = |n: Option<u64>| n.map_or("unknown".into(), |n| n.to_string());
        [
            results.campaign.rows[*row].name.clone(),
            (*engine).to_string(),
            if *diagnostic { "on" } else { "off" }.into(),
            to_user(tables),
            to_user(Some(figures.io.write_bytes)),
            to_user(account.log_bytes),
            format!("{}, {}", count(account.flushes), count(account.compactions)),
            stalls(account),
        ]
    };
    last.iter().map(line).collect()
}

fn stalls(account: &Account) -> String {
    let causes = account.stalls.iter().filter(|(_, stall)| {
        stall.count.is_some_and(|n| n > 0) || stall.ns.is_some_and(|ns| ns > 0)
    });
    let words: Vec<String> = causes
        .map(|(cause, stall)| {
            let times = stall.count.map(|n| format!(" {n} times")).unwrap_or_default();
            let ms = stall.ns.map(|ns| format!(" {:.1} ms", ns as f64 / 1e6)).unwrap_or_default();
            format!("{cause}{times}{ms}")
        })
        .collect();
    match (words.is_empty(), account.stalls.is_empty()) {
        (true, true) => "unknown".into(),
        (true, false) => "none".into(),
        _ => words.join("; "),
    }
}
