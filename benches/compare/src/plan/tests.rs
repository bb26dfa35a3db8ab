//! Every plan of the project is well-formed, and what is wrong in a plan is refused by its name.

use super::*;
use crate::cli::Usage;
use std::path::Path;

fn plans() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("plans")
}

#[test]
fn every_plan_is_well_formed_and_named_as_its_file() {
    let plans = all(&plans()).expect("the plans");
    let names: Vec<&str> = plans.iter().map(|plan| plan.text.name.as_str()).collect();
    let named = [
        "agent",
        "billion",
        "cache",
        "defaults",
        "durability",
        "group-commit",
        "hour",
        "larger-than-memory",
        "open-loop",
        "overnight",
        "scale",
        "scaling",
        "screen",
        "smoke",
        "sustained",
        "write-100m",
        "ycsb-a",
        "ycsb-b",
        "ycsb-c",
        "ycsb-d",
        "ycsb-e",
        "ycsb-f",
    ];
    for name in named {
        assert!(names.contains(&name), "no plan is called {name}");
        assert!(self::plans().join(format!("{name}.toml")).is_file(), "{name}");
    }
    for plan in &plans {
        let later = ["billion", "hour", "overnight", "write-100m"];
        assert_eq!(plan.text.expected, !later.contains(&plan.text.name.as_str()));
        assert!(plan.text.trials >= 3 || !plan.text.expected, "{}", plan.text.name);
    }
}

fn glance() -> String {
    std::fs::read_to_string(plans().join("glance.toml")).expect("the smallest plan")
}

/// What is refused when `from` becomes `to` in a good plan.
fn refused(from: &str, to: &str) -> String {
    let text = glance();
    assert!(text.contains(from), "the plan has {from:?}");
    let error = Plan::parse(&text.replacen(from, to, 1)).expect_err(to);
    assert!(error.is::<Usage>() || error.root_cause().is::<Usage>(), "{error:#}");
    format!("{error:#}")
}

#[test]
fn unknown_engines_and_parameters_are_refused_by_name() {
    assert!(refused("\"rocksdb\"", "\"rockdb\"").contains("rockdb"));
    assert!(refused("settle_bound_s", "settle_bound_m").contains("settle_bound_m"));
    assert!(refused("working_set =", "working_sets =").contains("working_sets"));
    assert!(refused("memtable_bytes =", "memtables_bytes =").contains("memtables_bytes"));
    assert!(refused("pick = \"uniform\"", "pick = \"random\"").contains("random"));
}

#[test]
fn a_missing_parameter_is_refused_by_name() {
    assert!(refused("order_seed = 20261008", "").contains("order_seed"));
    assert!(refused("open_files = 128", "").contains("open_files"));
}

#[test]
fn what_could_not_be_checked_is_refused() {
    assert!(refused("write = 100", "write = 99").contains("100 in all"));
    assert!(refused("load_batch = 100", "load_batch = 0").contains("load_batch"));
    assert!(refused("value_bytes = 128", "value_bytes = 3").contains("value_bytes"));
    assert!(refused("preload = 0", "preload = 99000000").contains("preload"));
}

#[test]
fn a_sweep_makes_one_row_for_each_count() {
    let plan = Plan::parse_file(&plans(), "scaling").expect("scaling");
    for threads in [1u32, 2, 4, 8, 16, 32, 64] {
        for row in ["warm-read", "mixed"] {
            let name = format!("scaling/{row}-t{threads}");
            let row = plan.rows.iter().find(|row| row.name == name).expect("the row");
            assert_eq!(row.threads(), threads);
        }
    }
}

#[test]
fn a_variant_differs_in_its_own_knobs_alone() {
    let plan = Plan::parse_file(&plans(), "scale").expect("scale");
    let row = plan.rows.iter().find(|row| row.name == "scale/read-100m").expect("the row");
    let of = |name: &str| {
        &row.contestants.iter().find(|one| one.name == name).expect("a contestant").profile
    };
    let (on, off) = (of("kiban"), of("kiban:index-off"));
    assert!(on.point_index && !off.point_index);
    let mut same = off.clone();
    same.point_index = true;
    assert_eq!(*on, same);
}

#[test]
fn synced_rows_are_taken_with_the_cores_awake_too() {
    let plan = Plan::parse_file(&plans(), "group-commit").expect("group-commit");
    let awake = plan.rows.iter().filter(|row| row.awake).count();
    assert_eq!((awake, plan.rows.len()), (5, 10));
    assert!(plan.rows.iter().all(Row::is_synced));
}
