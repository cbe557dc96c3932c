//! What a store whose rows expire shows, and what its changelog says that it has to: by a plain model, without any of the code
//! that restores a store.

use std::collections::{BTreeMap, BTreeSet};

use millpond_broker_mem::{Dumped, DumpedRecord, Visibility};
use millpond_changelog::{KeyOrder, SessionKey, WindowKey, changelog_topic};
use millpond_runtime::TaskId;
use millpond_store_api::schema::{Buckets, ExpiringKey};
use millpond_store_api::{self as store, Direction, Range, Row, ValueAndTimestamp, Versioned, VersionedRecord};
use millpond_topology::{LayerSpace, StoreAccess, StoreDef};

use super::checks::{difference, number, text};
use super::job::PARTITIONS;
use super::kinds::{self, Kept, Kind, Versions, version};
use super::world::{APP, World};
use crate::driver::each_row;

type Outcome<T = ()> = Result<T, String>;

/// The rows of a store: what they are called, and their values.
pub(super) type Shown = BTreeMap<String, i64>;

/// A store as its task shows it.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) rows: Shown,
    /// The greatest time that it has observed.
    pub(super) observed: i64,
    /// The first minute of the windowed space that has rows in the shard.
    pub(super) first_bucket: Option<u32>,
}

/// A row of a window or session store, by its changelog's key.
fn windowed_row(kind: Kind, key: &[u8]) -> Outcome<(String, i64)> {
    let damaged = |e: millpond_changelog::Error| e.to_string();
    if kind == Kind::Sessions {
        let SessionKey { key, start, end } = SessionKey::decode(KeyOrder::Plain, key).map_err(damaged)?;
        return Ok((format!("{}@{start}..{end}", text(key)), end));
    }
    let WindowKey { key, start, seqnum } = WindowKey::decode(KeyOrder::Plain, key).map_err(damaged)?;
    let number = if kind == Kind::Duplicates { format!("#{seqnum}") } else { String::new() };
    Ok((format!("{}@{start}{number}", text(key)), start))
}

/// Duplicates, each with its place among those of its key and start. Their numbers count all puts since their task has begun.
fn by_place(rows: Shown) -> Shown {
    let mut numbered: BTreeMap<String, BTreeMap<u32, i64>> = BTreeMap::new();
    for (row, value) in rows {
        let (place, number) = row.rsplit_once('#').unwrap_or((&row, ""));
        numbered.entry(place.to_owned()).or_default().insert(number.parse().unwrap_or(0), value);
    }
    let places = |(row, values): (String, BTreeMap<u32, i64>)| {
        (1..).zip(values.into_values()).map(move |(place, value)| (format!("{row}#{place}"), value)).collect::<Vec<_>>()
    };
    numbered.into_iter().flat_map(places).collect()
}

/// A row of a store with a time to live.
fn stamped_row(key: &str, timestamp: i64) -> String {
    format!("{key}@{timestamp}")
}

/// Reads a store as its task does; of a versioned one these keys, and those that have a latest version.
fn read(store: Kept, def: &StoreDef, access: &mut StoreAccess<'_>, keys: &BTreeSet<String>) -> Outcome<Seen> {
    let (observed, windowed) = {
        let expiry = access.expiry.as_ref().ok_or("it does not know when its rows expire")?;
        let own = access.layer.space();
        (*expiry.observed, expiry.windowed.as_ref().map_or(own, |layer| layer.space()))
    };
    let first_bucket = {
        let mut rows = access.base.scan(windowed, Range::ALL, Direction::Forward).map_err(failed)?;
        rows.next().map_err(failed)?.map(|row| ExpiringKey::bucket_of(row.key)).transpose().map_err(failed)?
    };
    let (mut rows, mut keys, mut damaged) = (Shown::new(), keys.clone(), Ok(()));
    let each = &mut |row: Row<'_>| match store.kind {
        Kind::TimeToLive => match ValueAndTimestamp::decode(row.value) {
            Ok(value) => drop(rows.insert(stamped_row(&text(row.key), value.timestamp), number(value.value))),
            Err(e) => damaged = Err(e.to_string()),
        },
        Kind::Versions => drop(keys.insert(text(row.key))),
        kind => match windowed_row(kind, row.key) {
            Ok((name, _)) => drop(rows.insert(name, number(row.value))),
            Err(e) => damaged = Err(e),
        },
    };
    each_row(def, access, each).map_err(failed)?;
    damaged?;
    if store.kind == Kind::Versions {
        rows = read_versions(store, access, &keys)?;
    }
    Ok(Seen { rows, observed, first_bucket })
}

fn read_versions(store: Kept, access: &mut StoreAccess<'_>, keys: &BTreeSet<String>) -> Outcome<Shown> {
    let StoreAccess { layer, base, expiry, .. } = access;
    let expiry = expiry.as_mut().ok_or("it does not know when its rows expire")?;
    let windowed = expiry.windowed.as_mut().ok_or("it has no history")?;
    let mut latest = LayerSpace { layer: &mut **layer, base: *base, timestamp: 0 };
    let mut history = LayerSpace { layer: &mut **windowed, base: *base, timestamp: 0 };
    let mut view = Versioned::new(&mut latest, &mut history, expiry.store, store.retention, *expiry.observed);
    let mut rows = Shown::new();
    for key in keys {
        let each = &mut |found: VersionedRecord<'_>| {
            rows.insert(version(key, found.timestamp, found.valid_to), number(found.value));
            Ok(true)
        };
        view.versions(key.as_bytes(), i64::MIN, i64::MAX, Direction::Forward, each).map_err(failed)?;
    }
    Ok(rows)
}

fn failed(error: store::Error) -> String {
    error.to_string()
}

/// The fold of a store's changelog, before anything in it expires.
#[derive(Debug, Default)]
pub(super) struct Fold {
    /// By name: value, and the time by which the row expires.
    rows: BTreeMap<String, (i64, i64)>,
    versions: BTreeMap<String, Versions>,
    /// Keys whose last record is a tombstone.
    deleted: BTreeMap<String, bool>,
    /// A tombstone that followed another one.
    pub(super) twice: Option<String>,
}

impl Fold {
    fn record(&mut self, kind: Kind, record: DumpedRecord) -> Outcome {
        let key = record.key.unwrap_or_default();
        let value = record.value.as_deref().map(number);
        match kind {
            Kind::Versions => {
                self.versions.entry(text(&key)).or_default().0.insert(record.timestamp, value);
            }
            Kind::TimeToLive => {
                let was_deleted = self.deleted.insert(text(&key), value.is_none());
                if was_deleted == Some(true) && value.is_none() {
                    self.twice = Some(text(&key));
                }
                self.set(text(&key), value, record.timestamp);
            }
            kind => {
                let (name, time) = windowed_row(kind, &key)?;
                self.set(name, value, time);
            }
        }
        Ok(())
    }

    fn set(&mut self, name: String, value: Option<i64>, time: i64) {
        match value {
            Some(value) => drop(self.rows.insert(name, (value, time))),
            None => drop(self.rows.remove(&name)),
        }
    }

    /// What is there when the store has observed a time.
    pub(super) fn shown(&self, store: Kept, observed: i64) -> Shown {
        let expired = observed - store.retention;
        let name = |name: &String, time| match store.kind {
            Kind::TimeToLive => stamped_row(name, time),
            _ => name.clone(),
        };
        let alive = self.rows.iter().filter(|(_, (_, time))| *time > expired);
        let rows = alive.map(|(key, (value, time))| (name(key, *time), *value));
        rows.chain(self.versions.iter().flat_map(|(key, versions)| versions.rows(key, expired))).collect()
    }

    /// How many rows have expired by a time.
    fn expired(&self, store: Kept, observed: i64) -> u64 {
        let deleted = self.deleted.values().filter(|deleted| **deleted).count();
        let expired = observed - store.retention;
        (deleted + self.rows.values().filter(|(_, time)| *time <= expired).count()) as u64
    }

    /// A row that should have been deleted by a time: its bucket has passed, and no tombstone is behind it.
    pub(super) fn undeleted(&self, store: Kept, observed: i64) -> Option<&String> {
        let passed = u32::from_be_bytes(Buckets::dead_below(observed));
        let is_due = |time| Buckets::new(store.retention).of(time) < passed;
        let (name, _) = self.rows.iter().find(|(_, (_, time))| store.kind == Kind::TimeToLive && is_due(*time))?;
        Some(name)
    }
}

/// A store of one task, with its changelog.
struct Pair {
    store: Kept,
    partition: i32,
    caching: bool,
    seen: Seen,
    fold: Fold,
}

impl World {
    /// The committed records of a store's changelog, folded.
    fn fold_kept(&self, store: Kept, partition: i32) -> Outcome<Fold> {
        let mut fold = Fold::default();
        for (_, entry) in self.broker.dump(&changelog_topic(APP, store.name), partition).map_err(|e| e.to_string())? {
            let Dumped::Record(record) = entry else { continue };
            if !matches!(record.visibility, Visibility::Aborted | Visibility::Open) {
                fold.record(store.kind, record)?;
            }
        }
        Ok(fold)
    }

    fn pairs(&mut self) -> Outcome<Vec<Pair>> {
        let mut pairs = Vec::new();
        for store in kinds::ALL {
            let def = self.topology.stores().iter().find(|def| def.name == store.name);
            let def = def.cloned().ok_or_else(|| format!("there is no store {}", store.name))?;
            for partition in 0..PARTITIONS {
                let fold = self.fold_kept(store, partition)?;
                let keys = fold.versions.keys().cloned().collect();
                let task = TaskId { sub_topology: store.sub_topology, partition };
                let mut processes = self.machines.iter_mut().filter_map(|m| m.process.as_mut());
                let seen = processes.find_map(|p| p.with_store(task, store.name, |a| read(store, &def, a, &keys)));
                let seen = seen.ok_or_else(|| format!("nobody runs task {task}"))??;
                pairs.push(Pair { store, partition, caching: def.caching, seen, fold });
            }
        }
        Ok(pairs)
    }

    /// What has expired is gone: rows with a time to live from the changelog, and all rows from the first sub-topology's shards.
    /// The other has no input of its own that goes on when the job is quiet, so its last buckets wait for a commit.
    pub(super) fn is_tidy(&mut self) -> Outcome<bool> {
        let pairs = self.pairs()?;
        let done_with = |of: &Pair| {
            let same = |p: &&Pair| (p.store.sub_topology, p.partition) == (of.store.sub_topology, of.partition);
            pairs.iter().filter(same).map(|p| p.seen.observed).min().map(Buckets::dead_below).map(u32::from_be_bytes)
        };
        Ok(pairs.iter().all(|pair| {
            let is_dropped = pair.seen.first_bucket.zip(done_with(pair)).is_none_or(|(first, done)| first >= done);
            pair.fold.undeleted(pair.store, pair.seen.observed).is_none() && (pair.store.sub_topology > 0 || is_dropped)
        }))
    }

    /// As [`World::check_stores`], of the stores whose rows expire.
    pub(super) fn check_kept(&mut self) -> Outcome {
        for Pair { store, partition, caching, seen, fold } in self.pairs()? {
            let of = || format!("store {} of partition {partition}", store.name);
            let want = fold.shown(store, seen.observed);
            if seen.rows != want {
                let differences = difference(&seen.rows, &want);
                return Err(format!("{} is not the fold of its changelog: {differences}", of()));
            }
            self.expired += fold.expired(store, seen.observed);
            // Behind a cache, a row that is put and deleted within an interval is a tombstone of a row that never was.
            if let (true, Some(key)) = (self.exactly_once() && !caching, &fold.twice) {
                return Err(format!("{} has two tombstones behind one row: {key}", of()));
            }
            let Some(expected) = self.came.get(partition as usize).and_then(|came| came.expected(store)) else {
                continue;
            };
            if seen.observed != expected.observed {
                return Err(format!("{} has observed {}, should {}", of(), seen.observed, expected.observed));
            }
            // Duplicates of records that were processed twice are there twice.
            if store.kind != Kind::Duplicates || self.exactly_once() {
                let rows = if store.kind == Kind::Duplicates { by_place(seen.rows) } else { seen.rows };
                let decided = rows.into_iter().filter(|(row, _)| expected.decides(store, row)).collect();
                self.compare(&of(), &decided, &expected.certain)?;
            }
        }
        Ok(())
    }
}
