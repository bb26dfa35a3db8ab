//! The exact check of M2 over entries. `structure` is tested beside `apply`.

use super::*;
use crate::error::Error;
use std::path::Path;

type Entries = Vec<Result<(Vec<u8>, SeqNo)>>;

fn run(entries: &[(&str, u64)]) -> Entries {
    entries.iter().map(|&(key, seq)| Ok((key.as_bytes().to_vec(), SeqNo(seq)))).collect()
}

fn check(runs: Vec<Entries>) -> Result<Option<Violation>> {
    entries(runs.into_iter().map(Entries::into_iter).collect())
}

#[test]
fn ranges_that_cross_are_fine_as_long_as_no_keys_versions_do() -> Result<()> {
    let newer = run(&[("a", 21), ("n", 20)]);
    assert_eq!(check(vec![newer, run(&[("d", 29), ("d", 3)])])?, None);
    assert_eq!(
        check(vec![run(&[("a", 9), ("a", 8)]), run(&[]), run(&[("a", 7), ("b", 6)])])?,
        None
    );
    assert_eq!(check(vec![])?, None);
    Ok(())
}

#[test]
fn an_older_version_in_a_newer_run_is_found() -> Result<()> {
    let found =
        check(vec![run(&[("a", 1), ("b", 9), ("b", 4)]), run(&[("c", 1)]), run(&[("b", 5)])])?;
    let violation = Violation { key: b"b".to_vec(), newer: (0, SeqNo(4)), older: (2, SeqNo(5)) };
    assert_eq!(found, Some(violation));
    // The same entry twice is one as well.
    assert!(check(vec![run(&[("b", 5)]), run(&[("b", 5)])])?.is_some());
    Ok(())
}

#[test]
fn an_error_of_a_run_is_not_its_end() {
    let mut broken = run(&[("a", 2)]);
    broken.push(Err(Error::corruption(Path::new("t"), 0, "damaged")));
    assert!(check(vec![broken, run(&[("b", 1)])]).is_err());
}
