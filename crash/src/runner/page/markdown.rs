//! A page as Markdown, for the step summary of a CI run.
//!
//! Invariants
//! - Foreign text can't open markup: it is escaped, or stands in a fence longer than any in it.
//! - Tables are cut to [`ROWS_MAX`] rows, since a summary has a size limit; the cut is said.

use super::{Block, Page, Table, Tone};
use std::fmt::Write;

/// Rows of one table that a summary shows.
pub const ROWS_MAX: usize = 200;

/// The page as Markdown.
#[must_use]
pub fn render(page: &Page) -> String {
    let mut out = String::new();
    let mark = match page.tone {
        Tone::Good => "✅ ",
        Tone::Bad => "❌ ",
        Tone::Doubtful => "⚠️ ",
        Tone::Plain | Tone::Muted => "",
    };
    put(&mut out, format_args!("## {}\n\n", escape(&page.title)));
    put(&mut out, format_args!("{mark}**{}**\n\n", escape(&page.verdict)));
    for section in &page.sections {
        if !section.title.is_empty() {
            put(&mut out, format_args!("### {}\n\n", escape(&section.title)));
        }
        section.blocks.iter().for_each(|block| render_block(&mut out, block));
    }
    out
}

fn render_block(out: &mut String, block: &Block) {
    match block {
        Block::Facts(facts) => {
            out.push_str("| | |\n| --- | --- |\n");
            for (name, value) in facts {
                put(out, format_args!("| {} | {} |\n", escape(name), escape(value)));
            }
            out.push('\n');
        }
        Block::Table(table) => render_table(out, table),
        Block::Note(note) => put(out, format_args!("{}\n\n", escape(note))),
        Block::Verbatim(text) => {
            let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
            let fence = "`".repeat(longest.max(2) + 1);
            put(out, format_args!("{fence}text\n{text}\n{fence}\n\n"));
        }
    }
}

fn render_table(out: &mut String, table: &Table) {
    for title in &table.head {
        put(out, format_args!("| {} ", escape(title)));
    }
    out.push_str("|\n");
    out.push_str(&"| --- ".repeat(table.head.len()));
    out.push_str("|\n");
    for row in table.rows.iter().take(ROWS_MAX) {
        for cell in row {
            match cell.tone {
                Tone::Bad => put(out, format_args!("| **{}** ", escape(&cell.text))),
                _ => put(out, format_args!("| {} ", escape(&cell.text))),
            }
        }
        out.push_str("|\n");
    }
    if let Some(more) = table.rows.len().checked_sub(ROWS_MAX).filter(|&more| more > 0) {
        put(out, format_args!("\n{more} more rows are in report.html.\n"));
    }
    out.push('\n');
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("invariant: a string takes every write");
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '|' => out.extend(['\\', c]),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
