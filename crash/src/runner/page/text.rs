//! A page for a terminal or a log file: plain columns, no colours.
//!
//! Invariants
//! - The verdict is the last line, because that is where a reader's eye is when a run ends.
//! - Control characters in foreign text never reach the terminal.

use super::{Block, Page, Table};
use std::fmt::Write;

/// The page as text, with a final line feed.
#[must_use]
pub fn render(page: &Page) -> String {
    let mut out = String::new();
    for section in &page.sections {
        if !section.title.is_empty() {
            line(&mut out, &section.title);
        }
        for block in &section.blocks {
            match block {
                Block::Facts(facts) => render_facts(&mut out, facts),
                Block::Table(table) => render_table(&mut out, table),
                Block::Note(note) => line(&mut out, note),
                Block::Verbatim(text) => text.lines().for_each(|text| line(&mut out, text)),
            }
        }
        out.push('\n');
    }
    line(&mut out, &page.verdict);
    out
}

fn line(out: &mut String, text: &str) {
    out.push_str(&harmless(text));
    while out.ends_with(' ') {
        out.pop();
    }
    out.push('\n');
}

/// `text` with every control character but tab written as an escape.
#[must_use]
pub fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && c != '\t' {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

fn render_facts(out: &mut String, facts: &[(String, String)]) {
    let width = facts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (name, value) in facts {
        line(out, &format!("  {name:<width$}  {value}"));
    }
}

/// Columns of numbers are set to the right, all others to the left.
fn render_table(out: &mut String, table: &Table) {
    let widths: Vec<usize> = (0..table.head.len())
        .map(|column| {
            let cells = table.rows.iter().map(|row| row[column].text.chars().count());
            cells.chain([table.head[column].chars().count()]).max().unwrap_or(0)
        })
        .collect();
    let numeric: Vec<bool> = (0..table.head.len())
        .map(|column| table.rows.iter().all(|row| is_number(&row[column].text)))
        .collect();
    let mut rows = vec![table.head.iter().map(String::as_str).collect::<Vec<_>>()];
    rows.extend(table.rows.iter().map(|row| row.iter().map(|cell| &*cell.text).collect()));
    for row in rows {
        let mut text = String::new();
        for ((cell, &width), &right) in row.iter().zip(&widths).zip(&numeric) {
            let written = if right {
                write!(text, "  {cell:>width$}")
            } else {
                write!(text, "  {cell:<width$}")
            };
            written.expect("invariant: a string takes every write");
        }
        line(out, &text);
    }
}

fn is_number(text: &str) -> bool {
    let digits = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | '-' | '%');
    text.chars().all(digits)
}
