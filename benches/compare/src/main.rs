//! `kiban-compare`: runs plans, reports on them, and checks them against targets.
#![forbid(unsafe_code)]

use clap::Parser;
use kiban_compare::cli::{Cli, Command, Usage};
use kiban_compare::supervise::{awake, beat, campaign, record};
use kiban_compare::{check, engines, kill, report, syncs, trial};
use std::process::ExitCode;

const FAILED: u8 = 1;
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli.command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(FAILED),
        Err(error) => {
            eprintln!("kiban-compare: {error:#}");
            ExitCode::from(if error.is::<Usage>() { USAGE } else { FAILED })
        }
    }
}

/// Does what was asked; whether all is well.
fn run(command: Command) -> anyhow::Result<bool> {
    match command {
        Command::Run(args) => {
            let summary = campaign::run(&args)?;
            report::write(&summary.out, None)?;
            println!("{} trials valid, {} invalid", summary.valid, summary.invalid);
            println!("board: {}", summary.out.join("board.md").display());
            Ok(summary.invalid == 0)
        }
        Command::Report(args) => {
            report::write(&args.dir, args.again.as_deref())?;
            if let Some(parent) = &args.publish {
                let to = report::publish(&args.dir, parent)?;
                println!("published: {}", to.display());
            }
            Ok(true)
        }
        Command::Check { targets, dirs } => check::run(&targets, &dirs),
        Command::Kill(args) => kill::run(&args),
        Command::Syncs { engines, writes } => syncs::run(&engines, writes),
        Command::Engines => {
            for opener in engines::built() {
                println!("{} {}", opener.name(), opener.version());
            }
            Ok(true)
        }
        Command::Trial { spec } => {
            beat::start();
            let spec: trial::Spec = record::read(&spec)?;
            let outcome = trial::run(&spec);
            trial::write(&outcome, &spec.out)?;
            Ok(outcome.failure.is_none())
        }
        Command::Victim(args) => kill::victim(&args),
        Command::Awake => awake::spin().map(|()| true),
    }
}
