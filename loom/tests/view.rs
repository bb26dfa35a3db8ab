//! The published view against the published sequence under loom.
//!
//! Compiled from the production sources (`src/engine/view.rs`, `src/memtable`,
//! `src/engine/snapshots.rs`, `src/maintain/retain.rs`). A flush copies what retention keeps into
//! a memtable here, which stands for the table: it reads no differently, and needs no file.

mod common;

use common::outcomes;
use kiban_loom::base::key::{Kind, SeqNo};
use kiban_loom::env::sync::{Arc, AtomicU64, Ordering};
use kiban_loom::rig::maintain::retain::Retain;
use kiban_loom::rig::version::Version;
use kiban_loom::rig::{Cursor, Frozen, Memtable, MemtableWriter, Snapshots, View, Views};
use loom::thread;

/// For three entries of 25 bytes.
const ARENA_BYTES: usize = 256;

struct World {
    views: Views,
    published: AtomicU64,
    snapshots: Snapshots,
}

impl World {
    /// `a` at sequence 1, in the active memtable, published.
    fn new() -> (Arc<Self>, MemtableWriter) {
        let (mut writer, active) = Memtable::with_room(ARENA_BYTES);
        insert(&mut writer, 1);
        let version = Arc::new(Version::default());
        let world = Self {
            views: Views::new(View { active, frozen: Vec::new(), version }),
            published: AtomicU64::new(1),
            snapshots: Snapshots::default(),
        };
        (Arc::new(world), writer)
    }

    fn write(&self, writer: &mut MemtableWriter, seq: u64) {
        insert(writer, seq);
        self.published.store(seq, Ordering::Release);
    }

    fn freeze(&self, last: u64) -> MemtableWriter {
        let (next, active) = Memtable::with_room(ARENA_BYTES);
        self.views.update(|view| view.freeze(SeqNo(last), active));
        next
    }

    /// Replaces the oldest frozen memtable by what retention keeps of it.
    fn flush(&self) {
        let view = self.views.load();
        let oldest = view.frozen.last().expect("one is frozen");
        let (mut writer, table) = Memtable::with_room(ARENA_BYTES);
        let mut retain = Retain::new(&self.snapshots.sample(&self.published), true);
        let mut cursor = oldest.memtable.cursor();
        cursor.seek_first().expect("a memtable never fails");
        while let Some(entry) = cursor.entry() {
            if retain.keep(entry) {
                writer.insert(entry.key, entry.seq, entry.kind, entry.value);
            }
            cursor.next().expect("a memtable never fails");
        }
        let table = Frozen { memtable: table, last: oldest.last };
        self.views.update(|view| {
            let mut frozen = view.frozen.clone();
            *frozen.last_mut().expect("only a flush takes it") = table;
            View { active: view.active.clone(), frozen, version: view.version.clone() }
        });
    }

    /// The published sequence of a read, and the version of `a` that it found.
    fn read(&self) -> (u64, Option<u64>) {
        let (view, at) = self.views.read_point(&self.published);
        (at.0, view.in_memory(b"a", at).map(|entry| entry.seq.0))
    }
}

fn insert(writer: &mut MemtableWriter, seq: u64) {
    writer.insert(b"a", SeqNo(seq), Kind::Put, &[seq as u8; 24]);
}

/// The writer overwrites `a` as 2, freezes, flushes (the table holds 2 alone), and writes 3 into
/// the next memtable. Allowed, as (published, found): (1, 1), (2, 2), (3, 3), and (3, 2) where the
/// view is the one before the freeze: a read of that instant. Forbidden: nothing found, which a
/// reader gets that loads the sequence first; and a version older than the view's (R1).
/// Not bounded in preemptions.
#[test]
fn a_read_beside_freeze_and_flush_finds_what_was_there() {
    let seen = outcomes(None, || {
        let (world, mut writer) = World::new();
        let reader = {
            let world = world.clone();
            thread::spawn(move || world.read())
        };
        world.write(&mut writer, 2);
        let mut writer = world.freeze(2);
        world.flush();
        world.write(&mut writer, 3);
        reader.join().expect("no panic")
    });
    assert_eq!(seen, [(1, Some(1)), (2, Some(2)), (3, Some(2)), (3, Some(3))].into());
}

/// One memtable is frozen; a flush replaces it while the next one is frozen. Allowed: both changes
/// are in the last view. Forbidden: one of them lost. Bounded at three preemptions.
#[test]
fn no_change_of_the_view_is_lost() {
    let seen = outcomes(Some(3), || {
        let (world, _) = World::new();
        let mut writer = world.freeze(1);
        let before = world.views.load().frozen[0].memtable.clone();
        world.write(&mut writer, 2);
        let flusher = {
            let world = world.clone();
            thread::spawn(move || world.flush())
        };
        drop(world.freeze(2));
        flusher.join().expect("no panic");
        let view = world.views.load();
        let lasts: Vec<u64> = view.frozen.iter().map(|frozen| frozen.last.0).collect();
        let oldest = view.frozen.last().expect("never empty");
        (lasts, Arc::ptr_eq(&oldest.memtable, &before))
    });
    assert_eq!(seen, [(vec![2, 1], false)].into());
}
