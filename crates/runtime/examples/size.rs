//! Estimates the room that a store takes and prints a table. `cargo xtask size` runs it, and its help lists the options.

use std::process::ExitCode;
use std::time::Duration;

use millpond_runtime::{Estimate, RowsLie, Sizing, StoreSizing, WindowSizing};

const MIB: f64 = (1_u64 << 20) as f64;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match parse(&words).and_then(|sizing| sizing.estimate().map_err(|error| error.to_string())) {
        Ok(estimate) => {
            print!("{}", table(&estimate));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("size: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The options; what they mean is in the help of `cargo xtask size`.
fn parse(words: &[String]) -> Result<Sizing, String> {
    let mut store = StoreSizing::key_value(0, 16, 100);
    let mut sizing = Sizing::of(Vec::new(), 1);
    let (mut size, mut advance, mut retention) = (None, None, None);
    let mut words = words.iter();
    while let Some(name) = words.next() {
        let mut value = || words.next().map(String::as_str).ok_or_else(|| format!("`{name}` needs a value"));
        match name.as_str() {
            "--keys" => store.keys = number(name, value()?)?,
            "--key-bytes" => store.key_bytes = number(name, value()?)?,
            "--value-bytes" => store.value_bytes = number(name, value()?)?,
            "--timestamped" => store.timestamped = true,
            "--no-changelog" => store.logged = false,
            "--window" => size = Some(duration(name, value()?)?),
            "--advance" => advance = Some(duration(name, value()?)?),
            "--retention" => retention = Some(duration(name, value()?)?),
            "--partitions" => sizing.partitions = number(name, value()?)?,
            "--standbys" => sizing.copies = number::<u32>(name, value()?)?.saturating_add(1),
            "--instances" => sizing.instances = number(name, value()?)?,
            "--replication" => sizing.replication = number(name, value()?)?,
            "--compression" => sizing.compression = number(name, value()?)?,
            "--hot" => sizing.hot = number(name, value()?)?,
            "--engine" => sizing.rows_lie = engine(value()?)?,
            _ => return Err(format!("`{name}` is no option; see `cargo xtask size --help`")),
        }
    }
    if store.keys == 0 {
        return Err("give `--keys`, the number of keys that have a row".to_owned());
    }
    store.windows = match (size, advance, retention) {
        (None, None, None) => None,
        (None, ..) => return Err("`--advance` and `--retention` need `--window`".to_owned()),
        (Some(size), advance, retention) => {
            let (advance, retention) = (advance.unwrap_or(size), retention.unwrap_or(size));
            Some(WindowSizing { size, advance, retention })
        }
    };
    sizing.stores.push(store);
    Ok(sizing)
}

fn number<T: std::str::FromStr>(name: &str, text: &str) -> Result<T, String> {
    text.replace('_', "").parse().map_err(|_| format!("`{name} {text}`: that is no number that fits"))
}

/// A number and a unit: `500ms`, `30s`, `5m`, `12h`, `7d`.
fn duration(name: &str, text: &str) -> Result<Duration, String> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let millis = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(format!("`{name} {text}`: write a number and ms, s, m, h or d")),
    };
    let count: u64 = number(name, text.strip_suffix(unit).unwrap_or(text))?;
    let millis = count.checked_mul(millis).ok_or_else(|| format!("`{name} {text}`: that is too long"))?;
    Ok(Duration::from_millis(millis))
}

fn engine(text: &str) -> Result<RowsLie, String> {
    match text {
        "rocks" => Ok(RowsLie::OnDisk),
        "mem" => Ok(RowsLie::InMemory),
        _ => Err(format!("`--engine {text}`: use rocks or mem")),
    }
}

fn table(estimate: &Estimate) -> String {
    let count = |n: u64| n.to_string();
    let rows = [
        ("rows that are alive", count(estimate.rows)),
        ("rows that are kept", count(estimate.rows_kept)),
        ("disk, all copies", bytes(estimate.disk)),
        ("disk, one instance", bytes(estimate.disk_of_an_instance)),
        ("cache for all rows, one instance", bytes(estimate.cache_for_all)),
        ("cache for the hot rows", bytes(estimate.cache_for_hot)),
        ("filters and indexes, one instance", bytes(estimate.lookup)),
        ("rows in memory, one instance", bytes(estimate.rows_in_memory)),
        ("memory.budget.bytes, at least", bytes(estimate.memory_budget)),
        ("changelog, compacted", bytes(estimate.changelog)),
        ("changelog, on all brokers", bytes(estimate.changelog_on_brokers)),
        ("changelog partitions", count(estimate.changelog_partitions)),
    ];
    rows.iter().map(|(name, value)| format!("{name:<35} {value:>12}\n")).collect()
}

fn bytes(bytes: u64) -> String {
    let mib = bytes as f64 / MIB;
    if mib < 10_240.0 { format!("{mib:.1} MiB") } else { format!("{:.1} GiB", mib / 1024.0) }
}
