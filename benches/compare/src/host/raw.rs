//! Three calls that neither std nor rustix offers: which pages of a file are in memory, the idle
//! scheduling class, and the allocator's free memory back to the kernel.
//!
//! Why not safe: `mincore` takes an address and a buffer, `sched_setscheduler` a pointer, and
//! `malloc_trim` is C; no safe crate that is kept up wraps them.
#![allow(unsafe_code)]

use anyhow::{Result, bail};
use memmap2::Mmap;
use std::fs::File;

const PAGE_BYTES: usize = 4096;

/// Bytes of `file` that are in memory, and its length.
///
/// # Errors
/// Where the file can't be mapped or the kernel refuses.
pub fn resident(file: &File) -> Result<(u64, u64)> {
    let len = file.metadata()?.len();
    if len == 0 {
        return Ok((0, 0));
    }
    // SAFETY: the mapping is only asked about, never read, so what others do to the file is no
    // matter.
    let map = unsafe { Mmap::map(file)? };
    let mut pages = vec![0u8; map.len().div_ceil(PAGE_BYTES)];
    let at = map.as_ptr() as *mut libc::c_void;
    // SAFETY: the mapping is `map.len()` long and lives; `pages` has a byte for each of its pages.
    let got = unsafe { libc::mincore(at, map.len(), pages.as_mut_ptr()) };
    if got != 0 {
        bail!("mincore: {}", std::io::Error::last_os_error());
    }
    let resident = pages.iter().filter(|page| *page & 1 == 1).count() as u64;
    Ok(((resident * PAGE_BYTES as u64).min(len), len))
}

/// Puts the calling thread into the idle class, where it runs when nobody else wants to.
///
/// # Errors
/// Where the kernel refuses.
pub fn become_idle_class() -> Result<()> {
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: `param` lives through the call, and 0 names the calling thread.
    let got = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &param) };
    if got != 0 {
        bail!("sched_setscheduler: {}", std::io::Error::last_os_error());
    }
    Ok(())
}

/// Gives the kernel back what the process has freed. Another allocator than glibc's keeps it.
pub fn give_back_freed_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it may be called at any time from any thread; 0 asks for nothing to be kept.
    unsafe {
        libc::malloc_trim(0);
    }
}
