//! A disk at one moment, and the images that a crash at that moment may leave.
//!
//! Invariants
//! - A snapshot costs a count per file, an image a copy of the files that are dirty.
//! - An image is a disk of which everything is durable: a crash of it later is a crash of its own.
//! - [`Snapshot::images`] gives distinct contents only, everything-survives first. It is exhaustive
//!   (over names, lengths, writes each kept, lost or torn at one seeded cut, and stale blocks shown
//!   or not) where that fits the limit; else nothing-survives follows, then each axis lost or kept
//!   alone, then picks at random in several manners.
//!
//! What the axes mean is told in `choice`, how a file is put together again in `file`.

use super::choice::{Axis, Choice, Pick};
use super::file::{Stale, Values, mix};
use super::frame::Disk;
use super::tree::{Node, ROOT, Tree};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

/// All that a disk and its page cache held at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    tree: Tree,
    calls: u64,
}

/// One disk that a crash may leave.
pub struct Image {
    /// What survived.
    pub choice: Choice,
    /// The disk.
    pub disk: Disk,
    /// Its [`Disk::content_hash`].
    pub hash: u64,
}

impl Snapshot {
    pub(super) fn new(tree: Tree, calls: u64) -> Self {
        Self { tree, calls }
    }

    pub(super) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The dirty set, as the axes along which a crash may go either way. Files that no version of
    /// a name leads to are not in it.
    #[must_use]
    pub fn choices(&self) -> Vec<Axis> {
        let sources = self.tree.stale.len() as u16 + 1;
        let mut axes = Vec::new();
        let seen = self.tree.reachable();
        for (ino, node) in self.tree.nodes.iter().enumerate().filter(|&(ino, _)| seen[ino]) {
            match node {
                Node::Dir(dir) => {
                    for (name, values) in dir.names.iter().filter(|(_, v)| v.is_dirty()) {
                        let stamps = values.versions().map(|(stamp, _)| stamp).collect();
                        axes.push(Axis::Name { dir: ino, name: name.clone(), stamps });
                    }
                }
                Node::File(file) => {
                    if file.lens().is_dirty() {
                        let stamps = file.lens().versions().map(|(stamp, _)| stamp).collect();
                        axes.push(Axis::Len { ino, stamps });
                    }
                    let bytes = |(index, (stamp, len))| Axis::Bytes { ino, index, stamp, len };
                    axes.extend(file.patches().enumerate().map(bytes));
                    if file.has_fresh() {
                        axes.push(Axis::Stale { ino, sources });
                    }
                }
                Node::Free => {}
            }
        }
        axes
    }

    /// The disk after the process was killed: nothing is lost, and what was not synced still is
    /// not (class K). Calls are counted on.
    #[must_use]
    pub fn killed(&self) -> Disk {
        let mut tree = self.tree.clone();
        tree.restart();
        let mut disk = Disk::with_tree(tree);
        disk.go_on(self.calls);
        disk
    }

    /// The choice with which everything survives.
    #[must_use]
    pub fn all(&self) -> Choice {
        Choice { picks: self.choices().iter().map(Axis::all).collect() }
    }

    /// The choice with which nothing survives that was not synced.
    #[must_use]
    pub fn none(&self) -> Choice {
        Choice { picks: vec![Pick::Lost; self.choices().len()] }
    }

    /// The disk that `choice` leaves. Axes without a pick are lost.
    #[must_use]
    pub fn image(&self, choice: &Choice) -> Disk {
        self.build(&self.choices(), &choice.picks)
    }

    fn build(&self, axes: &[Axis], picks: &[Pick]) -> Disk {
        let mut tree = self.tree.clone();
        let pick = |axis: usize| picks.get(axis).copied().unwrap_or(Pick::Lost);
        let mut at = 0;
        while at < axes.len() {
            if let Axis::Name { dir, name, stamps } = &axes[at] {
                if let Ok(values) = tree.dir_mut(*dir).map(|d| &mut d.names)
                    && let Some(values) = values.get_mut(name)
                {
                    let version = pick(at).version(stamps.len());
                    let kept = values.versions().nth(version).and_then(|(_, ino)| ino);
                    *values = Values::new(kept);
                }
                at += 1;
                continue;
            }
            let ino = axes[at].node();
            let own = axes[at..].iter().take_while(|axis| axis.node() == ino).count();
            if let Node::File(file) = &self.tree.nodes[ino] {
                let (mut len, mut bytes, mut stale) = (file.len(), at, None);
                for (i, axis) in axes.iter().enumerate().skip(at).take(own) {
                    match axis {
                        Axis::Len { stamps, .. } => {
                            let version = pick(i).version(stamps.len());
                            let kept = file.lens().versions().nth(version);
                            len = kept.map_or(len, |(_, len)| len);
                            bytes = i + 1;
                        }
                        Axis::Stale { .. } => {
                            if let Pick::Stale(source, seed) = pick(i) {
                                stale = Some(Stale { source: self.source(source), seed });
                            }
                        }
                        _ => {}
                    }
                }
                let file = file.survive(len, |index| pick(bytes + index).keep(), stale);
                tree.nodes[ino] = Node::File(Arc::new(file));
            }
            at += own;
        }
        tree.settle();
        Disk::with_tree(tree)
    }

    /// The stale bytes of that number: the freed files, newest first, then noise.
    pub(super) fn source(&self, number: u16) -> &[u8] {
        match self.tree.stale.iter().rev().nth(number as usize) {
            Some(content) => content.bytes(),
            None => &NOISE,
        }
    }

    /// Distinct images, at most `limit`; equal arguments give equal images.
    #[must_use]
    pub fn images(&self, limit: usize, seed: u64) -> Images<'_> {
        let axes = self.choices();
        let mut combinations: usize = 1;
        let mut picks = Vec::new();
        for axis in &axes {
            axis.coarse(seed, &mut picks);
            combinations = combinations.saturating_mul(picks.len());
        }
        let exhaustive = combinations <= limit;
        let tries = if exhaustive { combinations } else { limit.saturating_mul(4) };
        Images {
            snapshot: self,
            axes,
            seed,
            limit,
            tries,
            exhaustive,
            next: 0,
            seen: BTreeSet::new(),
        }
    }

    /// One choice, without building its image: everything survives (0), nothing does (1), one axis
    /// alone is lost or kept (2), or each is picked at random (3 and above).
    #[must_use]
    pub fn choice(&self, manner: usize, seed: u64) -> Choice {
        let (axes, limit) = (self.choices(), usize::MAX);
        let (tries, exhaustive, next, seen) = (limit, false, 0, BTreeSet::new());
        let images = Images { snapshot: self, axes, seed, limit, tries, exhaustive, next, seen };
        let picks = if manner < 3 { images.sample(manner) } else { images.random(manner as u64) };
        Choice { picks }
    }

    /// The dirty set and the fate of each part, one line each, for a failure report.
    #[must_use]
    pub fn describe(&self, choice: &Choice) -> String {
        let mut paths = vec![String::from("?"); self.tree.nodes.len()];
        self.tree.walk_versions(&mut |path, ino| paths[ino] = path.to_owned());
        let mut text = String::new();
        for (axis, pick) in self.choices().iter().zip(&choice.picks) {
            let path = &paths[axis.node()];
            let fate = Choice { picks: vec![*pick] };
            let _ = match axis {
                Axis::Name { name, .. } => {
                    let dir = if axis.node() == ROOT { "" } else { path };
                    writeln!(text, "{fate} name {dir}/{name}")
                }
                Axis::Len { .. } => writeln!(text, "{fate} length {path}"),
                Axis::Bytes { ino, index, .. } => {
                    let range = self.tree.file(*ino).map(|f| f.patch_range(*index));
                    let (from, to) = range.unwrap_or_default();
                    writeln!(text, "{fate} bytes {path}[{from}..{to}]")
                }
                Axis::Stale { .. } => writeln!(text, "{fate} stale {path}"),
            };
        }
        text
    }
}

/// Bytes that no engine wrote, for stale blocks of other programs.
static NOISE: [u8; 4096] = noise();

const fn noise() -> [u8; 4096] {
    let mut bytes = [0; 4096];
    let (mut i, mut x) = (0, 0x2545_f491_4f6c_dd2a_u64);
    while i < bytes.len() {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        bytes[i] = x as u8;
        i += 1;
    }
    bytes
}

/// The images of one snapshot; see [`Snapshot::images`].
pub struct Images<'a> {
    snapshot: &'a Snapshot,
    axes: Vec<Axis>,
    seed: u64,
    limit: usize,
    tries: usize,
    exhaustive: bool,
    next: usize,
    seen: BTreeSet<u64>,
}

impl Images<'_> {
    /// Whether the enumeration is exhaustive.
    #[must_use]
    pub fn is_exhaustive(&self) -> bool {
        self.exhaustive
    }

    fn picks(&self, number: usize) -> Vec<Pick> {
        if self.exhaustive { self.combination(number) } else { self.sample(number) }
    }

    /// The mixed-radix digits of `number`; 0 keeps all.
    fn combination(&self, mut number: usize) -> Vec<Pick> {
        let mut options = Vec::new();
        let mut pick = |axis: &Axis| {
            axis.coarse(self.seed, &mut options);
            let pick = options[number % options.len()];
            number /= options.len();
            pick
        };
        self.axes.iter().map(&mut pick).collect()
    }

    fn sample(&self, number: usize) -> Vec<Pick> {
        let all = || self.axes.iter().map(Axis::all);
        let none = || vec![Pick::Lost; self.axes.len()];
        // Half of the images go to the directed ones, in a seeded order where they are too many.
        let directed = (2 * self.axes.len()).min(self.limit / 2);
        match number {
            0 => all().collect(),
            1 => none(),
            n if n < 2 + directed => {
                let turn = (n - 2 + (mix(self.seed) as usize) % (2 * self.axes.len()))
                    % (2 * self.axes.len());
                let (axis, lose) = (turn / 2, turn.is_multiple_of(2));
                let mut picks = if lose { all().collect() } else { none() };
                picks[axis] = match (&self.axes[axis], lose) {
                    (Axis::Stale { sources, .. }, _) => Pick::Stale(turn as u16 % sources, 0),
                    (_, true) => Pick::Lost,
                    (_, false) => Pick::Kept,
                };
                picks
            }
            n => self.random(n as u64),
        }
    }

    fn random(&self, number: u64) -> Vec<Pick> {
        let start = mix(self.seed ^ mix(number));
        let manner = start % 5;
        let newest = self.snapshot.tree.stamp;
        // In order: everything up to a moment survived, nothing after it.
        let moment = newest - mix(start) % (newest.min(64) + 1);
        let mut n = start;
        let mut draw = || {
            n = n.wrapping_add(1);
            mix(n)
        };
        let mut pick = |axis: &Axis| {
            let r = draw();
            let file = mix(start ^ axis.node() as u64) & 1 == 0;
            let keep = match manner {
                0 => r % 2 == 0,
                1 => r % 8 != 0,
                2 => r % 8 == 0,
                3 => file,
                _ => true,
            };
            let torn = (r >> 32) % 6 == 0;
            match axis {
                Axis::Name { stamps, .. } | Axis::Len { stamps, .. } => {
                    let upto = if manner == 4 { moment } else { u64::MAX };
                    let versions = stamps.iter().filter(|&&s| s <= upto).count().max(1);
                    let any = (r >> 16) as usize % versions;
                    let version = if torn {
                        any
                    } else if keep {
                        versions - 1
                    } else {
                        0
                    };
                    Pick::Version(version as u16)
                }
                Axis::Bytes { stamp, len, .. } => {
                    let keep = if manner == 4 { *stamp <= moment } else { keep };
                    let torn = if manner == 4 { *stamp == moment } else { torn };
                    let cut = 1 + (draw() % u64::from(*len)) as u32;
                    match draw() % 3 {
                        _ if !torn || *len == 1 => {
                            if keep {
                                Pick::Kept
                            } else {
                                Pick::Lost
                            }
                        }
                        0 => Pick::Prefix(cut),
                        1 => Pick::Suffix(cut),
                        _ => Pick::Pieces(r as u32),
                    }
                }
                Axis::Stale { sources, .. } if r % 4 == 0 => {
                    Pick::Stale((r >> 8) as u16 % sources, (r >> 40) as u32 % 4)
                }
                Axis::Stale { .. } => Pick::Lost,
            }
        };
        self.axes.iter().map(&mut pick).collect()
    }
}

impl Iterator for Images<'_> {
    type Item = Image;

    fn next(&mut self) -> Option<Image> {
        while self.next < self.tries && self.seen.len() < self.limit {
            let picks = self.picks(self.next);
            self.next += 1;
            let disk = self.snapshot.build(&self.axes, &picks);
            let hash = disk.content_hash();
            if self.seen.insert(hash) {
                return Some(Image { choice: Choice { picks }, disk, hash });
            }
        }
        None
    }
}
