//! Runs a stage: its threads, their common start, their end.
//!
//! - Closed loop: each thread calls again at once. Open loop: calls begin at times that were set
//!   before, and latency counts from then, whether or not a thread was free. Arrivals that were due
//!   before the stage's end and found no free thread are counted, not dropped silently.
//! - Threads meet twice: when each has made and warmed its reader, and, the counters read, to start
//!   together. So what comes before the start is in no figure.
//! - The first wrong answer ends the stage.

use super::arrivals::{Arrivals, sleep_until};
use super::call::{Caller, Shared};
use super::outcome::{Failure, StageFigures};
use super::sample::{Seen, watch};
use super::state::State;
use crate::engine::{Account, Engine, Stall};
use crate::histogram::Latencies;
use crate::host::clocks::cpu_ns;
use crate::host::process::{self, Io, Memory};
use crate::plan::{Group, Pick, Stage};
use crate::random::{Zipf, mix};
use crate::records::Records;
use crate::sync_count::{self, SyncCount};
use anyhow::Result;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// What one thread did.
#[derive(Default)]
pub struct Tally {
    /// Calls that read.
    pub reads: Latencies,
    /// Calls that wrote.
    pub writes: Latencies,
    /// How late calls began whose thread was free.
    pub lag: Latencies,
    /// Records read and written.
    pub records: u64,
    /// Records written.
    pub written: u64,
    /// Arrivals that were due before the stage's end and were not served.
    pub unserved: u64,
    /// Time in the run queue.
    pub queue_wait_ns: u64,
    /// When the last call ended.
    pub ended: Option<Instant>,
}

impl Tally {
    /// Adds another thread's.
    pub fn add(&mut self, other: &Self) {
        self.reads.add(&other.reads);
        self.writes.add(&other.writes);
        self.lag.add(&other.lag);
        self.records += other.records;
        self.written += other.written;
        self.unserved += other.unserved;
        self.queue_wait_ns += other.queue_wait_ns;
        self.ended = self.ended.max(other.ended);
    }
}

/// What the threads of a stage share, whatever they call.
pub struct Field<'a> {
    stop: &'a AtomicBool,
    failure: &'a Mutex<Option<Failure>>,
    barrier: &'a Barrier,
    /// When the first thread had passed the barrier: the common start.
    start: &'a OnceLock<Instant>,
    /// When `stop` was set, where no failure did.
    end: &'a OnceLock<Instant>,
}

impl Field<'_> {
    fn stop(&self) {
        self.end.get_or_init(Instant::now);
        self.stop.store(true, Ordering::Release);
    }
}

/// A thread's place in its group.
#[derive(Clone, Copy)]
struct Place<'a> {
    group: &'a Group,
    thread: u64,
    rate_per_s: f64,
    calls: &'a AtomicU64,
}

/// What a stage is run on.
pub struct Ground<'a> {
    /// The database.
    pub engine: &'a dyn Engine,
    /// The records.
    pub records: &'a Records,
    /// What must be there.
    pub state: &'a State,
    /// Whether a synced write is a buffered one and a sync of its own.
    pub separate_sync: bool,
    /// Whether each thread that reads warms its own reader first.
    pub warm: bool,
}

/// Reads with which a thread warms its own reader.
const WARM_READS: u64 = 10_000;
/// Those of all threads of a stage, so that it takes about a second at the most.
const WARM_READS_ALL: u64 = 160_000;

/// Runs `stage`.
///
/// # Errors
/// A wrong answer, or the engine's error.
pub fn run(ground: &Ground<'_>, stage: &Stage, seed: u64) -> Result<StageFigures, Failure> {
    let Ground { engine, records, state, separate_sync, warm } = *ground;
    let zipfs: Vec<Option<Zipf>> = stage.group.iter().map(zipf).collect();
    let written: Vec<AtomicU64> = stage.group.iter().map(|_| AtomicU64::new(0)).collect();
    let shared: Vec<Shared<'_>> = stage
        .group
        .iter()
        .zip(&written)
        .map(|(group, written)| Shared { engine, records, state, group, written, separate_sync })
        .collect();
    let threads: u64 = stage.group.iter().map(|group| u64::from(group.threads)).sum();
    let warm_reads = WARM_READS.min(WARM_READS_ALL / threads.max(1));
    let make = |group: usize, thread: u64| {
        let seed = mix(seed ^ ((group as u64) << 32));
        let fail = |step: &str, error| Failure { step: step.into(), what: format!("{error:#}") };
        let mut caller = Caller::new(&shared[group], thread, seed, zipfs[group].as_ref())
            .map_err(|error| fail("call", error))?;
        let mix = &stage.group[group].mix;
        if warm && mix.write + mix.insert < 100 {
            caller.warm(warm_reads, seed).map_err(|error| fail("read", error))?;
        }
        Ok(move || caller.next())
    };
    drive(Some(engine), stage, &make)
}

fn zipf(group: &Group) -> Option<Zipf> {
    matches!(group.pick, Pick::Zipf | Pick::Newest).then(|| Zipf::new(group.working_set))
}

/// Runs a stage's threads, whatever their calls are.
///
/// # Errors
/// The first call's that failed.
pub fn drive<C>(
    engine: Option<&dyn Engine>,
    stage: &Stage,
    make: &(impl Fn(usize, u64) -> Result<C, Failure> + Sync),
) -> Result<StageFigures, Failure>
where
    C: FnMut() -> Result<super::call::Done, Failure>,
{
    let fail = |error: anyhow::Error| Failure { step: "setup".into(), what: format!("{error:#}") };
    let threads: u32 = stage.group.iter().map(|group| group.threads).sum();
    let calls: Vec<AtomicU64> = (0..threads).map(|_| AtomicU64::new(0)).collect();
    let (stop, failure) = (AtomicBool::new(false), Mutex::new(None));
    let (barrier, sampling) = (Barrier::new(threads as usize + 1), AtomicBool::new(false));
    let (start, end) = (OnceLock::new(), OnceLock::new());
    let field =
        Field { stop: &stop, failure: &failure, barrier: &barrier, start: &start, end: &end };
    let rates: Vec<f64> = stage.group.iter().map(|group| group.rate_per_s as f64).collect();
    let (before, start, tally, seen) = std::thread::scope(|scope| {
        let mut handles = Vec::new();
        let mut each = calls.iter();
        for (g, group) in stage.group.iter().enumerate() {
            for thread in 0..u64::from(group.threads) {
                let calls = each.next().expect("one counter for each thread");
                let place = Place { group, thread, rate_per_s: rates[g], calls };
                let (field, finite) = (&field, group.calls > 0);
                let work = move || one_thread(field, place, make(g, thread));
                handles.push((finite, scope.spawn(work)));
            }
        }
        barrier.wait();
        let before = Before::now(engine);
        if before.is_err() {
            field.stop();
        }
        barrier.wait();
        let start = *start.get_or_init(Instant::now);
        let io = before.as_ref().map_or(Io::default(), |before| before.io);
        let (calls, stop_sampling) = (&calls[..], &sampling);
        let sampler = scope.spawn(move || watch(engine, calls, start, io, stop_sampling));
        if stage.seconds > 0 {
            wait(Duration::from_secs(stage.seconds), &stop, &handles);
            field.stop();
        }
        let (finite, endless): (Vec<_>, Vec<_>) =
            handles.into_iter().partition(|(finite, _)| *finite);
        let mut tally = Tally::default();
        let join = |handle: std::thread::ScopedJoinHandle<'_, Tally>, tally: &mut Tally| {
            tally.add(&handle.join().expect("a caller reports, it does not panic"));
        };
        finite.into_iter().for_each(|(_, handle)| join(handle, &mut tally));
        field.stop();
        // Who has calls to make decides when the stage ended.
        let ended = tally.ended;
        endless.into_iter().for_each(|(_, handle)| join(handle, &mut tally));
        tally.ended = ended.or(tally.ended);
        sampling.store(true, Ordering::Release);
        sampler.thread().unpark();
        (before, start, tally, sampler.join().expect("the sampler reports, it does not panic"))
    });
    if let Some(failure) = failure.into_inner().expect("nobody panicked") {
        return Err(failure);
    }
    let before = before.map_err(fail)?;
    let figures = before.figures(engine, stage, start, tally, seen.map_err(fail)?);
    figures.map(|figures| StageFigures { rate_per_s: rates.iter().sum(), ..figures }).map_err(fail)
}

/// Waits for the stage's time, or until a failure has set `stop`, or every thread is done.
fn wait(
    time: Duration,
    stop: &AtomicBool,
    handles: &[(bool, std::thread::ScopedJoinHandle<'_, Tally>)],
) {
    let start = Instant::now();
    while start.elapsed() < time
        && !stop.load(Ordering::Acquire)
        && !handles.iter().all(|(_, handle)| handle.is_finished())
    {
        std::thread::sleep((time.saturating_sub(start.elapsed())).min(Duration::from_millis(5)));
    }
}

/// The calls of one thread: its share of the group's, or as many as there is time for.
fn one_thread<C>(field: &Field<'_>, place: Place<'_>, calls: Result<C, Failure>) -> Tally
where
    C: FnMut() -> Result<super::call::Done, Failure>,
{
    let Place { group, thread, rate_per_s, .. } = place;
    let threads = u64::from(group.threads);
    let quota = match group.calls {
        0 => u64::MAX,
        all => {
            let own = all / threads + u64::from(thread < all % threads);
            own.max(group.calls_per_thread_min)
        }
    };
    let mut tally = Tally::default();
    if rate_per_s > 0.0 {
        // The kernel wakes at the time asked for, not up to 50 microseconds later.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    }
    field.barrier.wait();
    let queue_before = process::own_queue_wait_ns().unwrap_or(0);
    field.barrier.wait();
    let start = *field.start.get_or_init(Instant::now);
    let arrivals = Arrivals { start, rate_per_s, thread, threads };
    let mut made = 0;
    let done = calls.and_then(|mut next| {
        for i in 0..quota {
            if field.stop.load(Ordering::Relaxed) {
                break;
            }
            let intended = (rate_per_s > 0.0).then(|| arrivals.at(i));
            // A stage that ends before its time has no such call: its latency would be none.
            if intended.is_some_and(|at| !sleep_until(at, field.stop, &mut tally.lag)) {
                break;
            }
            let call = next()?;
            let ns = (call.ended - intended.unwrap_or(call.began)).as_nanos() as u64;
            if call.wrote { &mut tally.writes } else { &mut tally.reads }.record(ns);
            tally.records += call.records;
            tally.written += call.written;
            tally.ended = Some(call.ended);
            made = i + 1;
            place.calls.store(made, Ordering::Relaxed);
        }
        let end = field.end.get().copied().unwrap_or_else(Instant::now);
        tally.unserved = arrivals.due(end).min(quota).saturating_sub(made);
        Ok(())
    });
    if let Err(wrong) = done {
        field.failure.lock().expect("nobody panics").get_or_insert(wrong);
        field.stop.store(true, Ordering::Release);
    }
    let queue_after = process::own_queue_wait_ns().unwrap_or(0);
    tally.queue_wait_ns = queue_after.saturating_sub(queue_before);
    tally
}

/// Counters before a stage.
struct Before {
    cpu_ns: u64,
    user_system: Option<(u64, u64)>,
    queue: std::collections::BTreeMap<String, u64>,
    syncs: SyncCount,
    io: Io,
    account: Account,
    peak_is_own: bool,
}

impl Before {
    fn now(engine: Option<&dyn Engine>) -> Result<Self> {
        Ok(Self {
            peak_is_own: process::reset_peak(),
            cpu_ns: cpu_ns(),
            user_system: process::user_system_ns(),
            queue: process::queue_waits(),
            syncs: sync_count::now(),
            io: Io::now()?,
            account: engine.map_or(Ok(Account::default()), |engine| engine.account())?,
        })
    }

    fn figures(
        self,
        engine: Option<&dyn Engine>,
        stage: &Stage,
        start: Instant,
        tally: Tally,
        seen: Seen,
    ) -> Result<StageFigures> {
        let after = process::queue_waits();
        let others: u64 = after
            .iter()
            .map(|(tid, ns)| ns.saturating_sub(self.queue.get(tid).copied().unwrap_or(0)))
            .sum();
        let spent = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        let now = process::user_system_ns();
        let account = engine.map_or(Ok(Account::default()), |engine| engine.account())?;
        let account = since(&account, &self.account);
        let memory = Memory { peak: Memory::now()?.peak, ..seen.memory };
        let end = tally.ended.unwrap_or_else(Instant::now);
        let calls = [&tally.reads, &tally.writes].map(|calls| calls.percentiles());
        Ok(StageFigures {
            name: stage.name.clone(),
            wall_ns: (end - start).as_nanos() as u64,
            calls: calls.iter().flatten().map(|calls| calls.count).sum(),
            records: tally.records,
            records_written: tally.written,
            reads: calls[0],
            writes: calls[1],
            start_lag: tally.lag.percentiles(),
            rate_per_s: 0.0,
            arrivals_unserved: tally.unserved,
            settle_after: None,
            cpu_ns: cpu_ns() - self.cpu_ns,
            user_ns: spent(now.map(|now| now.0), self.user_system.map(|then| then.0)),
            system_ns: spent(now.map(|now| now.1), self.user_system.map(|then| then.1)),
            queue_wait_ns: others + tally.queue_wait_ns,
            syncs: sync_count::now().since(&self.syncs),
            own_syncs: account.syncs,
            io: Io::now()?.since(self.io),
            memory,
            peak_is_own: self.peak_is_own,
            open_files: seen.open_files,
            account,
            samples: seen.samples,
        })
    }
}

/// What an engine's account grew by; `runs` is what it is now.
#[must_use]
pub fn since(now: &Account, then: &Account) -> Account {
    let grown = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then.unwrap_or(0)));
    let stalls = now.stalls.iter().map(|(cause, stall)| {
        let then = then.stalls.get(cause).copied().unwrap_or_default();
        let count = grown(stall.count, then.count);
        (cause.clone(), Stall { count, ns: grown(stall.ns, then.ns) })
    });
    Account {
        user_bytes: grown(now.user_bytes, then.user_bytes),
        log_bytes: grown(now.log_bytes, then.log_bytes),
        flush_bytes: grown(now.flush_bytes, then.flush_bytes),
        compaction_bytes: grown(now.compaction_bytes, then.compaction_bytes),
        syncs: grown(now.syncs, then.syncs),
        flushes: grown(now.flushes, then.flushes),
        compactions: grown(now.compactions, then.compactions),
        stalls: stalls.collect(),
        runs: now.runs,
    }
}
