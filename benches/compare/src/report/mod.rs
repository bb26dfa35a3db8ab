//! The board of a campaign: from records to rows, ratios, and four files.
//!
//! 1. `metrics`: what one trial says, by name, with unit and direction.
//! 2. `rows`: medians and ratios over trials.
//! 3. `conditions`: what decides whether they prove anything.
//! 4. `documented`: what the documents say about the same rows.
//! 5. `accounts`: what the engines say themselves; `notes`: what is not proven, what deviated, and
//!    the limits.
//! 6. `csv`, `markdown`, `html` (with `chart`): the same board in three forms.
//!
//! Invariants
//! - A ratio is taken between two trials of one row and repetition, and above 1 favours the first.
//! - Only valid, non-diagnostic trials are in rows and ratios; every trial is in the totals.
//! - The same records give the same bytes.

pub mod accounts;
pub mod chart;
pub mod conditions;
pub mod csv;
pub mod documented;
pub mod html;
pub mod markdown;
pub mod metrics;
pub mod notes;
pub mod rows;

use crate::cli::Usage;
use crate::plan::Row;
use crate::supervise::pins::ANALYSIS_SHA256;
use crate::supervise::record::{self, Campaign, Record};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The board's files.
pub const FILES: [&str; 4] = ["scoreboard.json", "trials.csv", "board.md", "board.html"];

/// A campaign with all its records.
#[derive(Clone, Debug)]
pub struct Results {
    /// Its head.
    pub campaign: Campaign,
    /// Its trials, in the order they ran.
    pub records: Vec<Record>,
}

impl Results {
    /// Reads a campaign's directory.
    ///
    /// # Errors
    /// [`Usage`] where it is none.
    pub fn read(dir: &Path) -> Result<Self> {
        let campaign = record::read(&dir.join("campaign.json"))
            .map_err(|error| Usage(format!("{} is no campaign: {error:#}", dir.display())))?;
        let mut records: Vec<Record> = Vec::new();
        for entry in fs::read_dir(dir.join("trials")).context("the trials")? {
            let file = entry?.path().join("record.json");
            if file.exists() {
                records.push(record::read(&file)?);
            }
        }
        records.sort_by_key(|record| record.place);
        Ok(Self { campaign, records })
    }

    /// Trials that are in rows and ratios.
    pub fn counted(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(|record| record.is_valid() && !record.diagnostic)
    }

    /// A row's parameters.
    #[must_use]
    pub fn row(&self, name: &str) -> Option<&Row> {
        self.campaign.rows.iter().find(|row| row.name == name)
    }

    /// Whether the board is made by other sources than those the campaign pinned.
    #[must_use]
    pub fn analysed_by_others(&self) -> bool {
        self.campaign.pins.analysis_sha256 != ANALYSIS_SHA256
    }
}

/// Writes the board of the campaign in `dir`, beside its records; `again` is another run of the
/// same plan, against which the rows' stability is judged.
///
/// # Errors
/// [`Usage`] where it is no campaign; otherwise what keeps it from being written.
pub fn write(dir: &Path, again: Option<&Path>) -> Result<()> {
    let results = Results::read(dir)?;
    let board = rows::board(&results);
    let documented = documented::Documented::read()?;
    let again = again.map(Results::read).transpose()?.map(|results| rows::board(&results));
    let notes = notes::notes(&results, &board, again.as_ref());
    let json = serde_json::to_string_pretty(&board)? + "\n";
    let texts = [
        json,
        csv::write(&results),
        markdown::write(&results, &board, &documented, &notes),
        html::write(&results, &board, &documented, &notes),
    ];
    for (name, text) in FILES.iter().zip(texts) {
        fs::write(dir.join(name), text).with_context(|| format!("{name} of {}", dir.display()))?;
    }
    Ok(())
}

/// Copies a campaign's board, head, plan, records and archived options to
/// `parent/<revision>/<plan>`, which must not exist.
///
/// # Errors
/// [`Usage`] where it exists.
pub fn publish(dir: &Path, parent: &Path) -> Result<PathBuf> {
    let results = Results::read(dir)?;
    let pins = &results.campaign.pins;
    let short: String = pins.revision.chars().take(12).collect();
    let revision = if pins.dirty { format!("{short}-dirty") } else { short };
    let to = parent.join(revision).join(&results.campaign.plan);
    if to.exists() {
        return Err(Usage(format!("{} is there; boards are not replaced", to.display())).into());
    }
    fs::create_dir_all(to.join("trials")).with_context(|| to.display().to_string())?;
    for name in FILES.iter().chain(&["campaign.json", "plan.toml"]) {
        fs::copy(dir.join(name), to.join(name)).with_context(|| (*name).to_string())?;
    }
    for entry in fs::read_dir(dir.join("trials"))? {
        let entry = entry?;
        let target = to.join("trials").join(entry.file_name());
        fs::create_dir(&target)?;
        for file in fs::read_dir(entry.path())? {
            let file = file?;
            fs::copy(file.path(), target.join(file.file_name()))?;
        }
    }
    Ok(to)
}

#[cfg(test)]
mod tests;
