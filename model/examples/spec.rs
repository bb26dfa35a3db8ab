//! Explores the commit specification within bounds given as five numbers: writes, rotations, marks,
//! crashes, faults. Without them it takes those of the test command, one after the other.

use kiban_model::spec::{BOUNDS, check, commit::Budget};

fn main() {
    let numbers: Vec<u8> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let budgets = match numbers[..] {
        [writes, rotations, marks, crashes, faults] => {
            vec![Budget { writes, rotations, marks, crashes, faults }]
        }
        _ => BOUNDS.iter().map(|(budget, _)| *budget).collect(),
    };
    for budget in budgets {
        let checked = check(budget, None);
        println!("{} states, depth {}, within {budget:?}", checked.states, checked.depth);
        for (promise, steps) in &checked.broken {
            println!("  breaks {promise}: {steps:?}");
        }
        println!(
            "  {} promises broken; not reached: {:?}",
            checked.broken.len(),
            checked.unreached
        );
    }
}
