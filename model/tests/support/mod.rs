//! Where the lockstep tests put their databases.

pub use kiban_model::unsynced::env;

/// A new directory, removed with the value; in memory where the system has a place for that.
pub fn dir() -> tempfile::TempDir {
    let in_memory = tempfile::tempdir_in("/dev/shm");
    in_memory.or_else(|_| tempfile::tempdir()).expect("a place for temporary files")
}
