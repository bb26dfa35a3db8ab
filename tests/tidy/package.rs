//! What is published: the engine, and what a user of it reads.

use super::source::{demand, root};
use std::process::Command;

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
