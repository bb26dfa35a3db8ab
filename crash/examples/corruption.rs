//! The whole corruption sweep, every byte of every kind of file, as the table that
//! `docs/TESTING.md` has: `cargo run --release -p kiban-crash --example corruption`.

use kiban_crash::corruption::{Effort, sweep};
use std::collections::BTreeMap;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut rows: BTreeMap<(String, String), [u64; 5]> = BTreeMap::new();
    let mut wrong = Vec::new();
    for seed in [1, 2] {
        let swept = sweep(seed, Effort::WHOLE)?;
        for v in swept.verdicts {
            let row = rows.entry((v.file, v.damage)).or_default();
            let found = [v.tried, v.detected, v.harmless, v.undecidable, v.wrong];
            row.iter_mut().zip(found).for_each(|(sum, n)| *sum += n);
        }
        wrong.extend(swept.wrong);
    }
    println!("| file | damage | tried | detected | harmless | undecidable | wrong |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for ((file, damage), [tried, detected, harmless, undecidable, bad]) in &rows {
        println!(
            "| {file} | {damage} | {tried} | {detected} | {harmless} | {undecidable} | {bad} |"
        );
    }
    wrong.iter().for_each(|line| println!("{line}"));
    if wrong.is_empty() { Ok(()) } else { Err("a damage was answered wrongly".into()) }
}
