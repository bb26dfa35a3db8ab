//! Tests of the three renderers: alignment, escapes, fences and cuts.

use super::*;

fn page() -> Page {
    let mut table = Table::new(&["stage", "hits"]);
    table.row(vec!["log.create".into(), "7".into()]);
    table.row(vec!["<b>|x".into(), Cell::toned("1200", Tone::Bad)]);
    let mut page = Page {
        title: "a & b".to_owned(),
        verdict: "BROKEN: <D1>".to_owned(),
        tone: Tone::Bad,
        ..Page::default()
    };
    page.section("Totals", vec![Block::Facts(vec![("cases".to_owned(), "12".to_owned())])]);
    page.section("Matrix", vec![Block::Table(table)]);
    page.section("", vec![Block::Verbatim("put \u{1b}[31m ```` \"k\" '".to_owned())]);
    page
}

#[test]
fn text_sets_numbers_right_and_ends_with_the_verdict() {
    let text = text::render(&page());
    assert!(
        text.contains("  stage       hits\n  log.create     7\n  <b>|x       1200\n"),
        "{text}"
    );
    assert!(text.ends_with("\n\nBROKEN: <D1>\n"), "{text}");
    assert!(!text.contains('\u{1b}'), "no escape sequence may reach a terminal");
}

#[test]
fn html_escapes_everything_and_needs_nothing_from_outside() {
    let html = html::render(&page());
    assert!(html.contains("&lt;b&gt;|x") && html.contains("a &amp; b"), "{html}");
    assert!(html.contains("&quot;k&quot; &#39;"), "{html}");
    assert!(!html.contains('\u{1b}') && html.contains("\\u{1b}[31m"), "{html}");
    for outside in ["http://", "https://", "<script", "<link", "src=", "@import", "url("] {
        assert!(!html.contains(outside), "{outside} in {html}");
    }
    assert_eq!(html.matches("<tr>").count(), html.matches("</tr>").count());
    assert!(html.contains("<p class=\"verdict bad\">BROKEN: &lt;D1&gt;</p>"), "{html}");
}

#[test]
fn markdown_fences_are_longer_than_any_in_the_text() {
    let markdown = markdown::render(&page());
    assert!(markdown.contains("`````text\nput"), "{markdown}");
    assert!(markdown.contains("&lt;b&gt;\\|x"), "{markdown}");
    assert!(markdown.contains("❌ **BROKEN: &lt;D1&gt;**"), "{markdown}");
}

#[test]
fn markdown_says_what_it_cut() {
    let mut table = Table::new(&["n"]);
    for n in 0..markdown::ROWS_MAX + 3 {
        table.row(vec![n.to_string().into()]);
    }
    let mut page = Page::default();
    page.section("", vec![Block::Table(table)]);
    assert!(markdown::render(&page).contains("3 more rows"));
}
