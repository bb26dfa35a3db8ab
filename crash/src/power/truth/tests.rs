//! Small tales, and what images of their moments may and may not show.

use super::*;
use crate::kill::plan::{How, Step};

const SEED: u64 = 7;

/// A tale of one writer: its first writes, each told as issued and done.
struct Story {
    entries: Vec<Entry>,
    seq: u64,
    n: u32,
}

impl Story {
    fn new() -> Self {
        let opening = [Note::new(Kind::Opening), Note::new(Kind::Opened)];
        Self { entries: opening.map(Entry::Note).to_vec(), seq: 0, n: 0 }
    }

    /// The next write that `wanted` takes; its records.
    fn write(&mut self, wanted: impl Fn(&[Record], How) -> bool, done: bool) -> Vec<Record> {
        loop {
            let n = self.n;
            self.n += 1;
            let Step::Write(records, how) = plan::step(SEED, 0, 0, n) else { continue };
            if !wanted(&records, how) {
                continue;
            }
            self.tell(Note::step(Kind::Issued, 0, n));
            if done {
                self.seq += records.len() as u64;
                self.tell(Note { a: self.seq, ..Note::step(Kind::Done, 0, n) });
            }
            return records;
        }
    }

    fn tell(&mut self, note: Note) {
        self.entries.push(Entry::Note(note));
    }

    fn truth(&self, faulty: bool) -> Truth {
        Truth::tell(SEED, &self.entries, faulty.then_some(0))
            .unwrap_or_else(|fault| panic!("{fault:?}"))
    }
}

/// A put of a key that is not in `state`, so that no other cut has the same state.
fn put(records: &[Record]) -> bool {
    records.iter().all(|(_, id)| id.is_some())
}

fn judge(truth: &Truth, at: usize, state: &State) -> Result<usize, &'static str> {
    let found = truth.judge(at, state_hash(state), true, || Ok(state.clone()));
    found
        .map_err(|fault| ["D1", "V1", "D3", "A1"].into_iter().find(|p| *p == fault.promise))
        .map_err(|promise| promise.expect("a promise of these"))
}

#[test]
fn a_cut_lies_between_what_is_durable_and_what_was_issued() {
    let mut story = Story::new();
    for how in [How::Buffered, How::Durable, How::Buffered, How::Buffered] {
        story.write(|records, h| h == how && put(records), true);
    }
    let truth = story.truth(false);
    let states: Vec<State> = (0..=4).map(|cut| truth.state(cut)).collect();
    let end = story.entries.len();
    let verdicts: Vec<_> = states.iter().map(|state| judge(&truth, end, state)).collect();
    assert_eq!(verdicts, [Err("D1"), Err("D1"), Ok(2), Ok(3), Ok(4)]);
    // Before the durable one returned, and before the last was issued.
    assert_eq!(judge(&truth, 5, &states[0]), Ok(0));
    assert_eq!(judge(&truth, end - 2, &states[4]), Err("D3"));
    assert_eq!((truth.floor_at(end), truth.writes(), truth.last_sequence(4)), (2, 4, story.seq));
    let acknowledged = [2, 4, end - 2, end].map(|at| truth.acknowledged_at(at));
    assert_eq!(acknowledged, [0, 1, 3, 4], "of a cut, and not of the whole session");
}

#[test]
fn what_was_read_of_a_durable_write_is_durable_before_it_is_acknowledged() {
    let mut story = Story::new();
    story.write(|records, how| how == How::Durable && put(records), false);
    let n = story.n - 1;
    story.tell(Note::step(Kind::Seen, 0, n));
    story.tell(Note { a: 9, ..Note::step(Kind::Done, 0, n) });
    let truth = story.truth(false);
    assert_eq!(judge(&truth, 3, &State::new()), Ok(0));
    assert_eq!(judge(&truth, 4, &State::new()), Err("V1"));
    assert_eq!(judge(&truth, 5, &State::new()), Err("D1"), "acknowledged, by then");
}

#[test]
fn a_part_of_a_batch_is_no_cut_and_neither_is_a_hole() {
    let mut story = Story::new();
    story.write(|records, _| put(records) && records.len() == 1, true);
    let batch =
        story.write(|records, h| h == How::Buffered && put(records) && records.len() > 2, true);
    let truth = story.truth(false);
    let end = story.entries.len();
    let mut part = truth.state(1);
    part.insert(batch[0].0, batch[0].1.expect("a put"));
    assert_eq!(judge(&truth, end, &part), Err("A1"));
    let mut hole = truth.state(2);
    let first = truth.state(1).into_keys().next().expect("one key");
    if !batch.iter().any(|record| record.0 == first) {
        hole.remove(&first);
        assert_eq!(judge(&truth, end, &hole), Err("D3"));
    }
}

#[test]
fn a_failed_write_is_there_whole_or_not_at_all_and_a_liar_owes_nothing() {
    let mut story = Story::new();
    story.write(|records, how| how == How::Durable && put(records), true);
    let failed = story.write(|records, _| put(records) && records.len() > 1, false);
    story.tell(Note::words(Kind::Failed, "an error of the device"));
    assert!(Truth::tell(SEED, &story.entries, None).is_err(), "on a healthy device");
    let truth = story.truth(true);
    let end = story.entries.len();
    let mut with = truth.state(1);
    assert_eq!(judge(&truth, end, &with), Ok(1));
    with.extend(failed.iter().map(|(key, id)| (*key, id.expect("a put"))));
    assert_eq!(judge(&truth, end, &with), Ok(1));
    assert_eq!(judge(&truth, end, &State::new()), Err("D1"));
    let hash = state_hash(&State::new());
    assert!(truth.judge(end, hash, false, || Ok(State::new())).is_ok());
}

#[test]
fn a_sequence_that_comes_twice_is_seen_whatever_an_image_shows() {
    let mut story = Story::new();
    story.write(|records, _| put(records), true);
    story.seq = 0;
    story.write(|records, _| put(records), true);
    let told = Truth::tell(SEED, &story.entries, None);
    assert!(told.is_err_and(|fault| fault.promise == "C2"));
}

#[test]
fn what_is_acknowledged_after_a_failed_sync_breaks_p1() {
    let failed = |b| Note { writer: 3, n: 0, b, ..Note::words(Kind::Failed, "sync log") };
    let mut story = Story::new();
    story.write(|records, _| put(records), true);
    let before = story.n;
    story.n += 1;
    story.tell(Note::step(Kind::Issued, 0, before));
    story.tell(failed(0));
    story.write(|records, _| put(records), true);
    assert_eq!(story.truth(true).failed.len(), 1, "a failed read proves nothing");
    story.tell(failed(1));
    // What was under way then may have been done before.
    story.tell(Note { a: 90, ..Note::step(Kind::Done, 0, before) });
    assert!(Truth::tell(SEED, &story.entries, Some(0)).is_ok());
    let told = Truth::tell(SEED, &story.entries, Some(1));
    assert!(told.is_err_and(|fault| fault.promise == "B1"), "this life's device is healthy");
    for (begun, done) in [(Kind::Issued, Kind::Done), (Kind::Copying, Kind::Copied)] {
        let mut story = Story { entries: story.entries.clone(), ..story };
        if begun == Kind::Copying {
            story.tell(Note::step(begun, 9, 0));
            story.tell(Note::step(done, 9, 0));
        } else {
            story.seq = 100;
            story.write(|records, _| put(records), true);
        }
        let told = Truth::tell(SEED, &story.entries, Some(0));
        assert!(told.is_err_and(|fault| fault.promise == "P1"), "{begun:?}");
    }
}
