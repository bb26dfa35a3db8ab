//! How a world is made again: the text that follows `kb1:schedule:` in a token.
//!
//! Invariants
//! - [`world`] of a world's own origin is that world.
//! - Every form is told apart by its first word.
//!
//! | form | world |
//! | --- | --- |
//! | `SEED:NUMBER` | the one of that number in a run of that seed |
//! | `directed:NUMBER` | the one of that number in the directed pass |
//! | `special:NUMBER` | the one of that number that puts rare neighbours beside each other |
//! | a form, `/`, and cuts with `,` between them | that world with less in it: see `cut` |
//! | `ROW:KIND:SHARING:SKIP:DEVIATION` | one of a sweep; `-`, or choice and places as `35+2` |

use super::cut::Cut;
use super::groups::Spec;
use super::rows::Row;
use super::world::World;
use crate::campaign::case_seed;
use std::fmt;

/// The seed of the directed ones.
const DIRECTED_SEED: u64 = 0x6469_7265_6374;

/// The world of this number in the run of this seed.
#[must_use]
pub fn numbered(seed: u64, n: u64) -> World {
    let seed_of_world = case_seed(seed ^ 0x7363_6865_6475_6c65, n);
    let draw = match n % 32 {
        30 => World::of_copies,
        31 => World::of_dir_lies,
        _ => World::draw,
    };
    let world = draw(seed_of_world);
    World { origin: format!("{seed}:{n}"), ..world }
}

/// The world of this number in the directed pass.
#[must_use]
pub fn directed(n: u64) -> World {
    let seed = case_seed(DIRECTED_SEED, n);
    let world = match n % 16 {
        7 => World::draw(seed),
        15 => World::of_installs(n / 16, seed),
        _ => World::of_groups(n, seed),
    };
    World { origin: format!("directed:{n}"), ..world }
}

/// The world of this number among those that put rare neighbours beside each other.
#[must_use]
pub fn special(n: u64) -> World {
    let draw = if n.is_multiple_of(2) { World::of_dir_lies } else { World::of_copies };
    World { origin: format!("special:{n}"), ..draw(case_seed(DIRECTED_SEED, n)) }
}

/// The world that `text` names.
///
/// # Errors
/// What was expected.
pub fn world(text: &str) -> Result<World, String> {
    let form = || {
        format!(
            "{text}: expected SEED:NUMBER, directed:NUMBER, special:NUMBER or \
             ROW:KIND:SHARING:SKIP:DEVIATION"
        )
    };
    if let Some((whole, cuts)) = text.split_once('/') {
        return cuts.split(',').try_fold(world(whole)?, |world, cut| {
            Cut::parse(cut).and_then(|cut| cut.make(world)).ok_or_else(form)
        });
    }
    let parts: Vec<&str> = text.split(':').collect();
    let number = |text: &str| text.parse::<u64>().map_err(|_| form());
    match parts[..] {
        ["directed", n] => Ok(directed(number(n)?)),
        ["special", n] => Ok(special(number(n)?)),
        [seed, n] => Ok(numbered(number(seed)?, number(n)?)),
        _ => spec(&parts).and_then(|spec| spec.world()).ok_or_else(form),
    }
}

fn spec(parts: &[&str]) -> Option<Spec> {
    let &[row, kind, sharing, skip, deviation] = parts else { return None };
    let row = Row::named(row)?;
    let kind = row.kinds().into_iter().find(|known| known.to_string() == kind)?;
    let deviation = match deviation.split_once('+') {
        Some((step, places)) => Some((step.parse().ok()?, places.parse().ok()?)),
        None if deviation == "-" => None,
        None => return None,
    };
    let (sharing, skip) = (sharing.parse().ok()?, skip.parse().ok()?);
    Some(Spec { row, kind, sharing, skip, deviation })
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { row, kind, sharing, skip, deviation } = self;
        write!(f, "{}:{kind}:{sharing}:{skip}:", row.name())?;
        match deviation {
            Some((step, places)) => write!(f, "{step}+{places}"),
            None => f.write_str("-"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_world_of_its_own_origin_is_that_world() {
        for text in [
            "7:123",
            "directed:5",
            "directed:7",
            "special:3",
            "group.failed_sync:sync_old:12:1:35+2",
            "group.rotation:create.eio:27:0:-",
            "group.leader_panic:commit.sync:3:1:9+1",
            "directed:5/c0.0.2,c1,panic,lie",
        ] {
            let made = world(text).expect("a form");
            assert_eq!(made.origin, text);
            let again = world(&made.origin).expect("its own form");
            assert_eq!(format!("{made:?}"), format!("{again:?}"));
        }
        for text in [
            "",
            "7",
            "7:x",
            "group.rotation:eio:1:0:-",
            "group.no:plain:0:0:-",
            "a:b:c",
            "7:123/x",
            "7:1/c99",
        ] {
            let refused = world(text).map(|world| world.origin).expect_err(text);
            assert!(refused.contains("expected SEED:NUMBER"), "{refused}");
        }
    }
}
