//! Bars as inline SVG: the ratio of one row, or medians over thread counts.
//!
//! Every mark has its figure beside it in the text, so that a chart is never the only place.

use crate::engines::KNOWN;
use std::fmt::Write;

/// A ratio with its range.
#[derive(Clone, Debug)]
pub struct Bar {
    /// What stands before it.
    pub label: String,
    /// The median.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

const WIDTH: f64 = 320.0;
const ROW: f64 = 34.0;

/// Ratios on a logarithmic axis around 1; `widest` is the greatest distance from it that fits.
#[must_use]
pub fn ratios(bars: &[Bar]) -> String {
    let farthest = bars
        .iter()
        .flat_map(|bar| [bar.min, bar.max])
        .map(|ratio| ratio.max(1e-6).log2().abs())
        .fold(1.0, f64::max);
    let x = |ratio: f64| WIDTH / 2.0 + ratio.max(1e-6).log2() / farthest * (WIDTH / 2.0 - 8.0);
    let height = ROW * bars.len() as f64 + 18.0;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"ratios around 1\">\
         <line class=\"one\" x1=\"{m}\" x2=\"{m}\" y1=\"0\" y2=\"{end}\"/>\
         <text class=\"axis\" x=\"{m}\" y=\"{text}\" text-anchor=\"middle\">1</text>\
         <text class=\"axis\" x=\"4\" y=\"{text}\">other ahead</text>\
         <text class=\"axis\" x=\"{right}\" y=\"{text}\" text-anchor=\"end\">Kiban ahead</text>",
        m = WIDTH / 2.0,
        end = height - 16.0,
        text = height - 4.0,
        right = WIDTH - 4.0,
    );
    for (i, bar) in bars.iter().enumerate() {
        let top = ROW * i as f64;
        let class = match (bar.min > 1.0, bar.max < 1.0) {
            (true, _) => "ahead",
            (_, true) => "behind",
            _ => "even",
        };
        let (one, median) = (x(1.0), x(bar.median));
        let _ = write!(
            svg,
            "<text x=\"4\" y=\"{label_y}\">{label}</text>\
             <text x=\"{right}\" y=\"{label_y}\" text-anchor=\"end\">{median_text}</text>\
             <rect class=\"{class}\" x=\"{left:.1}\" y=\"{bar_y}\" width=\"{width:.1}\" \
             height=\"10\"/>\
             <line class=\"range\" x1=\"{low:.1}\" x2=\"{high:.1}\" y1=\"{mid}\" y2=\"{mid}\"/>",
            label_y = top + 12.0,
            label = super::html::escape(&bar.label),
            right = WIDTH - 4.0,
            median_text = super::markdown::number(bar.median),
            left = one.min(median),
            width = (one - median).abs().max(1.0),
            bar_y = top + 17.0,
            low = x(bar.min),
            high = x(bar.max).max(x(bar.min) + 1.0),
            mid = top + 22.0,
        );
    }
    svg.push_str("</svg>");
    svg
}

/// A line over an axis of counts.
#[derive(Clone, Debug)]
pub struct Line {
    /// Whose it is.
    pub label: String,
    /// Counts and figures, counts ascending.
    pub points: Vec<(f64, f64)>,
}

/// An engine has the same colour in every chart, and its variants have one of two others.
fn colour(contestant: &str) -> usize {
    let known = KNOWN.iter().position(|engine| *engine == contestant);
    known.unwrap_or(KNOWN.len() + usize::from(!contestant.contains(':')))
}

/// Lines over a logarithmic axis of counts, from zero up.
#[must_use]
pub fn lines(lines: &[Line]) -> String {
    const HEIGHT: f64 = 170.0;
    const FOOT: f64 = 20.0;
    let all = || lines.iter().flat_map(|line| &line.points);
    let top = all().map(|(_, y)| *y).fold(f64::MIN_POSITIVE, f64::max);
    let right = all().map(|(x, _)| x.log2()).fold(1.0, f64::max);
    let x = |count: f64| 8.0 + count.log2() / right * (WIDTH - 24.0);
    let y = |figure: f64| HEIGHT - FOOT - figure / top * (HEIGHT - FOOT - 14.0);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"figures by threads\">\
         <line class=\"one\" x1=\"0\" x2=\"{WIDTH}\" y1=\"{base}\" y2=\"{base}\"/>\
         <text class=\"axis\" x=\"4\" y=\"10\">{top_text}</text>",
        base = HEIGHT - FOOT,
        top_text = super::markdown::number(top),
    );
    let mut counts: Vec<f64> = all().map(|(count, _)| *count).collect();
    counts.sort_by(f64::total_cmp);
    counts.dedup();
    for count in counts {
        let _ = write!(
            svg,
            "<text class=\"axis\" x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{count}</text>",
            x(count),
            HEIGHT - 5.0
        );
    }
    let mut lines: Vec<&Line> = lines.iter().collect();
    lines.sort_by_key(|line| colour(&line.label));
    for line in &lines {
        let points: Vec<String> =
            line.points.iter().map(|(a, b)| format!("{:.1},{:.1}", x(*a), y(*b))).collect();
        let (colour, points) = (colour(&line.label), points.join(" "));
        let _ = write!(svg, "<polyline class=\"line l{colour}\" points=\"{points}\"/>");
    }
    svg.push_str("</svg><p class=\"key\">");
    for line in &lines {
        let (colour, label) = (colour(&line.label), super::html::escape(&line.label));
        let _ = write!(svg, "<span class=\"k{colour}\">{label}</span> ");
    }
    svg.push_str("</p>");
    svg
}
