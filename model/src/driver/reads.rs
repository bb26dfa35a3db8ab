//! Point reads and scans at a view, compared with the oracle.
//!
//! - V2: a read after a write returned sees it. G1: a removed or replaced value does not return.
//! - S1: a snapshot's reads never change. S2: scans from both ends agree with point reads, since
//!   both agree with the oracle.

use super::verdict::admitted;
use super::{Door, Driver, Mismatch, Outcome};
use crate::ops::{Key, SLOTS, Span, View, Walk};
use crate::oracle;
use crate::value::Value;
use kiban::{Iter, Slice, Snapshot};
use std::ops::Bound;

type Done = Result<Outcome, Mismatch>;

/// Where a read goes, and what it must answer.
pub(super) struct At<'a> {
    kiban: &'a Door,
    snapshot: Option<&'a Snapshot>,
    pub(super) seq: u64,
    /// Made by a handle that is closed by now: `Error::Closed` is the answer.
    closed: bool,
}

impl At<'_> {
    fn promise(&self) -> &'static str {
        if self.snapshot.is_some() { "S1" } else { "V2" }
    }

    fn get(&self, key: &[u8]) -> kiban::Result<Option<Slice>> {
        self.snapshot.map_or_else(|| self.kiban.get(key), |snapshot| snapshot.get(key))
    }

    pub(super) fn open(&self, span: &Span) -> kiban::Result<Iter> {
        match (self.snapshot, span) {
            (None, Span::Range(lo, hi)) => self.kiban.range((lo.clone(), hi.clone())),
            (None, Span::Prefix(prefix)) => self.kiban.prefix(prefix),
            (Some(at), Span::Range(lo, hi)) => at.range((lo.clone(), hi.clone())),
            (Some(at), Span::Prefix(prefix)) => at.prefix(prefix),
        }
    }

    /// `Some` where the handle was closed: then only that error is right.
    pub(super) fn closed<T>(&self, result: &kiban::Result<T>) -> Option<Done> {
        self.closed.then(|| closed(result))
    }
}

/// Whether a call to a closed handle was told so.
pub(super) fn closed<T>(result: &kiban::Result<T>) -> Done {
    match result {
        Err(kiban::Error::Closed) => Ok(Outcome::Done),
        Err(other) => Err(Mismatch::new("P1", "Error::Closed", other.to_string())),
        Ok(_) => Err(Mismatch::new("P1", "Error::Closed", "Ok")),
    }
}

impl Driver {
    pub(super) fn at(&self, view: View) -> At<'_> {
        let kiban = self.open_db();
        let live = At { kiban, snapshot: None, seq: self.truth.oracle.last_seq(), closed: false };
        let View::Snapshot(slot) = view else { return live };
        match &self.snapshots[usize::from(slot) % SLOTS] {
            Some(held) => At {
                snapshot: Some(&held.snapshot),
                seq: held.seq,
                closed: held.epoch != self.epoch,
                ..live
            },
            None => live,
        }
    }

    /// Judges one value.
    fn judge(
        &self,
        promise: &'static str,
        seq: u64,
        key: &[u8],
        want: Option<&Value>,
        got: Option<&[u8]>,
    ) -> Result<(), Mismatch> {
        let same = match (want, got) {
            (None, None) => true,
            (Some(want), Some(got)) => want.equals(got),
            _ => false,
        };
        if same {
            return Ok(());
        }
        let returned = got.is_some_and(|got| self.truth.oracle.was(key, got, seq));
        let promise = if returned { "G1" } else { promise };
        Err(Mismatch::value(promise, want.map(Value::to_vec).as_deref(), got))
    }

    pub(super) fn get(&mut self, key: &Key, view: View) -> Done {
        let at = self.at(view);
        let result = at.get(key);
        if let Some(done) = at.closed(&result) {
            return done;
        }
        let (promise, seq) = (at.promise(), at.seq);
        let got = admitted!(self.tolerance.sort(promise, result));
        let want = self.truth.oracle.get(key, seq);
        self.judge(promise, seq, key, want, got.as_deref())?;
        self.slices.hold(got)?;
        Ok(Outcome::Done)
    }

    pub(super) fn get_with(&mut self, key: &Key, view: View) -> Done {
        let at = self.at(view);
        let want = self.truth.oracle.get(key, at.seq);
        let compare = |got: &[u8]| match want {
            Some(want) if want.equals(got) => None,
            _ => Some(got.to_vec()),
        };
        let result = match at.snapshot {
            Some(snapshot) => snapshot.get_with(key, compare),
            None => at.kiban.get_with(key, compare),
        };
        if let Some(done) = at.closed(&result) {
            return done;
        }
        match admitted!(self.tolerance.sort(at.promise(), result)) {
            Some(None) => Ok(Outcome::Done),
            Some(Some(wrong)) => {
                self.judge(at.promise(), at.seq, key, want, Some(&wrong)).map(|()| Outcome::Done)
            }
            None => self.judge(at.promise(), at.seq, key, want, None).map(|()| Outcome::Done),
        }
    }

    pub(super) fn multi_get(&mut self, keys: &[Key], view: View) -> Done {
        let at = self.at(view);
        let result = match at.snapshot {
            Some(snapshot) => snapshot.multi_get(keys),
            None => at.kiban.multi_get(keys),
        };
        if let Some(done) = at.closed(&result) {
            return done;
        }
        let got = admitted!(self.tolerance.sort(at.promise(), result));
        if got.len() != keys.len() {
            let expected = format!("{} answers", keys.len());
            return Err(Mismatch::new("S2", expected, got.len().to_string()));
        }
        for (key, got) in keys.iter().zip(&got) {
            let want = self.truth.oracle.get(key, at.seq);
            self.judge(at.promise(), at.seq, key, want, got.as_deref())?;
        }
        Ok(Outcome::Done)
    }

    pub(super) fn scan(&mut self, span: &Span, view: View, walk: Walk) -> Done {
        let at = self.at(view);
        let result = at.open(span);
        if let Some(done) = at.closed(&result) {
            return done;
        }
        let mut iter = admitted!(self.tolerance.sort(at.promise(), result));
        let (lo, hi) = oracle::bounds(span);
        self.walk(&mut iter, &mut Window { lo, hi }, at.seq, walk)
    }

    /// Walks an iterator beside the oracle; `window` is what both have left, before and after.
    pub(super) fn walk(&self, iter: &mut Iter, window: &mut Window, seq: u64, walk: Walk) -> Done {
        let mut want = self.truth.oracle.between(window.lo.clone(), window.hi.clone(), seq);
        let (mut front, mut back) = (None, None);
        let mut outcome = Outcome::Done;
        for i in 0..walk.limit.unwrap_or(u32::MAX) {
            let is_back = walk.is_back(i);
            let got = if is_back { iter.next_back() } else { iter.next() };
            let got = match got.transpose().map_err(|error| (self.tolerance.admits(&error), error))
            {
                Ok(got) => got,
                Err((true, error)) => {
                    outcome = Outcome::Failed(error);
                    check_failed(iter)?;
                    break;
                }
                Err((false, error)) => {
                    return Err(Mismatch::new("S2", "no error", error.to_string()));
                }
            };
            let want = if is_back { want.next_back() } else { want.next() };
            self.same_item(want, got.as_ref(), seq)?;
            match want {
                Some((key, _)) if is_back => back = Some(key),
                Some((key, _)) => front = Some(key),
                None => {
                    check_exhausted(iter)?;
                    *window = Window::empty();
                    return Ok(Outcome::Done);
                }
            }
        }
        let (front, back) = (front.cloned(), back.cloned());
        window.lo = front.map_or_else(|| window.lo.clone(), Bound::Excluded);
        window.hi = back.map_or_else(|| window.hi.clone(), Bound::Excluded);
        Ok(outcome)
    }

    fn same_item(
        &self,
        want: Option<(&Key, &Value)>,
        got: Option<&(Slice, Slice)>,
        seq: u64,
    ) -> Result<(), Mismatch> {
        match (want, got) {
            (None, None) => Ok(()),
            (Some((key, want)), Some((got_key, got))) if **key == **got_key => {
                self.judge("S2", seq, key, Some(want), Some(got))
            }
            (want, got) => {
                let text = |key: Option<&[u8]>| key.map_or("the end".into(), crate::text::brief);
                // A key that was there once, where another or none should come, has come back.
                let returned =
                    got.is_some_and(|(key, value)| self.truth.oracle.was(key, value, seq));
                let promise = if returned { "G1" } else { "S2" };
                let want = text(want.map(|(key, _)| &**key));
                Err(Mismatch::new(promise, want, text(got.map(|(key, _)| &**key))))
            }
        }
    }
}

/// What an iterator has left.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) lo: Bound<Key>,
    pub(super) hi: Bound<Key>,
}

impl Window {
    /// Nothing.
    pub(super) fn empty() -> Self {
        Self { lo: Bound::Excluded(Vec::new()), hi: Bound::Excluded(Vec::new()) }
    }
}

/// An iterator at its end stays there, from both ends, without an error.
fn check_exhausted(iter: &mut Iter) -> Result<(), Mismatch> {
    let again = iter.next_back().or_else(|| iter.next());
    if let Some(item) = again {
        return Err(Mismatch::new("S2", "the end again", format!("{item:?}")));
    }
    iter.status().map_err(|error| Mismatch::new("S2", "no error", error.to_string()))
}

/// An error is yielded once, then nothing, and `status` keeps it.
fn check_failed(iter: &mut Iter) -> Result<(), Mismatch> {
    let again = iter.next().or_else(|| iter.next_back());
    if let Some(item) = again {
        return Err(Mismatch::new("S2", "nothing after an error", format!("{item:?}")));
    }
    match iter.status() {
        Ok(()) => Err(Mismatch::new("S2", "the error in status", "Ok")),
        Err(_) => Ok(()),
    }
}
