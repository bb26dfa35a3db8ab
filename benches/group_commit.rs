//! Durable writers, 1 to 16 of them, in a closed loop: grouped, one by one, and the raw floor.
//!
//! For each it prints writes per second, the 50th and 99th percentile of a write's latency, and
//! syncs per 4,000 writes by the engine's counter. The three are run in turn, five rounds; the
//! figures are medians of rounds. "One by one" is the same engine behind a lock, so that each write
//! is a group of its own. The floor appends 256 bytes to a preallocated file and syncs it.
//!
//! Run it on an idle machine: beside a busy process each sync wakes up to a scheduler tick late.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use kiban::{KibanOptions, SharedKiban};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const WRITES: usize = 4000;
const ROUNDS: usize = 5;
const WRITERS: [usize; 5] = [1, 2, 4, 8, 16];
const VALUE_BYTES: usize = 250;

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Grouped,
    GroupedNoWait,
    OneByOne,
    Floor,
}

#[derive(Clone, Copy)]
struct Figures {
    per_second: f64,
    p50_us: f64,
    p99_us: f64,
    syncs: f64,
}

fn run(way: Way, writers: usize, dir: &Path) -> Figures {
    if way == Way::Floor {
        return floor(dir);
    }
    let wait_ns = if way == Way::GroupedNoWait { 0 } else { 100_000 };
    let options = KibanOptions::new().cohort_wait_max_ns(wait_ns);
    let db = SharedKiban::open(dir.join("db"), options).expect("opens");
    let alone = Arc::new(Mutex::new(()));
    let start = Instant::now();
    let threads: Vec<_> = (0..writers)
        .map(|writer| {
            let (db, alone) = (db.clone(), alone.clone());
            std::thread::spawn(move || {
                let mut latencies = Vec::with_capacity(WRITES / writers);
                for n in 0..WRITES / writers {
                    let key =
                        [&(writer as u32).to_be_bytes()[..], &(n as u32).to_be_bytes()].concat();
                    let begun = Instant::now();
                    let held = (way == Way::OneByOne).then(|| alone.lock().expect("no panic"));
                    db.put_durable(key, [7; VALUE_BYTES]).expect("written");
                    drop(held);
                    latencies.push(begun.elapsed());
                }
                latencies
            })
        })
        .collect();
    let latencies = threads.into_iter().flat_map(|t| t.join().expect("no panic")).collect();
    figures(latencies, start.elapsed(), db.stats().syncs)
}

fn floor(dir: &Path) -> Figures {
    let file = std::fs::File::create(dir.join("floor")).expect("a file");
    // As the engine's log is: on a file of written zeros each sync takes half as long again here.
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 2 << 20).expect("room");
    file.sync_all().expect("synced");
    let start = Instant::now();
    let mut latencies = Vec::with_capacity(WRITES);
    for n in 0..WRITES {
        let begun = Instant::now();
        file.write_all_at(&[7; 256], n as u64 * 256).expect("written");
        file.sync_data().expect("synced");
        latencies.push(begun.elapsed());
    }
    figures(latencies, start.elapsed(), WRITES as u64)
}

fn figures(mut latencies: Vec<Duration>, elapsed: Duration, syncs: u64) -> Figures {
    latencies.sort_unstable();
    let at = |share: f64| {
        let index = (latencies.len() as f64 * share) as usize;
        latencies[index.min(latencies.len() - 1)].as_secs_f64() * 1e6
    };
    let per_second = latencies.len() as f64 / elapsed.as_secs_f64();
    let syncs = syncs as f64 * WRITES as f64 / latencies.len() as f64;
    Figures { per_second, p50_us: at(0.5), p99_us: at(0.99), syncs }
}

fn median(rounds: &[Figures], of: impl Fn(&Figures) -> f64) -> f64 {
    let mut values: Vec<f64> = rounds.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let base = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory on this disk");
    println!("writers  way              writes/s    p50 us    p99 us  syncs per {WRITES}");
    let ways = [
        (Way::Grouped, "grouped"),
        (Way::GroupedNoWait, "grouped, no wait"),
        (Way::OneByOne, "one by one"),
        (Way::Floor, "floor"),
    ];
    for writers in WRITERS {
        let mut rounds = vec![Vec::new(); ways.len()];
        for round in 0..ROUNDS {
            for turn in 0..ways.len() {
                // Another order each round, and every other one backwards: what a way leaves to the
                // disk falls on the next one.
                let way = (turn + round) % ways.len();
                let way = if round % 2 == 0 { way } else { ways.len() - 1 - way };
                let dir = base.path().join(format!("{writers}-{round}-{way}"));
                std::fs::create_dir(&dir).expect("a directory");
                rounds[way].push(run(ways[way].0, writers, &dir));
                std::fs::remove_dir_all(&dir).expect("removed");
            }
        }
        for ((_, name), rounds) in ways.iter().zip(&rounds) {
            println!(
                "{writers:>7}  {name:<16} {:>8.0}  {:>8.0}  {:>8.0}  {:>8.0}",
                median(rounds, |f| f.per_second),
                median(rounds, |f| f.p50_us),
                median(rounds, |f| f.p99_us),
                median(rounds, |f| f.syncs),
            );
        }
    }
}
