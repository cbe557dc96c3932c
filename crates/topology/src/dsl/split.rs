//! Branches of a stream.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::dsl::at::At;
use crate::dsl::stream::Stream;
use crate::graph::{Effect, NodeSpec};
use crate::node::{Build, Built};
use crate::nodes::{OpNode, Pass, Predicates, SplitNode};
use crate::record::Record;
use crate::serde::AnySerde;

/// A stream that is being split; see [`Stream::split`].
pub struct Split<K, V> {
    at: At,
    /// The splitter's name, which begins those of its branches.
    name: String,
    branches: usize,
    predicates: Predicates<K, V>,
    rekeyed: bool,
    key: Option<AnySerde<K>>,
    value: Option<AnySerde<V>>,
}

impl<K, V> std::fmt::Debug for Split<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Split").field("name", &self.name).field("branches", &self.branches).finish_non_exhaustive()
    }
}

impl<K: 'static, V: 'static> Split<K, V> {
    pub(crate) fn new(stream: Stream<K, V>, name: String) -> Self {
        let predicates = Predicates::<K, V>::default();
        let list = predicates.clone();
        let build: Build = Arc::new(move |b| Ok(Built::node(SplitNode { predicates: list.list(), outs: b.outs()? })));
        let mut spec = NodeSpec::processor(name.clone(), vec![stream.at.node], build).keeping_key();
        spec.effect = Effect::Nothing;
        spec.routes = true;
        let node = stream.at.graph().add::<Record<K, V>, Record<K, V>>(spec);
        let Stream { at, rekeyed, key, value } = stream;
        Self { at: at.moved(node), name, branches: 0, predicates, rekeyed, key, value }
    }

    /// Names the next branch: the name is appended to that of the split, as in Kafka Streams. Without one, branches are
    /// numbered from 1 and the rest is 0.
    #[must_use = "it names the next branch"]
    pub fn named(&mut self, suffix: impl Into<String>) -> &mut Self {
        self.at.name = Some(suffix.into());
        self
    }

    /// The records that the predicate holds for and no earlier branch has taken.
    pub fn branch(&mut self, predicate: impl Fn(&K, &V) -> bool + Send + Sync + 'static) -> Stream<K, V> {
        self.branches += 1;
        let suffix = self.at.name.take().unwrap_or_else(|| self.branches.to_string());
        self.predicates.push(Arc::new(predicate));
        self.child(&suffix)
    }

    /// The records that no branch takes. Branches that are added later get none.
    pub fn rest(&mut self) -> Stream<K, V> {
        let suffix = self.at.name.take().unwrap_or_else(|| "0".to_owned());
        self.predicates.push(Arc::new(|_, _| true));
        self.child(&suffix)
    }

    fn child(&self, suffix: &str) -> Stream<K, V> {
        let name = format!("{}{suffix}", self.name);
        let build: Build = Arc::new(move |b| {
            let (name, op, outs) = (b.name.clone(), Arc::new(Pass), b.outs()?);
            Ok(Built::node(OpNode::<Record<K, V>, Pass> { name, op, outs, message: PhantomData }))
        });
        let mut graph = self.at.graph();
        // Kafka Streams uses up a number for each branch.
        graph.names.generate(&name);
        let spec = NodeSpec::processor(name, vec![self.at.node], build).keeping_key().with_effect(Effect::Nothing);
        let node = graph.add::<Record<K, V>, Record<K, V>>(spec);
        drop(graph);
        let (key, value) = (self.key.clone(), self.value.clone());
        Stream { at: self.at.moved(node), rekeyed: self.rekeyed, key, value }
    }
}
