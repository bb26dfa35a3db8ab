//! A page as one HTML file that needs nothing from outside: no script, no font, no image.
//!
//! Invariants
//! - Every piece of text is escaped; keys and values of a failing case are foreign bytes.
//! - The file says its verdict first and in words, not by colour alone.

use super::{Block, Page, Table, Tone};
use std::fmt::Write;

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:15px/1.5 system-ui,sans-serif;max-width:78rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}\
.scroll{overflow-x:auto}\
table{border-collapse:collapse;font-size:13px}\
th,td{padding:.15rem .5rem;border:1px solid #8884;text-align:left;white-space:nowrap}\
th{position:sticky;top:0}\
pre{padding:.75rem;border:1px solid #8884;overflow-x:auto}\
.verdict{padding:.75rem;border-left:.4rem solid;font-weight:600}\
.good{background:#1a7f3722}.bad{background:#cf222e33}.doubtful{background:#bf870033}\
.muted{opacity:.45}";

/// The page as an HTML document.
#[must_use]
pub fn render(page: &Page) -> String {
    let mut out = String::new();
    let title = escape(&page.title);
    put(
        &mut out,
        format_args!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>kiban-crash: {title}</title><style>{STYLE}</style></head>\n\
         <body>\n<h1>{title}</h1>\n<p class=\"verdict {}\">{}</p>\n",
            class(page.tone),
            escape(&page.verdict)
        ),
    );
    for section in &page.sections {
        if !section.title.is_empty() {
            put(&mut out, format_args!("<h2>{}</h2>\n", escape(&section.title)));
        }
        section.blocks.iter().for_each(|block| render_block(&mut out, block));
    }
    out.push_str("</body></html>\n");
    out
}

fn render_block(out: &mut String, block: &Block) {
    match block {
        Block::Facts(facts) => {
            out.push_str("<table>\n");
            for (name, value) in facts {
                put(
                    out,
                    format_args!("<tr><th>{}</th><td>{}</td></tr>\n", escape(name), escape(value)),
                );
            }
            out.push_str("</table>\n");
        }
        Block::Table(table) => render_table(out, table),
        Block::Note(note) => put(out, format_args!("<p>{}</p>\n", escape(note))),
        Block::Verbatim(text) => put(out, format_args!("<pre>{}</pre>\n", escape(text))),
    }
}

fn render_table(out: &mut String, table: &Table) {
    out.push_str("<div class=\"scroll\"><table>\n<tr>");
    for title in &table.head {
        put(out, format_args!("<th>{}</th>", escape(title)));
    }
    out.push_str("</tr>\n");
    for row in &table.rows {
        out.push_str("<tr>");
        for cell in row {
            match class(cell.tone) {
                "" => put(out, format_args!("<td>{}</td>", escape(&cell.text))),
                class => {
                    put(out, format_args!("<td class=\"{class}\">{}</td>", escape(&cell.text)))
                }
            }
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div>\n");
}

fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "",
        Tone::Good => "good",
        Tone::Doubtful => "doubtful",
        Tone::Bad => "bad",
        Tone::Muted => "muted",
    }
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("invariant: a string takes every write");
}

/// `text` for element content and for attributes in double quotes. Control characters other than
/// tab and line feed are written as visible escapes: HTML has no way to hold them.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' => out.push(c),
            c if c.is_control() || is_noncharacter(c) => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

/// Code points that XML 1.0 forbids beside control characters; JUnit files share this escape.
fn is_noncharacter(c: char) -> bool {
    matches!(c, '\u{fffe}' | '\u{ffff}')
}
