//! The floor under a row's writes: the same threads, a mutex, a `pwrite`, one busy thread, and no
//! engine at all.
//!
//! - A synced row's floor is an overwrite of a preallocated file and `fdatasync`, both under the
//!   mutex: the cost of one durable append, without grouping.
//! - The busy thread stands for an engine's background work. It is there in buffered rows only: a
//!   synced row is compared with the bare disk.
//! - It has no receipts: there is nothing to read back.

use super::call::Done;
use super::outcome::{Failure, StageFigures};
use super::work::drive;
use crate::plan::Row;
use crate::random::mix;
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

const FILE_BYTES: u64 = 64 << 20;

/// Makes the calls of the row's stages without an engine.
///
/// # Errors
/// Where the row reads, or the file can't be written.
pub fn run(dir: &Path, row: &Row) -> Result<Vec<StageFigures>> {
    ensure!(
        row.groups().all(|group| group.mix.write + group.mix.insert == 100),
        "a floor stands under writes alone"
    );
    let bytes = 8 + row.data.value_bytes;
    let file = File::create(dir.join("floor")).context("the floor's file")?;
    for at in (0..FILE_BYTES).step_by(1 << 20) {
        file.write_all_at(&vec![1; 1 << 20], at)?;
    }
    file.sync_all()?;
    let (floor, stop) = (Mutex::new((file, 0u64)), AtomicBool::new(false));
    let synced = row.is_synced();
    let make = |group: usize, thread: u64| {
        let (floor, batch) = (&floor, row.stages[0].group[group].batch);
        let record = vec![thread as u8; bytes * batch];
        let call = move || {
            let began = Instant::now();
            write(floor, &record, synced)
                .map_err(|error| Failure { step: "floor".into(), what: error.to_string() })?;
            let (records, ended) = (batch as u64, Instant::now());
            Ok(Done { wrote: true, records, written: records, began, ended })
        };
        Ok(call)
    };
    std::thread::scope(|scope| {
        if !synced {
            scope.spawn(|| {
                let mut x = 0;
                while !stop.load(Ordering::Relaxed) {
                    x = black_box(mix(x));
                }
            });
        }
        let stages = row.stages.iter().map(|stage| {
            drive(None, stage, &make).map_err(|failure| anyhow::anyhow!(failure.what))
        });
        let stages: Result<Vec<_>> = stages.collect();
        stop.store(true, Ordering::Relaxed);
        stages
    })
}

fn write(floor: &Mutex<(File, u64)>, record: &[u8], synced: bool) -> std::io::Result<()> {
    let mut held = floor.lock().unwrap_or_else(PoisonError::into_inner);
    let (file, at) = &mut *held;
    if *at + record.len() as u64 > FILE_BYTES {
        *at = 0;
    }
    file.write_all_at(record, *at)?;
    *at += record.len() as u64;
    if synced { file.sync_data() } else { Ok(()) }
}
