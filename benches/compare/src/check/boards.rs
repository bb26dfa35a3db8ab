//! The boards that are held against targets: found, read, and doubted.
//!
//! - Two boards of one plan, or boards of different revisions, are refused: nobody could say which
//!   of them a verdict is about.
//! - A board proves nothing unless it tells its conditions, they were fair, and its plan is the one
//!   that the repository has now. A doubt does not keep it from being read.

use crate::cli::Usage;
use crate::report::rows::Board;
use crate::supervise::pins::{file_sha256, manifest_dir};
use crate::supervise::record;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// A board, and why it proves nothing.
#[derive(Clone, Debug, Default)]
pub struct Held {
    /// Where it was found.
    pub dir: PathBuf,
    /// The board.
    pub board: Board,
    /// Why no target counts as measured by it; empty if it is sound.
    pub doubts: Vec<String>,
}

impl Held {
    /// Why the figures of these engines in `row` prove nothing.
    #[must_use]
    pub fn doubt(&self, row: &str, engines: &[&str]) -> Option<String> {
        let mut all = self.doubts.clone();
        if let Some(conditions) = &self.board.conditions {
            all.extend(engines.iter().filter_map(|engine| conditions.doubt_of(row, engine)));
        }
        (!all.is_empty()).then(|| all.join("; "))
    }
}

/// The plans of the repository that the targets lie in, or else of the one that this was built in.
#[must_use]
pub fn plans_of(targets: &Path) -> PathBuf {
    let beside = targets.parent().map(|dir| dir.join("../../benches/compare/plans"));
    beside.filter(|dir| dir.is_dir()).unwrap_or_else(|| manifest_dir().join("plans"))
}

/// Every board below `dirs`, held against `plans`.
///
/// # Errors
/// [`Usage`] where there is none, one is no board, or they do not belong together.
pub fn read(dirs: &[PathBuf], plans: &Path) -> Result<Vec<Held>> {
    let mut found = Vec::new();
    for dir in dirs {
        find(dir, &mut found)?;
    }
    let mut boards: Vec<Held> = Vec::new();
    for dir in found {
        let file = dir.join("scoreboard.json");
        let board: Board = record::read(&file)
            .map_err(|error| Usage(format!("{} is no board: {error:#}", dir.display())))?;
        for other in &boards {
            must_fit(&other.board, &other.dir, &board, &dir)?;
        }
        let doubts = doubts(&board, &dir, plans);
        boards.push(Held { dir, board, doubts });
    }
    if boards.is_empty() {
        return Err(Usage("no scoreboard.json below these directories".into()).into());
    }
    Ok(boards)
}

fn must_fit(one: &Board, one_dir: &Path, other: &Board, other_dir: &Path) -> Result<()> {
    let places = format!("{} and {}", one_dir.display(), other_dir.display());
    if one.plan == other.plan {
        return Err(Usage(format!("two boards of the plan {}: {places}", one.plan)).into());
    }
    if one.revision != other.revision {
        let revisions = format!("{} and {}", one.revision, other.revision);
        return Err(Usage(format!("boards of two revisions, {revisions}: {places}")).into());
    }
    Ok(())
}

fn doubts(board: &Board, dir: &Path, plans: &Path) -> Vec<String> {
    let Some(conditions) = &board.conditions else {
        return vec!["the board is of an older form, which tells no conditions".into()];
    };
    let mut all: Vec<String> = conditions.doubts().into_iter().map(str::to_string).collect();
    let is_pinned =
        |plan: &Path| file_sha256(plan).is_ok_and(|sha256| sha256 == conditions.plan_sha256);
    if !is_pinned(&plans.join(format!("{}.toml", board.plan))) {
        all.push(format!("no plan {} of the repository is the one that ran", board.plan));
    }
    if !is_pinned(&dir.join("plan.toml")) {
        all.push("the plan.toml beside the board is not the one that ran".into());
    }
    all
}

/// The directories with a board, at `dir` or below it.
fn find(dir: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    if !dir.is_dir() {
        return Err(Usage(format!("{} is no directory", dir.display())).into());
    }
    if dir.join("scoreboard.json").is_file() {
        found.push(dir.to_path_buf());
        return Ok(());
    }
    let mut below: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            below.push(path);
        }
    }
    below.sort();
    below.iter().try_for_each(|dir| find(dir, found))
}
