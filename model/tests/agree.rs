//! Differing option sets agree with each other as well as with the oracle: the same operations
//! under many options end in the same state, through both read backends, with and without the point
//! index, filters and inline maintenance (S2, G1).

mod support;

use kiban_model::config::Config;
use kiban_model::driver;
use kiban_model::generate::{Mix, Plan, Seed, Source};
use kiban_model::ops::{Case, Op};

/// Options that must not matter to what is answered, one by one and together.
fn option_sets(source: &mut Seed) -> Vec<Config> {
    let mut sets: Vec<Config> = [
        &[][..],
        &[("reads_pread", 1)],
        &[("point_index", 1)],
        &[("scan_prefix_len", 3), ("filter_bits_per_key", 0)],
        &[("reads_pread", 1), ("cache_bytes", 0), ("open_files_max", 1)],
        &[("inline_maintenance", 0)],
        &[("shared", 1)],
        &[("block_bytes", 4096), ("restart_interval", 16), ("memtable_bytes", 65_536)],
    ]
    .iter()
    .map(|changes| {
        let mut config = Config::default();
        for (name, value) in *changes {
            assert!(config.set(name, *value), "{name}");
        }
        config
    })
    .collect();
    for _ in 0..3 {
        let mut config = Config::default();
        for (name, choices) in Config::NAMES.iter().zip(Config::CHOICES) {
            config.set(name, *source.pick(choices));
        }
        sets.push(config);
    }
    for config in &mut sets {
        // Limits decide what is refused: they are not among what must not matter.
        let limits = Config::default();
        config.value_bytes_max = limits.value_bytes_max;
        config.batch_bytes_max = limits.batch_bytes_max;
    }
    sets
}

#[test]
fn differing_options_agree() {
    for seed in 0..40 {
        let mut source = Seed(seed);
        let mut plan =
            Plan::new(&mut source, if seed % 4 == 0 { Mix::Standard } else { Mix::Swarm });
        plan.config = Config::default();
        let mut case = plan.case(&mut source, 250);
        for op in &mut case.ops {
            if let Op::Reopen { changes, .. } = op {
                // A change of options would make all sets the same one.
                changes.clear();
            }
        }
        let mut states = Vec::new();
        for (i, config) in option_sets(&mut source).into_iter().enumerate() {
            let case = Case { config, ops: case.ops.clone() };
            let dir = support::dir();
            match driver::run(support::env(), dir.path().join("db"), &case) {
                Ok(state) => states.push(state),
                Err(failure) => panic!("seed {seed}, set {i}: {failure}\n{case}"),
            }
        }
        assert!(states.windows(2).all(|pair| pair[0] == pair[1]), "seed {seed}: {states:?}");
    }
}
