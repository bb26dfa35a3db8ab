//! Compiles in what a campaign pins: a hash of every source that went in, a hash of the sources
//! that analyse, and the compiler.

use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let root = PathBuf::from(env("CARGO_MANIFEST_DIR"));
    let engine = root.join("../..");
    let inputs = ["src", "build.rs", "Cargo.toml", "Cargo.lock", "documented.toml"];
    let mut files = Vec::new();
    for input in inputs {
        collect(&root.join(input), &mut files);
    }
    collect(&engine.join(".cargo"), &mut files);
    collect(&engine.join("src"), &mut files);
    collect(&engine.join("Cargo.toml"), &mut files);
    let mut analysis = Vec::new();
    collect(&root.join("src/report"), &mut analysis);
    collect(&root.join("src/check.rs"), &mut analysis);
    collect(&root.join("src/check"), &mut analysis);
    println!("cargo::rustc-env=COMPARE_INPUTS_SHA256={}", hash(&root, files));
    println!("cargo::rustc-env=COMPARE_ANALYSIS_SHA256={}", hash(&root, analysis));
    for watched in inputs {
        println!("cargo::rerun-if-changed={}", root.join(watched).display());
    }
    for watched in [".cargo", "src", "Cargo.toml"] {
        println!("cargo::rerun-if-changed={}", engine.join(watched).display());
    }
    let rustc = Command::new(env("RUSTC")).arg("--version").output().expect("rustc runs");
    println!("cargo::rustc-env=COMPARE_RUSTC={}", String::from_utf8_lossy(&rustc.stdout).trim());
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default().replace('\u{1f}', " ");
    let flags = if flags.is_empty() { "no further flags".into() } else { flags };
    let of_cxx = format!("CXXFLAGS_{}", env("TARGET").replace('-', "_"));
    println!("cargo::rerun-if-env-changed={of_cxx}");
    let cxx = std::env::var(of_cxx).unwrap_or_else(|_| "no further flags".into());
    let opt_level = env("OPT_LEVEL");
    println!("cargo::rustc-env=COMPARE_FLAGS=opt-level {opt_level}, {flags}; C++: {cxx}");
    println!("cargo::rustc-env=COMPARE_PROFILE={}", env("PROFILE"));
}

fn env(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    if path.is_dir() {
        for entry in std::fs::read_dir(path).expect("the sources are readable") {
            collect(&entry.expect("the sources are readable").path(), files);
        }
    } else if path.is_file() {
        files.push(path.to_path_buf());
    }
}

/// Of every path and all bytes, in the order of the paths.
fn hash(root: &Path, mut files: Vec<PathBuf>) -> String {
    files.sort();
    let mut sha = Sha256::new();
    for file in files {
        let name = file.strip_prefix(root).unwrap_or(&file).to_string_lossy().into_owned();
        let bytes = std::fs::read(&file).expect("the sources are readable");
        sha.update((name.len() as u64).to_le_bytes());
        sha.update(name.as_bytes());
        sha.update((bytes.len() as u64).to_le_bytes());
        sha.update(&bytes);
    }
    sha.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
