//! The program: options in, a line of JSON out.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;

use super::{End, MemoryOf, MemoryOptions, measure};
use crate::args::Args;
use crate::error::{Result, spell};

const MIB: u64 = 1 << 20;

/// Runs one measurement: `dir=PATH [engine=budget|rocksdb] [budget=MIB] [state=MIB] [shards=N] [threads=N] [pace=MS]
/// [value=BYTES]`. The state lies in a new directory below `dir`, and is gone in the end.
pub fn program(words: impl Iterator<Item = String>) -> ExitCode {
    match run(&words.collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("memory: {}", spell(&*error));
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Result {
    let args = Args::parse(words)?;
    let budget = args.number("budget", 512)? * MIB;
    let engine = match args.find("engine").unwrap_or("budget") {
        "budget" => MemoryOf::Budget,
        "rocksdb" => MemoryOf::RocksDb,
        other => return Err(format!("`engine` is `budget` or `rocksdb`, not `{other}`").into()),
    };
    let dir = tempfile::tempdir_in(args.get("dir")?)?;
    let report = measure(&MemoryOptions {
        budget,
        engine,
        shards: args.number("shards", 64)?,
        end: End::State(args.number("state", budget / MIB * 10)? * MIB),
        pace: Duration::from_millis(args.number("pace", 2)?),
        value: args.number("value", 200)?,
        threads: args.number("threads", 2)?,
        dir: dir.path().to_owned(),
    })?;
    let line = json!({
        "before": report.before,
        "peak": report.peak(),
        "peaks": report.peaks,
        "descriptors": report.descriptors,
        "taken": report.taken(),
        "overlays": report.overlays,
        "engine": report.engine,
        "writes": report.writes,
        "state": report.state,
        "files": report.files,
        "seconds": report.elapsed.as_secs_f64(),
        "waits": report.waits,
        "longest_wait_ms": report.longest_wait.as_secs_f64() * 1e3,
    });
    println!("{line}");
    Ok(())
}
