//! The instance of a graph in a task: a tree of typed boxes.
//!
//! A parent owns its children, so a record crosses an edge by value and by one virtual call, without a look-up or a check.
//! Types are erased only while the tree is built: one downcast per edge and task. A node with several parents lies in a
//! slot of the task, and its parents own a small edge that borrows it from there.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::port::{Drained, NodeIndex, Port, Raw};
use crate::serde::SerdeId;

/// What the nodes of a task are lent for one record, punctuation, drained entry or row that is let through.
pub(crate) struct TaskCx<'a> {
    pub(crate) port: &'a mut (dyn Port + 'a),
    /// The key's bytes as the source (or the drained store) has them. Only nodes that know that no operator can have
    /// changed the key since, and that their serde writes the same bytes, may look at it.
    pub(crate) source_key: Option<&'a [u8]>,
    pub(crate) shared: &'a mut [Slot],
    pub(crate) scratch: &'a mut Scratch,
    pub(crate) task: TaskIdentity,
    /// The change of a row that is being forwarded is of its latest version. Only the rows of a versioned table can be others, so only
    /// nodes behind one look at it.
    pub(crate) latest: bool,
}

/// Tells handles and walks of another topology or another call apart.
#[derive(Clone, Copy)]
pub(crate) struct TaskIdentity {
    pub(crate) topology: u64,
    pub(crate) call: u64,
}

impl TaskIdentity {
    /// Refuses a walk that is gone on with in another call than the one that began it.
    pub(crate) fn same_call(self, now: Self) -> Result {
        if now.topology == self.topology && now.call == self.call {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Topology, "read the next row").with("cause", "the scan began in another call"))
    }
}

impl TaskCx<'_> {
    pub(crate) fn reborrow(&mut self) -> TaskCx<'_> {
        TaskCx {
            port: &mut *self.port,
            source_key: self.source_key,
            shared: &mut *self.shared,
            scratch: &mut *self.scratch,
            task: self.task,
            latest: self.latest,
        }
    }

    /// This node has rows to let through: when the call is over it is asked for them, one at a time.
    pub(crate) fn has_due(&mut self, node: NodeIndex) {
        if !self.scratch.due.contains(&node) {
            self.scratch.due.push(node);
        }
    }

    /// This node's timers are to be settled when the call is over.
    pub(crate) fn timers_changed(&mut self, node: NodeIndex) {
        if !self.scratch.timers.contains(&node) {
            self.scratch.timers.push(node);
        }
    }
}

/// Buffers that grow once: nothing is allocated per record.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    /// For the name of a topic.
    pub(crate) topic: String,
    /// For the views of a processor: as many as it can have at once.
    pub(crate) views: [Buffers; 4],
    /// The nodes that started or cancelled timers in this call.
    pub(crate) timers: Vec<NodeIndex>,
    /// The nodes that have rows to let through.
    pub(crate) due: Vec<NodeIndex>,
    /// What the node whose row has its turn remembers of its rows.
    pub(crate) memory: Option<Arc<dyn Any + Send + Sync>>,
}

/// The buffers of a view.
#[derive(Default)]
pub(crate) struct Buffers {
    /// For what the user gives: a key, and the value behind it.
    pub(crate) bytes: Vec<u8>,
    /// For what is made of it.
    pub(crate) row: Vec<u8>,
}

/// Whose turn it is of the rows that a node lets through; see [`Round`](crate::Round).
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Turn {
    pub(crate) had: u64,
    pub(crate) pass_over: bool,
}

/// Something for one node in the middle of the graph.
#[derive(Clone, Copy)]
pub(crate) enum Event<'a> {
    Punctuate {
        slot: u32,
        at: i64,
    },
    Drained(&'a Drained<'a>),
    /// Of the stores above it in the task none holds an update back.
    AllDrained,
    /// The node's next row that is due has its turn.
    LetThrough(Turn),
    /// The call in which the node started or cancelled timers is over: what it did to them stays, or is undone.
    SettleTimers {
        keep: bool,
    },
}

impl Event<'_> {
    /// The error of a node that no such event is meant for.
    #[cold]
    pub(crate) fn refused(self, node: &str) -> Error {
        let event = match self {
            Self::Punctuate { .. } => "a punctuation",
            Self::Drained(_) => "an update out of a cache",
            Self::AllDrained => "that all caches above are drained",
            Self::LetThrough(_) => "that a row of its own has its turn",
            Self::SettleTimers { .. } => "that the call is over which changed its timers",
        };
        Error::new(ErrorKind::Topology, "take an event").with("event", event).at(node)
    }
}

/// An instance of a node.
pub(crate) trait Node<T>: Send {
    fn receive(&mut self, cx: &mut TaskCx<'_>, message: T) -> Result;

    /// An event for the node at the end of `path`, a list of child numbers. Rare, so it may walk.
    fn visit(&mut self, cx: &mut TaskCx<'_>, path: &[u16], event: Event<'_>) -> Result;
}

/// An instance of a source.
pub(crate) trait Root: Send {
    fn receive(&mut self, cx: &mut TaskCx<'_>, raw: &Raw<'_>) -> Result;

    fn timestamp(&self, raw: &Raw<'_>, partition_time: i64) -> Result<i64>;

    fn visit(&mut self, cx: &mut TaskCx<'_>, path: &[u16], event: Event<'_>) -> Result;
}

/// How a message with several receivers is copied; known only where its type is `Clone`.
pub(crate) type CloneFn<T> = Arc<dyn Fn(&T) -> T + Send + Sync>;

/// A child, as its parent owns it.
pub(crate) type Child<T> = Box<dyn Node<T>>;

/// The children of a node. The last one gets the message itself, the others a clone.
pub(crate) struct Outs<T> {
    to: Vec<Child<T>>,
    clone: Option<CloneFn<T>>,
}

impl<T: 'static> Outs<T> {
    #[inline]
    pub(crate) fn forward(&mut self, cx: &mut TaskCx<'_>, message: T) -> Result {
        match &mut *self.to {
            [only] => only.receive(cx, message),
            _ => self.forward_many(cx, message),
        }
    }

    /// Out of line: inlined, it costs the common case half its registers.
    #[inline(never)]
    fn forward_many(&mut self, cx: &mut TaskCx<'_>, message: T) -> Result {
        let Some((last, others)) = self.to.split_last_mut() else { return Ok(()) };
        if !others.is_empty() {
            let Some(clone) = &self.clone else {
                return Err(Error::new(ErrorKind::Topology, "forward to several children").with("cause", "no `Clone`"));
            };
            for to in others {
                to.receive(cx, clone(&message))?;
            }
        }
        last.receive(cx, message)
    }

    pub(crate) fn forward_to(&mut self, cx: &mut TaskCx<'_>, child: u16, message: T) -> Result {
        match self.to.get_mut(usize::from(child)) {
            Some(to) => to.receive(cx, message),
            None => {
                Err(Error::new(ErrorKind::Topology, "forward to a child").with("cause", "not a child of this node"))
            }
        }
    }

    pub(crate) fn visit(&mut self, cx: &mut TaskCx<'_>, path: &[u16], event: Event<'_>) -> Result {
        let Some((&child, path)) = path.split_first() else {
            return Err(Error::new(ErrorKind::Topology, "reach a node").with("cause", "it takes no events"));
        };
        match self.to.get_mut(usize::from(child)) {
            Some(to) => to.visit(cx, path, event),
            None => Err(Error::new(ErrorKind::Topology, "reach a node").with("cause", "no way leads there")),
        }
    }

    /// As [`Outs::visit`], of a node that puts messages aside.
    pub(crate) fn visit_with_side<L: 'static>(
        &mut self,
        side: &mut Option<Child<L>>,
        cx: &mut TaskCx<'_>,
        path: &[u16],
        event: Event<'_>,
    ) -> Result {
        match (path.split_first(), side) {
            (Some((&child, path)), Some(side)) if usize::from(child) == self.to.len() => side.visit(cx, path, event),
            _ => self.visit(cx, path, event),
        }
    }

    /// The same children, behind an adaptor for another type of message.
    pub(crate) fn adapt<U: 'static>(
        self,
        adapt: fn(Child<T>) -> Child<U>,
        clone: impl FnOnce(CloneFn<T>) -> CloneFn<U>,
    ) -> Outs<U> {
        Outs { to: self.to.into_iter().map(adapt).collect(), clone: self.clone.map(clone) }
    }
}

/// Where a node with several parents lies while none of them calls it.
pub(crate) type Slot = Option<Box<dyn Any + Send>>;

/// The edge to a node with several parents. The graph has no cycle, so nobody else has it out of its slot.
struct SharedEdge<T> {
    slot: usize,
    message: PhantomData<fn(T)>,
}

impl<T: 'static> SharedEdge<T> {
    fn with(&self, cx: &mut TaskCx<'_>, f: impl FnOnce(&mut TaskCx<'_>, &mut dyn Node<T>) -> Result) -> Result {
        // Empty after a panic: the task is to be built anew then.
        let broken =
            || Error::new(ErrorKind::Topology, "reach a shared node").with("cause", "lost in an earlier panic");
        let mut taken = cx.shared.get_mut(self.slot).and_then(Option::take).ok_or_else(broken)?;
        let done = match taken.downcast_mut::<Box<dyn Node<T>>>() {
            Some(node) => f(cx, &mut **node),
            None => Err(broken()),
        };
        if let Some(slot) = cx.shared.get_mut(self.slot) {
            *slot = Some(taken);
        }
        done
    }
}

impl<T: 'static> Node<T> for SharedEdge<T> {
    fn receive(&mut self, cx: &mut TaskCx<'_>, message: T) -> Result {
        self.with(cx, |cx, node| node.receive(cx, message))
    }

    fn visit(&mut self, cx: &mut TaskCx<'_>, path: &[u16], event: Event<'_>) -> Result {
        self.with(cx, |cx, node| node.visit(cx, path, event))
    }
}

/// Makes the edge to a shared node of one type; kept in the definition, where the type is known.
pub(crate) type EdgeFn = fn(usize) -> Box<dyn Any + Send>;

pub(crate) fn edge<T: 'static>(slot: usize) -> Box<dyn Any + Send> {
    let edge: Box<dyn Node<T>> = Box::new(SharedEdge { slot, message: PhantomData });
    Box::new(edge)
}

/// A built node, its type erased: a `Box<dyn Node<T>>` in a box, or a source.
pub(crate) enum Built {
    Node(Box<dyn Any + Send>),
    Root(Box<dyn Root>),
}

impl Built {
    pub(crate) fn node<T: 'static>(node: impl Node<T> + 'static) -> Self {
        let node: Box<dyn Node<T>> = Box::new(node);
        Self::Node(Box::new(node))
    }
}

/// Makes an instance of a node; called once per build of a task's graph, children first.
pub(crate) type Build = Arc<dyn Fn(&mut BuildCx<'_>) -> Result<Built> + Send + Sync>;

/// What a node's maker gets.
pub(crate) struct BuildCx<'a> {
    pub(crate) name: &'a Arc<str>,
    pub(crate) node: NodeIndex,
    /// Of a source or a sink: the how many-eth it is.
    pub(crate) number: u32,
    /// The names of the children, in order.
    pub(crate) names: Vec<&'a str>,
    pub(crate) children: Vec<Box<dyn Any + Send>>,
    /// What takes the messages that the node puts aside.
    pub(crate) side: Option<Box<dyn Any + Send>>,
    pub(crate) clone: Option<&'a (dyn Any + Send + Sync)>,
    /// The serde of the source key's bytes, if no operator before this node can have changed the key.
    pub(crate) origin: SerdeId,
    /// A child needs the rows' old values.
    pub(crate) wants_old: bool,
    /// The parent knows the rows' old values.
    pub(crate) has_old: bool,
    /// A store above it in the task may hold updates back; told of nodes that [await the drain](crate::graph::NodeSpec::awaits_drain).
    pub(crate) behind_cache: bool,
    /// See [`Facts::tells_finals`](crate::topology::Facts).
    pub(crate) tells_finals: bool,
    pub(crate) port: &'a mut (dyn Port + 'a),
}

impl BuildCx<'_> {
    /// The child at the node's side, if there is one. In paths its number is the one behind those of the children.
    pub(crate) fn side<T: 'static>(&mut self) -> Result<Option<Child<T>>> {
        let Some(side) = self.side.take() else { return Ok(None) };
        match side.downcast::<Child<T>>() {
            Ok(side) => Ok(Some(*side)),
            Err(_) => Err(Error::new(ErrorKind::Topology, "connect a child").with("cause", "another type")),
        }
    }

    /// The node's children: the one place where types meet.
    pub(crate) fn outs<T: 'static>(&mut self) -> Result<Outs<T>> {
        let clone = self.clone.and_then(|c| c.downcast_ref::<CloneFn<T>>()).cloned();
        let mut to = Vec::with_capacity(self.children.len());
        for child in self.children.drain(..) {
            match child.downcast::<Box<dyn Node<T>>>() {
                Ok(child) => to.push(*child),
                Err(_) => return Err(Error::new(ErrorKind::Topology, "connect a child").with("cause", "another type")),
            }
        }
        Ok(Outs { to, clone })
    }
}
