//! Whole trials against the fakes: the honest one passes every row form, and each lie is found by
//! the check that is there for it. Each trial is a process, as in a campaign: sync calls are
//! counted for a whole process.

use anyhow::Result;
use kiban_compare::fake;
use kiban_compare::plan::Plan;
use kiban_compare::supervise::record;
use kiban_compare::trial::{Outcome, Spec};
use std::path::Path;
use std::process::{Command, Stdio};

/// One trial of `engine` in the row that `text` describes.
fn trial(engine: &str, row: &str) -> Result<Outcome> {
    let glance = Path::new(env!("CARGO_MANIFEST_DIR")).join("plans/glance.toml");
    let glance = std::fs::read_to_string(glance)?;
    let head = &glance[..glance.find("[[row]]").expect("the plan has rows")];
    let head = head.replace("durable = false", "durable = true");
    let text = format!(
        "{head}\n[[row]]\nname = \"r\"\nthreads = []\ncontestants = [\"{engine}\"]\n\
         memory_limit_bytes = 0\nawake_too = false\ndiagnostic_trials = 0\n{row}"
    );
    let plan = Plan::parse(&text)?;
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let (data, out) = (dir.path().join("data"), dir.path().join("out"));
    std::fs::create_dir_all(&data)?;
    std::fs::create_dir_all(&out)?;
    let row = plan.rows[0].clone();
    let contestant = row.contestants[0].clone();
    let cpus = Vec::new();
    let (repetition, settle_bound_s, limit_file) = (0, 5, None);
    let spec = Spec { row, contestant, repetition, settle_bound_s, cpus, data, out, limit_file };
    let spec_file = spec.out.join("spec.json");
    record::write(&spec_file, &spec)?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiban-compare"));
    command.arg("trial").arg(&spec_file).stdout(Stdio::piped());
    let status = command.output()?.status;
    let outcome: Outcome = record::read(&spec.out.join("outcome.json"))?;
    assert_eq!(status.success(), outcome.failure.is_none());
    if let Some(options) = &outcome.options {
        assert!(spec.out.join(&options.archive).is_file());
    }
    Ok(outcome)
}

/// A row over 3,000 numbers.
fn row(kind: &str, mix: &str, durability: &str, prepare: &str) -> String {
    let (agents, value_bytes) = match kind {
        "agent" => (30, 200),
        "memory" => (0, 250),
        _ => (0, 128),
    };
    let threads = if mix.contains("insert") && !mix.contains("insert = 100") { 1 } else { 3 };
    format!(
        "prepare = \"{prepare}\"\ndata = {{ kind = \"{kind}\", value_bytes = {value_bytes}, \
         agents = {agents}, keys = 7000, preload = 3000, layout = \"shuffled\", \
         load_batch = 64 }}\n[[row.stage]]\nname = \"main\"\nseconds = 0\n\
         [[row.stage.group]]\nthreads = {threads}\ncalls = 4000\ncalls_per_thread_min = 0\n\
         mix = {{ {mix} }}\npick = \"uniform\"\nworking_set = 3000\n\
         durability = \"{durability}\"\nbatch = 1\nscan = 10\nrate_per_s = 0\n"
    )
}

#[test]
fn an_honest_adapter_passes_every_form_of_row() -> Result<()> {
    let forms = [
        ("number", "read = 100", "buffered", "walk"),
        ("number", "read = 50, write = 50", "buffered", "reduced"),
        ("number", "insert = 100", "every-thousand", "settled"),
        ("number", "scan = 90, insert = 10", "buffered", "settled"),
        ("number", "read = 50, read_write = 50", "buffered", "settled"),
        ("agent", "read = 50, latest = 40, insert = 10", "buffered", "walk"),
        ("memory", "insert = 100", "each", "settled"),
    ];
    for (kind, mix, durability, prepare) in forms {
        let outcome = trial("fake", &row(kind, mix, durability, prepare))?;
        assert_eq!(outcome.failure, None, "{kind} {mix}");
        let figures = &outcome.figures;
        assert_eq!(outcome.receipts.len(), 3);
        assert_eq!(figures.stages[0].calls, 4000, "{kind} {mix}");
        assert!(figures.stages[0].wall_ns > 0 && figures.stages[0].cpu_ns > 0);
        assert_eq!(figures.settle.map(|settle| settle.settled), Some(true));
        assert_eq!(figures.settle_before.map(|settle| settle.settled), Some(true));
        assert_eq!(figures.residency.is_some(), prepare == "reduced");
        // One record a write, that of a read-modify-write too.
        let writes = figures.stages[0].writes.map_or(0, |writes| writes.count);
        assert_eq!(figures.stages[0].records_written, writes, "{kind} {mix}");
        assert!(figures.size_closed.logical > 3000 * 128 && !outcome.cpu_mask.is_empty());
        let every = ["loaded", "run", "reopened"];
        assert!(outcome.receipts.iter().zip(every).all(|(receipt, when)| receipt.when == when));
    }
    Ok(())
}

#[test]
fn each_lie_is_found_by_the_check_that_is_there_for_it() -> Result<()> {
    for (engine, step) in fake::LIES {
        let durability = if step == "syncs" { "each" } else { "buffered" };
        let outcome =
            trial(engine, &row("number", "read = 50, write = 50", durability, "settled"))?;
        let failure = outcome.failure.unwrap_or_else(|| panic!("{engine} was not found out"));
        assert_eq!(failure.step, step, "{engine}: {}", failure.what);
        assert!(outcome.receipts.len() < 3 || step == "syncs", "{engine}");
    }
    Ok(())
}

#[test]
fn each_thread_warms_its_own_reader_before_it_is_timed() -> Result<()> {
    // The fake lies at the 300th read after the first write; fewer are made in the stages.
    let warm = row("number", "write = 100", "buffered", "walk").replace("= 4000", "= 100");
    let at = warm.find("[[row.stage]]").expect("a stage");
    let reads = warm[at..].replace("write = 100", "read = 100").replace("main", "reads");
    let outcome = trial("fake-wrong-read", &format!("{warm}{reads}"))?;
    let failure = outcome.failure.expect("the lie is found");
    assert_eq!((failure.step.as_str(), outcome.figures.stages.len()), ("read", 1));
    let outcome = trial("fake", &format!("{warm}{reads}"))?;
    assert_eq!(outcome.failure, None);
    assert_eq!(outcome.figures.stages[1].calls, 100, "warming is in no figure");
    Ok(())
}

#[test]
fn a_synced_row_counts_the_syncs_of_its_writes() -> Result<()> {
    let outcome = trial("fake", &row("number", "write = 100", "each", "settled"))?;
    let stage = &outcome.figures.stages[0];
    assert_eq!(outcome.failure, None);
    assert!(stage.syncs.durable() >= 4000 && stage.own_syncs >= Some(4000), "{:?}", stage.syncs);
    Ok(())
}

#[test]
fn the_floor_has_figures_and_no_receipts() -> Result<()> {
    for durability in ["buffered", "each"] {
        let outcome = trial("floor", &row("number", "write = 100", durability, "settled"))?;
        assert_eq!(outcome.failure, None);
        assert!(outcome.receipts.is_empty());
        assert_eq!(outcome.figures.stages[0].writes.map(|writes| writes.count), Some(4000));
    }
    let outcome = trial("floor", &row("number", "read = 100", "buffered", "settled"))?;
    assert_eq!(outcome.failure.map(|failure| failure.step), Some("setup".into()));
    Ok(())
}

#[test]
fn open_loop_latency_counts_from_the_intended_start() -> Result<()> {
    let slow = row("number", "write = 100", "buffered", "settled")
        .replace("calls = 4000", "calls = 300")
        .replace("rate_per_s = 0", "rate_per_s = 1000");
    let stage = trial("fake", &slow)?.figures.stages.remove(0);
    // 300 arrivals at 1,000 a second take about 300 ms, whatever the engine could do.
    assert!(stage.wall_ns > 280_000_000, "{}", stage.wall_ns);
    assert!(stage.start_lag.is_some() && (stage.rate_per_s - 1000.0).abs() < 1e-9);
    assert_eq!(stage.arrivals_unserved, 0);
    let flood = slow.replace("rate_per_s = 1000", "rate_per_s = 1000000000");
    let stage = trial("fake", &flood)?.figures.stages.remove(0);
    // All arrive at once: the last has waited for nearly the whole stage.
    let longest = stage.writes.expect("writes").max_ns;
    assert!(longest * 2 > stage.wall_ns, "{longest} of {}", stage.wall_ns);
    // A stage that ends while they still queue says how many it did not serve.
    let over = flood.replace("seconds = 0", "seconds = 1").replace("calls = 300", "calls = 0");
    let stage = trial("fake", &over.replace("1000000000", "10000000"))?.figures.stages.remove(0);
    let all = stage.calls + stage.arrivals_unserved;
    assert!(stage.arrivals_unserved > 0 && all >= 9_900_000, "{all}");
    Ok(())
}

#[cfg(feature = "kiban")]
#[test]
fn kiban_passes() -> Result<()> {
    let mixed = row("agent", "read = 40, latest = 50, insert = 10", "buffered", "reduced");
    let outcome = trial("kiban", &mixed)?;
    assert_eq!(outcome.failure, None);
    let synced = trial("kiban", &row("memory", "insert = 100", "each", "settled"))?;
    assert_eq!(synced.failure, None);
    Ok(())
}
