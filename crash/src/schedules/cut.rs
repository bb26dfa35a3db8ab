//! Makes a failing world small: fewer clients, calls and faults under the same scheduler.
//!
//! Invariants
//! - What comes back broke the promise that the world broke, when it was run; it is named by its
//!   origin, so that a token makes it again.
//! - Tries are bounded by number alone (F1).
//!
//! A world with less in it has another schedule, drawn from the same seed: a failure that a cut
//! hides may be there under another one, so what comes back is small, not smallest.

use super::case::{self, Broken};
use super::world::World;
use crate::disk::{Fault, Op, Rule};
use crate::tally::Tally;
use std::fmt;

/// What is left out of a world, or put into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The calls of a client; it stays, so that the others keep their numbers.
    Client(usize),
    /// Of a client, so many calls from one on.
    Calls(usize, usize, usize),
    /// A fault.
    Fault(usize),
    /// A leader's panic.
    Panic,
    /// The grown database.
    Base,
    /// Every sync says `Ok` and does nothing: a defect of the disk that no engine survives, to see
    /// that the rig does.
    Lie,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(client) => write!(f, "c{client}"),
            Self::Calls(client, first, count) => write!(f, "c{client}.{first}.{count}"),
            Self::Fault(at) => write!(f, "f{at}"),
            Self::Panic => f.write_str("panic"),
            Self::Base => f.write_str("base"),
            Self::Lie => f.write_str("lie"),
        }
    }
}

impl Cut {
    /// The cut of this text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "panic" => return Some(Self::Panic),
            "base" => return Some(Self::Base),
            "lie" => return Some(Self::Lie),
            _ => {}
        }
        if let Some(at) = text.strip_prefix('f') {
            return Some(Self::Fault(at.parse().ok()?));
        }
        let mut numbers = text.strip_prefix('c')?.split('.').map(str::parse);
        let mut number = || numbers.next().and_then(Result::ok);
        let client = number()?;
        match (number(), number()) {
            (None, _) => Some(Self::Client(client)),
            (Some(first), Some(count)) => Some(Self::Calls(client, first, count)),
            _ => None,
        }
    }

    /// Makes the cut; `None` where there is nothing to cut.
    #[must_use]
    pub fn make(self, mut world: World) -> Option<World> {
        match self {
            Self::Client(client) => {
                let steps = world.clients.get_mut(client).filter(|steps| !steps.is_empty())?;
                steps.clear();
            }
            Self::Calls(client, first, count) => {
                let steps = world.clients.get_mut(client)?;
                let last = first.checked_add(count).filter(|&last| last <= steps.len())?;
                if count == 0 {
                    return None;
                }
                steps.drain(first..last);
            }
            Self::Fault(at) => {
                if at >= world.faults.len() {
                    return None;
                }
                world.faults.remove(at);
            }
            Self::Panic => {
                world.panic.take()?;
            }
            Self::Base => {
                world.base.take()?;
            }
            Self::Lie => {
                let lie = |op| Rule::new(Fault::Lie).op(op).times(u32::MAX);
                world.faults.extend([Op::SyncData, Op::SyncAll].map(lie));
            }
        }
        let mark = if world.origin.contains('/') { ',' } else { '/' };
        world.origin = format!("{}{mark}{self}", world.origin);
        Some(world)
    }
}

/// Worlds that are tried, at the most.
const TRIES_MAX: u32 = 200;

/// A world that breaks the promise that `broken` says, with as little in it as was found.
///
/// # Errors
/// The world does not break it when it is made again by its origin.
pub fn shrink(broken: &Broken) -> Result<Box<Broken>, String> {
    let world = super::origin::world(&broken.origin)?;
    let mut shrinker = Shrinker { promise: &broken.slip.promise, tries: 0 };
    let first = shrinker.breaks(&world);
    let mut best = (world, first.ok_or("the world holds when it is run again")?);
    loop {
        let before = best.0.origin.len();
        for cut in candidates(&best.0) {
            let Some(smaller) = cut.make(best.0.clone()) else { continue };
            if let Some(broken) = shrinker.breaks(&smaller) {
                best = (smaller, broken);
            }
        }
        if best.0.origin.len() == before || shrinker.tries >= TRIES_MAX {
            return Ok(best.1);
        }
    }
}

struct Shrinker<'a> {
    promise: &'a str,
    tries: u32,
}

impl Shrinker<'_> {
    fn breaks(&mut self, world: &World) -> Option<Box<Broken>> {
        if self.tries >= TRIES_MAX {
            return None;
        }
        self.tries += 1;
        let ran = case::run_world(world.clone(), &mut Tally::default());
        ran.err().filter(|broken| broken.slip.promise == self.promise)
    }
}

/// What may be cut, the largest first. A cut that no longer fits once others were made is left out.
fn candidates(world: &World) -> Vec<Cut> {
    let mut cuts: Vec<Cut> = (0..world.clients.len()).map(Cut::Client).collect();
    cuts.extend([Cut::Panic, Cut::Base]);
    let rules = world.faults.iter().enumerate();
    cuts.extend(rules.filter(|(_, rule)| rule.fault != Fault::Lie).map(|(at, _)| Cut::Fault(at)));
    let longest = world.clients.iter().map(Vec::len).max().unwrap_or(0);
    let mut count = longest / 2;
    while count > 0 {
        for (client, steps) in world.clients.iter().enumerate() {
            let firsts = (0..steps.len()).step_by(count).rev();
            cuts.extend(firsts.map(|first| Cut::Calls(client, first, count)));
        }
        count /= 2;
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_reads_as_it_is_written() {
        use Cut::{Base, Calls, Client, Lie, Panic};
        for cut in [Client(2), Calls(0, 3, 1), Cut::Fault(1), Panic, Base, Lie] {
            assert_eq!(Cut::parse(&cut.to_string()), Some(cut));
        }
        for text in ["", "c", "c1.2", "f", "fx", "x1"] {
            assert_eq!(Cut::parse(text), None, "{text}");
        }
    }
}
