//! Where the devices are: directories, loop devices and mounts of this process alone.
//!
//! Invariants
//! - All of it happens in a mount namespace of this process's own: nothing shows outside, and the
//!   kernel unmounts everything when the process and its children are gone, however they went.
//! - A loop device is marked to be cleared by its last close from the moment it is there, and this
//!   process holds it open: it is gone when the process is.
//! - What this made is unmounted and removed on every way out of a scope, a panic's included.
//! - What an earlier run left is named and removed: only what carries our name in the exact form
//!   and the id of a process that is no more; a directory, only if our mark is in it.
//! - Commands of the system are in process groups of their own: an interrupt from a terminal is
//!   this process's alone.
//! - Nothing of the device is cached between two mounts.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "outside the engine")]

use super::guard::Guard;
use super::recorder::{DISK, NOTES, Recorder};
use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// A file system to be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileSystem {
    /// ext4, as `mkfs.ext4` makes it.
    Ext4,
    /// XFS.
    Xfs,
    /// Btrfs.
    Btrfs,
}

impl FileSystem {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Ext4, Self::Xfs, Self::Btrfs];

    /// Its name, for `mount`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }

    /// Bytes of its device: little more than the least that its tools accept.
    #[must_use]
    pub fn size(self) -> u64 {
        match self {
            Self::Ext4 => 48 << 20,
            Self::Xfs => 304 << 20,
            Self::Btrfs => 144 << 20,
        }
    }

    /// The command that makes one, without the device.
    fn mkfs(self) -> &'static [&'static str] {
        match self {
            // Nothing is left to be initialised in the background: it would be in every log.
            Self::Ext4 => &[
                "mkfs.ext4",
                "-q",
                "-F",
                "-b",
                "4096",
                "-J",
                "size=4",
                "-E",
                "lazy_itable_init=0,lazy_journal_init=0",
            ],
            Self::Xfs => &["mkfs.xfs", "-q", "-f"],
            Self::Btrfs => &["mkfs.btrfs", "-q", "-f"],
        }
    }

    fn mount_data(self) -> Option<&'static CStr> {
        match self {
            Self::Ext4 | Self::Btrfs => None,
            // Two images of one file system have one id.
            Self::Xfs => Some(c"nouuid"),
        }
    }
}

/// In the environment of the process that has its own namespace.
const INSIDE: &str = "KIBAN_POWER_INSIDE";
/// What every directory of ours is called, before the process's id.
const PREFIX: &str = "kiban-power-";
/// Letters behind that.
const RANDOM: usize = 6;
/// A file in each directory of ours, and what it says.
const MARK: &str = "made-by-kiban-crash";

/// What this machine lacks, each with what to do.
#[must_use]
pub fn missing(systems: &[FileSystem]) -> Vec<String> {
    let mut missing = Vec::new();
    if !rustix::process::geteuid().is_root() {
        missing.push("root: start it as root".to_owned());
    }
    for (device, module) in [("/dev/fuse", "fuse"), ("/dev/loop-control", "loop")] {
        if let Err(error) = File::options().read(true).write(true).open(device) {
            missing.push(format!("{device} ({error}): load the module {module}"));
        }
    }
    let tool = |name: &str, package: &str| {
        let dirs = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&dirs).any(|dir| dir.join(name).is_file());
        (!found).then(|| format!("{name}: install {package}"))
    };
    missing.extend(["losetup", "unshare"].into_iter().filter_map(|name| tool(name, "util-linux")));
    missing.extend(systems.iter().filter_map(|system| match system {
        FileSystem::Ext4 => tool("mkfs.ext4", "e2fsprogs"),
        FileSystem::Xfs => tool("mkfs.xfs", "xfsprogs"),
        FileSystem::Btrfs => tool("mkfs.btrfs", "btrfs-progs"),
    }));
    missing
}

/// Starts this command once more, in a mount namespace of its own and under the same process id;
/// returns if it is in one, or could not be.
///
/// # Errors
/// It could not be.
pub fn enter() -> io::Result<()> {
    if std::env::var_os(INSIDE).is_some() {
        return Ok(());
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "--"]);
    command.arg(std::env::current_exe()?).args(std::env::args_os().skip(1)).env(INSIDE, "1");
    Err(command.exec())
}

/// A new directory of this process's, in `parent`.
///
/// # Errors
/// The machine refused.
pub fn scratch(parent: &Path) -> io::Result<TempDir> {
    let prefix = format!("{PREFIX}{}-", std::process::id());
    let dir = tempfile::Builder::new().prefix(&prefix).rand_bytes(RANDOM).tempdir_in(parent)?;
    fs::write(dir.path().join(MARK), MARK)?;
    Ok(dir)
}

/// Removes what processes that are no more left in `parent` and in the list of loop devices; tells
/// what that was.
#[must_use]
pub fn clear_leftovers(parent: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let backing = fs::read_to_string(entry.path().join("loop/backing_file"));
        let Ok(backing) = backing else { continue };
        let backing = Path::new(backing.trim());
        let is_ours = ["disk", "disk (deleted)", "bare", "bare (deleted)"];
        let is_ours =
            backing.file_name().is_some_and(|name| is_ours.iter().any(|ours| name == *ours));
        if is_ours && backing.iter().any(|part| is_orphan(&part.to_string_lossy())) {
            let device = Path::new("/dev").join(entry.file_name());
            let done = run(Command::new("losetup").arg("-d").arg(&device));
            found.push(told(format!("{} on {}", device.display(), backing.display()), done));
        }
    }
    found.extend(clear_directories(parent));
    found
}

fn clear_directories(parent: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if is_orphan(&entry.file_name().to_string_lossy()) {
            let done = match fs::read_to_string(entry.path().join(MARK)) {
                Ok(text) if text == MARK => fs::remove_dir_all(entry.path()),
                _ => Err(io::Error::other(format!("there is no {MARK} of ours in it"))),
            };
            found.push(told(entry.path().display().to_string(), done));
        }
    }
    found
}

fn told(what: String, done: io::Result<()>) -> String {
    match done {
        Ok(()) => format!("{what}, removed now"),
        Err(error) => format!("{what}, which stays: {error}"),
    }
}

/// Whether a name is one that we make, with the id of a process that is not one of ours any more.
fn is_orphan(name: &str) -> bool {
    let Some((digits, random)) = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'))
    else {
        return false;
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_random = random.len() == RANDOM && random.bytes().all(|b| b.is_ascii_alphanumeric());
    if !is_number || !is_random {
        return false;
    }
    // Whatever the command is called: it has its own namespace, and says so.
    let variables = fs::read(format!("/proc/{digits}/environ")).unwrap_or_default();
    !variables.split(|byte| *byte == 0).any(|variable| variable.starts_with(INSIDE.as_bytes()))
}

/// Whether a mount failed because of what is on the device, and not for want of anything else.
#[must_use]
pub fn is_refusal(error: &io::Error) -> bool {
    use rustix::io::Errno;
    const OF_CONTENTS: [Errno; 4] = [Errno::INVAL, Errno::IO, Errno::BADMSG, Errno::UCLEAN];
    Errno::from_io_error(error).is_some_and(|errno| OF_CONTENTS.contains(&errno))
}

/// Runs a command of the system to its end.
///
/// # Errors
/// It could not be started, or said that it failed.
pub fn run(command: &mut Command) -> io::Result<()> {
    output(command).map(drop)
}

fn output(command: &mut Command) -> io::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command
        .process_group(0)
        .output()
        .map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(io::Error::other(format!("{name}: {}: {}", done.status, said.trim())));
    }
    Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

/// A loop device on a file.
#[derive(Debug)]
pub struct Loop {
    path: PathBuf,
    device: File,
}

impl Loop {
    /// Attaches a free one to `file`.
    ///
    /// # Errors
    /// The machine refused.
    pub fn attach(file: &Path) -> io::Result<Self> {
        let path = output(Command::new("losetup").args(["--find", "--show"]).arg(file))?;
        let path = PathBuf::from(path);
        let opened = File::options().read(true).write(true).open(&path);
        // While it is open, this only marks it: the last close detaches it.
        let marked = run(Command::new("losetup").arg("-d").arg(&path));
        let device = opened?;
        marked?;
        Ok(Self { path, device })
    }

    /// Its node.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the kernel forget what it knows of the contents.
    ///
    /// # Errors
    /// The machine refused.
    pub fn forget(&self) -> io::Result<()> {
        // What a device error left of an earlier use is told once, and is no answer to this.
        if self.device.sync_all().is_err() {
            self.device.sync_all()?;
        }
        rustix::fs::fadvise(&self.device, 0, None, rustix::fs::Advice::DontNeed)?;
        Ok(())
    }
}

/// Something that is mounted until this is dropped.
#[derive(Debug)]
pub struct Mounted {
    at: PathBuf,
    is_there: bool,
}

impl Mounted {
    /// Mounts the file system on `device`.
    ///
    /// # Errors
    /// The kernel refused the device's contents, or the machine the call.
    pub fn new(device: &Path, at: &Path, system: FileSystem) -> io::Result<Self> {
        rustix::mount::mount(device, at, system.name(), MountFlags::NOATIME, system.mount_data())?;
        Ok(Self { at: at.to_owned(), is_there: true })
    }

    /// Unmounts it.
    ///
    /// # Errors
    /// Something still has a file of it.
    pub fn unmount(mut self) -> io::Result<()> {
        self.is_there = false;
        unmount(&self.at)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if !self.is_there {
            return;
        }
        if let Err(error) = unmount(&self.at) {
            eprintln!("warning: {} is busy, and goes with the process: {error}", self.at.display());
            let _ = rustix::mount::unmount(&*self.at, UnmountFlags::DETACH);
        }
    }
}

/// So often is a busy file system asked again.
const UNMOUNT_TRIES: u32 = 400;

/// Unmounts whatever is mounted at `at`, once nobody uses it.
///
/// # Errors
/// Something still does.
pub fn unmount(at: &Path) -> io::Result<()> {
    let mut tries = 0;
    loop {
        match rustix::mount::unmount(at, UnmountFlags::empty()) {
            // Whoever had a file open may be just about to end.
            Err(rustix::io::Errno::BUSY) if tries < UNMOUNT_TRIES => {
                tries += 1;
                std::thread::sleep(Duration::from_millis(5));
            }
            done => return Ok(done?),
        }
    }
}

/// A recorded device with an empty file system on it.
#[derive(Debug)]
pub struct Place {
    /// Which file system.
    pub system: FileSystem,
    // In the order in which they have to go.
    device: Loop,
    /// What records.
    pub recorder: Recorder,
    at: PathBuf,
}

impl Place {
    /// Makes one in the directory `dir`, which is empty.
    ///
    /// # Errors
    /// The machine refused.
    pub fn new(dir: &Path, system: FileSystem, guard: &Guard) -> io::Result<Self> {
        let (served, at) = (dir.join("served"), dir.join("mounted"));
        for made in [dir, &served, &at] {
            fs::create_dir_all(made)?;
        }
        let recorder = Recorder::serve(&served, system.size())?;
        guard.watch(&served)?;
        let device = Loop::attach(&served.join(DISK))?;
        let place = Self { system, device, recorder, at };
        place.make(place.device.path())?;
        place.device.forget()?;
        Ok(place)
    }

    /// Makes a file system of this kind on `device`.
    ///
    /// # Errors
    /// The tool refused.
    pub fn make(&self, device: &Path) -> io::Result<()> {
        let (command, arguments) = self.system.mkfs().split_first().expect("it has a name");
        run(Command::new(command).args(arguments).arg(device))
    }

    /// Where it is mounted.
    #[must_use]
    pub fn at(&self) -> &Path {
        &self.at
    }

    /// The file that hears notes, opened for one child.
    ///
    /// # Errors
    /// The machine refused.
    pub fn notes(&self) -> io::Result<File> {
        File::options().write(true).open(self.at.with_file_name("served").join(NOTES))
    }

    /// Mounts what the recorder shows.
    ///
    /// # Errors
    /// The kernel refused the contents, or the machine the call.
    pub fn mount(&self) -> io::Result<Mounted> {
        self.device.forget()?;
        Mounted::new(self.device.path(), &self.at, self.system)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_carries_our_name_and_a_dead_process_is_left_over() {
        let here = format!("{PREFIX}{}-aB3xyz", std::process::id());
        assert!(is_orphan(&here), "this test is not the command");
        assert!(is_orphan(&format!("{PREFIX}4194999-aB3xyz")));
        for other in ["", "ab-aB3xyz", "1-aB3xy", "1-aB3xyzz", "1-aB3x.z", "1"] {
            assert!(!is_orphan(&format!("{PREFIX}{other}")), "{other}");
        }
        assert!(!is_orphan(&format!("my-{PREFIX}4194999-aB3xyz")));
    }

    #[test]
    fn a_directory_without_our_mark_stays() {
        let parent = tempfile::tempdir().expect("a temporary directory");
        let (ours, other) = (format!("{PREFIX}4194999-aaaaaa"), format!("{PREFIX}4194999-bbbbbb"));
        let (ours, other) = (parent.path().join(ours), parent.path().join(other));
        for dir in [&ours, &other] {
            fs::create_dir(dir).expect("a directory");
        }
        fs::write(ours.join(MARK), MARK).expect("a mark");
        assert_eq!(clear_directories(parent.path()).len(), 2);
        assert!(!ours.exists() && other.exists());
        let made = scratch(parent.path()).expect("a directory");
        assert!(is_orphan(&made.path().file_name().expect("a name").to_string_lossy()));
        assert!(made.path().join(MARK).is_file());
    }

    #[test]
    fn what_is_missing_is_named_with_what_to_do() {
        for line in missing(&FileSystem::ALL) {
            assert!(line.contains(": "), "{line}");
        }
    }
}
