//! Records that leave a task: held back in an arena until the input record has returned, then handed to the producer.

use std::ops::Range;
use std::sync::Arc;

use millpond_broker_api::{Header, Outgoing, TopicId};
use millpond_changelog::{CUT_HEADER, Change, CutBytes, partition_for_key};
use millpond_topology::{self as topology, Headers, Out, SinkIndex};
use smallvec::SmallVec;

use crate::error::{Error, ErrorKind, Result};
use crate::exec::ChangelogRoute;
use crate::handler::Origin;
use crate::output::Collector;
use crate::state::Entry;
use crate::task::stores::LogFormat;
use crate::topics::{Met, MetTopics};

/// The headers of a position (`docs/formats/position.md`): the version of the headers, the position.
const VERSION_HEADER: &str = "v";
const POSITION_HEADER: &str = "c";

/// Where the records of a sink go.
#[derive(Debug)]
pub(crate) struct SinkRoute {
    /// The node's name.
    pub(crate) node: Arc<str>,
    pub(crate) topic: String,
    pub(crate) id: TopicId,
    pub(crate) partitions: i32,
    /// Records to a repartition topic carry the cut tag (D10).
    pub(crate) tagged: bool,
}

/// Where a task's records go. Topic numbers are the producer's, so a new producer means new routes.
#[derive(Clone, Debug)]
pub(crate) struct Routes {
    /// By sink; `None` for sinks of other sub-topologies.
    pub(crate) sinks: Vec<Option<Arc<SinkRoute>>>,
    /// The sinks that choose a topic for each record, and the names of their nodes.
    pub(crate) choosing: Vec<(SinkIndex, Arc<str>)>,
    /// By the task's stores; `None` for stores without a changelog.
    pub(crate) changelogs: Vec<Option<ChangelogRoute>>,
    /// The task's partition: that of its changelogs.
    pub(crate) partition: i32,
    pub(crate) cut: CutBytes,
    /// How far the inputs were read, for the headers of changelog records; `None` if these have no such headers.
    pub(crate) position: Option<Vec<u8>>,
}

impl Routes {
    /// Tells the changelogs the time.
    pub(crate) fn look_at(&mut self, wall: i64) {
        self.changelogs.iter_mut().flatten().for_each(|log| log.look_at(wall));
    }

    /// Where a record goes whose sink has chosen this topic.
    fn met(&self, sink: SinkIndex, met: &Met, collector: &mut Collector) -> Result<SinkRoute> {
        let (_, node) = self.choosing.iter().find(|(s, _)| *s == sink).ok_or_else(|| unknown_sink(sink))?;
        Ok(SinkRoute {
            node: Arc::clone(node),
            topic: met.name.to_string(),
            id: collector.topic(&met.name),
            partitions: met.partitions,
            tagged: false,
        })
    }

    /// Gives a write to a store, by its place among the task's stores, to the worker's producer: its changelog record. It is
    /// lent by an overlay that holds it for good, so it need not wait in the arena. `key` is where a key is written that is
    /// another one there.
    pub(crate) fn log(
        &mut self,
        collector: &mut Collector,
        store: usize,
        format: LogFormat,
        entry: Entry<'_>,
        key: &mut Vec<u8>,
    ) -> Result {
        let Some(Some(route)) = self.changelogs.get_mut(store) else { return Ok(()) };
        if !format.rows.is_logged(entry.key) {
            return Ok(());
        }
        let damaged = |e| Error::store("write a changelog record", e);
        let key = format.rows.key_to_log(entry.key, key).map_err(damaged)?;
        let change = Change { key, value: entry.value, timestamp: entry.timestamp };
        let logged = format.value.to_log(change).map_err(damaged)?;
        let mut headers: SmallVec<[Header<'_>; 4]> = SmallVec::new();
        if let Some(position) = &self.position {
            headers.push(Header { name: VERSION_HEADER, value: Some(&[0]) });
            headers.push(Header { name: POSITION_HEADER, value: Some(position) });
        }
        for header in logged.headers {
            let header = header.map_err(damaged)?;
            headers.push(Header { name: header.key, value: header.value });
        }
        route.written(logged.timestamp);
        collector.send(&Outgoing {
            topic: route.id,
            partition: self.partition,
            timestamp: logged.timestamp,
            key: Some(logged.key),
            value: logged.value,
            headers: &headers,
            tag: 0,
        })
    }
}

struct Held {
    sink: SinkIndex,
    /// What was chosen, if the sink chooses its topics.
    topic: Option<Met>,
    /// What the user's partitioner has chosen.
    partition: Option<i32>,
    timestamp: i64,
    key: Option<Range<usize>>,
    /// What the default partitioner goes by, if that is not the key.
    partitioned_by: Option<Range<usize>>,
    value: Option<Range<usize>>,
    headers: Headers,
}

/// The arena. Empty between two records but for its memory.
pub(crate) struct Outbox {
    pub(super) met: Arc<MetTopics>,
    bytes: Vec<u8>,
    held: Vec<Held>,
    /// For records without a key: the partition moves on with each of them.
    round_robin: i32,
    /// Where that was at the last commit.
    committed_round_robin: i32,
}

impl Outbox {
    pub(crate) fn new(met: Arc<MetTopics>) -> Self {
        Self { met, bytes: Vec::new(), held: Vec::new(), round_robin: 0, committed_round_robin: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.held.clear();
    }

    /// What was handed over is committed.
    pub(crate) fn committed(&mut self) {
        self.committed_round_robin = self.round_robin;
    }

    /// What was handed over since the last commit is given up: when it comes again it goes to the same partitions, so that a
    /// refused output is known again.
    pub(crate) fn forget(&mut self) {
        self.clear();
        self.round_robin = self.committed_round_robin;
    }

    fn keep(&mut self, bytes: Option<&[u8]>) -> Option<Range<usize>> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes?);
        Some(start..self.bytes.len())
    }

    /// Keeps a copy of the record. A topic that was chosen for it and is not there is an error of the record.
    pub(crate) fn push(&mut self, out: &Out<'_>) -> topology::Result {
        let topic = out.topic.map(|topic| self.met.find(topic)).transpose()?;
        let (key, value) = (self.keep(out.key), self.keep(out.value));
        let partitioned_by = self.keep(out.partitioned_by);
        let Out { sink, partition, timestamp, headers, .. } = *out;
        self.held.push(Held {
            sink,
            topic,
            partition,
            timestamp,
            key,
            partitioned_by,
            value,
            headers: headers.clone(),
        });
        Ok(())
    }

    /// Gives all records to the worker's producer, in order, and forgets them. `origin`: what they are the outputs of.
    pub(crate) fn hand_over(&mut self, collector: &mut Collector, routes: &Routes, origin: Origin<'_>) -> Result {
        let mut round_robin = self.round_robin;
        for held in &self.held {
            let bytes = |range: &Option<Range<usize>>| range.as_ref().and_then(|r| self.bytes.get(r.clone()));
            let (key, value) = (bytes(&held.key), bytes(&held.value));
            let chosen;
            let target = match &held.topic {
                Some(met) => {
                    chosen = Arc::new(routes.met(held.sink, met, collector)?);
                    &chosen
                }
                None => {
                    let route = routes.sinks.get(held.sink.0 as usize).and_then(Option::as_ref);
                    route.ok_or_else(|| unknown_sink(held.sink))?
                }
            };
            let partition = choose(target, held.partition, bytes(&held.partitioned_by).or(key), &mut round_robin)?;
            let mut headers: SmallVec<[Header<'_>; 4]> = SmallVec::new();
            headers.extend(held.headers.iter().map(|h| Header { name: &h.name, value: h.value.as_deref() }));
            if target.tagged {
                headers.push(Header { name: CUT_HEADER, value: Some(routes.cut.as_slice()) });
            }
            let (topic, timestamp) = (target.id, held.timestamp);
            let record = Outgoing { topic, partition, timestamp, key, value, headers: &headers, tag: 0 };
            if target.tagged {
                collector.send(&record)?
            } else {
                collector.send_output(&record, target, origin)?
            };
        }
        self.round_robin = round_robin;
        self.clear();
        Ok(())
    }
}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox")
            .field("records", &self.held.len())
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

#[cold]
fn unknown_sink(sink: SinkIndex) -> Error {
    Error::new(ErrorKind::Config, "send a record").with("unknown sink", sink.0)
}

/// The partition that a user chose, or murmur2 of the key, or for a record without a key one after the other.
fn choose(target: &SinkRoute, chosen: Option<i32>, key: Option<&[u8]>, round_robin: &mut i32) -> Result<i32> {
    match (chosen, key) {
        (Some(p), _) if (0..target.partitions).contains(&p) => Ok(p),
        (Some(p), _) => Err(Error::new(ErrorKind::Record, "choose a partition")
            .with("topic", &target.topic)
            .with("partition", p)
            .with("partitions", target.partitions)
            .remedy("a partitioner answers with a number from 0 to the partition count")),
        (None, Some(key)) => Ok(partition_for_key(key, target.partitions)),
        (None, None) => {
            *round_robin = (*round_robin + 1) % target.partitions.max(1);
            Ok(*round_robin)
        }
    }
}
