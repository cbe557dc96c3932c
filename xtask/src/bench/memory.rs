//! The resident memory of an application whose state outgrows its budget, with two allocators, beside RocksDB's defaults.

use std::process::Command;

use serde_json::Value;

use crate::cargo::{cargo, output, run as run_command, target_directory};
use crate::error::{Error, Result};
use crate::setup;

/// What `cargo xtask bench memory` takes; sizes in MiB.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct MemoryBenchOptions {
    pub(crate) budget: Option<u64>,
    pub(crate) state: Option<u64>,
    pub(crate) shards: Option<u64>,
    pub(crate) dir: Option<String>,
}

/// A measurement: who decides on RocksDB's memory, and the program with the allocator.
struct Variant {
    title: &'static str,
    allocator: &'static str,
    engine: &'static str,
    program: &'static str,
}

const fn variant(title: &'static str, allocator: &'static str, engine: &'static str, program: &'static str) -> Variant {
    Variant { title, allocator, engine, program }
}

const BUDGET: &str = "the budget";
const DEFAULTS: &str = "RocksDB's defaults";

const VARIANTS: [Variant; 4] = [
    variant(BUDGET, "system", "budget", "memory"),
    variant(BUDGET, "jemalloc", "budget", "memory-jemalloc"),
    variant(DEFAULTS, "system", "rocksdb", "memory"),
    variant(DEFAULTS, "jemalloc", "rocksdb", "memory-jemalloc"),
];

/// What may be taken beside the budget, in MiB: threads, open databases, the allocator's own.
const BESIDE: f64 = 78.0;
const MIB: f64 = (1 << 20) as f64;
const HEADINGS: [&str; 10] = [
    "RocksDB's memory by",
    "allocator",
    "taken MiB",
    "by quarter",
    "overlays counted",
    "RocksDB counted",
    "longest wait ms",
    "waits",
    "k rows/s",
    "descriptors",
];

/// Measures all, one after the other, and prints a table. What the budget decides must keep to it.
pub(crate) fn run(options: &MemoryBenchOptions) -> Result<()> {
    setup::ensure_c()?;
    let programs = ["--bin", "memory", "--bin", "memory-jemalloc", "--features", "jemalloc"];
    run_command(cargo(&["build", "--release", "--package", "millpond-bench"]).args(programs))?;
    let target = target_directory()?;
    let dir = options.dir.clone().unwrap_or_else(|| target.display().to_string());
    let budget = options.budget.unwrap_or(512);
    println!("{}", row(&HEADINGS.map(str::to_owned)));
    println!("{}", row(&HEADINGS.map(|_| "---".to_owned())));
    let mut complaints = Vec::new();
    for variant in &VARIANTS {
        let mut command = Command::new(target.join("release").join(variant.program));
        command.args([format!("dir={dir}"), format!("engine={}", variant.engine), format!("budget={budget}")]);
        for (name, value) in [("state", options.state), ("shards", options.shards)] {
            command.args(value.map(|value| format!("{name}={value}")));
        }
        let measured = Measured::read(&output(&mut command)?)?;
        println!("{}", row(&measured.row(variant)));
        let allowed = budget as f64 + BESIDE;
        if variant.title == BUDGET && measured.taken > allowed {
            let Measured { taken, .. } = measured;
            complaints.push(format!("{}: {taken:.0} MiB were taken, {allowed:.0} are allowed", variant.allocator));
        }
    }
    crate::report("bench memory", &complaints)
}

fn row(cells: &[String]) -> String {
    format!("| {} |", cells.join(" | "))
}

/// What the program has printed.
struct Measured {
    /// In MiB.
    taken: f64,
    fields: Value,
}

impl Measured {
    fn read(text: &str) -> Result<Self> {
        let fields: Value = serde_json::from_str(text)
            .map_err(|error| Error::failed(format!("the program printed no line of JSON: {error}")))?;
        let mut measured = Self { taken: 0.0, fields };
        measured.taken = measured.number("taken")? / MIB;
        Ok(measured)
    }

    fn number(&self, field: &str) -> Result<f64> {
        let number = self.fields.get(field).and_then(Value::as_f64);
        number.ok_or_else(|| Error::failed(format!("the program told no number field=`{field}`")))
    }

    fn row(&self, variant: &Variant) -> [String; 10] {
        let number = |field, unit: f64| self.number(field).map_or("–".to_owned(), |n| format!("{:.0}", n / unit));
        let before = self.number("before").unwrap_or_default();
        let peaks = self.fields.get("peaks").and_then(Value::as_array).into_iter().flatten();
        let quarters = peaks.filter_map(Value::as_f64).map(|peak| format!("{:.0}", (peak - before) / MIB));
        let rate = || Some(self.number("writes").ok()? / self.number("seconds").ok()? / 1e3);
        let by_defaults = variant.title == DEFAULTS;
        let unless = |text: String| if by_defaults { "–".to_owned() } else { text };
        [
            variant.title.to_owned(),
            variant.allocator.to_owned(),
            format!("**{:.0}**", self.taken),
            quarters.collect::<Vec<_>>().join(" / "),
            number("overlays", MIB),
            unless(number("engine", MIB)),
            unless(number("longest_wait_ms", 1.0)),
            unless(number("waits", 1.0)),
            rate().map_or("–".to_owned(), |rate| format!("{rate:.0}")),
            number("descriptors", 1.0),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"before":1048576,"peaks":[2097152,3145728,3145728,3145728],"taken":2097152,"overlays":1048576,
        "engine":1048576,"writes":6000,"seconds":2.0,"waits":7,"longest_wait_ms":12.4,"descriptors":30}"#;

    #[test]
    fn a_measurement_becomes_a_row() {
        let measured = Measured::read(LINE).unwrap();
        let [ours, .., defaults] = &VARIANTS;
        let text = row(&measured.row(ours));
        assert_eq!(text, "| the budget | system | **2** | 1 / 2 / 2 / 2 | 1 | 1 | 12 | 7 | 3 | 30 |");
        let text = row(&measured.row(defaults));
        assert!(text.contains("| **2** | 1 / 2 / 2 / 2 | 1 | – | – | – | 3 |"), "{text}");
    }

    #[test]
    fn what_is_no_measurement_is_an_error() {
        assert!(Measured::read("killed").is_err());
        let message = Measured::read("{}").err().unwrap();
        assert!(message.message().unwrap().contains("`taken`"));
    }
}
