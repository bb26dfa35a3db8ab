//! Kills a process that writes, at a random moment, and looks at what its database has afterwards.
//!
//! - The victim tells each acknowledged write on its output. What was told must be there after
//!   SIGKILL, synced or buffered alike: "buffered" means handed to the kernel, which goes on.
//! - Each writer's numbers must be there without a hole, and at most one more than were told, whose
//!   answer was on its way. Nothing else may be there.
//! - This is no power cut: the page cache stays.

use crate::cli::{KillArgs, Usage, VictimArgs};
use crate::engine::Engine;
use crate::engines;
use crate::profile::Profile;
use crate::random::Rng;
use crate::records::{Kind, Records};
use crate::supervise::pins::manifest_dir;
use crate::sync_count;
use crate::trial::opener;
use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const THREADS: u64 = 2;
const LIFE_MS_MAX: u64 = 400;
/// Writers' numbers are this far apart.
const STRIDE: u64 = 1 << 40;

/// Kills every engine asked for; whether each kept what it had acknowledged.
///
/// # Errors
/// [`Usage`] for an engine that is not there; otherwise what kept the check from being made.
pub fn run(args: &KillArgs) -> Result<bool> {
    let names = chosen(&args.engines)?;
    let data = args.data.clone().unwrap_or_else(|| {
        manifest_dir().join("target/comparison-data").join(format!("kill-{}", std::process::id()))
    });
    let mut well = true;
    for name in &names {
        for durable in [true, false] {
            let word = if durable { "synced" } else { "buffered" };
            let opener = opener(name).context("chosen ones are there")?;
            if let Some(why) = opener.declines(&profile(durable), !durable) {
                println!("{name} {word}: left out: {why}");
                continue;
            }
            let dir = data.join(format!("{name}-{word}"));
            match rounds(args, name, durable, &dir) {
                Ok(told) => {
                    println!(
                        "{name} {word}: {} kills, {told} acknowledged writes kept",
                        args.rounds
                    );
                    std::fs::remove_dir_all(&dir)?;
                }
                Err(error) => {
                    well = false;
                    println!("{name} {word}: FAILED: {error:#}; kept in {}", dir.display());
                }
            }
        }
    }
    let _ = std::fs::remove_dir(&data);
    Ok(well)
}

/// The engines that were asked for, or all that were built in.
///
/// # Errors
/// [`Usage`] for one that is not there.
pub fn chosen(names: &[String]) -> Result<Vec<String>> {
    if names.is_empty() {
        return Ok(engines::built().iter().map(|opener| opener.name().to_string()).collect());
    }
    for name in names {
        if opener(name).is_none() {
            return Err(Usage(format!("{name} is no engine, or was not built in")).into());
        }
    }
    Ok(names.to_vec())
}

fn profile(durable: bool) -> Profile {
    Profile { durable, map_bytes: 1 << 30, ..Profile::matched() }
}

/// The victim's: RocksDB counts its syncs in its statistics alone.
fn profile_of(args: &VictimArgs) -> Profile {
    Profile { statistics: args.count, ..profile(args.durable) }
}

fn rounds(args: &KillArgs, name: &str, durable: bool, dir: &Path) -> Result<u64> {
    let mut rng = Rng::new(args.seed, u64::from(durable));
    let mut all = 0;
    for round in 0..args.rounds {
        let _ = std::fs::remove_dir_all(dir);
        std::fs::create_dir_all(dir)?;
        let life = Duration::from_millis(20 + rng.below(LIFE_MS_MAX));
        let told = live_and_die(name, durable, dir, args.seed, life)
            .with_context(|| format!("round {round}"))?;
        all += told.iter().sum::<u64>();
        look(name, durable, dir, args.seed, &told).with_context(|| format!("round {round}"))?;
    }
    Ok(all)
}

fn command(name: &str, durable: bool, dir: &Path, seed: u64) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["victim", "--engine", name, "--seed", &seed.to_string(), "--dir"]).arg(dir);
    if durable {
        command.arg("--durable");
    }
    Ok(command)
}

/// What each writer was told before the process was killed.
fn live_and_die(
    name: &str,
    durable: bool,
    dir: &Path,
    seed: u64,
    life: Duration,
) -> Result<Vec<u64>> {
    let mut command = command(name, durable, dir, seed)?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
    let mut victim = Reaped(command.spawn()?);
    let stdout = victim.0.stdout.take().context("its output")?;
    let mut lines = BufReader::new(stdout).lines();
    // The life begins when the database is open.
    let ready = lines.next().context("it said nothing")??;
    ensure!(ready == "open", "it said {ready:?}");
    let listener = std::thread::spawn(move || {
        let mut told = vec![0u64; THREADS as usize];
        for line in lines.map_while(Result::ok) {
            // A line that was cut off by the kill was not told.
            if let Some((writer, n)) = line.strip_prefix("told ").and_then(|l| l.split_once(' '))
                && let (Ok(writer), Some(n)) = (writer.parse::<usize>(), n.strip_suffix('.'))
                && let Ok(n) = n.parse::<u64>()
            {
                told[writer] = told[writer].max(n);
            }
        }
        told
    });
    std::thread::sleep(life);
    victim.0.kill()?;
    let status = victim.0.wait()?;
    ensure!(status.signal() == Some(9), "it ended before it was killed: {status}");
    listener.join().ok().context("the listener")
}

/// Looks from a new process: an engine that can't open must not take the check with it.
fn look(name: &str, durable: bool, dir: &Path, seed: u64, told: &[u64]) -> Result<()> {
    let told: Vec<String> = told.iter().map(u64::to_string).collect();
    let mut command = command(name, durable, dir, seed)?;
    let output = command.args(["--told", &told.join(",")]).output()?;
    ensure!(
        output.status.success(),
        "after the kill: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The process that is killed, or that looks afterwards.
///
/// # Errors
/// What the engine says, or what is wrong with its database.
pub fn victim(args: &VictimArgs) -> Result<bool> {
    let opener = opener(&args.engine).context("no such engine")?;
    let engine = opener.open(&args.dir, &profile_of(args))?;
    let records = Records::new(Kind::Number, args.seed, 128, 1);
    if !args.told.is_empty() {
        verify(&*engine, &records, &args.told)?;
        engine.close()?;
        return Ok(true);
    }
    println!("open");
    let (before, own_before) = (sync_count::now(), engine.account()?.syncs);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..args.threads)
            .map(|writer| {
                let (engine, records) = (&*engine, &records);
                scope.spawn(move || write(engine, records, args, writer))
            })
            .collect();
        writers.into_iter().try_for_each(|writer| match writer.join() {
            Ok(result) => result,
            Err(_) => bail!("a writer panicked"),
        })
    })?;
    if args.count {
        let counted = sync_count::now().since(&before);
        let own = engine.account()?.syncs.zip(own_before).map(|(now, then)| now - then);
        println!("counted {}", serde_json::to_string(&(counted, own))?);
    }
    engine.close()?;
    Ok(true)
}

fn write(engine: &dyn Engine, records: &Records, args: &VictimArgs, writer: u64) -> Result<()> {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let last = if args.writes == 0 { u64::MAX } else { args.writes };
    for i in 0..last {
        let number = writer * STRIDE + i;
        records.key(number, &mut key);
        records.value(number, 1, &mut value);
        engine.put(&key, &value, args.durable)?;
        let mut out = std::io::stdout().lock();
        // The full stop shows that the line is whole.
        writeln!(out, "told {writer} {}.", i + 1)?;
        out.flush()?;
    }
    Ok(())
}

fn verify(engine: &dyn Engine, records: &Records, told: &[u64]) -> Result<()> {
    let mut there = vec![0u64; told.len()];
    let mut expected = Vec::new();
    engine.for_each(&mut |key, value| {
        let number = key.try_into().map(u64::from_be_bytes).context("a key of eight bytes")?;
        let (writer, i) = ((number / STRIDE) as usize, number % STRIDE);
        let next = there.get_mut(writer).context("a key of no writer")?;
        ensure!(i == *next, "writer {writer}: number {i} where {next} was next");
        records.value(number, 1, &mut expected);
        ensure!(value == expected, "writer {writer}: number {i} has a wrong value");
        *next += 1;
        Ok(())
    })?;
    for (writer, (there, told)) in there.iter().zip(told).enumerate() {
        ensure!(
            there >= told,
            "writer {writer}: {told} writes were acknowledged, {there} are there"
        );
        // One was on its way to the engine, or its answer on its way to us.
        ensure!(*there <= told + 1, "writer {writer}: {there} are there, {told} were told");
    }
    let mut reader = engine.reader()?;
    for (writer, told) in told.iter().enumerate().filter(|(_, told)| **told > 0) {
        let number = writer as u64 * STRIDE + told - 1;
        records.key(number, &mut expected);
        ensure!(reader.get(&expected, &mut |_| {})?, "writer {writer}: its last write is missing");
    }
    Ok(())
}

/// Where a check's databases go.
#[must_use]
pub fn scratch(name: &str) -> PathBuf {
    manifest_dir().join("target/comparison-data").join(format!("{name}-{}", std::process::id()))
}
