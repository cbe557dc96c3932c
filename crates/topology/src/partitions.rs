//! How many partitions internal topics and how many tasks sub-topologies have, as Kafka Streams resolves it.

use std::collections::BTreeMap;

use crate::error::{Error, ErrorKind, Result};
use crate::topology::{InternalTopicKind, Topic, Topology};

/// The counts of one topology for the topics as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partitions {
    /// The partition count of each internal topic, by its place in [`Topology::internal_topics`].
    pub internal: Vec<i32>,
    /// The number of tasks of each sub-topology. A task whose number is beyond a topic's partitions reads nothing of it.
    pub tasks: Vec<i32>,
}

impl Topology {
    /// Resolves all partition counts; `count` knows those of the topics that are not the library's own.
    ///
    /// A repartition topic has as many as it was given, or as the widest topic read by the sub-topologies that write to it (of
    /// those that do not depend on itself); a sub-topology has as many tasks as its widest topic; a changelog has a partition per
    /// task.
    ///
    /// Topics whose keys have to be in the same tasks, such as those of a cogroup, have one count: a repartition topic among them takes
    /// that of the others.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Topology`], naming the topics that `count` does not know, those whose count depends on nothing else, or those
    /// that would need the same count and have others.
    pub fn partitions(&self, count: impl Fn(&str) -> Option<i32>) -> Result<Partitions> {
        let mut known = self.external_counts(count)?;
        self.resolve_repartitions(&mut known)?;
        self.check_copartitioned(&known)?;
        let tasks: Vec<i32> = (0..self.sub_topologies().len()).map(|sub| self.widest(sub, &known)).collect();
        let internal = self.internal_topics().iter().map(|topic| match topic.kind {
            InternalTopicKind::Repartition => known.get(&topic.topic).copied().unwrap_or_default(),
            InternalTopicKind::Changelog(store) => {
                let sub = self.stores().get(store.0 as usize).map(|s| s.sub as usize);
                sub.and_then(|sub| tasks.get(sub)).copied().unwrap_or_default()
            }
        });
        Ok(Partitions { internal: internal.collect(), tasks })
    }

    fn external_counts(&self, count: impl Fn(&str) -> Option<i32>) -> Result<BTreeMap<Topic, i32>> {
        let mut known = BTreeMap::new();
        let mut missing = Vec::new();
        for topic in self.sources().iter().flat_map(|s| &s.topics).filter(|t| !t.internal) {
            match count(&topic.name) {
                Some(partitions) => drop(known.insert(topic.clone(), partitions)),
                None => missing.push(topic.name.as_str()),
            }
        }
        if missing.is_empty() {
            return Ok(known);
        }
        Err(Error::new(ErrorKind::Topology, "find the source topics").with("missing_topics", missing.join(", ")))
    }

    fn resolve_repartitions(&self, known: &mut BTreeMap<Topic, i32>) -> Result {
        let mut open = Vec::new();
        for topic in self.internal_topics().iter().filter(|t| t.kind == InternalTopicKind::Repartition) {
            match topic.partitions {
                Some(partitions) => drop(known.insert(topic.topic.clone(), partitions)),
                None => open.push(&topic.topic),
            }
        }
        while !open.is_empty() {
            let next = |known: &_| {
                let sure = open.iter().enumerate().find_map(|(at, topic)| Some((at, self.count_of(topic, known)?)));
                // A sub-topology reads what comes back of what it wrote: then what is known of its topics decides.
                sure.or_else(|| {
                    open.iter().enumerate().find_map(|(at, topic)| Some((at, self.least_count_of(topic, known)?)))
                })
            };
            if let Some((at, partitions)) = next(known) {
                known.insert(open.remove(at).clone(), partitions);
            } else {
                let names: Vec<_> = open.iter().map(|t| t.name.as_str()).collect();
                let error = Error::new(ErrorKind::Topology, "resolve partition counts");
                return Err(error.with("topics", names.join(", ")).with("fix", "give one of them a partition count"));
            }
        }
        Ok(())
    }

    /// The count of a repartition topic, once it can be known: that of the topics which it has to be like, if it is not the first.
    fn count_of(&self, topic: &Topic, known: &BTreeMap<Topic, i32>) -> Option<i32> {
        let Some(alike) = self.0.copartitioned.iter().find(|alike| alike.contains(topic)) else {
            return self.widest_of_writers(topic, known);
        };
        let counted = alike.iter().filter_map(|t| known.get(t).copied()).max();
        let all = || alike.iter().map(|t| self.widest_of_writers(t, known)).collect::<Option<Vec<_>>>();
        counted.or_else(|| all()?.into_iter().max())
    }

    fn check_copartitioned(&self, known: &BTreeMap<Topic, i32>) -> Result {
        for alike in &self.0.copartitioned {
            let counts = || alike.iter().filter_map(|t| Some((t, *known.get(t)?)));
            let first = counts().next().map(|(_, count)| count);
            if counts().any(|(_, count)| Some(count) != first) {
                let counts: Vec<_> = counts().map(|(t, count)| format!("{}={count}", t.name)).collect();
                let error = Error::new(ErrorKind::Topology, "bring equal keys into the same task");
                let error = error.with("partitions", counts.join(", "));
                return Err(error.with("fix", "repartition one of the streams, with the partition count of the other"));
            }
        }
        Ok(())
    }

    /// The widest topic read by the sub-topologies that write to this one, once all of those are known.
    fn widest_of_writers(&self, topic: &Topic, known: &BTreeMap<Topic, i32>) -> Option<i32> {
        let counts = self.read_by_writers(topic).map(|t| known.get(t).copied());
        counts.collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// As [`Topology::widest_of_writers`], of those topics that are known.
    fn least_count_of(&self, topic: &Topic, known: &BTreeMap<Topic, i32>) -> Option<i32> {
        self.read_by_writers(topic).filter_map(|t| known.get(t).copied()).max()
    }

    fn read_by_writers<'a>(&'a self, topic: &'a Topic) -> impl Iterator<Item = &'a Topic> {
        let writes = |sub: u32| self.sinks().iter().any(|sink| sink.topic.fixed() == Some(topic) && sink.sub == sub);
        self.sources().iter().filter(move |source| writes(source.sub)).flat_map(|source| &source.topics)
    }

    fn widest(&self, sub: usize, known: &BTreeMap<Topic, i32>) -> i32 {
        let sources = self.sources().iter().filter(|s| s.sub as usize == sub);
        sources.flat_map(|s| &s.topics).filter_map(|t| known.get(t).copied()).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Consumed, Grouped, I64, Materialized, Produced, Repartitioned, Topology, Utf8};

    #[test]
    fn what_comes_back_to_where_it_was_written_is_as_wide_as_the_rest_that_is_read_there() {
        let mut builder = Topology::builder();
        let stream = builder.stream("in", Consumed::with(Utf8, I64));
        let back = stream.clone().repartition(Repartitioned::named("back"));
        stream.merge(back).to("out", Produced::default());
        let partitions = builder.build().unwrap().partitions(|_| Some(3)).unwrap();
        assert_eq!((partitions.internal, partitions.tasks), (vec![3], vec![3]));
    }

    #[test]
    fn a_topic_of_two_cogroups_has_one_count_with_all_topics_of_both() {
        let mut builder = Topology::builder();
        let mut rekeyed = |topic: &str| {
            let stream = builder.stream(topic, Consumed::with(Utf8, I64)).select_key(|key, _| key.to_uppercase());
            stream.group_by_key_with(Grouped::named(topic).key(Utf8).value(I64))
        };
        let (shared, own) = (rekeyed("in"), rekeyed("other"));
        let wide = builder.stream("wide", Consumed::with(Utf8, I64)).group_by_key();
        let add = |sum: i64, _: &String, n: &i64| sum + n;
        for (with, name) in [(own, "first"), (wide, "second")] {
            let cogrouped = shared.clone().cogroup(add).cogroup(with, add);
            let _ = cogrouped.aggregate(|| 0, Materialized::named(name).serdes(Utf8, I64));
        }
        let topology = builder.build().unwrap();
        let partitions = topology.partitions(|topic| Some(if topic == "wide" { 4 } else { 1 })).unwrap();
        assert_eq!(partitions.internal, [4; 4], "two repartition topics and two changelogs");
    }
}
