//! What the documents say about the rows: `documented.toml`, compiled in.

use anyhow::{Context, Result};
use serde::Deserialize;

const TEXT: &str = include_str!("../../documented.toml");

/// All of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Documented {
    /// The documents.
    pub source: Vec<Source>,
    /// Their figures.
    pub figure: Vec<Figure>,
}

/// One document.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Its short name.
    pub name: String,
    /// What it measured, on what.
    pub about: String,
}

/// One figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The row, as the board calls it; empty where no plan has one like it.
    pub row: String,
    /// The contestant, as the board calls it; `kiban/ENGINE` for a ratio.
    pub engine: String,
    /// The kind of figure, as the board calls it.
    pub metric: String,
    /// The figure.
    pub value: f64,
    /// Its range, where one is given.
    #[serde(default)]
    pub range: Option<[f64; 2]>,
    /// The source's short name.
    pub source: String,
    /// The place in the source, in its own words.
    pub place: String,
}

impl Documented {
    /// The compiled-in text.
    ///
    /// # Errors
    /// Where it is not what it should be, which a test rules out.
    pub fn read() -> Result<Self> {
        toml::from_str(TEXT).context("documented.toml")
    }

    /// The documented figures of a row; the form with the cores awake has none of its own.
    pub fn of<'a>(
        &'a self,
        row: &'a str,
        engine: &'a str,
        metric: &'a str,
    ) -> impl Iterator<Item = &'a Figure> {
        self.figure
            .iter()
            .filter(move |one| one.row == row && one.engine == engine && one.metric == metric)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::metrics::metric;

    #[test]
    fn every_figure_has_a_source_and_a_known_metric() {
        let documented = Documented::read().expect("documented.toml is well-formed");
        assert!(documented.figure.len() > 100, "{}", documented.figure.len());
        for figure in &documented.figure {
            let known = documented.source.iter().any(|source| source.name == figure.source);
            assert!(known && !figure.place.is_empty(), "{figure:?}");
            assert!(figure.row.is_empty() || metric(&figure.metric).is_some(), "{figure:?}");
            if let Some([low, high]) = figure.range {
                assert!(low <= figure.value && figure.value <= high, "{figure:?}");
            }
        }
    }
}
