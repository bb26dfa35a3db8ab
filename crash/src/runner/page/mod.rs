//! What a subcommand has to say, as data: facts, tables and text, and the one line of the verdict.
//!
//! Invariants
//! - The terminal, the step summary and `report.html` show the same page: nothing is said in one
//!   of them only.
//! - A page holds text as it is; each renderer escapes for its own medium.
//!
//! It does not know campaigns: `view` turns their results into pages. Machine-readable output
//! (`--json`, `--junit`) is made from the results themselves, never from a page.

pub mod html;
pub mod markdown;
pub mod text;

#[cfg(test)]
mod tests;

/// How a page or a cell is to be read at a glance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Says nothing.
    #[default]
    Plain,
    /// As it should be.
    Good,
    /// Needs a look.
    Doubtful,
    /// As it should not be.
    Bad,
    /// Left out on purpose.
    Muted,
}

/// One cell of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// What stands in it.
    pub text: String,
    /// How it is to be read.
    pub tone: Tone,
}

impl Cell {
    /// A cell with a tone.
    #[must_use]
    pub fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), tone }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), tone: Tone::Plain }
    }
}

/// A table; every row has as many cells as the head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Column titles.
    pub head: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows.
    #[must_use]
    pub fn new(head: &[&str]) -> Self {
        Self { head: head.iter().map(|&title| title.to_owned()).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<Cell>) {
        assert_eq!(cells.len(), self.head.len(), "a row has as many cells as the head");
        self.rows.push(cells);
    }
}

/// A piece of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// Names and values, one a line.
    Facts(Vec<(String, String)>),
    /// A table.
    Table(Table),
    /// Sentences.
    Note(String),
    /// Text whose line breaks and spaces count, such as a failure report.
    Verbatim(String),
}

/// Blocks under a title; the title may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The title.
    pub title: String,
    /// What stands under it.
    pub blocks: Vec<Block>,
}

/// Everything that a subcommand has to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// What ran, such as "crash campaign".
    pub title: String,
    /// The sections, in reading order.
    pub sections: Vec<Section>,
    /// The plain verdict, one sentence.
    pub verdict: String,
    /// How the verdict is to be read.
    pub tone: Tone,
}

impl Page {
    /// Adds a section.
    pub fn section(&mut self, title: &str, blocks: Vec<Block>) {
        self.sections.push(Section { title: title.to_owned(), blocks });
    }
}
