//! What is published: the engine, and what a user of it reads.

use super::source::{demand, root};
use std::process::Command;

/// What a test or a bench leaves behind must not get into a commit.
#[test]
fn the_top_level_holds_what_it_should() {
    let ours = [
        ".cargo",
        ".ci",
        ".github",
        ".gitignore",
        "CHANGELOG.md",
        "Cargo.lock",
        "Cargo.toml",
        "LICENSE-APACHE",
        "LICENSE-MIT",
        "README.md",
        "benches",
        "clippy.toml",
        "crash",
        "deny.toml",
        "docs",
        "examples",
        "fuzz",
        "loom",
        "model",
        "rustfmt.toml",
        "src",
        "tests",
    ];
    let made = [".git", "target", "campaign.out"];
    let entries = std::fs::read_dir(root()).expect("the project's directory");
    let names = entries.map(|entry| entry.expect("readable").file_name());
    let names: Vec<_> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    let known = |name: &str| ours.contains(&name) || made.contains(&name);
    let wrong = names.iter().filter(|name| !known(name));
    demand("the top level is known", wrong.map(|name| format!("{name} is unknown")).collect());
}

#[test]
fn the_package_holds_the_engine_and_its_papers() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["package", "--list", "--allow-dirty", "--offline", "-p", "kiban"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let list = String::from_utf8(output.stdout).expect("names are UTF-8");
    let papers = [
        "CHANGELOG.md",
        "Cargo.lock",
        "Cargo.toml",
        "Cargo.toml.orig",
        "LICENSE-APACHE",
        "LICENSE-MIT",
        "README.md",
    ];
    let paper = |file: &str| papers.contains(&file) || file == ".cargo_vcs_info.json";
    let code = |file: &str| {
        file.starts_with("src/") || (file.starts_with("examples/") && file.ends_with(".rs"))
    };
    let mut wrong = Vec::new();
    for file in list.lines().filter(|file| !paper(file) && !code(file)) {
        wrong.push(format!("{file} is no part of what is published"));
    }
    for paper in papers.iter().filter(|paper| !list.lines().any(|file| file == **paper)) {
        wrong.push(format!("{paper} is missing"));
    }
    demand("the package holds src, examples and the papers", wrong);
}
