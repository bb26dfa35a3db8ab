//! Documents: no dead link, no empty section, one sentence a line, and the hash that ties
//! `docs/FORMAT.md` to the sources which write the format.

use super::source::{Source, demand, documents, root, scan};

/// The sources that decide what bytes are written. A change here is a change of the format, or
/// must be seen not to be one.
const FORMAT_SOURCES: [&str; 18] = [
    "src/base/checksum.rs",
    "src/base/coding.rs",
    "src/base/key.rs",
    "src/base/name.rs",
    "src/batch.rs",
    "src/table/block.rs",
    "src/table/bloom.rs",
    "src/table/builder.rs",
    "src/table/codec.rs",
    "src/table/entry.rs",
    "src/table/format.rs",
    "src/table/hash.rs",
    "src/table/index.rs",
    "src/table/points.rs",
    "src/version/current.rs",
    "src/version/edit.rs",
    "src/version/manifest.rs",
    "src/wal/frame.rs",
];
/// Its text is the simulated disk's header, wrapped as that is.
const WRAPPED: &str = "docs/DURABILITY.md";
const HASH: &str = "Hash of the format sources: `";

fn prose(file: &Source) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let lines = file.text.lines().enumerate().map(|(i, line)| (i + 1, line));
    lines
        .filter(|(_, line)| {
            fenced ^= line.trim_start().starts_with("```");
            !fenced && !line.trim_start().starts_with("```")
        })
        .collect()
}

#[test]
fn no_section_is_empty() {
    let mut wrong = Vec::new();
    for file in documents() {
        let mut open: Option<(usize, usize)> = None;
        for (i, line) in prose(&file).into_iter().chain([(0, "#")]) {
            let level = line.chars().take_while(|c| *c == '#').count();
            if level > 0 && (i == 0 || line.chars().nth(level) == Some(' ')) {
                if let Some((at, above)) = open
                    && level <= above
                {
                    wrong.push(format!("{}:{at}: an empty section", file.path));
                }
                open = Some((i, level));
            } else if !line.trim().is_empty() {
                open = None;
            }
        }
    }
    demand("an empty section is deleted, not merged", wrong);
}

#[test]
fn a_line_holds_one_sentence() {
    let mut wrong = Vec::new();
    // A campaign's board is a result: it stays as it was written.
    let written = |file: &Source| file.path != WRAPPED && !file.path.ends_with("/board.md");
    for file in documents().into_iter().filter(written) {
        for (i, line) in prose(&file) {
            let text = line.trim_start();
            let chars: Vec<char> = text.chars().collect();
            let ends = chars.windows(4).any(|w| {
                (w[0].is_lowercase() || w[0] == ')' || w[0] == '`')
                    && w[1] == '.'
                    && w[2] == ' '
                    && w[3].is_uppercase()
            });
            if ends && !text.starts_with('|') {
                wrong.push(format!("{}:{i}: {text}", file.path));
            }
        }
    }
    demand("Markdown has one sentence per line", wrong);
}

#[test]
fn links_lead_somewhere() {
    let mut wrong = Vec::new();
    for file in documents() {
        let dir = root().join(&file.path);
        let dir = dir.parent().expect("a file has a directory");
        for (i, line) in prose(&file) {
            for piece in line.split("](").skip(1) {
                let target = piece.split(')').next().unwrap_or_default();
                let target = target.split('#').next().unwrap_or_default();
                let outside = target.contains("://") || target.is_empty();
                if !outside && !dir.join(target).exists() {
                    wrong.push(format!("{}:{i}: {target}", file.path));
                }
            }
        }
    }
    demand("links lead somewhere", wrong);
}

/// A hash of the code, whole comment lines, tests and blanks apart, of every format source.
fn format_hash() -> String {
    let mut hasher = xxhash_rust::xxh3::Xxh3::new();
    for path in FORMAT_SOURCES {
        let text = std::fs::read_to_string(root().join(path)).expect("a format source is there");
        let file = Source { path: path.into(), text };
        hasher.update(path.as_bytes());
        let rust = scan(&file);
        for (i, (code, text)) in rust.code.lines().zip(file.text.lines()).enumerate() {
            if !rust.is_test[i] && !code.trim().is_empty() {
                // Strings count: a magic number may be one.
                hasher.update(text.trim().as_bytes());
            }
        }
    }
    format!("{:016x}", hasher.digest())
}

#[test]
fn the_format_document_moves_with_its_sources() {
    let path = root().join("docs/FORMAT.md");
    let text = std::fs::read_to_string(&path).expect("docs/FORMAT.md");
    let start = text.find(HASH).expect("docs/FORMAT.md has the hash") + HASH.len();
    let end = start + text[start..].find('`').expect("the hash ends");
    let hash = format_hash();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let text = format!("{}{hash}{}", &text[..start], &text[end..]);
        std::fs::write(&path, text).expect("docs/FORMAT.md is writable");
        return;
    }
    assert_eq!(
        &text[start..end],
        hash,
        "a format source changed: see whether docs/FORMAT.md still holds, then set the hash with \
         UPDATE_GOLDEN=1 cargo test --test tidy"
    );
}
