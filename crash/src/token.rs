//! One failure again, by the token that a run printed or by the file that it wrote.
//!
//! Invariants
//! - A token names one case, sequence, directed case or schedule; one that names none is refused
//!   before anything runs.
//! - A file is played as it is written (`replay`); one that the engine could not even begin is no
//!   failure of the engine, and refused.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::campaign::{self, Origin, case_seed};
use crate::case::{self, Profile};
use crate::directed;
use crate::replay::{Played, replay};
use crate::report::Report;
use crate::schedules::campaign as schedules;
use crate::script::Script;
use crate::shrink::opens;
use crate::sweep;
use crate::tally::Tally;
use std::time::Instant;

const FORM: &str = "expected kb1:PROFILE:SEED:CASE, kb1:sweep:OPS:NUMBER, kb1:directed:NAME or \
                    kb1:schedule:WORLD";

/// Plays one failure again: a token, or the text of a file.
///
/// # Errors
/// It names nothing, or is malformed.
pub fn play(what: &str, report: &mut Report) -> Result<(), String> {
    let start = Instant::now();
    std::panic::set_hook(Box::new(|_| {}));
    let mut tally = Tally::default();
    match token_in(what).unwrap_or(what).strip_prefix("kb1:") {
        Some(token) => {
            play_token(token, report, &mut tally)?;
            report.digest = format!("{:016x}", tally.digest);
        }
        None => play_script(what, report, &mut tally)?,
    }
    tally.totals.cases += 1;
    report.totals = tally.totals;
    report.elapsed_s = start.elapsed().as_secs_f64();
    report.judge();
    Ok(())
}

/// The token in the file of a shrunk schedule: it stands below what the file says of itself.
fn token_in(text: &str) -> Option<&str> {
    let mut lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
    lines.next().filter(|line| line.starts_with("kb1:"))
}

fn play_token(token: &str, report: &mut Report, tally: &mut Tally) -> Result<(), String> {
    let (name, rest) = token.split_once(':').ok_or(FORM)?;
    let name_of = |token: &str| format!("kb1:{token}");
    match name {
        "schedule" => return schedules::replay(rest, report, tally),
        "directed" => {
            let done = directed::run_script(rest).ok_or(FORM)?;
            tally.absorb(&done.tally);
            for (_, (broken, script)) in &done.broken {
                let (seed, config) = (script.seed, script.config.clone());
                let origin = Origin { token: name_of(token), index: 0, seed, config };
                campaign::add_failure(report, &origin, broken);
            }
            return Ok(());
        }
        _ => {}
    }
    let (first, index) = rest.split_once(':').ok_or(FORM)?;
    let number = |text: &str| text.parse::<u64>().map_err(|_| FORM.to_owned());
    let (first, index) = (number(first)?, number(index)?);
    let (ran, seed, config) = if name == "sweep" {
        let ops_max = u32::try_from(first).ok().filter(|ops| (1..=sweep::OPS_MAX).contains(ops));
        let all = ops_max.map(sweep::sequences).ok_or(FORM)?;
        if index >= all {
            return Err(format!("no sequence {index}: there are {all} of at most {first} each"));
        }
        (sweep::run(index, None, tally), 1, sweep::config())
    } else {
        let profile = Profile::named(name).ok_or(FORM)?;
        let seed = case_seed(first, index);
        (case::run(&profile, seed, tally), seed, case::config_of(&profile, seed))
    };
    report.seed = seed;
    if let Err(broken) = ran {
        let origin = Origin { token: name_of(token), index, seed, config };
        campaign::add_failure(report, &origin, &broken);
    }
    Ok(())
}

fn play_script(text: &str, report: &mut Report, tally: &mut Tally) -> Result<(), String> {
    let script = Script::parse(text).map_err(|error| error.to_string())?;
    // A run's own file has a seed, though the creation of the database was all that went wrong.
    if text.lines().all(|line| line.trim().is_empty() || line.trim().starts_with('#')) {
        return Err("no line in it but remarks".to_owned());
    }
    if !opens(&script) {
        return Err("the engine refuses its options".to_owned());
    }
    let (seed, config) = (script.seed, script.config.clone());
    report.seed = seed;
    match replay(&script, tally) {
        Ok(Played::Held) => {}
        Ok(Played::NoSuchPoint) => report.diverged = true,
        Err(broken) => {
            let origin = Origin { token: String::new(), index: 0, seed, config };
            campaign::add_failure(report, &origin, &broken);
        }
    }
    tally.totals.ops += script.ops();
    Ok(())
}
