//! Where streams end: topics, topics chosen per record, and prints.

use std::fmt::Debug;
use std::io::Write;
use std::sync::{Arc, Mutex};

use crate::dsl::options::Produced;
use crate::dsl::repartition::{Choice, add_sink, add_sink_to};
use crate::dsl::stream::{Key, Stream, missing};
use crate::error::Result;
use crate::names::prefix;
use crate::nodes::{Print, TopicChooser};
use crate::record::RecordContext;
use crate::serde::Coder;
use crate::topology::{SinkTopic, Topic};

impl<K: 'static, V: 'static> Stream<K, V> {
    /// Writes the records to a topic; the stream ends here.
    pub fn to(mut self, topic: &str, produced: Produced<K, V>) {
        self.at.name = produced.name.or(self.at.name);
        let name = self.at.next_name(prefix::STREAM_SINK);
        let key = self.at.serde(produced.key.or(self.key), || missing("key", "to", topic, "Produced"));
        let value = self.at.serde(produced.value.or(self.value), || missing("value", "to", topic, "Produced"));
        add_sink(&self.at, name, Topic::external(topic), key, value, produced.partitioner);
    }

    /// Writes each record to the topic that `choose` names for it; the stream ends here. As Kafka Streams'
    /// `TopicNameExtractor`.
    ///
    /// The topics must exist. One is looked up when it is first written to, and its partition count is remembered as long as
    /// the application runs. A name that is none, or that of no topic, is an error of the record, which the processing handler
    /// is asked about: it can be created, and the record tried again.
    ///
    /// ```
    /// # use millpond_topology::*;
    /// # let mut builder = Topology::builder();
    /// builder
    ///     .stream("events", Consumed::with(Utf8, Utf8))
    ///     .to_topic_of(|country, _, _| format!("events-{country}"), Produced::default());
    /// ```
    pub fn to_topic_of<T: AsRef<str>, F>(self, choose: F, produced: Produced<K, V>)
    where
        F: Fn(&K, &V, &RecordContext<'_>) -> T + Send + Sync + 'static,
    {
        let by = std::any::type_name::<F>();
        self.choose_topics(by, move |k, v, cx| Ok(choose(k, v, cx)), produced);
    }

    /// As [`Stream::to_topic_of`], with a closure that can fail.
    pub fn try_to_topic_of<T: AsRef<str>, F>(self, choose: F, produced: Produced<K, V>)
    where
        F: Fn(&K, &V, &RecordContext<'_>) -> Result<T> + Send + Sync + 'static,
    {
        self.choose_topics(std::any::type_name::<F>(), choose, produced);
    }

    /// `by`: what chooses, for descriptions.
    fn choose_topics<T: AsRef<str>>(
        mut self,
        by: &'static str,
        choose: impl Fn(&K, &V, &RecordContext<'_>) -> Result<T> + Send + Sync + 'static,
        produced: Produced<K, V>,
    ) {
        const WHAT: &str = "a topic of each record";
        self.at.name = produced.name.or(self.at.name);
        let name = self.at.next_name(prefix::STREAM_SINK);
        let key = self.at.serde(produced.key.or(self.key), || missing("key", "to_topic_of", WHAT, "Produced"));
        let value = self.at.serde(produced.value.or(self.value), || missing("value", "to_topic_of", WHAT, "Produced"));
        let topic = SinkTopic::Chosen(by);
        let choose: TopicChooser<K, V> = Arc::new(move |k, v, cx, name| {
            name.push_str(choose(k, v, cx)?.as_ref());
            Ok(())
        });
        let choice = Choice { partitioner: produced.partitioner, topic: Some(choose) };
        let parents = vec![self.at.node];
        add_sink_to(&mut self.at.graph(), name, topic, parents, (Coder::key(key), Coder::value(value)), choice);
    }

    /// Prints each record to the standard output, as `[label]: key, value` in their [`Debug`] forms; the stream ends here.
    ///
    /// For looking on while a program is made: keys and values are business data, and a record is printed when it is
    /// processed, whether or not that is committed in the end.
    pub fn print(self, label: &str)
    where
        K: Debug,
        V: Debug,
    {
        self.print_to(label, std::io::stdout());
    }

    /// As [`Stream::print`], to a file or any other writer. A failed write is an error of the record.
    pub fn print_to(self, label: &str, to: impl Write + Send + 'static)
    where
        K: Debug,
        V: Debug,
    {
        let print = Print { label: label.to_owned(), to: Mutex::new(to) };
        let _ = self.op(prefix::PRINTER, print, Key::Keeps);
    }
}
