//! How much room state takes, from what is known before there is any: on disk, in memory, in changelogs.

mod model;
#[cfg(test)]
mod tests;

use std::time::Duration;

use self::model::{LEVELS, Row, SHARD_DISK, SHARD_MEMORY, TIMESTAMP};
use crate::error::{Error, ErrorKind, Result};
use crate::state::MemoryBudget;

/// Changelogs of windows keep this longer than the store (`windowstore.changelog.additional.retention.ms`).
const ADDITIONAL_RETENTION: Duration = Duration::from_secs(24 * 3600);

/// Windows of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowSizing {
    /// How long a window is.
    pub size: Duration,
    /// From one window's start to the next one's: the size, if they tumble.
    pub advance: Duration,
    /// How long a window is kept after its start, of event time; at least the size.
    pub retention: Duration,
}

/// A store, and what will be in it.
///
/// Not reckoned with: the earlier versions of a versioned store, which are as large as its latest one each, and the index of a
/// store with a time to live, which has a key more for each of up to nine parts of that time in which the row was put.
#[derive(Clone, PartialEq, Debug)]
pub struct StoreSizing {
    /// Keys that have a row: in all, or on average in each window.
    pub keys: u64,
    /// A key's bytes, as its serde writes it, on average. In a windowed store each zero byte in it counts twice.
    pub key_bytes: u32,
    /// A value's bytes, likewise.
    pub value_bytes: u32,
    /// The kind keeps a timestamp with each value, as tables and aggregations do.
    pub timestamped: bool,
    /// The windows, of a windowed store.
    pub windows: Option<WindowSizing>,
    /// It has a changelog.
    pub logged: bool,
}

/// Which engine holds the rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RowsLie {
    /// In RocksDB's files.
    #[default]
    OnDisk,
    /// In the memory engine.
    InMemory,
}

/// An application's state, and how it is spread.
///
/// [`Sizing::estimate`] is a pure function of it; `cargo xtask size` prints the same for one store.
///
/// ```
/// use millpond_runtime::{Sizing, StoreSizing};
///
/// // Ten million counts by keys of 16 bytes, one standby for each task, on three instances.
/// let counts = StoreSizing::aggregate(10_000_000, 16, 8);
/// let sizing = Sizing { copies: 2, instances: 3, ..Sizing::of(vec![counts], 64) };
/// let estimate = sizing.estimate()?;
/// assert_eq!(estimate.rows, 10_000_000);
/// assert!(estimate.disk_of_an_instance < 400 << 20);
/// # Ok::<(), millpond_runtime::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Sizing {
    /// All stores.
    pub stores: Vec<StoreSizing>,
    /// Tasks that have these stores: partitions of their input.
    pub partitions: u32,
    /// Where each task's state lies at a time: once where it runs, and on `num.standby.replicas` more.
    pub copies: u32,
    /// Processes that share the work.
    pub instances: u32,
    /// `replication.factor` of the changelogs.
    pub replication: u32,
    /// Which engine holds the rows.
    pub rows_lie: RowsLie,
    /// What compression leaves of keys and values in the files: 1 for noise, about a half for text.
    pub compression: f64,
    /// The part of the rows that is read and written all the time, and is worth being cached: 0 to 1.
    pub hot: f64,
}

/// Room in bytes, with the ways it comes about. What nobody can know beforehand is left out: values that grow, records in
/// flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Estimate {
    /// Rows that are alive, one copy of each.
    pub rows: u64,
    /// Rows that are there: expired ones go a bucket at a time, an eighth of the retention or a minute.
    pub rows_kept: u64,
    /// Files of all copies, expired rows and what updates have not yet replaced included.
    pub disk: u64,
    /// Of that, one instance's part.
    pub disk_of_an_instance: u64,
    /// What it takes to cache all rows that one instance works on.
    pub cache_for_all: u64,
    /// What it takes to cache the hot ones.
    pub cache_for_hot: u64,
    /// Filters and indexes of one instance's files: what a look-up reads first, and should find in memory.
    pub lookup: u64,
    /// Rows of one instance in the memory engine.
    pub rows_in_memory: u64,
    /// The least `memory.budget.bytes` with which the hot rows and what look-ups need are in memory.
    pub memory_budget: u64,
    /// Changelogs as if compacted to the last record per key, one replica.
    pub changelog: u64,
    /// Changelogs of all replicas as brokers keep them: up to half of what lies in closed segments is replaced by later records
    /// (`min.cleanable.dirty.ratio`). Each partition has an open segment besides, of up to `segment.bytes`, a GiB by default.
    pub changelog_on_brokers: u64,
    /// Changelog partitions, without replicas.
    pub changelog_partitions: u64,
}

impl StoreSizing {
    /// A logged store of keys and values, without timestamps.
    pub const fn key_value(keys: u64, key_bytes: u32, value_bytes: u32) -> Self {
        Self { keys, key_bytes, value_bytes, timestamped: false, windows: None, logged: true }
    }

    /// The logged store of a table or an aggregation.
    pub const fn aggregate(keys: u64, key_bytes: u32, value_bytes: u32) -> Self {
        Self { timestamped: true, ..Self::key_value(keys, key_bytes, value_bytes) }
    }

    /// The same for each window.
    #[must_use]
    pub const fn windowed(self, windows: WindowSizing) -> Self {
        Self { windows: Some(windows), ..self }
    }

    fn row(&self, compression: f64) -> Row {
        let timestamp = if self.timestamped { TIMESTAMP } else { 0.0 };
        Row {
            key: f64::from(self.key_bytes),
            value: f64::from(self.value_bytes) + timestamp,
            windowed: self.windows.is_some(),
            compression,
        }
    }

    /// Rows for so long a retention.
    fn rows_in(&self, kept: impl Fn(&WindowSizing) -> Duration) -> f64 {
        let windows = self.windows.as_ref().map_or(1.0, |w| kept(w).as_secs_f64() / w.advance.as_secs_f64());
        self.keys as f64 * windows
    }

    fn check(&self) -> Result {
        match &self.windows {
            Some(w) if w.advance.is_zero() || w.advance > w.size => {
                Err(refused("advance", w.advance.as_millis(), "use more than 0, and the window's size at most"))
            }
            Some(w) if w.retention < w.size => {
                Err(refused("retention", w.retention.as_millis(), "use the window's size at least"))
            }
            _ => Ok(()),
        }
    }
}

impl WindowSizing {
    /// Until the bucket of a row can be dropped.
    fn bucket(&self) -> Duration {
        self.retention + (self.retention / 8).max(Duration::from_secs(60))
    }
}

impl Sizing {
    /// Stores of one instance on disk: no standby, one replica, nothing compressed, a tenth of the rows hot.
    pub const fn of(stores: Vec<StoreSizing>, partitions: u32) -> Self {
        Self {
            stores,
            partitions,
            copies: 1,
            instances: 1,
            replication: 1,
            rows_lie: RowsLie::OnDisk,
            compression: 1.0,
            hot: 0.1,
        }
    }

    /// The estimate.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] names a number that makes no sense.
    pub fn estimate(&self) -> Result<Estimate> {
        self.check()?;
        let [instances, copies] = [self.instances, self.copies].map(f64::from);
        let mut sum = Sum::default();
        self.stores.iter().for_each(|store| sum.add(store, self.compression));
        let shards = f64::from(self.partitions) * copies;
        let on_disk = self.rows_lie == RowsLie::OnDisk;
        let disk = if on_disk { sum.files * LEVELS * copies + shards * SHARD_DISK } else { 0.0 };
        let lookup = if on_disk { sum.lookup * copies / instances } else { 0.0 };
        let rows_in_memory = if on_disk { 0.0 } else { sum.in_memory * copies / instances };
        let engine = rows_in_memory + if on_disk { shards / instances * SHARD_MEMORY } else { 0.0 };
        let hot = sum.cached * self.hot / instances;
        Ok(Estimate {
            rows: bytes(sum.rows),
            rows_kept: bytes(sum.kept),
            disk: bytes(disk),
            disk_of_an_instance: bytes(disk / instances),
            cache_for_all: bytes(sum.cached / instances),
            cache_for_hot: bytes(hot),
            lookup: bytes(lookup),
            rows_in_memory: bytes(rows_in_memory),
            memory_budget: budget(hot, lookup, engine),
            changelog: bytes(sum.changelog),
            changelog_on_brokers: bytes(2.0 * sum.changelog * f64::from(self.replication)),
            changelog_partitions: sum.changelogs * u64::from(self.partitions),
        })
    }

    fn check(&self) -> Result {
        let numbers = [
            ("partitions", self.partitions),
            ("copies", self.copies),
            ("instances", self.instances),
            ("replication", self.replication),
        ];
        if let Some((name, _)) = numbers.iter().find(|(_, number)| *number == 0) {
            return Err(refused(name, 0, "use 1 or more"));
        }
        if self.copies > self.instances {
            return Err(refused("copies", self.copies, "use at most one on each instance"));
        }
        for (name, part) in [("compression", self.compression), ("hot", self.hot)] {
            if !(0.0..=1.0).contains(&part) || name == "compression" && part == 0.0 {
                return Err(refused(name, part, "use a part of 1, such as 0.5"));
            }
        }
        self.stores.iter().try_for_each(StoreSizing::check)
    }
}

/// What all stores take together, one copy of each.
#[derive(Default)]
struct Sum {
    rows: f64,
    kept: f64,
    files: f64,
    lookup: f64,
    cached: f64,
    in_memory: f64,
    changelog: f64,
    changelogs: u64,
}

impl Sum {
    fn add(&mut self, store: &StoreSizing, compression: f64) {
        let row = store.row(compression);
        let (alive, kept) = (store.rows_in(|w| w.retention), store.rows_in(WindowSizing::bucket));
        self.rows += alive;
        self.kept += kept;
        self.files += kept * row.file();
        self.lookup += kept * row.lookup();
        self.cached += alive * row.cached();
        self.in_memory += kept * row.in_memory();
        if store.logged {
            self.changelog += store.rows_in(|w| w.retention + ADDITIONAL_RETENTION) * row.logged();
            self.changelogs += 1;
        }
    }
}

/// The budget whose parts are large enough: a quarter is cache of overlays, three eighths are the engine's. Of RocksDB's, half is
/// left for blocks, filters and indexes when memtables and what it needs besides are taken off.
fn budget(hot: f64, lookup: f64, engine: f64) -> u64 {
    let engines = (2.0 * lookup + engine) * 8.0 / 3.0;
    bytes((4.0 * hot).max(engines)).max(MemoryBudget::MIN)
}

fn bytes(number: f64) -> u64 {
    number.ceil() as u64
}

#[cold]
fn refused(name: &'static str, value: impl std::fmt::Display, remedy: &'static str) -> Error {
    Error::new(ErrorKind::Config, "estimate the size of state").with(name, value).remedy(remedy)
}
