//! Runs a whole topology, one partition, one task per sub-topology: what is sent to a repartition topic comes in at once.

use std::collections::VecDeque;

use millpond_topology::{
    Drained, Headers, NodeIndex, Port as _, PunctuationType, Raw, Result, Round, SinkIndex, SourceIndex, StoreIndex,
    TaskGraph, Topology,
};

use super::port::{Logged, MockPort, Sent};

/// A record that left the topology: topic, key, value, time.
pub(crate) type Output = (String, Option<Vec<u8>>, Option<Vec<u8>>, i64);

pub(crate) struct Driver {
    topology: Topology,
    tasks: Vec<(TaskGraph, MockPort)>,
    pub(crate) wall: i64,
    offset: i64,
    /// Records that left the topology, by sink.
    pub(crate) outputs: Vec<Sent>,
}

impl Driver {
    pub(crate) fn new(topology: &Topology) -> Self {
        Self::with_cache(topology, false)
    }

    /// With a cache over every store that allows one.
    pub(crate) fn with_cache(topology: &Topology, cache: bool) -> Self {
        let task = |sub: usize| {
            let mut port = MockPort::new(topology);
            let caching = topology.stores().iter().enumerate().filter(|(_, s)| cache && s.caching);
            port.cached = caching.map(|(i, _)| StoreIndex(u32::try_from(i).unwrap())).collect();
            let graph = topology.task(u32::try_from(sub).unwrap(), &mut port).unwrap();
            (graph, port)
        };
        let tasks = (0..topology.sub_topologies().len()).map(task).collect();
        Self { topology: topology.clone(), tasks, wall: 0, offset: 0, outputs: Vec::new() }
    }

    pub(crate) fn port(&mut self, sub: usize) -> &mut MockPort {
        &mut self.tasks[sub].1
    }

    /// The index of a store.
    pub(crate) fn store(&self, name: &str) -> StoreIndex {
        self.topology.store_index(name).unwrap()
    }

    /// The port of the task that has this store.
    pub(crate) fn port_of(&mut self, store: StoreIndex) -> &mut MockPort {
        let sub = self.topology.stores()[store.0 as usize].sub as usize;
        self.port(sub)
    }

    pub(crate) fn logged(&self) -> Vec<Logged> {
        self.tasks.iter().flat_map(|(_, port)| port.logged()).collect()
    }

    pub(crate) fn pipe(&mut self, topic: &str, key: Option<&[u8]>, value: Option<&[u8]>, timestamp: i64) -> Result {
        self.pipe_with(topic, key, value, timestamp, &Headers::new())
    }

    /// A record on a source topic, and everything that it causes.
    pub(crate) fn pipe_with(
        &mut self,
        topic: &str,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        timestamp: i64,
        headers: &Headers,
    ) -> Result {
        let at = self.topology.sources().iter().position(|s| s.topics.iter().any(|t| t.name == topic)).unwrap();
        self.receive(at, topic, &Raw { key, value, timestamp, headers })?;
        self.settle()
    }

    fn receive(&mut self, source: usize, topic: &str, raw: &Raw<'_>) -> Result {
        let sub = self.topology.sources()[source].sub as usize;
        let (graph, port) = &mut self.tasks[sub];
        let source = SourceIndex(u32::try_from(source).unwrap());
        let timestamp = graph.timestamp(source, raw, port.stream_time)?;
        if timestamp < 0 {
            port.dropped.push(millpond_topology::Dropped::NegativeTimestamp);
            return Ok(());
        }
        port.timestamp = timestamp;
        port.wall = self.wall;
        port.stream_time = port.stream_time.max(timestamp);
        port.metadata = Some((topic.to_owned(), 0, self.offset));
        self.offset += 1;
        graph.receive(port, source, &Raw { timestamp, ..*raw })?;
        let_through(graph, port)?;
        self.punctuate(sub, PunctuationType::StreamTime)?;
        self.drain(sub)
    }

    fn punctuate(&mut self, sub: usize, by: PunctuationType) -> Result {
        let (graph, port) = &mut self.tasks[sub];
        port.wall = self.wall;
        let now = if by == PunctuationType::StreamTime { port.stream_time } else { self.wall };
        let due: Vec<_> = port.timers.iter().filter(|t| t.schedule.by == by && t.next <= now).map(|t| t.id).collect();
        for id in due {
            let Some(timer) = port.timers.iter_mut().find(|t| t.id == id) else { continue };
            timer.next += (1 + (now - timer.next) / timer.schedule.every_ms) * timer.schedule.every_ms;
            let timer = *timer;
            port.metadata = None;
            port.timestamp = now;
            graph.punctuate(port, timer.node, timer.slot, now)?;
            let_through(graph, port)?;
        }
        Ok(())
    }

    fn drain(&mut self, sub: usize) -> Result {
        let (graph, port) = &mut self.tasks[sub];
        for &store in &self.topology.sub_topologies()[sub].stores {
            if !port.cached(store) {
                continue;
            }
            let entries = port.drain(store);
            for (key, new, old, timestamp) in entries {
                port.timestamp = timestamp;
                let (new, old) = (new.as_deref(), old.as_deref());
                graph.drained(port, store, &Drained { key: &key, new, old, timestamp })?;
                let_through(graph, port)?;
            }
        }
        Ok(())
    }

    /// Feeds repartition topics until nothing moves.
    fn settle(&mut self) -> Result {
        let mut todo: VecDeque<Sent> = VecDeque::new();
        loop {
            for (_, port) in &mut self.tasks {
                todo.extend(port.take_sent());
            }
            let Some(sent) = todo.pop_front() else { return Ok(()) };
            let topic = self.topic(sent.sink);
            let source = self.topology.sources().iter().position(|s| s.topics.contains(&topic));
            match source.filter(|_| topic.internal) {
                Some(source) => {
                    let headers: Headers = sent.headers.iter().cloned().collect();
                    let (key, value) = (sent.key.as_deref(), sent.value.as_deref());
                    let raw = Raw { key, value, timestamp: sent.timestamp, headers: &headers };
                    self.receive(source, &topic.name, &raw)?;
                }
                None => self.outputs.push(sent),
            }
        }
    }

    pub(crate) fn topic(&self, sink: SinkIndex) -> millpond_topology::Topic {
        self.topology.sinks()[sink.0 as usize].topic.fixed().unwrap().clone()
    }

    /// Takes the outputs as (topic, key, value, time).
    pub(crate) fn take(&mut self) -> Vec<Output> {
        let outputs = std::mem::take(&mut self.outputs);
        outputs.into_iter().map(|s| (self.topic(s.sink).name, s.key, s.value, s.timestamp)).collect()
    }
}

/// Has all nodes forward what is due; what a row makes due further down goes before the next row.
fn let_through(graph: &mut TaskGraph, port: &mut MockPort) -> Result {
    let rounds = |nodes: Vec<NodeIndex>| nodes.into_iter().rev().map(|node| (node, Round::default()));
    let mut due: Vec<_> = rounds(graph.take_due()).collect();
    while let Some((node, mut round)) = due.pop() {
        if graph.let_through(port, node, &mut round)? {
            round.had += 1;
            due.push((node, round));
        }
        due.extend(rounds(graph.take_due()));
    }
    Ok(())
}
