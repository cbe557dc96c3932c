//! Topics of an application: source topics are found, internal ones made, and the topology resolved against them.

mod met;

use std::collections::{BTreeMap, BTreeSet};

pub(crate) use met::{Met, MetTopics, UNKNOWN_TOPIC, failed_to_ask};
use millpond_broker_api::{Admin, Broker, TopicInfo};
use millpond_changelog::{
    self as changelog, CommitMetadata, InternalTopic, MissingTopics, TopicDefaults, TopicKind, ValueFormat,
    ensure_topics,
};
use millpond_topology::{
    self as topology, InternalTopicKind, Logging, SourceDef, StoreDef, StoreIndex, StoreType, Topology,
};

use crate::error::{Error, ErrorKind, Result};
use crate::instance::Shared;
use crate::plan::{InputPlan, Plan, SinkPlan, StorePlan, SubPlan};
use crate::settings::{OffsetReset, Settings};

/// How often internal topics are asked for before the start gives up.
const ATTEMPTS: usize = 5;

/// Finds the source topics, makes the internal ones, and says what all tasks are.
pub(crate) fn resolve(
    topology: &Topology,
    settings: &Settings,
    dead_letters: &[String],
    broker: &dyn Broker,
) -> Result<Plan> {
    let app = &settings.application_id;
    let mut admin = broker.admin().map_err(|e| Error::broker("make an admin client", e))?;
    let mut partitions = external_partitions(topology, dead_letters, broker, &mut *admin)?;
    let internal = topology
        .partitions(|topic| partitions.get(topic).copied())
        .map_err(|e| Error::new(ErrorKind::Config, "count the partitions of internal topics").caused_by(e))?;
    let wanted = internal_topics(topology, settings, &internal.internal)?;
    create(&mut *admin, &wanted)?;
    partitions.extend(wanted.iter().map(|t| (t.name.clone(), t.partitions)));
    let counted = |topic: &String| partitions.get(topic).map(|count| (topic.clone(), *count));
    let dead_letters = dead_letters.iter().filter_map(counted).collect();
    let numbers = 0..topology.sub_topologies().len();
    let mut subs: Vec<_> = numbers.map(|n| sub_plan(topology, n, app, &partitions)).collect();
    for store in subs.iter_mut().flat_map(|sub| &mut sub.stores) {
        let changelog = wanted.iter().find(|topic| Some(&topic.name) == store.changelog.as_ref());
        store.changelog_keeps = changelog.and_then(InternalTopic::deletes_after_ms);
    }
    subs.iter().for_each(tell_of_metadata);
    Ok(Plan { subs, position_headers: settings.position_headers, dead_letters })
}

/// What stands beside an input's offset names every node that has a time and every store that final results are told of. A
/// broker takes only so much, and refuses the commit above it.
fn tell_of_metadata(sub: &SubPlan) {
    const BROKERS_DEFAULT: usize = 4096;
    let told = |s: &&StorePlan| s.kind == StoreType::SuppressionBuffer || s.hold.is_some();
    let stores = sub.stores.iter().filter(told).map(|s| s.name.clone());
    let nodes = sub.timed.iter().map(|(_, name)| name.clone());
    let processor = stores.chain(nodes).map(|name| (name, i64::MIN)).collect();
    let mut text = String::new();
    CommitMetadata { partition_time: i64::MIN, processor }.encode(&mut text);
    if text.len() > BROKERS_DEFAULT {
        tracing::warn!(
            bytes = text.len(),
            inputs = ?sub.inputs.iter().map(|i| &*i.topic).collect::<Vec<_>>(),
            "the metadata of this sub-topology's offsets is larger than brokers take by default, which refuse its commits then: \
             give the stores of its windows and suppressions shorter names, put a repartition between them, or raise the brokers' \
             `offset.metadata.max.bytes`"
        );
    }
}

/// Partition counts of the topics that are the user's. All must exist: nobody but the user knows how they have to be.
fn external_partitions(
    topology: &Topology,
    dead_letters: &[String],
    broker: &dyn Broker,
    admin: &mut dyn Admin,
) -> Result<BTreeMap<String, i32>> {
    let sources = topology.sources().iter().flat_map(|s| &s.topics);
    let topics = sources.chain(topology.sinks().iter().filter_map(|s| s.topic.fixed())).filter(|t| !t.internal);
    let names: BTreeSet<&str> = topics.map(|t| &t.name).chain(dead_letters).map(String::as_str).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let found = admin.describe(&names).map_err(|e| Error::broker("describe topics", e))?;
    warn_of_short_logs(topology, found.iter().flatten());
    let missing: Vec<&str> = names.iter().zip(&found).filter(|(_, f)| f.is_none()).map(|(n, _)| *n).collect();
    if !missing.is_empty() {
        let error = Error::new(ErrorKind::Config, "find topics").with("unknown topics", missing.join(", "));
        let error = match dead_letters.iter().find(|topic| missing.contains(&topic.as_str())) {
            Some(topic) => error.with("topic for dead letters", topic),
            None => error,
        };
        return Err(error
            .with("broker", broker.name())
            .remedy("create them before the application starts, with the partition count that you want"));
    }
    Ok(found.into_iter().flatten().map(|info| (info.name, info.partitions)).collect())
}

/// A topic that is a table's changelog, too, has to keep the last record of each key.
fn warn_of_short_logs<'a>(topology: &Topology, found: impl Iterator<Item = &'a TopicInfo>) {
    let stores = (0..topology.stores().len() as u32).map(StoreIndex);
    let reused: BTreeSet<&str> =
        stores.filter_map(|store| topology.reused_topic(store)).map(|reused| reused.topic.name.as_str()).collect();
    for info in found.filter(|info| reused.contains(info.name.as_str()) && !keeps_last_records(info)) {
        tracing::warn!(
            topic = info.name,
            "it is the changelog of a table, but its records are deleted after a time: rows will be missing after a restore; \
             set its `cleanup.policy` to `compact`, or let the table have a changelog of its own"
        );
    }
}

fn keeps_last_records(info: &TopicInfo) -> bool {
    let effective = || info.configs.iter().chain(&info.inherited);
    let config = |name: &str| effective().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    // What the broker does not say is not warned of.
    let deletes = config("cleanup.policy").is_some_and(|policy| policy.contains("delete"));
    !deletes || config("retention.ms") == Some("-1")
}

/// The internal topics as they have to be, in the topology's order.
fn internal_topics(topology: &Topology, settings: &Settings, partitions: &[i32]) -> Result<Vec<InternalTopic>> {
    let defaults = TopicDefaults {
        replication: settings.replication,
        configs: settings.topic_configs.iter().cloned().collect(),
        window_additional_retention_ms: settings.window_additional_retention_ms,
    };
    let topic = |(topic, partitions): (&millpond_topology::InternalTopic, &i32)| {
        let kind = match topic.kind {
            InternalTopicKind::Repartition => TopicKind::Repartition,
            InternalTopicKind::Changelog(store) => changelog_kind(topology, store),
        };
        let name = topic.topic.full_name(&settings.application_id);
        InternalTopic::new(name, kind, *partitions, &defaults, &topic.configs)
            .map_err(|e| Error::new(ErrorKind::Config, "plan internal topics").caused_by(e))
    };
    topology.internal_topics().iter().zip(partitions).map(topic).collect()
}

fn create(admin: &mut dyn Admin, wanted: &[InternalTopic]) -> Result {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        match ensure_topics(admin, wanted, MissingTopics::Create) {
            Ok(ensured) => {
                for difference in ensured.differences {
                    tracing::warn!(?difference, "an internal topic is not as this application would make it");
                }
                return Ok(());
            }
            Err(e) if e.kind() == changelog::ErrorKind::Retriable => last = Some(e),
            Err(e) => return Err(Error::new(ErrorKind::Config, "make internal topics").caused_by(e)),
        }
    }
    let error = Error::new(ErrorKind::Broker, "make internal topics").with("attempts", ATTEMPTS);
    Err(last.map_or(error.clone(), |e| error.caused_by(e)))
}

fn sub_plan(topology: &Topology, number: usize, app: &str, partitions: &BTreeMap<String, i32>) -> SubPlan {
    let mut plan = SubPlan::default();
    let Some(sub) = topology.sub_topologies().get(number) else { return plan };
    let count = |topic: &str| partitions.get(topic).copied().unwrap_or(0);
    for source in &sub.sources {
        let Some(def) = topology.sources().get(source.0 as usize) else { continue };
        for topic in &def.topics {
            let name = topic.full_name(app);
            plan.inputs.push(InputPlan {
                source: *source,
                partitions: count(&name),
                topic: name,
                internal: topic.internal,
                extractor: def.timestamp_extractor,
                reset: reset(def, topic.internal),
            });
        }
    }
    let changelog_of = |def: &StoreDef, logged: bool| {
        let is_logged = matches!(def.logging, Logging::Enabled { .. });
        (is_logged == logged).then(|| changelog::changelog_topic(app, &def.name))
    };
    for store in &sub.stores {
        let Some(def) = topology.stores().get(store.0 as usize) else { continue };
        let reused = topology.reused_topic(*store).map(|reused| reused.topic.full_name(app));
        let reuses_source = reused.is_some();
        plan.stores.push(StorePlan {
            index: *store,
            name: def.name.clone(),
            kind: def.kind,
            retention: def.retention,
            hold: def.hold,
            engine: def.engine.clone(),
            format: value_format(def.kind),
            former_changelog: changelog_of(def, reuses_source),
            changelog: reused.or_else(|| changelog_of(def, true)),
            changelog_keeps: None,
            reuses_source,
            caching: def.caching,
            forwards: def.owner.is_some(),
        });
    }
    plan.timed = sub.nodes.iter().filter_map(|node| Some((*node, topology.time_name(*node)?))).collect();
    for sink in &sub.sinks {
        let Some(def) = topology.sinks().get(sink.0 as usize) else { continue };
        let node = def.name.clone();
        let Some(topic) = def.topic.fixed() else {
            // Its topics are met at run time.
            plan.choosing.push((*sink, node));
            continue;
        };
        let name = topic.full_name(app);
        let (partitions, internal) = (count(&name), topic.internal);
        plan.sinks.push(SinkPlan { sink: *sink, partitions, topic: name, internal, node });
    }
    plan
}

/// What decides the configs of a store's changelog.
fn changelog_kind(topology: &Topology, store: StoreIndex) -> TopicKind {
    let Some(def) = topology.stores().get(store.0 as usize) else { return TopicKind::KeyValue };
    match (def.kind, def.retention) {
        (StoreType::VersionedKeyValue, Some(kept)) => TopicKind::Versioned { history_ms: kept.millis },
        (kind, Some(kept)) if kind.is_windowed() => {
            TopicKind::Windowed { retention_ms: kept.millis, duplicates: kept.duplicates }
        }
        _ => TopicKind::KeyValue,
    }
}

/// How a kind holds its values.
fn value_format(kind: StoreType) -> ValueFormat {
    match kind {
        StoreType::TimestampedKeyValue | StoreType::TtlKeyValue | StoreType::TimestampedWindow => {
            ValueFormat::Timestamped
        }
        StoreType::TimestampedKeyValueWithHeaders | StoreType::TimestampedWindowWithHeaders => {
            ValueFormat::TimestampedWithHeaders
        }
        StoreType::SessionWithHeaders | StoreType::SuppressionBuffer => ValueFormat::AggregationWithHeaders,
        _ => ValueFormat::Plain,
    }
}

/// Where a topic is begun. What another task has written to a repartition topic must be read, whoever reads it first.
fn reset(source: &SourceDef, internal: bool) -> Option<OffsetReset> {
    match source.reset {
        _ if internal => Some(OffsetReset::Earliest),
        Some(topology::OffsetReset::Earliest) => Some(OffsetReset::Earliest),
        Some(topology::OffsetReset::Latest) => Some(OffsetReset::Latest),
        None => None,
    }
}

/// Builds one graph per sub-topology and throws it away: what a supplier finds wrong shows at the start, not on a worker.
pub(crate) fn dry_run(shared: &Shared) -> Result {
    let mut collector = shared.collector(0)?;
    for sub_topology in 0..shared.plan.subs.len() as u32 {
        let id = crate::TaskId { sub_topology, partition: 0 };
        let mut task = crate::task::Task::new(id, shared, &mut collector, &mut 0)?;
        task.dry_run(&shared.topology, shared.memory.caching, &shared.memory.overlays, shared.ports.clock.wall_ms())?;
    }
    Ok(())
}
