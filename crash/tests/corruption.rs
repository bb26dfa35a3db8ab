//! C1 on small databases, with and without a point index: every kind of file and damage.

use kiban_crash::corruption::{Effort, sweep};

#[test]
fn damage_is_detected_or_harmless_or_above_the_watermark() {
    for seed in [1, 2] {
        let swept = sweep(seed, Effort::TEST).expect("the undamaged database is written");
        assert_eq!(swept.wrong, Vec::<String>::new(), "C1");
        for file in ["log", "table", "manifest", "current"] {
            let of_file = || swept.verdicts.iter().filter(|v| v.file == file);
            assert!(of_file().map(|v| v.tried).sum::<u64>() > 20, "{file} was damaged");
            assert!(of_file().map(|v| v.detected).sum::<u64>() > 0, "{file}: some is detected");
        }
        let flips = swept.verdicts.iter().find(|v| (&*v.file, &*v.damage) == ("log", "flip"));
        let flips = flips.expect("logs are flipped");
        assert!(flips.detected > 0 && flips.undecidable > 0, "below and above the watermark");
        let undecidable: u64 = swept.verdicts.iter().map(|v| v.undecidable).sum();
        assert!(undecidable > 0, "a torn tail cannot be told from damage");
    }
}
