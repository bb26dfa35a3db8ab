//! Counts the process's sync calls, by standing in front of libc's.
//!
//! - The four functions below have libc's names, so the linker binds every caller in the binary to
//!   them: the engines in C and C++, which are linked statically, and std, through which Kiban,
//!   redb and fjall sync.
//! - Each call is counted before it is made, whether it succeeds or not, as `strace -c` counts it.
//!   `kiban-compare syncs` shows that the two agree.
//! - Not seen: raw system calls that bypass libc (no engine here makes one), writes to files opened
//!   with `O_DSYNC` or `O_SYNC` (LMDB writes its meta page so: each of its commits is one
//!   `fdatasync` and one such write), and io_uring.
//!
//! Why not safe: a function that stands before libc's has its C signature, and hands its arguments
//! to the kernel as they are; nothing else can count the calls of engines in C and C++.
#![allow(unsafe_code)]

use libc::{c_int, c_long, c_uint, c_void, off64_t, size_t};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};

/// Calls since the process began, over all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SyncCount {
    /// `fdatasync`.
    pub fdatasync: u64,
    /// `fsync`.
    pub fsync: u64,
    /// `msync`.
    pub msync: u64,
    /// `sync_file_range`.
    pub sync_file_range: u64,
}

impl SyncCount {
    /// The calls after which data is on stable storage. `sync_file_range` only starts or awaits
    /// writeback, without the device's cache and without metadata, so it makes nothing durable.
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.fdatasync + self.fsync + self.msync
    }

    /// The calls between `earlier` and this count.
    #[must_use]
    pub fn since(&self, earlier: &SyncCount) -> SyncCount {
        SyncCount {
            fdatasync: self.fdatasync - earlier.fdatasync,
            fsync: self.fsync - earlier.fsync,
            msync: self.msync - earlier.msync,
            sync_file_range: self.sync_file_range - earlier.sync_file_range,
        }
    }
}

// Counters, not flags: nothing is published through them, so `Relaxed` is enough.
static FDATASYNC: AtomicU64 = AtomicU64::new(0);
static FSYNC: AtomicU64 = AtomicU64::new(0);
static MSYNC: AtomicU64 = AtomicU64::new(0);
static SYNC_FILE_RANGE: AtomicU64 = AtomicU64::new(0);

/// The counts now. Monotone: a row takes the difference of two.
#[must_use]
pub fn now() -> SyncCount {
    SyncCount {
        fdatasync: FDATASYNC.load(Ordering::Relaxed),
        fsync: FSYNC.load(Ordering::Relaxed),
        msync: MSYNC.load(Ordering::Relaxed),
        sync_file_range: SYNC_FILE_RANGE.load(Ordering::Relaxed),
    }
}

/// A system call's result as libc's wrappers return it: 0 or -1, with `errno` set.
fn wrapper_result(result: c_long) -> c_int {
    if result == -1 { -1 } else { 0 }
}

// SAFETY (of the name): same signature and meaning as libc's function, whose callers are all bound
// here; it touches no memory of theirs.
#[unsafe(no_mangle)]
extern "C" fn fdatasync(fd: c_int) -> c_int {
    FDATASYNC.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the system call takes one integer and touches no memory of the process; a bad
    // descriptor is answered with EBADF.
    wrapper_result(unsafe { libc::syscall(libc::SYS_fdatasync, fd) })
}

// SAFETY (of the name): as `fdatasync`.
#[unsafe(no_mangle)]
extern "C" fn fsync(fd: c_int) -> c_int {
    FSYNC.fetch_add(1, Ordering::Relaxed);
    // SAFETY: as in `fdatasync`.
    wrapper_result(unsafe { libc::syscall(libc::SYS_fsync, fd) })
}

// SAFETY (of the name): as `fdatasync`; the caller's promises about the range are passed on.
#[unsafe(no_mangle)]
unsafe extern "C" fn msync(start: *mut c_void, bytes: size_t, flags: c_int) -> c_int {
    MSYNC.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the kernel checks the range and answers ENOMEM where nothing is mapped; it writes the
    // pages back and changes none. `MS_INVALIDATE` asks what the caller asked libc for.
    wrapper_result(unsafe { libc::syscall(libc::SYS_msync, start, bytes, flags) })
}

// SAFETY (of the name): as `fdatasync`.
#[unsafe(no_mangle)]
extern "C" fn sync_file_range(fd: c_int, from: off64_t, bytes: off64_t, flags: c_uint) -> c_int {
    SYNC_FILE_RANGE.fetch_add(1, Ordering::Relaxed);
    // SAFETY: as in `fdatasync`: integers only.
    wrapper_result(unsafe { libc::syscall(libc::SYS_sync_file_range, fd, from, bytes, flags) })
}

// The call passes 64-bit offsets in one register each and its arguments in this order.
const _: () = assert!(cfg!(all(target_os = "linux", target_pointer_width = "64")));

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    #[test]
    fn std_and_c_callers_are_counted_and_errors_passed_on() {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(b"bytes").expect("a write");
        let before = now();
        file.sync_data().expect("std's fdatasync");
        file.sync_all().expect("std's fsync");
        // SAFETY: integers only; the descriptor is open.
        let range = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, 0) };
        // SAFETY: integers only; the descriptor is known to be bad.
        let bad = unsafe { libc::fdatasync(-1) };
        let error = std::io::Error::last_os_error();
        // SAFETY: the page at 4096 is never mapped, and msync of nothing mapped fails.
        let unmapped = unsafe { libc::msync(4096 as *mut c_void, 4096, libc::MS_SYNC) };
        assert_eq!((range, bad, unmapped), (0, -1, -1));
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
        // Other tests of this process may sync at the same time.
        let calls = now().since(&before);
        assert!(calls.fdatasync >= 2 && calls.fsync >= 1, "{calls:?}");
        assert!(calls.msync >= 1 && calls.sync_file_range >= 1, "{calls:?}");
    }
}
