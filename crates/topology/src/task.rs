//! The graph of one task: what the runtime hands records, punctuations and drained entries to.

use crate::error::{Error, ErrorKind, Result};
use crate::node::{Event, Root, Scratch, Slot, TaskCx, TaskIdentity, Turn};
use crate::port::{Drained, NodeIndex, Port, Raw, SourceIndex, StoreIndex};
use crate::round::Round;

/// The nodes of a task, ready to run. [`Topology::task`](crate::Topology::task) makes it.
///
/// It is `Send` and not `Sync`: one thread at a time. After a panic in user code it must be thrown away and built anew. It
/// holds nothing of the port, which each call is lent.
pub struct TaskGraph {
    topology: u64,
    roots: Vec<Option<Box<dyn Root>>>,
    ways: Vec<Option<Way>>,
    /// For each store the node that takes its drained entries.
    owners: Vec<Option<NodeIndex>>,
    /// The nodes that have to know when caches above them hold nothing back, in topological order.
    awaiting: Vec<NodeIndex>,
    shared: Vec<Slot>,
    scratch: Scratch,
    calls: u64,
    /// How many nodes had rows to let through when the call at hand began.
    due_before: usize,
}

/// How to reach a node: from this source, by child numbers.
#[derive(Clone)]
pub(crate) struct Way {
    pub(crate) source: usize,
    pub(crate) path: Vec<u16>,
}

impl TaskGraph {
    pub(crate) fn new(
        topology: u64,
        roots: Vec<Option<Box<dyn Root>>>,
        ways: Vec<Option<Way>>,
        owners: Vec<Option<NodeIndex>>,
        (awaiting, due): (Vec<NodeIndex>, Vec<NodeIndex>),
        shared: Vec<Slot>,
    ) -> Self {
        let scratch = Scratch { due, ..Scratch::default() };
        Self { topology, roots, ways, owners, awaiting, shared, scratch, calls: 0, due_before: 0 }
    }

    /// Takes a record through the graph: when this returns, everything it causes has gone to the port.
    ///
    /// # Errors
    ///
    /// The first error of a serde, a store, the port or user code, with the innermost node's name. What went to the port
    /// before must not become part of the task then. That holds for timers too, on both sides: the graph has forgotten
    /// those that the call started, and those that it cancelled can be called again.
    pub fn receive(&mut self, port: &mut dyn Port, source: SourceIndex, raw: &Raw<'_>) -> Result {
        self.begin_call();
        let Some(Some(root)) = self.roots.get_mut(source.0 as usize) else {
            return Err(Error::new(ErrorKind::Topology, "take a record").with("source", source.0));
        };
        let mut cx = TaskCx {
            port,
            source_key: raw.key,
            shared: &mut self.shared,
            scratch: &mut self.scratch,
            task: TaskIdentity { topology: self.topology, call: self.calls },
            latest: true,
        };
        let done = root.receive(&mut cx, raw);
        self.settled(port, done)
    }

    /// The event time of a record (milliseconds since 1970), by the source's extractor; negative: the record is to be
    /// dropped. `partition_time` is the largest event time of the partition so far, -1 before the first.
    ///
    /// # Errors
    ///
    /// The record's own time is negative and the source has no extractor, or the record does not deserialize.
    pub fn timestamp(&self, source: SourceIndex, raw: &Raw<'_>, partition_time: i64) -> Result<i64> {
        match self.roots.get(source.0 as usize) {
            Some(Some(root)) => root.timestamp(raw, partition_time),
            _ => Err(Error::new(ErrorKind::Topology, "take a record's timestamp").with("source", source.0)),
        }
    }

    /// Calls a timer of a node with the time it is due at (milliseconds since 1970). A cancelled one is ignored.
    ///
    /// # Errors
    ///
    /// As [`TaskGraph::receive`].
    pub fn punctuate(&mut self, port: &mut dyn Port, node: NodeIndex, slot: u32, at: i64) -> Result {
        let done = self.visit(port, node, Event::Punctuate { slot, at });
        self.settled(port, done)
    }

    /// Takes an entry of a cached store on its way out; it is forwarded from the store's node. A store of a processor has
    /// no such node, and nothing happens.
    ///
    /// # Errors
    ///
    /// As [`TaskGraph::receive`].
    pub fn drained(&mut self, port: &mut dyn Port, store: StoreIndex, entry: &Drained<'_>) -> Result {
        match self.owners.get(store.0 as usize) {
            Some(Some(owner)) => {
                let done = self.visit(port, *owner, Event::Drained(entry));
                self.settled(port, done)
            }
            Some(None) => Ok(()),
            None => Err(Error::new(ErrorKind::Topology, "take a drained entry").with("store", store.0)),
        }
    }

    /// The nodes that are to be told by [`TaskGraph::all_drained`], in the order in which they are: none in most tasks.
    pub fn awaiting(&self) -> &[NodeIndex] {
        &self.awaiting
    }

    /// Tells an [awaiting](TaskGraph::awaiting) node that no store of the task holds an update back, whenever a commit has drained
    /// all stores. What it lets through then may make entries pending again: they are drained, and it is told again.
    ///
    /// # Errors
    ///
    /// As [`TaskGraph::receive`].
    pub fn all_drained(&mut self, port: &mut dyn Port, node: NodeIndex) -> Result {
        let done = self.visit(port, node, Event::AllDrained);
        self.settled(port, done)
    }

    /// Whether nodes have rows to let through, by the calls that went well since [`TaskGraph::take_due`]; in a new graph those
    /// that may have some from before.
    #[inline]
    pub fn has_due(&self) -> bool {
        !self.scratch.due.is_empty()
    }

    /// These nodes, in the order in which they have become due. Each is asked by [`TaskGraph::let_through`] until it has no more,
    /// before the next record, since nobody is told of them again. Nodes that a row makes due go before the next row of the same
    /// node.
    pub fn take_due(&mut self) -> Vec<NodeIndex> {
        std::mem::take(&mut self.scratch.due)
    }

    /// Has a node forward the next of its rows that are due: one, so that it fails alone. Answers whether there may be another.
    ///
    /// `round` counts the rows that have had their turn, those that were passed over included: the caller does. A row that has
    /// failed is tried again, or passed over; the graph may have been built anew in between.
    ///
    /// # Errors
    ///
    /// As [`TaskGraph::receive`].
    pub fn let_through(&mut self, port: &mut dyn Port, node: NodeIndex, round: &mut Round) -> Result<bool> {
        self.scratch.memory.clone_from(&round.memory);
        let done = self.visit(port, node, Event::LetThrough(Turn { had: round.had, pass_over: round.pass_over }));
        round.memory = self.scratch.memory.take();
        self.settled(port, done)?;
        let again = self.scratch.due.iter().position(|due| *due == node);
        Ok(again.map(|at| self.scratch.due.remove(at)).is_some())
    }

    fn begin_call(&mut self) {
        self.calls += 1;
        self.due_before = self.scratch.due.len();
    }

    /// Ends a call with its outcome: what it did to timers, and what is due by it, stays if it went well, and is undone if it did
    /// not (D14).
    #[inline]
    fn settled(&mut self, port: &mut dyn Port, done: Result) -> Result {
        if done.is_err() {
            self.scratch.due.truncate(self.due_before);
        }
        if self.scratch.timers.is_empty() { done } else { self.settle_timers(port, done) }
    }

    #[cold]
    fn settle_timers(&mut self, port: &mut dyn Port, mut done: Result) -> Result {
        let keep = done.is_ok();
        let mut nodes = std::mem::take(&mut self.scratch.timers);
        for node in nodes.drain(..) {
            done = done.and(self.visit(port, node, Event::SettleTimers { keep }));
        }
        self.scratch.timers = nodes;
        done
    }

    fn visit(&mut self, port: &mut dyn Port, node: NodeIndex, event: Event<'_>) -> Result {
        self.begin_call();
        let way = self.ways.get(node.0 as usize).and_then(Option::as_ref);
        let root = way.and_then(|way| Some((self.roots.get_mut(way.source)?.as_mut()?, way)));
        let Some((root, way)) = root else {
            return Err(Error::new(ErrorKind::Topology, "reach a node").with("node", node.0));
        };
        let mut cx = TaskCx {
            port,
            source_key: None,
            shared: &mut self.shared,
            scratch: &mut self.scratch,
            task: TaskIdentity { topology: self.topology, call: self.calls },
            latest: true,
        };
        root.visit(&mut cx, &way.path, event)
    }
}

impl std::fmt::Debug for TaskGraph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskGraph").field("shared", &self.shared.len()).finish_non_exhaustive()
    }
}
