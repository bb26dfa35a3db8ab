//! The names of a database's files.
//!
//! Invariants
//! - A name is parsed only if it is exactly what [`file_name`] gives: no other file is ever ours,
//!   so no other file is ever removed.

use super::key::FileNumber;
use std::path::{Path, PathBuf};

/// The file that names the current manifest.
pub const CURRENT: &str = "CURRENT";
/// The next `CURRENT` before its rename.
pub const CURRENT_TMP: &str = "CURRENT.tmp";
/// The file that stands for the lock.
pub const LOCK: &str = "LOCK";

/// What a file of ours is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// A write-ahead log, `NNNNNN.log`.
    Log,
    /// A table, `NNNNNN.tbl`.
    Table,
    /// A manifest, `NNNNNN.manifest`.
    Manifest,
}

impl FileKind {
    fn extension(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Table => "tbl",
            Self::Manifest => "manifest",
        }
    }
}

/// The name of file `number` of `kind`: at least six decimal digits and an extension.
#[must_use]
pub fn file_name(kind: FileKind, number: FileNumber) -> String {
    format!("{:06}.{}", number.0, kind.extension())
}

/// The path of file `number` of `kind` in `dir`.
#[must_use]
pub fn file_path(dir: &Path, kind: FileKind, number: FileNumber) -> PathBuf {
    dir.join(file_name(kind, number))
}

/// What `name` stands for, if it is exactly a name of ours.
#[must_use]
pub fn parse_file_name(name: &str) -> Option<(FileKind, FileNumber)> {
    let (digits, extension) = name.split_once('.')?;
    let kind = [FileKind::Log, FileKind::Table, FileKind::Manifest]
        .into_iter()
        .find(|kind| kind.extension() == extension)?;
    let number = FileNumber(digits.parse().ok()?);
    if number >= FileNumber::MAX {
        return None;
    }
    (file_name(kind, number) == name).then_some((kind, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_names_are_ours() {
        assert_eq!(parse_file_name("000012.log"), Some((FileKind::Log, FileNumber(12))));
        assert_eq!(parse_file_name("1234567.tbl"), Some((FileKind::Table, FileNumber(1_234_567))));
        for foreign in
            ["12.log", "0000012.log", "+00012.log", "000012.LOG", "000012.log.bak", ".log"]
        {
            assert_eq!(parse_file_name(foreign), None, "{foreign}");
        }
        let last = FileNumber(FileNumber::MAX.0 - 1);
        let name = file_name(FileKind::Table, last);
        assert_eq!(parse_file_name(&name), Some((FileKind::Table, last)));
        assert_eq!(parse_file_name(&file_name(FileKind::Table, FileNumber::MAX)), None);
    }
}
