//! Runs numbered cases on worker threads, and survives the ones that never come back.
//!
//! Invariants
//! - A case's result depends on its number alone: workers share nothing but the next number.
//! - Results are handed over in case order, whatever order they finish in (F1).
//! - A case over its time limit becomes a hang; its thread is left behind and replaced, because
//!   no thread can be stopped from outside. A panicking case becomes a panic; its worker goes on.
//!
//! It knows nothing of engines or disks.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How a case came back.
#[derive(Debug)]
pub enum Done<R> {
    /// With a result.
    Ran(R),
    /// With a panic outside the places that expect one, and its message.
    Panicked(String),
    /// Not within the limit.
    Hung,
}

/// When to stop handing out cases.
#[derive(Clone, Debug)]
pub struct Budget {
    /// At most so many cases.
    pub cases: Option<u64>,
    /// No new case after this moment.
    pub until: Option<Instant>,
    /// No new case once this is set.
    pub stop: Arc<AtomicBool>,
}

impl Budget {
    /// `cases` cases, and no other limit.
    #[must_use]
    pub fn cases(cases: u64) -> Self {
        Self { cases: Some(cases), until: None, stop: Arc::new(AtomicBool::new(false)) }
    }

    /// Whether no case may begin any more for a reason other than the count.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.until.is_some_and(|t| Instant::now() >= t)
    }
}

/// How the cases are spread.
#[derive(Clone, Debug)]
pub struct Pool {
    /// Workers, at least one.
    pub jobs: usize,
    /// A case that takes longer has hung.
    pub case_limit: Duration,
}

type Message<R> = (usize, u64, Done<R>);

struct Worker {
    begun: Arc<AtomicU64>,
    given_up: Arc<AtomicBool>,
}

/// No case under way.
const IDLE: u64 = u64::MAX;

/// Runs `work(i)` for i = 0, 1, 2, ... within `budget` and hands each result to `take` in order.
pub fn run<R: Send + 'static>(
    pool: &Pool,
    budget: &Budget,
    work: impl Fn(u64) -> R + Send + Sync + 'static,
    mut take: impl FnMut(u64, Done<R>),
) {
    let shared = Arc::new(Shared { next: AtomicU64::new(0), budget: budget.clone(), work });
    let (sender, results) = channel();
    let mut workers: BTreeMap<usize, Worker> = BTreeMap::new();
    for id in 0..pool.jobs.max(1) {
        workers.insert(id, spawn(id, &shared, &sender));
    }
    let mut next_worker = workers.len();
    let mut order = InOrder { next: 0, early: BTreeMap::new() };
    let mut busy_since: BTreeMap<usize, (u64, Instant)> = BTreeMap::new();
    while !workers.is_empty() {
        match receive(&results) {
            Some((id, case, done)) if workers.contains_key(&id) => {
                if case == IDLE {
                    workers.remove(&id);
                } else {
                    busy_since.remove(&id);
                    order.put(case, done, &mut take);
                }
            }
            // A worker that was given up came back after all: its case was counted as hung.
            Some(_) => {}
            None => {
                for (id, case) in overdue(&workers, &mut busy_since, pool.case_limit) {
                    if let Some(worker) = workers.remove(&id) {
                        worker.given_up.store(true, Ordering::Relaxed);
                    }
                    busy_since.remove(&id);
                    order.put(case, Done::Hung, &mut take);
                    workers.insert(next_worker, spawn(next_worker, &shared, &sender));
                    next_worker += 1;
                }
            }
        }
    }
    assert!(order.early.is_empty(), "a case that began was never handed over");
}

fn receive<R>(results: &Receiver<Message<R>>) -> Option<Message<R>> {
    match results.recv_timeout(Duration::from_millis(200)) {
        Ok(message) => Some(message),
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) => unreachable!("this end holds a sender"),
    }
}

fn overdue(
    workers: &BTreeMap<usize, Worker>,
    busy_since: &mut BTreeMap<usize, (u64, Instant)>,
    limit: Duration,
) -> Vec<(usize, u64)> {
    let mut late = Vec::new();
    for (&id, worker) in workers {
        let case = worker.begun.load(Ordering::Relaxed);
        if case == IDLE {
            busy_since.remove(&id);
            continue;
        }
        let (known, since) = *busy_since.entry(id).or_insert((case, Instant::now()));
        if known != case {
            busy_since.insert(id, (case, Instant::now()));
        } else if since.elapsed() > limit {
            late.push((id, case));
        }
    }
    late
}

struct Shared<W> {
    next: AtomicU64,
    budget: Budget,
    work: W,
}

fn spawn<R: Send + 'static, W: Fn(u64) -> R + Send + Sync + 'static>(
    id: usize,
    shared: &Arc<Shared<W>>,
    results: &Sender<Message<R>>,
) -> Worker {
    let begun = Arc::new(AtomicU64::new(IDLE));
    let given_up = Arc::new(AtomicBool::new(false));
    let (mine, gone) = (Arc::clone(&begun), Arc::clone(&given_up));
    let (shared, results) = (Arc::clone(shared), results.clone());
    let body = move || {
        while !shared.budget.stopped() && !gone.load(Ordering::Relaxed) {
            let case = shared.next.fetch_add(1, Ordering::Relaxed);
            if shared.budget.cases.is_some_and(|n| case >= n) {
                break;
            }
            mine.store(case, Ordering::Relaxed);
            let done = match catch_unwind(AssertUnwindSafe(|| (shared.work)(case))) {
                Ok(result) => Done::Ran(result),
                Err(panic) => Done::Panicked(panic_text(&*panic)),
            };
            mine.store(IDLE, Ordering::Relaxed);
            if results.send((id, case, done)).is_err() {
                return;
            }
        }
        let _ = results.send((id, IDLE, Done::Hung));
    };
    // A deep recursion in a decoder should overflow here as it would in a user's thread.
    let _ = std::thread::Builder::new().name(format!("case-worker-{id}")).spawn(body);
    Worker { begun, given_up }
}

/// What a panic said.
#[must_use]
pub fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without text".to_owned()
    }
}

struct InOrder<R> {
    next: u64,
    early: BTreeMap<u64, Done<R>>,
}

impl<R> InOrder<R> {
    fn put(&mut self, case: u64, done: Done<R>, take: &mut impl FnMut(u64, Done<R>)) {
        self.early.insert(case, done);
        while let Some(done) = self.early.remove(&self.next) {
            take(self.next, done);
            self.next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(jobs: usize, cases: u64, limit_ms: u64) -> Vec<(u64, String)> {
        let pool = Pool { jobs, case_limit: Duration::from_millis(limit_ms) };
        let mut seen = Vec::new();
        let work = |i: u64| {
            assert!(i != 5, "five");
            if i == 3 {
                std::thread::sleep(Duration::from_millis(4000));
            }
            i * i
        };
        run(&pool, &Budget::cases(cases), work, |i, done| seen.push((i, format!("{done:?}"))));
        seen
    }

    #[test]
    fn results_come_in_order_and_a_hang_or_a_panic_is_one_case() {
        let seen = collect(2, 9, 2000);
        assert_eq!(seen.len(), 9);
        assert!(seen.iter().enumerate().all(|(at, (i, _))| at as u64 == *i));
        assert_eq!(seen[3].1, "Hung");
        assert_eq!(seen[5].1, "Panicked(\"five\")");
        assert_eq!(seen[8].1, "Ran(64)");
    }

    #[test]
    fn the_number_of_jobs_changes_no_result() {
        assert_eq!(collect(1, 3, 10_000), collect(2, 3, 10_000));
    }
}
