//! Test results in the XML dialect that CI systems read as "JUnit".
//!
//! Invariants
//! - The file is well-formed XML 1.0 whatever bytes a failing case holds.
//! - What could not be judged (a run cut short) is `skipped`, never a silent success.

use super::page::html::escape;
use std::fmt::Write;

/// What one test case came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it should be.
    Passed,
    /// A promise broke, a counter never fired, a seeded bug lived.
    Failed {
        /// One line.
        message: String,
        /// The report to paste.
        body: String,
    },
    /// The rig or its environment failed, or only a hang was seen.
    Errored {
        /// One line.
        message: String,
    },
    /// Not judged.
    Skipped {
        /// Why not.
        message: String,
    },
}

/// One test case.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The group, such as "promise" or "mutant".
    pub group: &'static str,
    /// The name.
    pub name: String,
    /// Seconds it took, where known.
    pub seconds: Option<f64>,
    /// What it came to.
    pub outcome: Outcome,
}

/// The suite as a whole file.
#[must_use]
pub fn render(suite: &str, seconds: f64, cases: &[Case]) -> String {
    let count = |wanted: fn(&Outcome) -> bool| cases.iter().filter(|c| wanted(&c.outcome)).count();
    let failures = count(|outcome| matches!(outcome, Outcome::Failed { .. }));
    let errors = count(|outcome| matches!(outcome, Outcome::Errored { .. }));
    let skipped = count(|outcome| matches!(outcome, Outcome::Skipped { .. }));
    let totals = format!(
        "name=\"{}\" tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\" \
         skipped=\"{skipped}\" time=\"{seconds:.3}\"",
        escape(suite),
        cases.len()
    );
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {totals}>\n<testsuite {totals}>\n"
    );
    for case in cases {
        render_case(&mut out, suite, case);
    }
    out.push_str("</testsuite>\n</testsuites>\n");
    out
}

fn render_case(out: &mut String, suite: &str, case: &Case) {
    let (suite, name) = (escape(suite), attribute(&case.name));
    let time = case.seconds.map(|s| format!(" time=\"{s:.3}\"")).unwrap_or_default();
    put(out, format_args!("<testcase classname=\"{suite}.{}\" name=\"{name}\"{time}", case.group));
    match &case.outcome {
        Outcome::Passed => put(out, format_args!("/>\n")),
        Outcome::Failed { message, body } => put(
            out,
            format_args!(
                ">\n<failure message=\"{}\">{}</failure>\n</testcase>\n",
                attribute(message),
                escape(body)
            ),
        ),
        Outcome::Errored { message } => {
            put(out, format_args!(">\n<error message=\"{}\"/>\n</testcase>\n", attribute(message)));
        }
        Outcome::Skipped { message } => {
            put(
                out,
                format_args!(">\n<skipped message=\"{}\"/>\n</testcase>\n", attribute(message)),
            );
        }
    }
}

/// An attribute holds one line: XML readers turn a line feed in it into a space anyway.
fn attribute(text: &str) -> String {
    escape(text).replace(['\n', '\t'], " ")
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("invariant: a string takes every write");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader of the XML subset that is written here: checks nesting, quoting and characters,
    /// and returns the names of the elements in order of their start.
    fn elements(xml: &str) -> Result<Vec<String>, String> {
        let mut open: Vec<String> = Vec::new();
        let mut seen = Vec::new();
        let mut rest =
            xml.strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>").ok_or("head")?;
        while let Some(start) = rest.find('<') {
            text_is_clean(&rest[..start])?;
            let end = rest.find('>').ok_or("a tag has no end")?;
            let tag = &rest[start + 1..end];
            rest = &rest[end + 1..];
            if let Some(name) = tag.strip_prefix('/') {
                if open.pop().as_deref() != Some(name) {
                    return Err(format!("</{name}> closes nothing"));
                }
                continue;
            }
            let body = tag.strip_suffix('/').unwrap_or(tag);
            let name = body.split(' ').next().unwrap_or_default().to_owned();
            if body.matches('"').count() % 2 != 0 || body.contains('<') {
                return Err(format!("quotes in {body}"));
            }
            body.split('"').skip(1).step_by(2).try_for_each(text_is_clean)?;
            seen.push(name.clone());
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
        if open.is_empty() { Ok(seen) } else { Err(format!("{open:?} stay open")) }
    }

    fn text_is_clean(text: &str) -> Result<(), String> {
        for (at, _) in text.match_indices('&') {
            let entity = text[at..].split_inclusive(';').next().unwrap_or_default();
            if !["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"].contains(&entity) {
                return Err(format!("bare & in {text}"));
            }
        }
        match text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
            Some(c) => Err(format!("{c:?} in {text}")),
            None => Ok(()),
        }
    }

    #[test]
    fn hostile_text_stays_well_formed() -> Result<(), String> {
        let hostile = "a<b>\"&'\u{0}\u{1b}\u{ffff}]]> \n é".to_owned();
        let case =
            |outcome| Case { group: "promise", name: hostile.clone(), seconds: Some(2.0), outcome };
        let cases = [
            case(Outcome::Passed),
            case(Outcome::Failed { message: hostile.clone(), body: hostile.clone() }),
            case(Outcome::Errored { message: hostile.clone() }),
            case(Outcome::Skipped { message: hostile.clone() }),
        ];
        let xml = render("kiban-crash", 1.5, &cases);
        let names = elements(&xml)?;
        assert_eq!(names.iter().filter(|name| *name == "testcase").count(), 4);
        assert_eq!(&names[..2], ["testsuites", "testsuite"]);
        for part in
            ["tests=\"4\"", "failures=\"1\"", "errors=\"1\"", "skipped=\"1\"", "time=\"1.500\""]
        {
            assert!(xml.contains(part), "{part} in {xml}");
        }
        assert!(!xml.contains("\u{ffff}"));
        Ok(())
    }
}
