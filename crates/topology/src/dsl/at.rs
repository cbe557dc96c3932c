//! A place in a graph that is being defined.

use std::cell::{RefCell, RefMut};
use std::rc::Rc;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::graph::Graph;
use crate::problem::ProblemKind;
use crate::serde::{AnySerde, Serde};
use crate::store::{Bound, StoreHandle, StoreKind, StoreSpec};

/// The definition that a builder and all its streams share.
pub(crate) type Shared = Rc<RefCell<Graph>>;

/// A node, and how the next one is to be called.
pub(crate) struct At {
    pub(crate) graph: Shared,
    pub(crate) node: usize,
    pub(crate) name: Option<String>,
}

impl Clone for At {
    fn clone(&self) -> Self {
        Self { graph: self.graph.clone(), node: self.node, name: self.name.clone() }
    }
}

impl At {
    /// The same graph, another node.
    pub(crate) fn moved(&self, node: usize) -> Self {
        Self { graph: self.graph.clone(), node, name: None }
    }

    /// The definition. Borrowed for single statements only, and nothing in it calls back.
    pub(crate) fn graph(&self) -> RefMut<'_, Graph> {
        self.graph.borrow_mut()
    }

    /// The name of the next operator: the user's or a generated one.
    pub(crate) fn next_name(&mut self, prefix: &str) -> String {
        let user = self.name.take();
        self.graph().names.choose(user, prefix)
    }

    /// The name of this node.
    pub(crate) fn node_name(&self) -> String {
        self.graph().nodes.get(self.node).map(|n| n.name.to_string()).unwrap_or_default()
    }

    /// A serde, or a problem and a placeholder.
    pub(crate) fn serde<T: 'static>(&self, serde: Option<AnySerde<T>>, needed: impl FnOnce() -> String) -> AnySerde<T> {
        serde.unwrap_or_else(|| {
            self.graph().problem(ProblemKind::MissingSerde, needed());
            Arc::new(Missing)
        })
    }
}

/// Takes the place of a serde that nobody named; such a topology is refused.
pub(crate) struct Missing;

impl<T> Serde<T> for Missing {
    fn encode(&self, _: &T, _: &mut Vec<u8>) -> Result {
        Err(Error::new(ErrorKind::Topology, "use a serde that was not named"))
    }

    fn decode(&self, _: &[u8]) -> Result<T> {
        Err(Error::new(ErrorKind::Topology, "use a serde that was not named"))
    }
}

/// Adds a store, and tells what is wrong with it.
pub(crate) fn declare<T: StoreKind>(graph: &mut Graph, spec: StoreSpec<T>, by: String) -> StoreHandle<T> {
    for mistake in spec.mistakes() {
        graph.problem(ProblemKind::Store, mistake);
    }
    let StoreSpec { def, serdes, .. } = spec;
    let name = def.name.clone();
    let index = graph.add_store(def, by);
    StoreHandle { topology: graph.id, index, name, serdes }
}

/// The places of a processor's stores; those of another topology, or named twice, are reported.
pub(crate) fn own_stores(graph: &mut Graph, processor: &str, bound: Vec<Bound>) -> Vec<usize> {
    let mut own = Vec::with_capacity(bound.len());
    for store in bound {
        if store.topology != graph.id {
            let message = format!("`{processor}` uses the store `{}`, which belongs to another topology", store.name);
            graph.problem(ProblemKind::Store, message);
        } else if own.contains(&store.index) {
            graph.problem(ProblemKind::Store, format!("`{processor}` names its store `{}` twice", store.name));
        } else {
            own.push(store.index);
        }
    }
    own
}
