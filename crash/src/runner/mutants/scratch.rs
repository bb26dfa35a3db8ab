//! A copy of the workspace to put seeded bugs into, and its builds.
//!
//! Invariants
//! - The workspace itself is never written, but for `target/mutants`.
//! - A file of the copy is written only where its bytes differ, so that a build does again only
//!   what depends on the mutated file.
//! - One process at a time uses the copy: it holds a lock on it.
//! - It works from a plain source tree: git is asked which files there are, and if it can't tell,
//!   every file is taken but hidden ones and build output.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "outside the engine")]

use super::catalog::{Mutant, mutate};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The copy.
#[derive(Debug)]
pub struct Scratch {
    tree: PathBuf,
    target: PathBuf,
    /// What the files of the seeded bug at hand were before it.
    originals: Vec<(PathBuf, String)>,
    _lock: File,
}

/// Why a copy could not be made or built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The machine refused.
    Environment(String),
    /// The sources do not build, or the seeded bug does not apply.
    Sources(String),
}

fn refused(path: &Path) -> impl Fn(io::Error) -> Trouble {
    move |error| Trouble::Environment(format!("{}: {error}", path.display()))
}

impl Scratch {
    /// Copies the workspace's files into its target directory.
    ///
    /// # Errors
    /// Where the machine refused, or another run uses the copy.
    pub fn prepare(workspace: &Path) -> Result<Self, Trouble> {
        let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
        let home = target.unwrap_or_else(|| workspace.join("target")).join("mutants");
        fs::create_dir_all(&home).map_err(refused(&home))?;
        let home = home.canonicalize().map_err(refused(&home))?;
        let lock_path = home.join("lock");
        let lock = File::create(&lock_path).map_err(refused(&lock_path))?;
        lock.try_lock().map_err(|_| {
            Trouble::Environment(format!("another run uses {}; wait for its end", home.display()))
        })?;
        let tree = home.join("tree");
        copy(workspace, &tree, &home)?;
        Ok(Self { tree, target: home.join("target"), originals: Vec::new(), _lock: lock })
    }

    /// The copy's root.
    #[must_use]
    pub fn tree(&self) -> &Path {
        &self.tree
    }

    /// Puts `mutant` into the copy, in place of the one there; `None` leaves it unmutated.
    ///
    /// # Errors
    /// Where the seeded bug does not apply, or the machine refused.
    pub fn set(&mut self, mutant: Option<&Mutant>) -> Result<(), Trouble> {
        let before = std::mem::take(&mut self.originals);
        let read = |file: &Path| match before.iter().find(|(path, _)| path == file) {
            Some((_, original)) => Ok(original.clone()),
            None => {
                let path = self.tree.join(file);
                fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
            }
        };
        let changed = match mutant.map(|mutant| mutate(mutant, read)).transpose() {
            Ok(changed) => changed.unwrap_or_default(),
            Err(why) => {
                self.originals = before;
                return Err(Trouble::Sources(why));
            }
        };
        let mut originals = Vec::new();
        for (file, _) in &changed {
            originals.push((file.clone(), read(file).map_err(Trouble::Sources)?));
        }
        for (file, original) in &before {
            if !changed.iter().any(|(path, _)| path == file) {
                write_changed(&self.tree.join(file), original.as_bytes())?;
            }
        }
        for (file, text) in &changed {
            write_changed(&self.tree.join(file), text.as_bytes())?;
        }
        self.originals = originals;
        Ok(())
    }

    /// Builds the runner in the copy and returns the path of the binary.
    ///
    /// # Errors
    /// The compiler's words.
    pub fn build(&self) -> Result<PathBuf, Trouble> {
        self.cargo(&["build", "--package", "kiban-crash", "--bin", "kiban-crash"])?;
        Ok(self.target.join("mutant").join("kiban-crash"))
    }

    /// Keeps the runner that was built last beside the next ones.
    ///
    /// # Errors
    /// The machine refused.
    pub fn keep(&self) -> Result<PathBuf, Trouble> {
        let kept = self.target.join("unmutated-kiban-crash");
        let built = self.target.join("mutant").join("kiban-crash");
        fs::copy(built, &kept).map_err(refused(&kept))?;
        Ok(kept)
    }

    /// Builds tests in the copy, and returns the command that runs them.
    ///
    /// # Errors
    /// The compiler's words.
    pub fn build_tests(&self, which: &[&str]) -> Result<Command, Trouble> {
        let arguments = [&["test"], which].concat();
        self.cargo(&[&arguments[..], &["--no-run"]].concat())?;
        Ok(self.cargo_command(&arguments))
    }

    fn cargo_command(&self, arguments: &[&str]) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.current_dir(&self.tree).args(arguments).args(["--profile", "mutant", "--quiet"]);
        command.arg("--target-dir").arg(&self.target);
        // The copy is of this workspace, but it is not this workspace.
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_")) {
                command.env_remove(&name);
            }
        }
        command.env_remove("CARGO_MANIFEST_DIR").env_remove("CARGO_TARGET_DIR");
        command
    }

    /// Runs cargo. What can't be linked is built once more from nothing: an incremental build that
    /// was ended halfway may have left units that do not fit together.
    fn cargo(&self, arguments: &[&str]) -> Result<(), Trouble> {
        let Err(said) = output(self.cargo_command(arguments))? else { return Ok(()) };
        let said = if said.contains("linking with") {
            let members = ["kiban", "kiban-model", "kiban-crash", "kiban-loom", "kiban-shuttle"];
            let packages = members.iter().flat_map(|name| ["--package", name]);
            let clean: Vec<&str> = ["clean"].into_iter().chain(packages).collect();
            let _ = output(self.cargo_command(&clean))?;
            let Err(said) = output(self.cargo_command(arguments))? else { return Ok(()) };
            said
        } else {
            said
        };
        if said.contains("No space left on device") {
            return Err(Trouble::Environment(said));
        }
        Err(Trouble::Sources(said))
    }
}

/// What a command that failed has said.
fn output(mut command: Command) -> Result<Result<(), String>, Trouble> {
    let output =
        command.output().map_err(|error| Trouble::Environment(format!("cargo: {error}")))?;
    let said = || String::from_utf8_lossy(&output.stderr).into_owned();
    Ok(if output.status.success() { Ok(()) } else { Err(said()) })
}

/// Makes `tree` hold what `workspace` holds.
fn copy(workspace: &Path, tree: &Path, home: &Path) -> Result<(), Trouble> {
    let files = list(workspace, home)?;
    for file in &files {
        let from = workspace.join(file);
        let bytes = match fs::read(&from) {
            // Git names files that are tracked and gone.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other.map_err(refused(&from))?,
        };
        write_changed(&tree.join(file), &bytes)?;
    }
    for file in walk(tree, home)? {
        if !files.contains(&file) || !workspace.join(&file).exists() {
            let path = tree.join(&file);
            fs::remove_file(&path).map_err(refused(&path))?;
        }
    }
    Ok(())
}

/// The workspace's files, relative to it.
fn list(workspace: &Path, home: &Path) -> Result<BTreeSet<PathBuf>, Trouble> {
    let asked = workspace.join(".git").exists().then(|| {
        let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        Command::new("git").arg("-C").arg(workspace).args(arguments).output()
    });
    if let Some(Ok(output)) = asked
        && output.status.success()
    {
        let names = output.stdout.split(|&byte| byte == 0).filter(|name| !name.is_empty());
        let names = names.filter_map(|name| std::str::from_utf8(name).ok()).map(PathBuf::from);
        return Ok(names.filter(|name| workspace.join(name).is_file()).collect());
    }
    walk(workspace, home)
}

/// Every file below `root` but hidden ones, build output, and the copy itself.
fn walk(root: &Path, home: &Path) -> Result<BTreeSet<PathBuf>, Trouble> {
    let mut files = BTreeSet::new();
    let mut dirs = vec![PathBuf::new()];
    while let Some(dir) = dirs.pop() {
        let place = root.join(&dir);
        let entries = match fs::read_dir(&place) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other.map_err(refused(&place))?,
        };
        for entry in entries {
            let entry = entry.map_err(refused(&place))?;
            let name = entry.file_name();
            let relative = dir.join(&name);
            let is_dir = entry.file_type().map_err(refused(&place))?.is_dir();
            let hidden = name.to_str().is_none_or(|name| name.starts_with('.'));
            if is_dir && !hidden && name != "target" && root.join(&relative) != home {
                dirs.push(relative);
            } else if !is_dir && (!hidden || dir.as_os_str().is_empty()) {
                files.insert(relative);
            }
        }
    }
    Ok(files)
}

/// Writes `file` unless it holds these bytes: its time of change is what cargo goes by.
fn write_changed(file: &Path, bytes: &[u8]) -> Result<(), Trouble> {
    if fs::read(file).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    if let Some(dir) = file.parent() {
        fs::create_dir_all(dir).map_err(refused(dir))?;
    }
    fs::write(file, bytes).map_err(refused(file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::mutants::catalog::parse;

    fn toy() -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a temporary directory");
        for (file, text) in [
            ("Cargo.toml", "[package]\n"),
            ("src/lib.rs", "fn a() {}\nfn b() {}\n"),
            ("src/old.rs", "old\n"),
            ("target/x", "build output\n"),
            (".hidden/y", "not ours\n"),
        ] {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().expect("below the root")).expect("a directory");
            fs::write(path, text).expect("a file");
        }
        dir
    }

    fn bug(find: &str) -> Mutant {
        let head = "id: T\norigin: -\npromise: -\nlayer: SEQ\n\nA story.\n";
        let text = format!("{head}--- src/lib.rs\n<<<<\n{find}\n====\nfn c() {{}}\n>>>>\n");
        parse(&text).expect("well-formed")
    }

    #[test]
    fn the_copy_follows_the_workspace_and_takes_one_seeded_bug_at_a_time() {
        let dir = toy();
        let lib = |scratch: &Scratch| {
            fs::read_to_string(scratch.tree().join("src/lib.rs")).expect("a copied file")
        };
        let mut scratch = Scratch::prepare(dir.path()).expect("a copy");
        assert!(Scratch::prepare(dir.path()).is_err(), "the copy is locked");
        let files = walk(scratch.tree(), Path::new("")).expect("readable");
        let wanted = ["Cargo.toml", "src/lib.rs", "src/old.rs"].map(PathBuf::from);
        assert_eq!(files, BTreeSet::from(wanted));

        scratch.set(Some(&bug("fn a() {}"))).expect("applies");
        assert_eq!(lib(&scratch), "fn c() {}\nfn b() {}\n");
        scratch.set(Some(&bug("fn b() {}"))).expect("applies to the original");
        assert_eq!(lib(&scratch), "fn a() {}\nfn c() {}\n");
        let refused = scratch.set(Some(&bug("fn z() {}"))).expect_err("stands nowhere");
        assert!(matches!(refused, Trouble::Sources(why) if why.contains("0 times")));
        scratch.set(None).expect("back to the original");
        assert_eq!(lib(&scratch), "fn a() {}\nfn b() {}\n");

        scratch.set(Some(&bug("fn a() {}"))).expect("applies");
        drop(scratch);
        fs::remove_file(dir.path().join("src/old.rs")).expect("it was there");
        let scratch = Scratch::prepare(dir.path()).expect("another copy");
        assert!(!scratch.tree().join("src/old.rs").exists());
        assert_eq!(lib(&scratch), "fn a() {}\nfn b() {}\n");
    }
}
