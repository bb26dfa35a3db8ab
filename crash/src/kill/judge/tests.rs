//! Small lives, judged by hand.

use super::*;

fn write(writer: u8, seq: Option<u64>, after: u64, records: &[Record]) -> Write {
    let records = records.to_vec();
    Write { writer, n: 0, records, seq, issued: 0, durable: None, after }
}

fn life(writes: Vec<Write>) -> Life {
    Life { before: State::from([(1, 10)]), start: 100, writes }
}

fn promise(life: &Life, shown: &[(u32, u64)]) -> &'static str {
    let shown = shown.iter().copied().collect();
    judge(life, &shown).expect_err("a promise broke").promise
}

fn survivors(life: &Life, shown: &[(u32, u64)]) -> usize {
    judge(life, &shown.iter().copied().collect()).expect("it may be so").0
}

#[test]
fn every_acknowledged_write_survives_and_one_in_doubt_may() {
    let mut one = life(vec![
        write(0, Some(101), 100, &[(1, Some(11))]),
        write(1, Some(102), 100, &[(2, Some(12))]),
        write(2, None, 101, &[(2, None)]),
    ]);
    assert_eq!(survivors(&one, &[(1, 11), (2, 12)]), 0);
    assert_eq!(survivors(&one, &[(1, 11)]), 1);
    assert_eq!(promise(&one, &[(1, 10), (2, 12)]), "D2");
    assert_eq!(promise(&one, &[(1, 11), (2, 99)]), "D3", "nobody wrote it");
    assert_eq!(promise(&one, &[(1, 11), (2, 12), (3, 1)]), "D3");
    assert_eq!(promise(&one, &[(2, 12)]), "D2", "nobody removed it");
    one.writes[0].durable = Some(1);
    assert_eq!(promise(&one, &[(1, 10), (2, 12)]), "D1");
    assert_eq!(promise(&life(Vec::new()), &[]), "D4");
}

#[test]
fn sequences_are_the_order_of_time_and_given_once() {
    let early = life(vec![
        write(0, Some(105), 100, &[(1, Some(11))]),
        write(1, Some(104), 105, &[(2, Some(12))]),
    ]);
    assert_eq!(promise(&early, &[(1, 11), (2, 12)]), "D3");
    let twice = life(vec![
        write(0, Some(102), 100, &[(1, Some(11)), (3, Some(13))]),
        write(1, Some(101), 100, &[(2, Some(12))]),
    ]);
    assert_eq!(promise(&twice, &[(1, 11), (2, 12), (3, 13)]), "C2");
    let old = life(vec![write(0, Some(100), 0, &[(1, Some(11))])]);
    assert_eq!(promise(&old, &[(1, 11)]), "C2");
}

#[test]
fn a_batch_in_doubt_is_whole_or_absent() {
    let one = life(vec![
        write(0, Some(101), 100, &[(1, Some(11))]),
        write(1, None, 100, &[(1, Some(21)), (2, Some(22))]),
    ]);
    assert_eq!(survivors(&one, &[(1, 21), (2, 22)]), 1);
    assert_eq!(survivors(&one, &[(1, 11)]), 0);
    assert_eq!(promise(&one, &[(1, 21)]), "A1");
    assert_eq!(promise(&one, &[(1, 11), (2, 22)]), "A1", "it follows what is acknowledged");
    let hidden = life(vec![
        write(0, None, 100, &[(1, Some(21)), (2, Some(22))]),
        write(1, None, 100, &[(1, Some(31))]),
    ]);
    assert_eq!(survivors(&hidden, &[(1, 31), (2, 22)]), 2, "a later one may cover it");
}

#[test]
fn a_hole_is_filled_by_writes_in_doubt() {
    let hole = |after| {
        life(vec![
            write(0, Some(104), 100, &[(1, Some(11))]),
            write(1, None, after, &[(1, Some(21)), (2, Some(22))]),
            write(2, None, 100, &[(3, Some(33))]),
        ])
    };
    assert_eq!(survivors(&hole(100), &[(1, 11), (2, 22), (3, 33)]), 2);
    assert_eq!(promise(&hole(100), &[(1, 11), (2, 22)]), "D3", "the hole has three sequences");
    assert_eq!(promise(&hole(100), &[(1, 21), (2, 22), (3, 33)]), "D3", "it fills the hole");
    assert_eq!(promise(&hole(103), &[(1, 11), (2, 22), (3, 33)]), "D3", "it began too late");
    let none = life(vec![write(0, Some(102), 100, &[(1, Some(11))])]);
    assert_eq!(promise(&none, &[(1, 11)]), "D3", "nobody has the sequence before");
}

#[test]
fn many_writes_in_doubt_are_judged_soon() {
    let mut writes = vec![write(0, Some(109), 100, &[(1, Some(11))])];
    for writer in 1..=8u8 {
        let id = u64::from(writer) + 20;
        writes.push(write(writer, None, 100, &[(u32::from(writer) + 1, Some(id))]));
    }
    let all: Vec<(u32, u64)> =
        (1..=8).map(|w| (w + 1, u64::from(w) + 20)).chain([(1, 11)]).collect();
    assert_eq!(survivors(&life(writes.clone()), &all), 8);
    let most: Vec<_> = all[1..].to_vec();
    assert_eq!(promise(&life(writes), &most), "D3");
}
