//! A reader in a closed loop: alone, beside four buffered writers, and beside these and a
//! compaction.
//!
//! For each it prints the 50th, 99th and 99.9th percentile of `get_with`'s latency over the rounds
//! together, and how many times the 99th is that of the idle rounds. The three are run in turn, so
//! that a machine that slows down slows all. Gets are timed in batches of one: the clock's own cost
//! is in each figure, and is printed as the first line.
//!
//! Run it on an idle machine: with more threads than cores the scheduler is what is measured. The
//! reader, four writers and two workers are seven; `--writers N` and `--pause-us N` (between two
//! writes of one writer) tell how much of it that is.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use kiban::{KibanOptions, SharedKiban};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const KEYS: u64 = 100_000;
const VALUE_BYTES: usize = 100;
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(1500);

#[derive(Clone, Copy, PartialEq)]
enum Beside {
    Nobody,
    Writers,
    WritersAndCompaction,
}

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn argument(name: &str, default: u64) -> u64 {
    let mut arguments = std::env::args().skip_while(|argument| argument != name).skip(1);
    arguments.next().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Reads for one round; each latency in nanoseconds.
fn read(db: &SharedKiban, latencies: &mut Vec<u64>) {
    let begun = Instant::now();
    let mut state = 1u64;
    loop {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let wanted = key((state >> 33) % KEYS);
        let before = Instant::now();
        let found = db.get_with(wanted, |value| value.len()).expect("a read");
        let after = Instant::now();
        assert_eq!(found, Some(VALUE_BYTES));
        latencies.push(u64::try_from((after - before).as_nanos()).expect("short"));
        if after - begun > ROUND {
            return;
        }
    }
}

fn round(db: &SharedKiban, beside: Beside, latencies: &mut Vec<u64>, written: &Arc<AtomicU64>) {
    let over = Arc::new(AtomicBool::new(false));
    let mut threads = Vec::new();
    let writers = if beside == Beside::Nobody { 0 } else { argument("--writers", 4) };
    let pause = Duration::from_micros(argument("--pause-us", 0));
    for writer in 0..writers {
        let (db, over, written) = (db.clone(), over.clone(), written.clone());
        threads.push(std::thread::spawn(move || {
            let mut n = writer;
            while !over.load(Ordering::Relaxed) {
                db.put(key(n % KEYS), [7; VALUE_BYTES]).expect("written");
                written.fetch_add(1, Ordering::Relaxed);
                n += writers;
                if !pause.is_zero() {
                    std::thread::sleep(pause);
                }
            }
        }));
    }
    if beside == Beside::WritersAndCompaction {
        let (db, over) = (db.clone(), over.clone());
        threads.push(std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                db.compact_range::<&[u8]>(..).expect("compacted");
            }
        }));
    }
    read(db, latencies);
    over.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    db.wait_settled(Duration::from_secs(60)).expect("no failure");
}

fn percentile(sorted: &[u64], share: f64) -> f64 {
    let index = ((sorted.len() as f64 * share) as usize).min(sorted.len() - 1);
    sorted[index] as f64 / 1000.0
}

fn clock_cost() -> f64 {
    let begun = Instant::now();
    for _ in 0..10_000 {
        std::hint::black_box(Instant::now());
    }
    begun.elapsed().as_nanos() as f64 / 10_000.0
}

fn main() {
    let base = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory on this disk");
    let db = SharedKiban::open(base.path().join("db"), KibanOptions::new()).expect("opens");
    for number in 0..KEYS {
        db.put(key(number), [7; VALUE_BYTES]).expect("written");
    }
    db.compact_range::<&[u8]>(..).expect("compacted");
    println!("the clock itself takes {:.0} ns", clock_cost());
    let ways = [
        (Beside::Nobody, "idle"),
        (Beside::Writers, "beside writers"),
        (Beside::WritersAndCompaction, "and a compaction"),
    ];
    let mut latencies = vec![Vec::new(); ways.len()];
    let written: Vec<_> = ways.iter().map(|_| Arc::new(AtomicU64::new(0))).collect();
    read(&db, &mut Vec::new());
    for _ in 0..ROUNDS {
        for (at, (beside, _)) in ways.iter().enumerate() {
            round(&db, *beside, &mut latencies[at], &written[at]);
        }
    }
    println!("reader              gets/s    p50 us    p99 us  p99.9 us  p99/idle  writes/s");
    let seconds = ROUND.as_secs_f64() * ROUNDS as f64;
    let mut idle = None;
    for (at, (_, name)) in ways.iter().enumerate() {
        latencies[at].sort_unstable();
        let sorted = &latencies[at];
        let p99 = percentile(sorted, 0.99);
        let idle = *idle.get_or_insert(p99);
        println!(
            "{name:<16} {:>9.0}  {:>8.2}  {p99:>8.2}  {:>8.2}  {:>8.2}  {:>8.0}",
            sorted.len() as f64 / seconds,
            percentile(sorted, 0.5),
            percentile(sorted, 0.999),
            p99 / idle,
            written[at].load(Ordering::Relaxed) as f64 / seconds,
        );
    }
    db.close().expect("closes");
}
