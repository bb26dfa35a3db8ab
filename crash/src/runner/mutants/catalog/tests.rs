//! Tests of the form of seeded bugs, on a tree of two files.

use super::*;

const TEXT: &str = "\
id: B99
origin: nobody's
promise: D1
layer: SEQ

First sentence.
Second sentence.

--- src/a.rs
<<<<
    one();
====
    two();
    three();
>>>>
--- src/b.rs
<<<<
x
====
>>>>
";

fn tree(file: &Path) -> Result<String, String> {
    match file.to_str() {
        Some("src/a.rs") => Ok("fn a() {\n    one();\n    four();\n}\n".to_owned()),
        Some("src/b.rs") => Ok("xx".to_owned()),
        _ => Err("no such file".to_owned()),
    }
}

#[test]
fn a_file_is_parsed_and_applied() {
    let mut mutant = parse(TEXT).expect("a well-formed file");
    assert_eq!((&*mutant.id, &*mutant.origin, &*mutant.layer), ("B99", "nobody's", "SEQ"));
    assert_eq!(mutant.story, "First sentence.\nSecond sentence.");
    assert_eq!(mutant.edits.len(), 2);
    let refused = mutate(&mutant, tree).expect_err("x stands twice");
    assert!(refused.contains("2 times in src/b.rs"), "{refused}");
    mutant.edits.pop();
    let changed = mutate(&mutant, tree).expect("one() stands once");
    assert_eq!(changed[0].1, "fn a() {\n    two();\n    three();\n    four();\n}\n");
}

#[test]
fn two_edits_of_one_file_see_each_other() {
    let mut mutant = parse(TEXT).expect("a well-formed file");
    mutant.edits[1] = Edit {
        file: PathBuf::from("src/a.rs"),
        find: "three();".to_owned(),
        replace: "five();".to_owned(),
    };
    let changed = mutate(&mutant, tree).expect("three() stands once by then");
    assert_eq!(changed.len(), 1);
    assert!(changed[0].1.contains("two();\n    five();"), "{}", changed[0].1);
}

#[test]
fn a_malformed_file_is_refused_by_line() {
    for (from, to, line, expected) in [
        ("id: B99", "ID: B99", 1, "`id: ...`"),
        ("promise: D1", "promise:", 3, "`promise: ...`"),
        ("layer: SEQ", "layer: LUCK", 4, "layers"),
        ("--- src/a.rs", "--- ../a.rs", 9, "inside the workspace"),
        ("--- src/a.rs\n", "", 9, "`--- FILE` before"),
        ("    one();\n====", "====", 14, "text to find"),
        (">>>>\n--- src/b.rs", "stray\n--- src/b.rs", 18, "`>>>>`"),
    ] {
        let (at, what) = parse(&TEXT.replace(from, to)).expect_err("malformed");
        assert!(what.contains(expected), "{to}: {what}");
        assert!(at <= line + 1, "{to}: line {at}");
    }
    let (_, what) = parse(TEXT.split("<<<<").next().expect("a start")).expect_err("no edit");
    assert!(what.contains("replacement"), "{what}");
}

#[test]
fn ids_choose_in_their_order() {
    let named = |id: &str| Mutant { id: id.to_owned(), ..parse(TEXT).expect("well-formed") };
    let all = vec![named("B01"), named("B07"), named("B10")];
    let ids = ["b10", "B01", "B10"].map(str::to_owned);
    let chosen = choose(all.clone(), &ids).expect("known ids");
    assert_eq!(chosen.iter().map(|m| &*m.id).collect::<Vec<_>>(), ["B10", "B01"]);
    assert_eq!(choose(all.clone(), &[]).expect("all").len(), 3);
    let refused = choose(all, &["B02".to_owned()]).expect_err("unknown");
    assert!(refused.contains("B02") && refused.contains("B01 B07 B10"), "{refused}");
}
