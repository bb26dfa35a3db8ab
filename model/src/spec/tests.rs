//! The specification holds within its bounds, and each seeded defect breaks a promise.

use super::commit::{Action, Budget, Defect};
use super::{BOUNDS, check};
use kiban::env::probe::Stage;

#[test]
fn every_promise_holds_in_every_state_within_the_bounds() {
    let mut unreached: Option<Vec<&str>> = None;
    for (budget, states) in BOUNDS {
        let checked = check(budget, None);
        println!("{} states, depth {}, within {budget:?}", checked.states, checked.depth);
        assert_eq!(checked.broken, Vec::new());
        assert_eq!(checked.states, states, "BOUNDS and docs/TESTING.md give the number of states");
        let still = |case: &&str| unreached.as_ref().is_none_or(|before| before.contains(case));
        unreached = Some(checked.unreached.into_iter().filter(still).collect());
    }
    assert_eq!(unreached, Some(Vec::new()), "some bounds must reach each case");
}

/// Checks that `defect` breaks each of `promises`, and that each is a short story.
fn breaks(defect: Defect, promises: &[&str]) {
    let budget = Budget { writes: 2, rotations: 1, marks: 0, crashes: 2, faults: 1 };
    for promise in promises {
        let checked = check(budget, Some((defect, promise)));
        let found = checked.broken.iter().find(|(name, _)| name.starts_with(promise));
        let (name, steps) = found.expect("the defect breaks the promise");
        println!("{defect:?} breaks {name} in {} steps: {steps:?}", steps.len());
        assert!(steps.len() <= 16, "{} steps", steps.len());
    }
}

macro_rules! defects {
    ($($test:ident: $defect:ident breaks $($promise:literal)+;)*) => { $(
        #[test]
        fn $test() {
            breaks(Defect::$defect, &[$($promise),+]);
        }
    )* };
}

defects! {
    rotating_without_a_sync_of_the_old_log: RotateWithoutSync breaks "D1" "V1";
    retrying_a_failed_sync: RetryFailedSync breaks "D1" "V1" "P1";
    replaying_past_a_hole: PastHole breaks "D3";
    acknowledging_before_the_sync: AckBeforeSync breaks "D1" "V1";
    not_syncing_the_new_logs_name: NoLogDirSync breaks "D1" "V1";
    marking_as_synced_what_came_later: SyncCoversLater breaks "D1" "V1";
    claiming_appended_bytes_as_synced: EagerWatermark breaks "C1";
    claiming_bytes_in_a_nameless_log: WatermarkIgnoresName breaks "C1";
    acknowledging_after_a_failure: AckAfterFailure breaks "P1";
    deciding_in_the_old_logs: DecideInPlace breaks "D4" "V1";
    opening_before_the_directory_sync: OpenBeforeDirSync breaks "D4" "O3";
    naming_a_table_that_was_not_synced: TableNotSynced breaks "D1" "D4" "O3";
    going_on_after_the_last_sequence_shown: NoSequenceJump breaks "C2";
}

#[test]
fn every_step_is_named_as_the_engines_stage() {
    let steps = [
        Action::Append(true),
        Action::Mark,
        Action::SyncBegin,
        Action::Publish,
        Action::LogSyncDir(true),
        Action::Rotate(true),
        Action::RecoverLogs,
        Action::RecoverBuild(true),
        Action::CurrentRename,
        Action::CurrentSyncDir(true),
    ];
    for step in steps {
        let name = step.stage().expect("only crashes have no stage");
        assert!(Stage::ALL.iter().any(|stage| stage.name() == name), "no stage {name}");
    }
}
