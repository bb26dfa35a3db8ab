//! What the generators reach, and that their output has a text form.

use crate::generate::{Mix, Plan, Seed, Source, strategies};
use crate::ops::{Case, Op};
use crate::text;
use proptest::prelude::*;
use std::collections::BTreeMap;

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_case_parses_back_from_its_text(case in strategies::case(Mix::Swarm, 40)) {
        let text = case.to_string();
        prop_assert_eq!(Case::parse(&text), Ok(case));
    }

    #[test]
    fn any_bytes_have_a_text_and_any_text_is_refused_or_parsed(
        bytes: Vec<u8>, line in "\\PC{0,40}", run in 0usize..40,
    ) {
        let mut bytes = bytes;
        bytes.extend(vec![7; run]);
        prop_assert_eq!(text::parse_bytes(&text::bytes_text(&bytes)), Ok(bytes));
        let _ = text::parse_op(&line);
    }

    #[test]
    fn a_fuzzers_bytes_give_a_case(bytes: Vec<u8>) {
        let mut bytes = arbitrary::Unstructured::new(&bytes);
        let case: Case = bytes.arbitrary().expect("any bytes give a case");
        prop_assert!(case.ops.len() <= 2000);
    }
}

#[test]
fn both_mixes_draw_every_kind_of_operation() {
    for mix in [Mix::Standard, Mix::Swarm] {
        let mut seen: BTreeMap<usize, u32> = BTreeMap::new();
        for seed in 0..150 {
            let mut source = Seed(seed);
            let plan = Plan::new(&mut source, mix);
            for op in plan.case(&mut source, 1000).ops {
                *seen.entry(op.kind()).or_default() += 1;
            }
        }
        let missing: Vec<_> = (0..Op::KINDS.len()).filter(|k| !seen.contains_key(k)).collect();
        assert!(missing.is_empty(), "{mix:?} never draws {missing:?}");
    }
}

/// The neighbours and sizes that real bugs hid behind (B93, B97, B112, B114) are drawn.
#[test]
fn edges_are_reached() {
    let mut reached = BTreeMap::new();
    let mut mark =
        |name: &'static str, hit: bool| *reached.entry(name).or_insert(0) += u32::from(hit);
    for seed in 0..200 {
        let mut source = Seed(seed);
        let plan = Plan::new(&mut source, Mix::Swarm);
        let case = plan.case(&mut source, 200);
        for op in &case.ops {
            if let Op::Put { key, value, .. } = op {
                mark("empty key", key.is_empty());
                mark("key 00", *key == [0]);
                mark("key ff", *key == [0xff]);
                mark("key ff ff", *key == [0xff, 0xff]);
                mark("longest key", key.len() == 65_535);
                mark("oversized key", key.len() > 65_535);
                mark("empty value", value.is_empty());
                mark("value of a block", value.len() as u64 == case.config.block_bytes);
                let copy_max = case.config.value_copy_bytes_max;
                mark("longest copied value", value.len() as u64 == copy_max);
                mark("shortest pinned value", value.len() as u64 == copy_max + 1);
                mark("value over a memtable", value.len() as u64 > case.config.memtable_bytes);
            }
            mark("empty batch", matches!(op, Op::Batch { records, .. } if records.is_empty()));
            mark("large batch", matches!(op, Op::Batch { records, .. } if records.len() > 40));
        }
    }
    let never: Vec<_> = reached.iter().filter(|(_, hits)| **hits == 0).collect();
    assert!(never.is_empty(), "{never:?}");
}

#[test]
fn one_seed_gives_one_case() {
    let draw = || {
        let mut source = Seed(11);
        let plan = Plan::new(&mut source, Mix::Swarm);
        plan.case(&mut source, 300)
    };
    assert_eq!(draw(), draw());
    assert!(!Seed(1).is_dry());
}
