//! What to merge next. Pure: a function of a version and of options, the same answer every time.
//!
//! Lazy leveling: small runs gather in tiers above one bottom run. A run belongs to the tier of its
//! size; when a tier has `fanout` runs they become one run of the next. When the oldest tiers have
//! `above_percent` of the bottom's bytes, they go into the bottom, one key range after the other:
//! no step rewrites more than about `slice_bytes`, and space does not double. So a byte is written
//! once for each tier and about `1 + 100 / above_percent` times at the bottom, and what stands
//! above it takes little more than `above_percent` of its space. A run that overlaps nothing in the
//! next older one just moves into it.
//!
//! Order of choice: (1) too many runs; (2) a move; (3) a full tier, newest first, above what is on
//! its way into the bottom; (4) the next range of that.
//!
//! Rejected: a fixed number of tiers. Each merge rewrites all of a large bottom for little.
//!
//! Invariants
//! - A plan has at least two runs, adjacent, and the newest of them has something in the range.
//! - B1: with `runs_max` runs there is always a plan that makes them fewer in one step, unless
//!   damaged tables are in the way; without a plan every tier has fewer than `fanout` runs.
//! - Repeated picking ends (B120): every plan makes the runs fewer or moves keys down into the
//!   bottom, and nothing moves up.
//! - No plan reads a fenced table.
//!
//! It opens no table and knows nothing of time.

use crate::base::key::FileNumber;
use crate::version::{KeyRange, Plan, Reason, Run, TableSlice, Version};
use std::collections::BTreeSet;
use std::ops::Range;

/// What the choice depends on, beside the version.
#[derive(Clone, Copy, Debug)]
pub struct PickOptions {
    /// How many runs make a tier full; at least 2. Lower while writes pause: fewer runs to read.
    pub fanout: usize,
    /// How much may stand above the bottom run, in percent of it, before it goes into it. Less is
    /// less space and fewer runs to read, more is less to write.
    pub above_percent: u64,
    /// How many runs are too many: there is a plan then, whatever it costs.
    pub runs_max: usize,
    /// About the size of a flush: the unit of the tiers.
    pub unit_bytes: u64,
    /// The size at which a merge begins a new table.
    pub table_bytes: u64,
    /// How much one step of a bottom merge reads, about; a table more at the most on each run.
    pub slice_bytes: u64,
}

/// What to do next, if anything. Tables in `fenced` are damaged and must not be read.
#[must_use]
pub fn pick(
    version: &Version,
    options: &PickOptions,
    fenced: &BTreeSet<FileNumber>,
) -> Option<Plan> {
    let picker = Picker { runs: Runs(version), options, fenced };
    picker.pressure().or_else(|| picker.move_down()).or_else(|| picker.tiers())
}

struct Runs<'a>(&'a Version);

struct Picker<'a> {
    runs: Runs<'a>,
    options: &'a PickOptions,
    fenced: &'a BTreeSet<FileNumber>,
}

impl<'a> Runs<'a> {
    fn get(&self, at: usize) -> &'a Run {
        &self.0.runs[at]
    }

    fn len(&self) -> usize {
        self.0.runs.len()
    }

    fn slices(&self, runs: Range<usize>) -> impl Iterator<Item = &'a TableSlice> {
        self.0.runs[runs].iter().flat_map(|run| run.slices().iter())
    }

    fn bytes(&self, runs: Range<usize>) -> u64 {
        self.0.runs[runs].iter().map(|run| run.bytes()).sum()
    }

    fn full_bytes(&self, runs: Range<usize>) -> u64 {
        self.0.runs[runs].iter().map(|run| run.full_bytes()).sum()
    }
}

impl Picker<'_> {
    fn fanout(&self) -> usize {
        self.options.fanout.max(2)
    }

    fn bottom(&self) -> usize {
        self.runs.len().saturating_sub(1)
    }

    /// The tier of a run of this size: a tier ends halfway between one run of it and a full tier.
    fn tier(&self, bytes: u64) -> u32 {
        let fanout = self.fanout() as u64;
        let mut end = self.options.unit_bytes.max(1).saturating_mul(fanout + 1) / 2;
        let mut tier = 0;
        while bytes > end {
            end = end.saturating_mul(fanout);
            tier += 1;
        }
        tier
    }

    /// The runs `0..end` in groups of one tier, newest first. An older run counts to no newer tier
    /// than the runs above it, so that groups are adjacent.
    fn groups(&self, end: usize) -> Vec<Range<usize>> {
        let mut groups: Vec<Range<usize>> = Vec::new();
        let mut tier = 0;
        for at in 0..end {
            let own = self.tier(self.runs.get(at).full_bytes());
            match groups.last_mut() {
                Some(group) if own <= tier => group.end = at + 1,
                _ => groups.push(at..at + 1),
            }
            tier = tier.max(own);
        }
        groups
    }

    fn is_fenced(&self, slice: &TableSlice) -> bool {
        self.fenced.contains(&slice.meta.number)
    }

    /// The parts of `runs` that have no fenced table, those of one run left out; longest first,
    /// then newest first.
    fn unfenced(&self, runs: Range<usize>) -> Vec<Range<usize>> {
        let mut parts = Vec::new();
        let mut start = runs.start;
        for at in runs.start..=runs.end {
            if at == runs.end || self.runs.get(at).slices().iter().any(|s| self.is_fenced(s)) {
                parts.push(start..at);
                start = at + 1;
            }
        }
        parts.retain(|part| part.len() > 1);
        parts.sort_by_key(|part| (usize::MAX - part.len(), part.start));
        parts
    }

    fn whole(runs: Range<usize>, reason: Reason) -> Plan {
        Plan { runs, range: KeyRange::ALL, reason }
    }

    /// Too many runs: the first tier with two of them becomes one, else whatever can.
    fn pressure(&self) -> Option<Plan> {
        if self.runs.len() < self.options.runs_max.max(2) {
            return None;
        }
        let groups = self.groups(self.bottom());
        let parts = groups.into_iter().flat_map(|group| self.unfenced(group));
        let tiers = parts.max_by_key(|part| (part.len(), usize::MAX - part.start));
        let parts = || self.unfenced(0..self.bottom()).into_iter().next();
        let newest = tiers.or_else(parts).or_else(|| {
            // Two runs from the bottom on, when nothing above it can be merged.
            self.unfenced(0..self.runs.len()).into_iter().next().map(|part| part.end - 2..part.end)
        })?;
        Some(Self::whole(newest, Reason::Pressure))
    }

    /// A run whose tables are not small and overlap nothing in the next older run moves into it.
    /// Into the bottom only without tombstones: they would never be dropped there.
    fn move_down(&self) -> Option<Plan> {
        let may_move = |at: usize| {
            let (upper, lower) = (self.runs.get(at), self.runs.get(at + 1));
            let big = upper.bytes() / upper.slices().len() as u64 >= self.options.table_bytes / 4;
            let settled = at + 1 == self.bottom() || !lower.is_partial();
            let clean =
                at + 1 < self.bottom() || upper.slices().iter().all(|s| s.meta.tombstones == 0);
            let apart = |slice: &TableSlice| {
                let next = lower.slices().get(lower.first_reaching(slice.lower()));
                next.is_none_or(|next| !next.overlaps_slice(slice))
            };
            big && settled && clean && upper.slices().iter().all(apart)
        };
        let at = (0..self.bottom()).find(|&at| may_move(at))?;
        Some(Self::whole(at..at + 2, Reason::Move))
    }

    fn tiers(&self) -> Option<Plan> {
        let ripe = self.begun().or_else(|| self.ripe());
        let first = ripe.as_ref().map_or(self.bottom(), |runs| runs.start);
        let drain = || ripe.clone().and_then(|runs| self.drain(runs));
        let plan = self.full_tier(first).or_else(drain);
        // A damaged table may be in the way of every range.
        plan.or_else(|| self.full_tier(self.bottom()))
    }

    /// The newest full tier among the runs `0..end`.
    fn full_tier(&self, end: usize) -> Option<Plan> {
        let full = self.groups(end).into_iter().filter(|group| group.len() >= self.fanout());
        let part = full.flat_map(|group| self.unfenced(group)).next()?;
        Some(Self::whole(part, Reason::Tier))
    }

    /// Whether the bottom is worth rewriting for these runs, which end at it: they have, or had
    /// before the merge began, enough bytes for what the bottom was then.
    fn is_worth_bottom(&self, runs: Range<usize>) -> bool {
        let (full, left) = (self.runs.full_bytes(runs.clone()), self.runs.bytes(runs));
        let bottom = self.runs.bytes(self.bottom()..self.runs.len()).saturating_sub(full - left);
        u128::from(full) * 100 >= u128::from(bottom) * u128::from(self.options.above_percent)
    }

    /// The runs that a bottom merge has begun to empty: from the newest partial one on. A run that
    /// lost only a little, to a compaction of some range, is let be.
    fn begun(&self) -> Option<Range<usize>> {
        let start = (0..self.bottom()).find(|&at| self.runs.get(at).is_partial())?;
        let runs = start..self.bottom();
        let mostly_gone = self.runs.bytes(runs.clone()) <= self.runs.full_bytes(runs.clone()) / 2;
        (mostly_gone || self.is_worth_bottom(runs.clone())).then_some(runs)
    }

    /// The oldest tiers that together are worth a bottom merge; newer ones wait for the next.
    fn ripe(&self) -> Option<Range<usize>> {
        let groups = self.groups(self.bottom());
        let tails = groups.iter().rev().map(|group| group.start..self.bottom());
        tails.into_iter().find(|runs| self.is_worth_bottom(runs.clone()))
    }

    /// The next key range of `runs`, which end at the bottom, to go into the bottom: the lowest one
    /// without a fenced table.
    fn drain(&self, runs: Range<usize>) -> Option<Plan> {
        let all = runs.start..self.runs.len();
        let mut from: Option<&[u8]> = None;
        loop {
            let range = self.next_range(&runs, from)?;
            let mut inside = self.runs.slices(all.clone()).filter(|s| s.overlaps(&range));
            if inside.all(|slice| !self.is_fenced(slice)) {
                let has =
                    |&at: &usize| self.runs.get(at).slices().iter().any(|s| s.overlaps(&range));
                let start = runs.clone().find(has)?;
                return Some(Plan { runs: start..all.end, range, reason: Reason::Bottom });
            }
            let hi = range.hi?;
            from = self.runs.slices(all.clone()).map(TableSlice::lower).find(|&lower| lower == hi);
            from?;
        }
    }

    /// The range from the first key in `runs` at or above `from` on that the bottom's tables cut
    /// (or, beyond those, the runs' own), as long as it reads no more than the budget.
    fn next_range(&self, runs: &Range<usize>, from: Option<&[u8]>) -> Option<KeyRange> {
        let bottom = self.runs.get(self.bottom());
        let reached = |slice: &&TableSlice| from.is_none_or(|from| slice.reaches(from));
        let lower = self.runs.slices(runs.clone()).filter(reached).map(TableSlice::lower).min()?;
        let lower = from.map_or(lower, |from| from.max(lower));
        // A table of the bottom is taken whole, unless the last range ended within it.
        let lo = bottom.find(lower).map_or(lower, TableSlice::lower);
        let lo = from.map_or(lo, |from| from.max(lo));
        let after = |slice: &&TableSlice| slice.lower() > lower;
        let mut cuts: Vec<&[u8]> =
            bottom.slices().iter().filter(after).map(TableSlice::lower).collect();
        let beyond = cuts.last().copied().unwrap_or(lower);
        let own = self.runs.slices(runs.clone()).map(TableSlice::lower);
        cuts.extend(
            own.filter(|own| *own > beyond && !bottom.slices().iter().any(|s| s.covers(own))),
        );
        cuts.sort_unstable();
        let inputs: Vec<&TableSlice> =
            self.runs.slices(runs.start..self.runs.len()).filter(|s| s.reaches(lo)).collect();
        let reads = |hi: &[u8]| -> u64 {
            inputs.iter().filter(|slice| slice.lower() < hi).map(|slice| slice.meta.bytes).sum()
        };
        let total: u64 = inputs.iter().map(|slice| slice.meta.bytes).sum();
        let hi = (total > self.options.slice_bytes).then(|| {
            let fitting = cuts.partition_point(|cut| reads(cut) <= self.options.slice_bytes);
            cuts.get(fitting.saturating_sub(1)).map(|cut| cut.to_vec())
        });
        Some(KeyRange { lo: Some(lo.to_vec()), hi: hi.flatten() })
    }
}

#[cfg(test)]
mod tests;
