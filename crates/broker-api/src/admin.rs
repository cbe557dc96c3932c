//! Topics: create, describe, delete, offsets, and deletion of records.

use crate::{Offset, Result};

/// A topic to be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewTopic<'a> {
    /// The name.
    pub name: &'a str,
    /// How many partitions.
    pub partitions: i32,
    /// The replication factor; `None`: the broker's default.
    pub replication: Option<i16>,
    /// Topic configs by Kafka's names.
    pub configs: &'a [(&'a str, &'a str)],
}

/// A place in a partition to ask the offset of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The first offset that is still there.
    Start,
    /// The high watermark: the log's end, read uncommitted.
    End,
    /// The last stable offset: the log's end, read committed.
    StableEnd,
    /// The first record with this timestamp or a later one, in milliseconds since 1970; else the end.
    Time(i64),
}

/// What is known of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicInfo {
    /// The name.
    pub name: String,
    /// The id that tells a topic from a later one of the same name (KIP-516); 0 if the broker gives none.
    pub id: u128,
    /// How many partitions.
    pub partitions: i32,
    /// The configs that are set on the topic itself.
    pub configs: Vec<(String, String)>,
    /// The configs that it has of the broker; empty if the broker does not say.
    pub inherited: Vec<(String, String)>,
}

/// Administration. An answer per item, in the order of the question: one bad topic does not hide the others.
pub trait Admin: Send {
    /// Creates topics. One that exists answers [`Refused`](crate::ErrorKind::Refused).
    fn create_topics(&mut self, topics: &[NewTopic<'_>]) -> Result<Vec<Result<()>>>;

    /// Sets some configs of a topic, leaving the others alone.
    fn set_configs(&mut self, topic: &str, configs: &[(&str, &str)]) -> Result<()>;

    /// Deletes topics with all their records.
    fn delete_topics(&mut self, topics: &[&str]) -> Result<Vec<Result<()>>>;

    /// Describes topics; an unknown one is `None`.
    fn describe(&mut self, topics: &[&str]) -> Result<Vec<Option<TopicInfo>>>;

    /// Asks for offsets.
    fn offsets(&mut self, of: &[(&str, i32, At)]) -> Result<Vec<Result<Offset>>>;

    /// Deletes all records below an offset (`-1`: all); answers with the new start. Refused for topics that are compacted
    /// and nothing else.
    fn delete_records(&mut self, below: &[(&str, i32, Offset)]) -> Result<Vec<Result<Offset>>>;
}
