//! The answers to the questions in `docs/paths`, worked out by the engine on the simulated disk.
//!
//! - Each page ends in a block that begins with the line "text"; the lines here must be in it, word
//!   for word. A page and its test move together.
//! - D1, D3, V1, P1 and W4 on the write path; S1, S2, R3 and M3 on the read path; M5 and G2 on the
//!   maintenance path; O2, C2 and O4 on the recovery path.

use kiban::env::{Env, random::SeededRandom};
use kiban::{Iter, Kiban, KibanOptions, MaintainStep};
use kiban_crash::adapter::SimFs;
use kiban_crash::disk::{Disk, Fault, FaultPlan, Rule};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Opens the database on `fs`, with tiny files and maintenance by hand.
fn open(fs: &SimFs) -> Kiban {
    let env = Env {
        fs: Arc::new(fs.clone()),
        clock: Arc::new(fs.clone()),
        random: Arc::new(SeededRandom::new(7)),
        probe: None,
    };
    let options =
        KibanOptions::new().memtable_bytes(4096).log_bytes(1024).inline_maintenance(false);
    Kiban::open("/db", options.env(env)).expect("the database opens")
}

/// What an iterator yields, as `key=value` words.
fn words(iter: Iter) -> String {
    let words: Vec<_> = iter
        .map(|item| {
            let (key, value) = item.expect("the scan reads");
            format!("{}={}", key.escape_ascii(), value.escape_ascii())
        })
        .collect();
    if words.is_empty() { "nothing".into() } else { words.join(" ") }
}

fn all(db: &Kiban) -> String {
    words(db.range::<&[u8]>(..).expect("a scan begins"))
}

/// Every state that a power cut now may leave, with the sequence of the next write.
fn after_power_cut(fs: &SimFs) -> BTreeSet<(String, u64)> {
    let snapshot = fs.with(|disk| disk.snapshot());
    let images = snapshot.images(20_000, 1);
    assert!(images.is_exhaustive(), "so few writes leave few images");
    images
        .map(|image| {
            let mut db = open(&SimFs::new(image.disk));
            let shown = all(&db);
            (shown, db.put("next", "x").expect("a write succeeds").0)
        })
        .collect()
}

/// Demands that page `name` has these lines in one of its blocks.
fn page_says(name: &str, lines: &[String]) {
    let path = format!("{}/../docs/paths/{name}.md", env!("CARGO_MANIFEST_DIR"));
    #[allow(clippy::disallowed_methods)]
    let page = std::fs::read_to_string(path).expect("the page is there");
    let block = format!("```text\n{}\n```", lines.join("\n"));
    assert!(page.contains(&block), "docs/paths/{name}.md does not give the answer:\n{block}");
}

#[test]
fn write_path() {
    let fs = SimFs::new(Disk::new());
    let mut db = open(&fs);
    db.put("a", "1").expect("buffered");
    db.put_durable("b", "2").expect("durable");
    db.put("c", "3").expect("buffered");
    let states = after_power_cut(&fs).into_iter().map(|(shown, _)| shown);
    let states: BTreeSet<_> = states.collect();
    page_says("write", &states.into_iter().collect::<Vec<_>>());
}

#[test]
fn write_path_when_the_sync_fails() {
    let fs = SimFs::new(Disk::new());
    let mut db = open(&fs);
    db.put("a", "1").expect("buffered");
    let fails = Rule::new(Fault::named("sync_old").expect("a fault")).path_end(".log");
    fs.with(|disk| disk.plan = FaultPlan::one(fails));
    db.put_durable("b", "2").expect_err("its sync fails");
    assert!(db.put("d", "4").expect_err("W4").is_poisoned());
    assert!(db.sync().expect_err("P1: no sync is tried again").is_poisoned());
    assert_eq!(all(&db), "a=1", "V1: what failed is not visible");
    db.close().expect_err("the first error");
}

#[test]
fn read_path() {
    let fs = SimFs::new(Disk::new());
    let mut db = open(&fs);
    db.put("k", "old").expect("put");
    db.flush().expect("flushed");
    db.delete("k").expect("deleted");
    let snapshot = db.snapshot().expect("a snapshot");
    db.put("k", "new").expect("put");
    db.flush().expect("flushed");
    db.compact_range::<&[u8]>(..).expect("compacted");
    assert_eq!(snapshot.get("k").expect("read"), None, "R3, and S2: as the scan says");
    let entries = db.verify().expect("whole").entries;
    page_says(
        "read",
        &[
            format!("now: {}", all(&db)),
            format!("snapshot: {}", words(snapshot.range::<&[u8]>(..).expect("a scan begins"))),
            format!("entries: {entries}"),
        ],
    );
}

#[test]
fn maintain_path() {
    let fs = SimFs::new(Disk::new());
    let mut db = open(&fs);
    let tables = || {
        let files = fs.with(|disk| disk.files());
        let tables = files.iter().filter(|(name, _)| name.ends_with(".tbl")).count();
        format!("{tables} table{}", if tables == 1 { "" } else { "s" })
    };
    db.put("a", "1").expect("put");
    db.put("b", "2").expect("put");
    db.flush().expect("flushed");
    db.put("a", "3").expect("put");
    db.flush().expect("flushed");
    let iter = db.range::<&[u8]>(..).expect("a scan begins");
    db.compact_range::<&[u8]>(..).expect("compacted");
    while db.maintain_step().expect("a step") != MaintainStep::Idle {}
    let pinned = format!("while pinned: {}", tables());
    let shown = format!("iterator: {}", words(iter));
    while db.maintain_step().expect("a step") != MaintainStep::Idle {}
    page_says("maintain", &[pinned, shown, format!("after: {}", tables())]);
}

#[test]
fn recover_path() {
    let fs = SimFs::new(Disk::new());
    let mut db = open(&fs);
    for (key, value) in [("a", "1"), ("b", "2"), ("c", "3")] {
        db.put(key, value).expect("buffered");
    }
    let states = after_power_cut(&fs);
    let holes: Vec<_> = states.iter().filter(|(shown, next)| shown == "a=1" && *next > 2).collect();
    let (shown, next) = holes.last().expect("the third frame survives without the second");
    page_says("recover", &[format!("shows: {shown}"), format!("next sequence: {next}")]);
    for (shown, _) in &states {
        let cuts = ["nothing", "a=1", "a=1 b=2", "a=1 b=2 c=3"];
        assert!(cuts.contains(&shown.as_str()), "O2, D3: {shown} is no cut");
    }
}
