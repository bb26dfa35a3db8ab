//! How far a run is: a bar on a terminal, a plain line every thirty seconds elsewhere.
//!
//! Invariants
//! - Progress goes to standard error, so that standard output stays the result alone.
//! - What it shows has no effect on the run; it may be called from one thread at a time.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "outside the engine")]

use super::view::grouped;
use crate::report::Totals;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Between two plain lines.
const PLAIN_EVERY: Duration = Duration::from_secs(30);

/// How long a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// So many cases (or operations, or seeded bugs).
    Count(u64),
    /// So long.
    Time(Duration),
    /// Nobody knows.
    Unknown,
}

/// Shows how far a run is.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    length: Length,
    begun: Instant,
    last_line: Instant,
}

impl Progress {
    /// A run of this length begins.
    #[must_use]
    pub fn begin(length: Length) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| bar(length));
        let now = Instant::now();
        Self { bar, length, begun: now, last_line: now }
    }

    /// So many of the run's units are done, and this was counted.
    pub fn update(&mut self, done: u64, totals: &Totals, failures: u64) {
        let elapsed = self.begun.elapsed();
        let mut text = format!(
            "{} cases, {} ops, {} images",
            grouped(totals.cases),
            grouped(totals.ops),
            grouped(totals.images)
        );
        if failures > 0 {
            text.push_str(&format!(", {failures} FAILED"));
        }
        self.show(done, elapsed, text);
    }

    /// So many of the run's units are done; `text` says what is under way.
    pub fn say(&mut self, done: u64, text: &str) {
        let elapsed = self.begun.elapsed();
        if self.bar.is_none() {
            self.last_line = self.begun;
        }
        self.show(done, elapsed, text.to_owned());
    }

    fn show(&mut self, done: u64, elapsed: Duration, text: String) {
        let position = match self.length {
            Length::Time(_) => elapsed.as_millis() as u64,
            Length::Count(_) | Length::Unknown => done,
        };
        match &self.bar {
            Some(bar) => {
                bar.set_position(position);
                bar.set_message(text);
            }
            None if self.last_line == self.begun || self.last_line.elapsed() >= PLAIN_EVERY => {
                self.last_line = Instant::now();
                eprintln!("[{:>4} s] {text}", elapsed.as_secs());
            }
            None => {}
        }
    }

    /// The run has ended: the bar goes away, the result follows.
    pub fn end(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

fn bar(length: Length) -> ProgressBar {
    let (bar, template) = match length {
        Length::Count(n) => (ProgressBar::new(n), "{bar:30} {pos}/{len} {elapsed} {msg}"),
        Length::Time(time) => {
            (ProgressBar::new(time.as_millis() as u64), "{bar:30} {percent:>3} % {elapsed} {msg}")
        }
        Length::Unknown => (ProgressBar::no_length(), "{spinner} {elapsed} {msg}"),
    };
    let style = ProgressStyle::with_template(template).unwrap_or(ProgressStyle::default_bar());
    bar.with_style(style)
}
