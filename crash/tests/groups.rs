//! Sweeps of single rows of the matrix of groups: what is counted, and that every cell is met.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use kiban_crash::report::Cell;
use kiban_crash::schedules::groups;
use kiban_crash::schedules::rows::{Kind, Row};
use kiban_crash::tally::Tally;

fn sweep(row: Row, ops_max: u32) -> Tally {
    let mut tally = Tally::default();
    for number in 0..groups::items(row, ops_max) {
        let ran = groups::run(row, number, &mut tally);
        ran.unwrap_or_else(|broken| panic!("{row:?} {number}: {broken:?}"));
    }
    tally
}

fn hit(tally: &Tally, row: Row, outcome: &str) -> Vec<Cell> {
    let cells = tally.rows.cells_of(row).into_iter();
    cells.filter(|cell| cell.outcome == outcome && cell.hits > 0).collect()
}

#[test]
fn one_write_alone_meets_every_row_that_one_can_meet() {
    for (row, name) in Row::ALL {
        let tally = sweep(row, 1);
        let (totals, kinds) = (&tally.totals, row.kinds().len() as u64);
        assert_eq!(totals.cases, kinds, "{name}");
        let alone = hit(&tally, row, "alone").len() as u64;
        match row {
            // One write fills no log, and has no follower.
            Row::Rotation | Row::SomeWoke => {
                assert_eq!((alone, totals.row_points, totals.images), (0, 0, 0), "{name}");
            }
            // A process that dies tears no append that was made in one piece.
            Row::TornAppend => assert_eq!(alone, 3, "{name}"),
            _ => assert_eq!(alone, 2 * kinds, "{name}"),
        }
        assert!(hit(&tally, row, "shared").is_empty(), "{name}");
        // Each call that can meet the fault is harmed once; then a schedule finds none left.
        let harmed = totals.errors_injected;
        if row == Row::LeaderPanic {
            assert_eq!((totals.schedules, harmed), (2 * kinds, 0), "{name}");
        } else {
            let faults = row.kinds().iter().filter(|kind| **kind != Kind::Plain).count() as u64;
            assert!(totals.schedules >= kinds + harmed, "{name}: {}", totals.schedules);
            assert!(harmed >= faults || row == Row::Rotation, "{name}: {harmed} calls harmed");
        }
    }
}

/// Three writers of one durable write each: the first leads alone, the others share a group.
#[test]
fn three_writers_meet_the_cells_of_shared_groups() {
    let sharing = groups::sharings(3).iter().rposition(|writers| writers.len() == 3);
    let sharing = sharing.expect("three writes can be shared among three writers") as u64;
    for (row, kind) in [
        (Row::BeforeAppend, Kind::Plain),
        (Row::SomeWoke, Kind::Plain),
        (Row::Rotation, Kind::Plain),
        (Row::FailedSync, Kind::Fault("sync_old")),
        (Row::LeaderPanic, row_panic()),
    ] {
        let kinds = row.kinds();
        let at = kinds.iter().position(|known| *known == kind).expect("the row admits it");
        let mut tally = Tally::default();
        let ran = groups::run(row, sharing * kinds.len() as u64 + at as u64, &mut tally);
        ran.unwrap_or_else(|broken| panic!("{row:?} {kind}: {broken:?}"));
        let shared = hit(&tally, row, "shared");
        let crashes: Vec<&str> = shared.iter().map(|cell| &*cell.fault).collect();
        assert_eq!(crashes, ["kill", "power"], "{row:?} {kind}");
        let totals = &tally.totals;
        println!("{row:?} {kind}: {totals:?}");
        assert!(totals.schedules > 100, "{row:?}: {} schedules", totals.schedules);
        assert!(totals.row_points > 100, "{row:?}: {} points", totals.row_points);
        assert!(totals.images > 20, "{row:?}: {} images", totals.images);
    }
}

fn row_panic() -> Kind {
    let panics = Row::LeaderPanic.kinds();
    *panics.iter().find(|kind| kind.to_string() == "commit.sync").expect("a stage of a leader")
}
