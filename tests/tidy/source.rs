//! The files of the checkout, and what in a Rust file is code, comment or test.
//!
//! - No git: a source archive is checked as a clone is.
//! - The scanner knows comments, strings, raw strings, characters and lifetimes, no more: it is for
//!   sources that compile.

use std::path::{Path, PathBuf};

/// A file of the checkout.
pub struct Source {
    /// Its path from the root, with `/`.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// A Rust file taken apart; each part has the lines of the whole, blank where it is another's.
pub struct Rust {
    /// What the compiler sees, strings emptied.
    pub code: String,
    /// Comments, and what stands in strings.
    pub words: String,
    /// For each line, whether it is test code.
    pub is_test: Vec<bool>,
}

/// The root of the checkout.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn walk(dir: &Path, from: &str, files: &mut Vec<Source>) {
    let skipped = ["target", ".git", "artifacts", "corpus", "campaign.out", "mutants.out"];
    let mut entries: Vec<_> = std::fs::read_dir(dir)
        .expect("the checkout is readable")
        .map(|entry| entry.expect("the checkout is readable").path())
        .collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let below = if from.is_empty() { name.clone() } else { format!("{from}/{name}") };
        if path.is_dir() {
            if !skipped.contains(&name.as_str()) {
                walk(&path, &below, files);
            }
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            files.push(Source { path: below, text });
        }
    }
}

/// Every text file of the checkout, in order of path.
pub fn files() -> Vec<Source> {
    let mut files = Vec::new();
    walk(&root(), "", &mut files);
    files
}

/// The files that end in `.rs`.
pub fn rust_files() -> Vec<Source> {
    files().into_iter().filter(|file| file.path.ends_with(".rs")).collect()
}

/// The documents.
pub fn documents() -> Vec<Source> {
    files().into_iter().filter(|file| file.path.ends_with(".md")).collect()
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Code,
    Words,
}

/// Splits a Rust file into code and words.
fn split(text: &str) -> (String, String) {
    let bytes: Vec<char> = text.chars().collect();
    let (mut code, mut words) = (String::new(), String::new());
    let mut put = |c: char, part: Part| {
        let blank = if c == '\n' { '\n' } else { ' ' };
        code.push(if part == Part::Code { c } else { blank });
        words.push(if part == Part::Words { c } else { blank });
    };
    let mut i = 0;
    while i < bytes.len() {
        let rest = &bytes[i..];
        let (len, part) = match token(rest, i.checked_sub(1).map(|before| bytes[before])) {
            Some(len) => (len, Part::Words),
            None => (1, Part::Code),
        };
        for c in &rest[..len.min(rest.len())] {
            put(*c, part);
        }
        i += len;
    }
    (code, words)
}

/// The length of the comment, string or character that `rest` begins with.
fn token(rest: &[char], before: Option<char>) -> Option<usize> {
    let at = |i: usize| rest.get(i).copied().unwrap_or('\0');
    let find = |from: usize, end: &[char]| {
        (from..rest.len()).find(|i| rest[*i..].starts_with(end)).map_or(rest.len(), |i| i)
    };
    match at(0) {
        '/' if at(1) == '/' => Some(find(2, &['\n'])),
        '/' if at(1) == '*' => Some(find(2, &['*', '/']) + 2),
        '"' => Some(closed(rest, 1, '"')),
        'r' if !before.is_some_and(is_word) || before == Some('b') => {
            let hashes = rest[1..].iter().take_while(|c| **c == '#').count();
            if at(1 + hashes) != '"' {
                return None;
            }
            let mut end = vec!['"'];
            end.resize(1 + hashes, '#');
            Some(find(2 + hashes, &end) + end.len())
        }
        '\'' if at(1) == '\\' => Some(closed(rest, 1, '\'')),
        '\'' if at(2) == '\'' => Some(3),
        _ => None,
    }
}

/// The end of a quoted piece with backslash escapes.
fn closed(rest: &[char], mut i: usize, quote: char) -> usize {
    while i < rest.len() {
        match rest[i] {
            '\\' => i += 2,
            c if c == quote => return i + 1,
            _ => i += 1,
        }
    }
    rest.len()
}

/// Whether `c` can stand in a name.
pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Where the block that opens at or after byte `from` closes; `None` if a semicolon comes first.
pub fn block_end(code: &str, from: usize) -> Option<usize> {
    let (mut braces, mut brackets) = (0usize, 0usize);
    for (i, c) in code[from..].char_indices() {
        match c {
            '{' => braces += 1,
            '}' if braces == 1 => return Some(from + i),
            '}' => braces = braces.checked_sub(1)?,
            '[' | '(' => brackets += 1,
            ']' | ')' => brackets = brackets.checked_sub(1)?,
            ';' if braces == 0 && brackets == 0 => return None,
            _ => {}
        }
    }
    None
}

/// The line of byte `at`, from 0.
pub fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count()
}

/// Whether a whole file is test code.
pub fn is_test_file(path: &str) -> bool {
    path.ends_with("tests.rs") || path.contains("tests/")
}

/// Takes a file apart.
pub fn scan(source: &Source) -> Rust {
    let (code, words) = split(&source.text);
    let mut is_test = vec![is_test_file(&source.path); source.text.lines().count() + 1];
    for (at, attribute) in code.match_indices("#[cfg(test)]") {
        let end = block_end(&code, at + attribute.len()).unwrap_or(at);
        for line in &mut is_test[line_of(&code, at)..=line_of(&code, end)] {
            *line = true;
        }
    }
    Rust { code, words, is_test }
}

/// Fails with every line of `wrong`, sorted, under the rule that they break.
pub fn demand(rule: &str, mut wrong: Vec<String>) {
    wrong.sort();
    assert!(wrong.is_empty(), "{rule}:\n  {}", wrong.join("\n  "));
}

#[test]
fn the_scanner_tells_code_from_words() {
    let text =
        "let a = \"fn x { \\\" }\"; // {\nlet b = '{'; let c: &'a str = r#\"}\"#; /* } */ f();";
    let (code, words) = split(text);
    assert!(!code.contains('{') && !code.contains('}'), "{code}");
    assert!(words.contains("fn x") && words.contains("// {"), "{words}");
    assert!(code.contains("&'a str") && code.contains("f();"), "{code}");
    assert_eq!(code.len(), text.len());
}
