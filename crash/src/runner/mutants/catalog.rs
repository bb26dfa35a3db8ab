//! Seeded bugs as files: `crash/mutants/ID.txt`.
//!
//! ```text
//! id: B27
//! origin: LevelDB #193 https://github.com/google/leveldb/issues/193
//! promise: D3
//! layer: CRASH
//!
//! The story, in three to six sentences.
//!
//! --- src/write/rotate.rs
//! <<<<
//! the text to find, which stands in that file exactly once
//! ====
//! what stands there instead
//! >>>>
//! ```
//!
//! Invariants
//! - Production sources know nothing of seeded bugs: each is text beside them, and the text that it
//!   replaces stands exactly once in the file it names, or the bug does not apply.
//! - A file that can't be understood is refused with its name, line and what was expected.
//! - The file's name is the id.
//!
//! Whether a seeded bug is killed is not decided here.
#![allow(clippy::disallowed_methods, reason = "the runner stands outside the engine")]

use super::layers::LAYERS;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// One replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The file, relative to the workspace.
    pub file: PathBuf,
    /// What stands there once.
    pub find: String,
    /// What takes its place.
    pub replace: String,
}

/// One seeded bug.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// Its id, such as "B27".
    pub id: String,
    /// Where it was real.
    pub origin: String,
    /// The promise that it breaks.
    pub promise: String,
    /// The cheapest layer that should kill it.
    pub layer: String,
    /// What happened, in a few sentences.
    pub story: String,
    /// What it changes.
    pub edits: Vec<Edit>,
}

/// Reads every seeded bug of `dir`, in order of their ids.
///
/// # Errors
/// A sentence with file, line and what was expected.
pub fn read_all(dir: &Path) -> Result<Vec<Mutant>, String> {
    let refused = |error| format!("{}: {error}", dir.display());
    let mut mutants = Vec::new();
    for entry in fs::read_dir(dir).map_err(refused)? {
        let path = entry.map_err(refused)?.path();
        if path.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let mutant = parse(&text).map_err(|(line, expected)| {
            format!("{}:{line}: expected {expected}", path.display())
        })?;
        if path.file_stem().is_none_or(|stem| *stem != *mutant.id) {
            return Err(format!("{}: expected the file's name to be its id", path.display()));
        }
        mutants.push(mutant);
    }
    mutants.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(mutants)
}

/// Those of `mutants` that `ids` names, in the order of the ids; all where it names none.
///
/// # Errors
/// A sentence that names the unknown id and the known ones.
pub fn choose(mutants: Vec<Mutant>, ids: &[String]) -> Result<Vec<Mutant>, String> {
    if ids.is_empty() {
        return Ok(mutants);
    }
    let mut chosen: Vec<Mutant> = Vec::new();
    for id in ids {
        let Some(found) = mutants.iter().find(|mutant| mutant.id.eq_ignore_ascii_case(id)) else {
            let known: Vec<&str> = mutants.iter().map(|mutant| &*mutant.id).collect();
            return Err(format!("no seeded bug has the id {id}; there are {}", known.join(" ")));
        };
        if !chosen.contains(found) {
            chosen.push(found.clone());
        }
    }
    Ok(chosen)
}

/// Parses one file.
///
/// # Errors
/// The line, from 1, and what was expected there.
pub fn parse(text: &str) -> Result<Mutant, (usize, String)> {
    let mut lines = Lines { lines: text.lines().collect(), at: 0 };
    let mut header = |name: &str| {
        let value = lines.next().and_then(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value
            .map(|v| v.trim().to_owned())
            .filter(|v| !v.is_empty())
            .ok_or((lines.at, format!("`{name}: ...`")))
    };
    let mut mutant = Mutant {
        id: header("id")?,
        origin: header("origin")?,
        promise: header("promise")?,
        layer: header("layer")?,
        story: String::new(),
        edits: Vec::new(),
    };
    if LAYERS.iter().all(|layer| layer.name != mutant.layer) {
        let names: Vec<&str> = LAYERS.iter().map(|layer| layer.name).collect();
        return Err((4, format!("one of the layers {}", names.join(", "))));
    }
    let mut file = None;
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("--- ") {
            let path = PathBuf::from(name.trim());
            if !path.components().all(|part| matches!(part, Component::Normal(_))) {
                return Err((lines.at, "a path inside the workspace".to_owned()));
            }
            file = Some(path);
        } else if line == "<<<<" {
            let file = file.clone().ok_or((lines.at, "`--- FILE` before `<<<<`".to_owned()))?;
            let find = lines.until("====")?;
            let replace = lines.until(">>>>")?;
            if find.trim().is_empty() || find == replace {
                return Err((lines.at, "text to find, and other text in its place".to_owned()));
            }
            mutant.edits.push(Edit { file, find, replace });
        } else if file.is_none() {
            mutant.story.push_str(line);
            mutant.story.push('\n');
        } else if !line.trim().is_empty() {
            return Err((lines.at, "`--- FILE`, `<<<<` or the end".to_owned()));
        }
    }
    mutant.story = mutant.story.trim().to_owned();
    if mutant.story.is_empty() {
        return Err((5, "the story".to_owned()));
    }
    if mutant.edits.is_empty() {
        return Err((lines.at + 1, "at least one replacement".to_owned()));
    }
    Ok(mutant)
}

struct Lines<'a> {
    lines: Vec<&'a str>,
    at: usize,
}

impl<'a> Lines<'a> {
    /// The next line; `at` is then its number, from 1.
    fn next(&mut self) -> Option<&'a str> {
        let line = self.lines.get(self.at).copied();
        self.at += 1;
        line
    }

    /// The lines up to the one that is `end`, which is passed.
    fn until(&mut self, end: &str) -> Result<String, (usize, String)> {
        let mut found = Vec::new();
        while let Some(line) = self.next() {
            if line == end {
                return Ok(found.join("\n"));
            }
            if matches!(line, "<<<<" | "====" | ">>>>") {
                return Err((self.at, format!("`{end}`")));
            }
            found.push(line);
        }
        Err((self.at, format!("`{end}`")))
    }
}

/// What every file that `mutant` names becomes; `read` gives the text of a file.
///
/// # Errors
/// A sentence that names the file and how often the text to find stands there.
pub fn mutate(
    mutant: &Mutant,
    read: impl Fn(&Path) -> Result<String, String>,
) -> Result<Vec<(PathBuf, String)>, String> {
    let mut changed: Vec<(PathBuf, String)> = Vec::new();
    for edit in &mutant.edits {
        let at = match changed.iter().position(|(file, _)| *file == edit.file) {
            Some(at) => at,
            None => {
                changed.push((edit.file.clone(), read(&edit.file)?));
                changed.len() - 1
            }
        };
        let text = &mut changed[at].1;
        let times = text.matches(&edit.find).count();
        if times != 1 {
            return Err(format!(
                "{}: the text to find stands {times} times in {}, not once:\n{}",
                mutant.id,
                edit.file.display(),
                edit.find
            ));
        }
        *text = text.replacen(&edit.find, &edit.replace, 1);
    }
    Ok(changed)
}

#[cfg(test)]
mod tests;
