//! The books: what must hold during a run, and what must have come out at its end.

use std::collections::BTreeMap;
use std::path::PathBuf;

use millpond_broker_api::{At, Broker};
use millpond_broker_mem::{Dumped, Visibility};
use millpond_changelog::{Decision, ShardMetadata, ValueFormat, changelog_topic, repartition_topic};
use millpond_runtime::TaskId;
use millpond_store_api::{Direction, Engine, Range, ShardSpec, Space};
use millpond_store_mem::MemEngine;

use super::finals::REPARTITION;
use super::job::{COUNTS, INPUT, LEDGER, OUTPUT, PARTITIONS, SECOND_INPUT, TICKS};
use super::world::{APP, Machine, World};

type Outcome<T = ()> = Result<T, String>;

fn inputs() -> Vec<String> {
    let repartitions = ["by-value", REPARTITION].map(|name| repartition_topic(APP, name));
    [INPUT, SECOND_INPUT].into_iter().map(str::to_owned).chain(repartitions).collect()
}

pub(super) fn number(bytes: &[u8]) -> i64 {
    bytes.try_into().map(i64::from_be_bytes).unwrap_or(i64::MIN)
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Machine {
    /// What each shard directory holds durably, read as a restart would.
    pub(super) fn durable_now(&self) -> Outcome<BTreeMap<PathBuf, ShardMetadata>> {
        let engine = MemEngine::with_simulated_disk(&self.disk);
        let mut durable = BTreeMap::new();
        for dir in self.disk.directories() {
            let spec = ShardSpec { dir: Some(&dir), spaces: &[], unlogged: false };
            // A planned fault of the disk may hit this look, too.
            let Ok(shard) = engine.open(&spec).or_else(|_| engine.open(&spec)) else { continue };
            if let Some(bytes) = shard.committed() {
                let metadata = ShardMetadata::decode(bytes).map_err(|e| format!("a shard's metadata: {e}"))?;
                durable.insert(dir, metadata);
            }
        }
        Ok(durable)
    }
}

/// The task that a shard's directory belongs to: `…/<task>/<engine>-<n>/data`.
fn is_of(dir: &std::path::Path, task: TaskId) -> bool {
    dir.iter().any(|part| part.to_str() == Some(&task.to_string()))
}

impl World {
    /// A restart reads its changelogs again from exactly the shard's durable offset; nothing was wiped.
    pub(super) fn check_restores(&mut self, at: usize) -> Outcome {
        let Some(machine) = self.machines.get_mut(at) else { return Ok(()) };
        let planned = machine.probe.take_planned();
        let mut resumed = 0;
        for plan in &planned {
            if let Decision::Rebuild { why, .. } = plan.decision {
                return Err(format!("process {at} wiped {}: {why:?}", plan.topic));
            }
            let Some((_, durable)) = machine.durable.iter().find(|(dir, _)| is_of(dir, plan.task)) else { continue };
            let position = durable.changelog(&plan.topic, plan.partition).map(|p| p.next);
            let from = match plan.decision {
                Decision::Nothing { at } => Some(at),
                Decision::Resume { from } => Some(from),
                _ => None,
            };
            resumed += u64::from(from.is_some());
            if position != from {
                return Err(format!(
                    "process {at} restores {}-{} by {:?}, its shard was durable up to {position:?}",
                    plan.topic, plan.partition, plan.decision
                ));
            }
        }
        for plan in &planned {
            machine.durable.retain(|dir, _| !is_of(dir, plan.task));
        }
        self.resumed += resumed;
        Ok(())
    }

    /// Committed offsets never go back.
    pub(super) fn check_committed(&mut self) -> Outcome {
        let Some(group) = self.broker.group(APP) else { return Ok(()) };
        for (topic, partition, committed) in group.offsets {
            let seen = self.committed.entry((topic.clone(), partition)).or_insert(0);
            if committed.next < *seen {
                return Err(format!(
                    "the committed offset of {topic}-{partition} went back from {seen} to {}",
                    committed.next
                ));
            }
            *seen = committed.next;
        }
        Ok(())
    }

    /// Whether every input, repartition topic included, is committed up to its end.
    pub(super) fn is_all_committed(&mut self) -> Outcome<bool> {
        let mut admin = self.broker.admin().map_err(|e| e.to_string())?;
        let offsets = self.broker.group(APP).map(|g| g.offsets).unwrap_or_default();
        for topic in inputs() {
            for partition in 0..PARTITIONS {
                let end = admin.offsets(&[(&topic, partition, At::End)]).map_err(|e| e.to_string())?;
                let Some(Ok(end)) = end.into_iter().next() else { return Ok(false) };
                let committed =
                    offsets.iter().find(|(t, p, _)| *t == topic && *p == partition).map_or(0, |(.., c)| c.next);
                if committed > end {
                    return Err(format!("{committed} is committed of {topic}-{partition}, which ends at {end}"));
                }
                if committed < end {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// The visible state of every task is the fold of its committed changelog.
    pub(super) fn check_stores(&mut self) -> Outcome {
        for (store, sub_topology, format) in [(LEDGER, 0, ValueFormat::Plain), (COUNTS, 1, ValueFormat::Timestamped)] {
            for partition in 0..PARTITIONS {
                let task = TaskId { sub_topology, partition };
                let want = self.fold(store, partition)?;
                let read = |access: &mut millpond_topology::StoreAccess<'_>| {
                    let space = access.space();
                    let mut rows = BTreeMap::new();
                    let mut cursor = space.scan(Range::ALL, Direction::Forward).map_err(|e| e.to_string())?;
                    while let Some(row) = cursor.next().map_err(|e| e.to_string())? {
                        let value = if format == ValueFormat::Plain {
                            row.value
                        } else {
                            row.value.get(8..).unwrap_or_default()
                        };
                        rows.insert(text(row.key), number(value));
                    }
                    Ok::<_, String>(rows)
                };
                let found = self
                    .machines
                    .iter_mut()
                    .filter_map(|m| m.process.as_mut())
                    .find_map(|p| p.with_store(task, store, read));
                let mut got = found.ok_or_else(|| format!("nobody runs task {task}"))??;
                // Ticks go on without input, and may not be committed yet.
                let mut want = want;
                if let (Some(a), Some(b)) = (got.remove(TICKS), want.remove(TICKS).or(Some(0)))
                    && a < b
                {
                    return Err(format!("task {task} has {a} ticks, its changelog {b}"));
                }
                if got != want {
                    return Err(format!(
                        "store {store} of task {task} is not the fold of its changelog: {}",
                        difference(&got, &want)
                    ));
                }
            }
        }
        Ok(())
    }

    /// The committed records of a changelog partition, folded.
    fn fold(&self, store: &str, partition: i32) -> Outcome<BTreeMap<String, i64>> {
        let mut rows = BTreeMap::new();
        for (_, entry) in self.broker.dump(&changelog_topic(APP, store), partition).map_err(|e| e.to_string())? {
            let Dumped::Record(record) = entry else { continue };
            if matches!(record.visibility, Visibility::Aborted | Visibility::Open) {
                continue;
            }
            let key = text(&record.key.unwrap_or_default());
            match record.value {
                Some(value) => drop(rows.insert(key, number(&value))),
                None => drop(rows.remove(&key)),
            }
        }
        Ok(rows)
    }

    fn fold_all(&self, store: &str) -> Outcome<BTreeMap<String, i64>> {
        let mut all = BTreeMap::new();
        for partition in 0..PARTITIONS {
            all.extend(self.fold(store, partition)?);
        }
        all.remove(TICKS);
        Ok(all)
    }

    /// The totals: exactly what went in under exactly-once, at least that under at-least-once.
    pub(super) fn check_books(&mut self) -> Outcome {
        let (ledger, counts) = (self.fold_all(LEDGER)?, self.fold_all(COUNTS)?);
        self.compare("ledger", &ledger, &self.model.ledger)?;
        self.compare("counts", &counts, &self.model.counts)?;
        let out = self.output()?;
        self.compare("output", &out, &self.model.counts)?;
        for machine in &self.machines {
            let dirs = machine.disk.directories();
            if let Some(dir) = dirs.iter().find(|d| d.to_string_lossy().contains("quarantine")) {
                return Err(format!("a shard was set aside: {}", dir.display()));
            }
        }
        Ok(())
    }

    /// The last value of each key of the output; under exactly-once the values of a key never repeat or go back.
    fn output(&self) -> Outcome<BTreeMap<String, i64>> {
        let mut last: BTreeMap<String, i64> = BTreeMap::new();
        for partition in 0..2 {
            for (offset, entry) in self.broker.dump(OUTPUT, partition).map_err(|e| e.to_string())? {
                let Dumped::Record(record) = entry else { continue };
                if matches!(record.visibility, Visibility::Aborted | Visibility::Open) {
                    continue;
                }
                let (key, value) = (text(&record.key.unwrap_or_default()), number(&record.value.unwrap_or_default()));
                let before = last.insert(key.clone(), value);
                if self.exactly_once() && before.is_some_and(|b| b >= value) {
                    return Err(format!("output {partition}@{offset}: {key} goes from {before:?} to {value}"));
                }
            }
        }
        Ok(last)
    }

    pub(super) fn compare(&self, what: &str, got: &BTreeMap<String, i64>, want: &BTreeMap<String, i64>) -> Outcome {
        let right = if self.exactly_once() {
            got == want
        } else {
            got.keys().eq(want.keys()) && got.iter().zip(want).all(|((_, g), (_, w))| g >= w)
        };
        if right { Ok(()) } else { Err(format!("{what}: {}", difference(got, want))) }
    }
}

pub(super) fn difference(got: &BTreeMap<String, i64>, want: &BTreeMap<String, i64>) -> String {
    let keys: std::collections::BTreeSet<_> = got.keys().chain(want.keys()).collect();
    let differs = keys.into_iter().filter(|k| got.get(*k) != want.get(*k));
    let lines: Vec<String> =
        differs.take(8).map(|k| format!("{k}: has {:?}, should {:?}", got.get(k), want.get(k))).collect();
    lines.join("; ")
}
