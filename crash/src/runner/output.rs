//! Puts a run's result everywhere it is wanted: terminal, `--json`, `--junit`, `--out`, CI summary.
//!
//! Invariants
//! - Places are tried before the run, so that a mistyped path costs no minutes: exit code 2.
//! - Standard output has the JSON object and nothing else with `--json`, and the page without.
//! - A file is whole or old: it is written beside its place and renamed over it.
#![allow(clippy::disallowed_methods, reason = "the runner stands outside the engine")]

use super::cli::OutputArgs;
use super::junit;
use super::page::{Page, html, markdown, text};
use super::{cases, view};
use crate::report::{Failure, Report};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Where failing cases go when `--out` names no place.
const OUT_DEFAULT: &str = "campaign.out";

/// The places of one run's result.
#[derive(Debug)]
pub struct Output {
    json: bool,
    junit: Option<PathBuf>,
    out: Option<PathBuf>,
    summary: Option<PathBuf>,
}

impl Output {
    /// Takes the flags and makes the directories.
    ///
    /// # Errors
    /// A sentence that names the place that can't be written.
    pub fn prepare(args: &OutputArgs) -> Result<Self, String> {
        if let Some(dir) = &args.out {
            fs::create_dir_all(dir).map_err(|error| refused("--out", dir, &error))?;
            probe(dir).map_err(|error| refused("--out", dir, &error))?;
        }
        if let Some(file) = &args.junit {
            let dir = parent(file);
            if file.is_dir() {
                return Err(format!("--junit {}: is a directory", file.display()));
            }
            fs::create_dir_all(dir).map_err(|error| refused("--junit", file, &error))?;
            probe(dir).map_err(|error| refused("--junit", file, &error))?;
        }
        let summary = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty());
        Ok(Self {
            json: args.json,
            junit: args.junit.clone(),
            out: args.out.clone(),
            summary: summary.map(PathBuf::from),
        })
    }

    /// Writes the result of a run.
    ///
    /// # Errors
    /// A sentence that names the place that could not be written.
    pub fn deliver(&self, report: &Report) -> Result<(), String> {
        let files = self.write_failures(report)?;
        let json = serde_json::to_string(report).map_err(|error| format!("--json: {error}"))?;
        let page = view::page(report, &files);
        self.deliver_parts(&page, &json, &cases::of(report), report.elapsed_s)
    }

    /// Writes a page and the machine-readable forms of what it shows.
    ///
    /// # Errors
    /// As [`Output::deliver`].
    pub fn deliver_parts(
        &self,
        page: &Page,
        json: &str,
        cases: &[junit::Case],
        elapsed_s: f64,
    ) -> Result<(), String> {
        if let Some(dir) = &self.out {
            write_whole(&dir.join("report.json"), &format!("{json}\n"))?;
            write_whole(&dir.join("report.html"), &html::render(page))?;
        }
        if let Some(file) = &self.junit {
            write_whole(file, &junit::render("kiban-crash", elapsed_s, cases))?;
        }
        if let Some(file) = &self.summary {
            append(file, &markdown::render(page))
                .map_err(|error| format!("GITHUB_STEP_SUMMARY {}: {error}", file.display()))?;
        }
        let text = if self.json { format!("{json}\n") } else { text::render(page) };
        match io::stdout().write_all(text.as_bytes()) {
            // A reader that has seen enough (`| head`) is not a failure of the run.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(format!("standard output: {error}"))
            }
            _ => Ok(()),
        }
    }

    /// Writes each shrunk case as a file that `replay` takes; returns the paths by token.
    fn write_failures(&self, report: &Report) -> Result<BTreeMap<String, String>, String> {
        let mut files = BTreeMap::new();
        let dir = self.out.clone().unwrap_or_else(|| PathBuf::from(OUT_DEFAULT)).join("failures");
        for failure in report.failures.iter().filter(|failure| !failure.shrunk.is_empty()) {
            fs::create_dir_all(&dir).map_err(|error| refused("failures", &dir, &error))?;
            let file = dir.join(file_name(failure));
            write_whole(&file, &failure.shrunk)?;
            files.insert(failure.token.clone(), file.display().to_string());
        }
        Ok(files)
    }
}

fn file_name(failure: &Failure) -> String {
    let promise: String = failure.promise.chars().filter(char::is_ascii_alphanumeric).collect();
    let promise = if promise.is_empty() { "rig" } else { &promise };
    format!("{promise}-{:x}-{}.ops", failure.seed, failure.case)
}

fn refused(flag: &str, path: &Path, error: &io::Error) -> String {
    format!("{flag} {}: {error}; choose a place that can be written", path.display())
}

fn parent(file: &Path) -> &Path {
    file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether a file can be made in `dir`.
fn probe(dir: &Path) -> io::Result<()> {
    tempfile::Builder::new().prefix(".kiban-crash").tempfile_in(dir).map(drop)
}

fn write_whole(file: &Path, text: &str) -> Result<(), String> {
    let written = (|| {
        let mut beside =
            tempfile::Builder::new().prefix(".kiban-crash").tempfile_in(parent(file))?;
        beside.write_all(text.as_bytes())?;
        make_readable(beside.path())?;
        beside.persist(file).map_err(|error| error.error)?;
        Ok(())
    })();
    written.map_err(|error: io::Error| format!("{}: {error}", file.display()))
}

/// A temporary file is its owner's alone; a result is for whoever collects it.
fn make_readable(file: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(file, fs::Permissions::from_mode(0o644))
}

#[allow(clippy::disallowed_types, reason = "the runner stands outside the engine")]
fn append(file: &Path, text: &str) -> io::Result<()> {
    fs::OpenOptions::new().create(true).append(true).open(file)?.write_all(text.as_bytes())
}
