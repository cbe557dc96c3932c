//! Final results of the simulated application: records by key and minute of event time, each told of once, when its minute is
//! over; and which of them there have to be.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use millpond_broker_mem::{Dumped, Visibility};
use millpond_topology::{
    BufferConfig, EmitStrategy, Error, Grouped, I64, Materialized, Produced, Stream, Suppressed, TimeWindowed,
    TimeWindows, Utf8, Windowed,
};

use super::checks::{number, text};
use super::job::PARTITIONS;
use super::kinds::FAIL;
use super::world::World;

/// Where they come out.
pub(super) const FINALS: &str = "finals";
/// What they are grouped through.
pub(super) const REPARTITION: &str = "by-minute";

const MINUTE: i64 = 60_000;
/// Nothing is late: records are six minutes behind at most, others six ahead, and inputs a few from each other.
const GRACE: i64 = 18 * MINUTE;

/// What cannot be told of, so that the handler leaves it out.
fn fails(key: &str) -> bool {
    key.ends_with('5')
}

/// Adds them in one of two ways; the seed says in which, and how often they are looked for.
pub(super) fn add(rng: &mut Rng, input: &Stream<String, String>) {
    let ms = |millis: i64| Duration::from_millis(millis.unsigned_abs());
    let minutes = input
        .clone()
        .filter(|_, value| value != FAIL)
        .group_by(|key, _| key.clone(), Grouped::named(REPARTITION).key(Utf8).value(Utf8))
        .windowed_by(TimeWindows::of_size_and_grace(ms(MINUTE), ms(GRACE)));
    let rows = Materialized::named("minutes");
    let finals = if rng.bool() {
        let every = if rng.bool() { 0 } else { rng.i64(1..2_000) };
        minutes.emit_strategy(EmitStrategy::on_window_close().at_most_every(ms(every))).count(rows).to_stream()
    } else {
        let rows = if rng.bool() { rows } else { rows.caching_disabled() };
        minutes.count(rows).suppress(Suppressed::until_window_closes(BufferConfig::unbounded())).to_stream()
    };
    let tell = |key: &Windowed<String>, _: &i64| {
        if fails(&key.key) { Err(Error::other("a final result that fails")) } else { Ok(()) }
    };
    finals.try_peek(tell).to(FINALS, Produced::with(TimeWindowed::new(Utf8, MINUTE), I64));
}

/// The records of a partition that did not fail: how many of each key and minute, and the latest time.
#[derive(Debug, Default)]
pub(super) struct Minutes {
    counts: BTreeMap<(String, i64), i64>,
    latest: i64,
}

impl Minutes {
    pub(super) fn record(&mut self, key: &str, timestamp: i64) {
        *self.counts.entry((key.to_owned(), timestamp - timestamp % MINUTE)).or_insert(0) += 1;
        self.latest = self.latest.max(timestamp);
    }

    /// What must have been told of.
    fn told(&self) -> impl Iterator<Item = (String, i64)> {
        let is_told = |key: &str, start: i64| !fails(key) && start + MINUTE + GRACE <= self.latest;
        let told = self.counts.iter().filter(move |((key, start), _)| is_told(key, *start));
        told.map(|((key, start), count)| (format!("{key}@{start}"), *count))
    }
}

impl World {
    fn wanted_finals(&self) -> BTreeMap<String, i64> {
        self.minutes.iter().flat_map(Minutes::told).collect()
    }

    /// How often each was told of, and what was said last.
    fn told_finals(&self) -> Result<BTreeMap<String, (u64, i64)>, String> {
        let mut told = BTreeMap::new();
        for partition in 0..PARTITIONS {
            for (_, entry) in self.broker.dump(FINALS, partition).map_err(|e| e.to_string())? {
                let Dumped::Record(record) = entry else { continue };
                if matches!(record.visibility, Visibility::Aborted | Visibility::Open) {
                    continue;
                }
                let key = record.key.unwrap_or_default();
                let (key, start) = key.split_at(key.len().saturating_sub(8));
                let (times, last) = told.entry(format!("{}@{}", text(key), number(start))).or_insert((0, 0));
                (*times, *last) = (*times + 1, number(&record.value.unwrap_or_default()));
            }
        }
        Ok(told)
    }

    /// Whether all that must be told of was: what is put off comes by the wall clock.
    pub(super) fn are_finals_told(&self) -> Result<bool, String> {
        let told = self.told_finals()?;
        Ok(self.wanted_finals().keys().all(|key| told.contains_key(key)))
    }

    /// Each final result once under exactly-once, with all that belongs to it; at least once under at-least-once, with at least
    /// that; and none that is not final.
    pub(super) fn check_finals(&mut self) -> Result<(), String> {
        let told = self.told_finals()?;
        if let Some((key, (times, _))) = told.iter().find(|(_, (times, _))| *times > 1 && self.exactly_once()) {
            return Err(format!("the final result {key} is told of {times} times"));
        }
        let told = told.into_iter().map(|(key, (_, last))| (key, last)).collect();
        let wanted = self.wanted_finals();
        self.told += wanted.len() as u64;
        self.compare("final results", &told, &wanted)
    }
}
