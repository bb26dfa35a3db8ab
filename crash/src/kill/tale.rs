//! What a victim told, made into writes that can be judged.
//!
//! Invariants
//! - A write is acknowledged if its return was told, refused if it was told so, and in doubt
//!   otherwise.
//! - Durable is a write that asked for it and returned, whose receipt was called, or that returned
//!   before a sync began which returned.

use super::Fault;
use super::judge::{State, Write};
use super::life::{End, Life};
use super::plan::{self, How, Step};
use super::wire::{Kind, Note};
use std::collections::BTreeMap;

/// A victim's life as writes.
#[derive(Debug, Default)]
pub(crate) struct Tale {
    /// Those that were not refused.
    pub(crate) writes: Vec<Write>,
    /// Calls that returned.
    pub(crate) done: u64,
    /// The highest sequence that was acknowledged.
    pub(crate) acked: u64,
    /// Notes heard.
    heard: usize,
    /// Writes with a receipt, by index, in the order in which the receipts were called.
    receipts: Vec<usize>,
    /// Indices of writes in the order of their returns.
    returned: Vec<usize>,
    /// For each writer's current sync, how many writes had returned when it was issued.
    syncs: BTreeMap<u8, usize>,
    /// Writes by writer and step.
    index: BTreeMap<(u8, u32), usize>,
    refused: Vec<usize>,
}

/// What went wrong in a life by itself, whatever the next one shows.
pub(super) fn check_life(life: &Life) -> Result<(), Fault> {
    let what = "a life of the victim";
    for note in &life.notes {
        match note.kind {
            Kind::Wrong => {
                let (promise, text) = note.text.split_once(' ').unwrap_or(("-", &note.text));
                return Err(Fault::new(promise, what, "what the promise says", text));
            }
            Kind::Failed if note.a == 1 => return Err(Fault::environment(&*note.text)),
            Kind::Failed => {
                return Err(Fault::new("B1", what, "no error on a healthy disk", &*note.text));
            }
            _ => {}
        }
    }
    match life.end {
        End::Hung => {
            let fault = Fault::new("B1", what, "an end in time", life.place());
            Err(Fault { hang: true, ..fault })
        }
        End::Exited(status) if !status.success() => {
            let got = format!("{status}: {}", life.stderr.trim_end());
            Err(Fault::new("-", what, "an orderly end, or ours", got))
        }
        _ => Ok(()),
    }
}

/// Listens to a working life.
pub(super) fn tell(seed: u64, number: u32, life: &Life) -> Result<Tale, Fault> {
    tell_notes(seed, number, &life.notes)
}

/// Listens to the notes of a working life.
pub(crate) fn tell_notes<'a>(
    seed: u64,
    number: u32,
    notes: impl IntoIterator<Item = &'a Note>,
) -> Result<Tale, Fault> {
    let mut tale = Tale::default();
    let mut ended = false;
    for note in notes {
        tale.hear(seed, number, note);
        ended |= note.kind == Kind::Ended;
        tale.heard += 1;
    }
    tale.check_receipts(seed, number, ended)?;
    for refused in &tale.refused {
        // Without a record it has no effect to look for.
        tale.writes[*refused].records.clear();
    }
    tale.writes.retain(|write| !write.records.is_empty());
    Ok(tale)
}

impl Tale {
    fn hear(&mut self, seed: u64, number: u32, note: &Note) {
        let (writer, n) = (note.writer, note.n);
        match note.kind {
            Kind::Issued => match plan::step(seed, number, writer, n) {
                Step::Write(records, _) => {
                    self.index.insert((writer, n), self.writes.len());
                    let (seq, durable, after) = (None, None, self.acked);
                    let issued = self.heard;
                    self.writes.push(Write { writer, n, records, seq, issued, durable, after });
                }
                Step::Sync => {
                    self.syncs.insert(writer, self.returned.len());
                }
                _ => {}
            },
            Kind::Done => {
                self.done += 1;
                match plan::step(seed, number, writer, n) {
                    Step::Write(_, how) => self.returned(writer, n, note.a, how),
                    Step::Sync => {
                        let covered = self.syncs.remove(&writer).unwrap_or(0);
                        for &write in &self.returned[..covered] {
                            self.writes[write].durable.get_or_insert(self.heard);
                        }
                    }
                    _ => {}
                }
            }
            Kind::Durable => {
                if let Some(&write) = self.index.get(&(writer, n)) {
                    self.durable(write);
                    self.receipts.push(write);
                }
            }
            Kind::Refused => self.refused.extend(self.index.get(&(writer, n))),
            _ => {}
        }
    }

    fn returned(&mut self, writer: u8, n: u32, seq: u64, how: How) {
        let Some(&write) = self.index.get(&(writer, n)) else { return };
        self.writes[write].seq = Some(seq);
        if how == How::Durable {
            self.durable(write);
        }
        self.returned.push(write);
        self.acked = self.acked.max(seq);
    }

    fn durable(&mut self, write: usize) {
        self.writes[write].durable.get_or_insert(self.heard);
    }

    /// Receipts come once each, in the order of their sequences, and all of them where the victim
    /// closed.
    fn check_receipts(&self, seed: u64, number: u32, ended: bool) -> Result<(), Fault> {
        let what = "receipts";
        let seqs: Vec<u64> =
            self.receipts.iter().filter_map(|write| self.writes[*write].seq).collect();
        if !seqs.is_sorted_by(|a, b| a < b) {
            let got = format!("sequences {seqs:?}");
            return Err(Fault::new("V1", what, "one call each, in sequence order", got));
        }
        let asked = self.writes.iter().filter(|write| {
            let step = plan::step(seed, number, write.writer, write.n);
            write.seq.is_some() && matches!(step, Step::Write(_, How::Receipt))
        });
        let asked = asked.count();
        if ended && asked != seqs.len() {
            let got = format!("{} of {asked} calls", seqs.len());
            return Err(Fault::new("B1", what, "a call for each before the end", got));
        }
        Ok(())
    }
}

/// The state that an examining victim told, its last sequence and its digest.
pub(super) fn shown(life: &Life) -> Result<(State, u64, u64), Fault> {
    let entries = life.notes.iter().filter(|note| note.kind == Kind::Entry);
    let state = entries.map(|note| (note.n, note.a)).collect();
    match life.first(Kind::Examined) {
        Some(note) => Ok((state, note.a, note.b)),
        None => Err(Fault::new("B1", "an examination", "an end", life.place())),
    }
}
