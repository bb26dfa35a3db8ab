//! Images of short logs, against what they must and must not hold.

use super::*;
use crate::kill::wire::Kind;
use std::collections::BTreeSet;

fn write(at: u64, byte: u8, len: usize) -> Entry {
    Entry::Write { at, bytes: vec![byte; len].into() }
}

fn byte(image: &Image, at: u64) -> u8 {
    let mut to = [0];
    image.top.read(&image.base, at, &mut to);
    to[0]
}

fn image(entries: &[Entry], at: usize, kept: Kept) -> Image {
    Folder::new(entries, Pages::default()).image(&Cut { at, kept })
}

#[test]
fn writes_across_pages_are_read_back_through_both_layers() {
    let (mut below, mut top) = (Pages::default(), Pages::default());
    let bytes: Vec<u8> = (0..10_000).map(|i| (i % 251) as u8).collect();
    below.write(&Pages::default(), 4000, &bytes);
    top.write(&below, 8190, &[255; 4]);
    let mut to = vec![0; 10_100];
    top.read(&below, 3950, &mut to);
    assert_eq!((&to[..50], &to[50..4240]), (&[0; 50][..], &bytes[..4190]));
    assert_eq!((&to[4240..4244], &to[4244..10_050]), (&[255; 4][..], &bytes[4194..]));
    assert_eq!((top.len(), below.len()), (2, 4));
}

#[test]
fn a_discard_hides_what_is_below_and_touches_nothing_else() {
    let (mut below, mut top) = (Pages::default(), Pages::default());
    below.write(&Pages::default(), 0, &[7; 3 * PAGE as usize]);
    top.discard(&below, 100, 2 * PAGE);
    let mut to = vec![9; 3 * PAGE as usize];
    top.read(&below, 0, &mut to);
    let zeros = 100..100 + 2 * PAGE as usize;
    let all = || to.iter().enumerate();
    assert!(all().all(|(i, byte)| *byte == if zeros.contains(&i) { 0 } else { 7 }));
    below.discard(&Pages::default(), 0, 1 << 40);
    assert!(below.is_empty());
    top.discard(&below, 0, 1 << 40);
    assert!(top.is_empty());
}

#[test]
fn what_was_flushed_stays_whatever_is_lost() {
    let note = Entry::Note(Note::new(Kind::Opened));
    let log = [write(0, 1, 512), Entry::Flush, write(0, 2, 512), note, write(8192, 3, 512)];
    for at in 2..=log.len() {
        for seed in 0..200 {
            let image = image(&log, at, Kept::Some(seed));
            assert!([1, 2].contains(&byte(&image, 0)), "at {at} seed {seed}");
            assert!(at == log.len() || byte(&image, 8192) == 0, "what had not happened");
        }
    }
    assert_eq!(byte(&image(&log, 1, Kept::All), 0), 1);
    assert_eq!(image(&log, 2, Kept::Some(1)).open, 0, "a flush leaves nothing open");
    assert_eq!(byte(&image(&log, 5, Kept::All), 0), 2);
}

#[test]
fn every_subset_of_three_writes_is_drawn_and_sectors_tear() {
    let log = [write(0, 1, 1024), write(4096, 2, 1024), write(8192, 3, 1024)];
    let (mut whole, mut torn) = (BTreeSet::new(), BTreeSet::new());
    for seed in 0..2000 {
        let image = image(&log, 3, Kept::Some(seed));
        let sectors: Vec<bool> = [0, 512, 4096, 4608, 8192, 8704]
            .into_iter()
            .map(|at| byte(&image, at) != 0 && byte(&image, at + 511) == byte(&image, at))
            .collect();
        let halves = sectors.chunks(2).filter(|pair| pair[0] != pair[1]).count();
        assert_eq!(image.torn, halves, "seed {seed}");
        if halves > 0 {
            torn.insert(sectors)
        } else {
            whole.insert(sectors)
        };
    }
    assert_eq!(whole.len(), 8);
    assert!(torn.len() > 20, "{}", torn.len());
}

#[test]
fn the_later_of_two_writes_wins_and_equal_images_have_equal_digests() {
    let log = [write(0, 1, 512), write(0, 2, 512), Entry::Flush, write(0, 2, 512)];
    assert_eq!(byte(&image(&log, 2, Kept::All), 0), 2);
    let mut seen = BTreeSet::new();
    let mut digests = BTreeSet::new();
    for seed in 0..200 {
        let image = image(&log, 2, Kept::Some(seed));
        seen.insert(byte(&image, 0));
        digests.insert(image.digest);
    }
    assert_eq!((seen.len(), digests.len()), (3, 3));
}

#[test]
fn a_folder_goes_along_the_log_and_agrees_with_a_fresh_one() {
    let mut log = Vec::new();
    for i in 0..60_u64 {
        log.push(write(i % 7 * 1536, i as u8 + 1, 1024 + i as usize));
        if i % 5 == 0 {
            log.push(Entry::Flush);
        }
        if i % 11 == 0 {
            log.push(Entry::Discard { at: i % 3 * 4096, len: 4096 });
        }
    }
    let mut folder = Folder::new(&log, Pages::default());
    for at in 0..=log.len() {
        for kept in [Kept::All, Kept::Some(at as u64)] {
            let (one, other) = (folder.image(&Cut { at, kept }), image(&log, at, kept));
            assert_eq!(one.digest, other.digest);
            let read = |image: &Image| {
                let mut to = vec![0; 20_000];
                image.top.read(&image.base, 0, &mut to);
                to
            };
            assert_eq!(read(&one), read(&other), "at {at}");
        }
    }
}
