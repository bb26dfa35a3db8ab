//! A model of writer and disk that writes, syncs, rotates, flushes, crashes and recovers at random.
//!
//! It does to the bytes what the fault classes K, P and E allow: what was synced stays, of the rest
//! any part may be lost or hold stale bytes, and a log that was removed may come back. Judging must
//! never call that corruption, and must show every acknowledged write.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRng;

/// What the model does next.
#[derive(Clone, Copy, Debug)]
enum Op {
    /// A group of so many records, with so many bytes.
    Append(u32, usize),
    Sync,
    Mark,
    Rotate,
    /// What was written before the newest rotation, or all of it, becomes durable in tables.
    Flush(bool),
    /// Logs that are not needed are removed; the removal may not last.
    Collect,
    /// The power goes: any part of what was not synced is lost.
    Crash,
    /// The process dies: the page cache stays.
    Kill,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        8 => (1..4u32, 0..90usize).prop_map(|(count, len)| Op::Append(count, len)),
        3 => Just(Op::Sync),
        1 => Just(Op::Mark),
        3 => Just(Op::Rotate),
        2 => any::<bool>().prop_map(Op::Flush),
        1 => Just(Op::Collect),
        1 => Just(Op::Crash),
        1 => Just(Op::Kill),
    ];
    prop::collection::vec(op, 1..60)
}

/// Writer and disk in one.
struct Model {
    logs: Vec<MemLog>,
    /// Removed, but perhaps not for long.
    removed: Vec<MemLog>,
    start: Start,
    synced: LogPosition,
    next_seq: u64,
    next_file: u64,
    /// The last sequence before the newest rotation.
    rotated: u64,
    /// Acknowledged as durable.
    acked: u64,
    rng: TestRng,
}

impl Model {
    fn new(rng: TestRng) -> Self {
        let mut model = Self {
            logs: Vec::new(),
            removed: Vec::new(),
            start: Start::default(),
            synced: LogPosition::default(),
            next_seq: 1,
            next_file: 1,
            rotated: 0,
            acked: 0,
            rng,
        };
        model.begin_log(first_header());
        model
    }

    fn chance(&mut self, one_in: u32) -> bool {
        self.rng.next_u32().is_multiple_of(one_in)
    }

    fn log(&mut self) -> &mut MemLog {
        self.logs.last_mut().expect("there is always a log")
    }

    fn begin_log(&mut self, header: LogHeader) {
        let mut log = MemLog::new(self.next_file, self.next_seq, header, self.synced);
        // A prepared log's header is not synced by anyone yet.
        log.synced = if self.chance(2) { log.end } else { 0 };
        self.next_file += 1 + u64::from(self.rng.next_u32() % 3);
        self.logs.push(log);
    }

    fn payload(first: u64, len: usize) -> Vec<u8> {
        let mut payload = first.to_le_bytes().to_vec();
        payload.resize(8 + len, 0xa5);
        payload
    }

    fn step(&mut self, op: Op) -> Result<()> {
        let synced = self.synced;
        match op {
            Op::Append(count, len) => {
                let first = self.next_seq;
                let payload = Self::payload(first, len);
                self.log().push(FrameKind::Group, first, count, &payload, synced);
                self.next_seq += u64::from(count);
            }
            Op::Sync => {
                // Logs below the manifest's floor are in tables and may be left unsynced.
                let floor = self.start.log_floor.0;
                for log in self.logs.iter_mut().filter(|log| log.number >= floor) {
                    log.synced = log.end;
                }
                self.synced = self.log().position();
                self.acked = self.next_seq - 1;
            }
            Op::Mark => {
                let next = self.next_seq;
                self.log().push(FrameKind::Watermark, next, 0, b"", synced);
            }
            Op::Rotate => {
                self.rotated = self.next_seq - 1;
                let header = after(self.log());
                self.begin_log(header);
            }
            Op::Flush(all) => {
                let upto = if all { self.next_seq - 1 } else { self.rotated };
                self.start.flushed = self.start.flushed.max(SeqNo(upto));
                self.start.synced = self.start.synced.max(synced);
                let flushed = self.start.flushed.0;
                let needed = self.logs.iter().position(|log| log.last > flushed);
                let needed = needed.unwrap_or(self.logs.len() - 1);
                let floor = FileNumber(self.logs[needed].number);
                self.start.log_floor = self.start.log_floor.max(floor);
                self.acked = self.acked.max(flushed);
            }
            Op::Collect => self.collect(),
            Op::Crash => self.crash(true)?,
            Op::Kill => self.crash(false)?,
        }
        Ok(())
    }

    fn collect(&mut self) {
        let floor = self.start.log_floor.0;
        let (gone, kept) = self.logs.drain(..).partition(|log: &MemLog| log.number < floor);
        self.logs = kept;
        self.removed.extend::<Vec<_>>(gone);
        if self.chance(2) {
            self.removed.clear();
        }
    }

    /// Loses some of what was not synced, recovers, checks, and begins anew.
    fn crash(&mut self, power: bool) -> Result<()> {
        let stale: Vec<Vec<u8>> = self.removed.iter().map(|log| log.bytes.clone()).collect();
        let back: Vec<_> = self.removed.drain(..).collect();
        let back: Vec<_> = back.into_iter().filter(|_| power && self.chance(2)).collect();
        self.logs.extend(back);
        self.logs.sort_by_key(|log| log.number);
        let mut logs = std::mem::take(&mut self.logs);
        for log in logs.iter_mut().filter(|_| power) {
            self.damage_unsynced(log, &stale);
        }
        let replay = judged(&logs, &self.start)?;
        self.check(&logs, &replay);
        assert!(power || replay.last_seq.0 + 1 == self.next_seq, "D2: nothing is lost by a kill");
        // Recovery puts everything shown into tables and starts above all that it saw.
        self.start.flushed = replay.seq_floor;
        self.start.log_floor = FileNumber(self.next_file);
        self.start.synced = LogPosition::default();
        self.synced = LogPosition::default();
        (self.acked, self.rotated) = (replay.seq_floor.0, replay.seq_floor.0);
        self.next_seq = replay.seq_floor.0 + 1;
        for log in logs.iter_mut().filter(|_| power) {
            log.end = log.end.min(log.bytes.len());
            log.synced = log.end;
        }
        self.removed = logs;
        self.begin_log(first_header());
        Ok(())
    }

    fn damage_unsynced(&mut self, log: &mut MemLog, stale: &[Vec<u8>]) {
        let mut at = log.synced;
        let stale = stale.get(self.rng.next_u32() as usize % 3);
        let keep_all = self.chance(4);
        // Beyond what was written a preallocated file may show what its blocks held before.
        let end = if self.chance(2) { log.end } else { log.bytes.len() };
        while at < end && !keep_all {
            let next = (at + 1 + (self.rng.next_u32() % 64) as usize).min(end);
            match (self.rng.next_u32() % 3, stale.and_then(|stale| stale.get(at..next))) {
                (0, None) => log.bytes[at..next].fill(0),
                (0, Some(stale)) => log.bytes[at..next].copy_from_slice(stale),
                (1, None) if self.chance(4) => log.bytes[at..next].fill(0x6c),
                _ => {}
            }
            at = next;
        }
        if self.chance(4) {
            log.bytes.truncate(log.synced.max(log.end.saturating_sub(40)));
        }
    }

    fn check(&self, logs: &[MemLog], replay: &Replay) {
        let mut next = self.start.flushed.0 + 1;
        for &(log, frame) in &replay.frames {
            let frame = logs[log].scan().frames[frame].clone();
            assert_eq!(frame.first.0, next, "D3: no hole, nothing twice");
            let payload = &logs[log].bytes[frame.payload.clone()];
            assert_eq!(payload, Self::payload(next, payload.len() - 8), "D3: no invention");
            next += u64::from(frame.count);
        }
        assert_eq!(replay.last_seq.0, next - 1);
        assert!(replay.last_seq.0 >= self.acked, "D1: {} of {}", replay.last_seq.0, self.acked);
        assert!(replay.last_seq.0 < self.next_seq, "D3: no invention");
    }

    /// Damages one byte that is known to be synced and judges again.
    fn damage_synced(&mut self) -> std::result::Result<(), TestCaseError> {
        let before = judged(&self.logs, &self.start).expect("nothing is damaged yet");
        let scans: Vec<LogScan> = self.logs.iter().map(MemLog::scan).collect();
        let known = scans.iter().map(|scan| scan.max_synced).max().unwrap_or_default();
        let known = known.max(self.start.synced);
        let log = (self.rng.next_u32() as usize) % self.logs.len();
        let end = match self.logs[log].number.cmp(&known.log.0) {
            std::cmp::Ordering::Less => self.logs[log].end,
            std::cmp::Ordering::Equal => known.offset as usize,
            std::cmp::Ordering::Greater => return Ok(()),
        };
        let byte = (self.rng.next_u32() as usize) % end;
        self.logs[log].bytes[byte] ^= 1 << (self.rng.next_u32() % 8);
        // The witness itself may be the damaged frame: then less is known.
        match judged(&self.logs, &self.start) {
            Err(error) => prop_assert!(error.is_corruption()),
            Ok(after) => {
                let scans: Vec<LogScan> = self.logs.iter().map(MemLog::scan).collect();
                let still = scans.iter().map(|scan| scan.max_synced).max().unwrap_or_default();
                let still = still.max(self.start.synced);
                let harmless = after.last_seq == before.last_seq;
                prop_assert!(harmless || still < known, "C1: {before:?} became {after:?}");
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// D1, D3, D4 under K, P and E: never a false alarm, never a lost acknowledgement.
    #[test]
    fn whatever_a_crash_leaves_is_a_cut_with_every_durable_write(ops in ops(), seed: u64) {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let rng = TestRng::from_seed(proptest::test_runner::RngAlgorithm::ChaCha, &key);
        let mut model = Model::new(rng);
        for op in ops.into_iter().chain([Op::Crash, Op::Crash]) {
            model.step(op).map_err(|e| TestCaseError::fail(format!("false alarm: {e}")))?;
        }
    }

    /// C1: a damaged byte below the watermark is corruption or harmless.
    #[test]
    fn damage_to_what_is_known_synced_is_reported_or_harmless(ops in ops(), seed: u64) {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let rng = TestRng::from_seed(proptest::test_runner::RngAlgorithm::ChaCha, &key);
        let mut model = Model::new(rng);
        for op in ops {
            model.step(op).map_err(|e| TestCaseError::fail(format!("false alarm: {e}")))?;
        }
        model.damage_synced()?;
    }

    /// Any bytes: an answer or a typed error.
    #[test]
    fn any_logs_are_judged_without_panic(
        logs in vec((vec(any::<u8>(), 0..600), 0..600usize), 0..4),
        flush in 0..12u64,
        floor in 0..6u64,
    ) {
        let mut own = two_logs(at(3, 168)).to_vec();
        for (i, (bytes, place)) in logs.iter().enumerate() {
            let log = &mut own[i % 2];
            for (at, byte) in bytes.iter().enumerate() {
                let at = (place + at) % log.bytes.len();
                log.bytes[at] ^= byte & if i < 2 { 0xff } else { 1 };
            }
        }
        let start = Start { log_floor: FileNumber(floor), ..flushed(flush) };
        let _ = judged(&own, &start);
    }
}
