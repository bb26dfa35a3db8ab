//! What is kept of a trial, whatever happened to it, and of the campaign around it.

use super::beat::Beats;
use super::child::Ended;
use super::guard::Around;
use super::pins::Pins;
use crate::host::facts::Facts;
use crate::trial::Outcome;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A campaign's head: `campaign.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Campaign {
    /// The plan's name.
    pub plan: String,
    /// What it shows.
    pub about: String,
    /// What may not change.
    pub pins: Pins,
    /// The machine.
    pub machine: Facts,
    /// The command.
    pub command: Vec<String>,
    /// When it began, in seconds since 1970.
    pub began_unix_s: u64,
    /// Rows and contestants that were left out, and why.
    pub left_out: Vec<(String, String)>,
    /// Each row's parameters.
    pub rows: Vec<crate::plan::Row>,
    /// CPUs that are there.
    pub cpus: usize,
}

/// One trial: `record.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Its place in the campaign's order, from 0.
    pub place: usize,
    /// The row.
    pub row: String,
    /// The contestant.
    pub contestant: String,
    /// The repetition, from 0: trials of one row with the same one make pairs.
    pub repetition: u32,
    /// Whether statistics were on; such a trial is in no ratio.
    pub diagnostic: bool,
    /// Why it does not count; empty if it does.
    pub invalid: Vec<String>,
    /// What it found out; `None` where it left nothing.
    pub outcome: Option<Outcome>,
    /// How its process ended; `None` where there was none.
    pub process: Option<Process>,
    /// What the machine did meanwhile.
    pub around: Around,
    /// Where its database was kept, if it failed.
    pub kept: Option<PathBuf>,
}

/// How a trial's process ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Its exit code.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Whether its time was over.
    pub timed_out: bool,
    /// How long it ran, in milliseconds.
    pub ran_ms: u64,
    /// What its heartbeats said.
    pub beats: Beats,
    /// The end of what it complained.
    pub complaint: String,
}

impl From<Ended> for Process {
    fn from(ended: Ended) -> Self {
        Self {
            code: ended.code,
            signal: ended.signal,
            timed_out: ended.timed_out,
            ran_ms: ended.ran.as_millis() as u64,
            beats: ended.beats,
            complaint: ended.complaint,
        }
    }
}

impl Record {
    /// Whether it counts.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.invalid.is_empty()
    }
}

/// Why a trial does not count, from how its process ended and what it left.
#[must_use]
pub fn faults(ended: &Ended, outcome: Option<&Outcome>, has_receipts: bool) -> Vec<String> {
    let mut faults = Vec::new();
    if ended.timed_out {
        faults.push(format!("killed after {} s: it took too long", ended.ran.as_secs()));
    } else if let Some(signal) = ended.signal {
        faults.push(format!("ended by signal {signal}"));
    } else if ended.code != Some(0) && outcome.is_none_or(|outcome| outcome.failure.is_none()) {
        faults.push(format!("ended with code {:?}", ended.code));
    }
    if ended.left_behind {
        faults.push("it left a process behind".into());
    }
    match outcome {
        None => faults.push("it left no outcome".into()),
        Some(outcome) => {
            if let Some(failure) = &outcome.failure {
                faults.push(format!("{}: {}", failure.step, failure.what));
            } else if has_receipts && outcome.receipts.len() != 3 {
                faults.push(format!("{} receipts, 3 are needed", outcome.receipts.len()));
            }
        }
    }
    faults.extend(ended.beats.fault());
    faults
}

/// Reads a JSON file.
///
/// # Errors
/// Where it is not there, or not what it should be.
pub fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    serde_json::from_slice(&bytes).with_context(|| path.display().to_string())
}

/// Writes a JSON file in one step: it is there whole, or not at all.
///
/// # Errors
/// Where it can't be written.
pub fn write<T: Serialize>(path: &Path, value: &T) -> Result<()> {
    let beside = path.with_extension("tmp");
    std::fs::write(&beside, serde_json::to_vec_pretty(value)?)
        .with_context(|| beside.display().to_string())?;
    std::fs::rename(&beside, path).with_context(|| path.display().to_string())
}
