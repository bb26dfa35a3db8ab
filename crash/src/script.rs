//! A run as text: options, operations, injected faults and crashes, one line each.
//!
//! ```text
//! # D1: an acknowledged durable write is gone
//! seed 17
//! option memtable_bytes 1024
//! fault eio stage commit.sync call sync_data skip 2
//! put k07 a
//! put_durable k07 b
//! crash power at 2.5 + - <12
//! get k07
//! crash kill at 0.9
//! ```
//!
//! A crash ends a section: the database is recovered from the image, compared whole, and the
//! section's successor goes on with it. `at S.P` names the point: step S of the section (0 opens
//! the database, N is its Nth operation), and the number of the point in that step. What a power
//! cut left follows, one pick for each part of the dirty set; a killed process loses nothing.
//!
//! Invariants
//! - `parse(print(x)) == x`; a malformed line is refused with its number and what was expected.
//! - Equal scripts give equal runs: the seed decides the engine's ids and nothing else here.

use crate::disk::{FAULTS, Fault, Op as Call, Rule};
use crate::sim::stage_name;
use kiban::env::probe::Stage;
use kiban_model::config::Config;
use kiban_model::durable::CrashClass;
use kiban_model::ops::{Case, Op};
use kiban_model::text::{ParseError, parse_op};
use std::fmt;

pub use crate::disk::Choice;

/// One crash: where, and what it left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crash {
    /// Whether the process died or the power went.
    pub class: CrashClass,
    /// The step of the section.
    pub step: u32,
    /// The point in the step.
    pub point: u32,
    /// What survived; of a killed process, everything.
    pub choice: Choice,
}

/// What one process did, from its open to the crash that ended it.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Options that differ from those of the section before.
    pub changes: Vec<(&'static str, u64)>,
    /// Faults to come.
    pub faults: Vec<Rule>,
    /// What it did.
    pub ops: Vec<Op>,
    /// How it ended; `None` for the last one.
    pub crash: Option<Crash>,
}

/// A whole run.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// Decides the engine's ids.
    pub seed: u64,
    /// How the database is first opened.
    pub config: Config,
    /// One after the other.
    pub sections: Vec<Section>,
}

impl Script {
    /// Operations in all.
    #[must_use]
    pub fn ops(&self) -> u64 {
        self.sections.iter().map(|section| section.ops.len() as u64).sum()
    }

    /// A script from its text.
    ///
    /// # Errors
    /// The first malformed line.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut script = Self { sections: vec![Section::default()], ..Self::default() };
        for (i, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            script.line(line).map_err(|expected| ParseError { line: i + 1, expected })?;
        }
        Ok(script)
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let first = self.sections.len() == 1;
        let section = self.sections.last_mut().ok_or("a section")?;
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        match verb {
            "seed" => self.seed = number(rest)?,
            "option" => {
                let (name, value) = rest.trim().split_once(' ').ok_or("`option name value`")?;
                let value = number(value.trim())?;
                let known = Config::NAMES.iter().find(|known| **known == name);
                let name = *known.ok_or_else(|| format!("an option, not `{name}`"))?;
                if first {
                    self.config.set(name, value);
                } else {
                    section.changes.push((name, value));
                }
            }
            "fault" => section.faults.push(parse_fault(rest)?),
            "crash" => {
                section.crash = Some(parse_crash(rest)?);
                self.sections.push(Section::default());
            }
            _ => section.ops.push(parse_op(line)?),
        }
        Ok(())
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}", self.seed)?;
        write!(f, "{}", Case { config: self.config.clone(), ops: Vec::new() })?;
        for section in &self.sections {
            for (name, value) in &section.changes {
                writeln!(f, "option {name} {value}")?;
            }
            for rule in &section.faults {
                writeln!(f, "fault {}", fault_text(rule))?;
            }
            for op in &section.ops {
                writeln!(f, "{op}")?;
            }
            if let Some(crash) = &section.crash {
                writeln!(f, "{crash}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = class_name(self.class);
        write!(f, "crash {class} at {}.{}", self.step, self.point)?;
        match self.class {
            CrashClass::Power if !self.choice.picks.is_empty() => write!(f, " {}", self.choice),
            _ => Ok(()),
        }
    }
}

/// "kill" or "power".
#[must_use]
pub fn class_name(class: CrashClass) -> &'static str {
    match class {
        CrashClass::Kill => "kill",
        CrashClass::Power => "power",
    }
}

fn parse_crash(text: &str) -> Result<Crash, String> {
    const FORM: &str = "`crash kill|power at STEP.POINT [PICKS]`";
    let (class, rest) = text.trim().split_once(" at ").ok_or(FORM)?;
    let class = match class.trim() {
        "kill" => CrashClass::Kill,
        "power" => CrashClass::Power,
        _ => return Err(FORM.to_owned()),
    };
    let (place, choice) = rest.trim().split_once(' ').unwrap_or((rest.trim(), ""));
    let (step, point) = place.split_once('.').ok_or(FORM)?;
    let place = |text: &str| u32::try_from(number(text)?).map_err(|_| FORM.to_owned());
    Ok(Crash { class, step: place(step)?, point: place(point)?, choice: choice.parse()? })
}

/// A rule as text: its fault by name, then what it is narrowed to.
#[must_use]
pub fn fault_text(rule: &Rule) -> String {
    let mut text = rule.fault.name().to_owned();
    if let Some(stage) = rule.stage {
        text += &format!(" stage {}", stage_name(stage));
    }
    if let Some(call) = rule.op {
        text += &format!(" call {}", call.name());
    }
    if let Some(end) = &rule.path_end {
        text += &format!(" path {end}");
    }
    if rule.skip > 0 {
        text += &format!(" skip {}", rule.skip);
    }
    if rule.times != 1 {
        text += &format!(" times {}", rule.times);
    }
    text
}

fn parse_fault(text: &str) -> Result<Rule, String> {
    let mut words = text.split_whitespace();
    let name = words.next().unwrap_or("");
    let fault = Fault::named(name).ok_or_else(|| {
        let names: Vec<_> = FAULTS.iter().map(|(name, _)| *name).collect();
        format!("a fault ({}), not `{name}`", names.join(" "))
    })?;
    let mut rule = Rule::new(fault);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("a value after `{word}`"))?;
        let count = || u32::try_from(number(value)?).map_err(|_| "a smaller number".to_owned());
        match word {
            "stage" => {
                let stage = Stage::ALL.iter().find(|stage| stage.name() == value);
                let stage = stage.ok_or_else(|| format!("a stage, not `{value}`"))?;
                rule.stage = Some(*stage as u8);
            }
            "call" => {
                let call = Call::ALL.iter().find(|call| call.name() == value);
                rule.op = Some(*call.ok_or_else(|| format!("a call, not `{value}`"))?);
            }
            "path" => rule.path_end = Some(value.to_owned()),
            "skip" => rule.skip = count()?,
            "times" => rule.times = count()?,
            _ => return Err(format!("stage, call, path, skip or times, not `{word}`")),
        }
    }
    Ok(rule)
}

fn number(text: &str) -> Result<u64, String> {
    text.trim().parse().map_err(|_| format!("a number, not `{text}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_parses_back_from_its_text() {
        let text = "seed 17\noption memtable_bytes 1024\n\
            fault eio stage commit.sync call sync_data skip 2\n\
            fault unsupported call preallocate times 4294967295\n\
            put k07 a\nput_durable k07 b\ncrash power at 2.5 + - <12\n\
            option reads_pread 1\nget k07\ncrash kill at 0.9\nverify\n";
        let script = Script::parse(text).expect("it follows the grammar");
        assert_eq!(script.to_string(), text);
        assert_eq!((script.sections.len(), script.ops()), (3, 4));
    }

    #[test]
    fn a_malformed_line_is_refused_with_its_number() {
        for (line, expected) in [
            ("crash lightning at 1.1", "kill|power"),
            ("crash power at 7", "STEP.POINT"),
            ("fault gremlin", "a fault"),
            ("fault eio stage lunch", "a stage"),
            ("option lunch 1", "an option"),
            ("frobnicate", "an operation"),
        ] {
            let error = Script::parse(&format!("put a b\n{line}\n")).expect_err(line);
            assert!(error.line == 2 && error.to_string().contains(expected), "{error}");
        }
    }
}
