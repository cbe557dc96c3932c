//! What may be saved of topics: a table's source topic as its changelog, and repartition topics that carry the same records.

mod merge;
mod reuse;

use std::ops::BitOr;

pub(crate) use merge::merge_repartitions;
pub use reuse::ReusedTopic;

/// Which topics a topology does without, as Kafka Streams' `topology.optimization`; [`Builder::optimize`](crate::Builder::optimize)
/// switches them on. They can be put together: `Optimization::REUSE_KTABLE_SOURCE_TOPICS | Optimization::MERGE_REPARTITION_TOPICS`.
///
/// # Switching one on or off later
///
/// It changes which topics there are, and what they hold: records that wait in a repartition topic that is no more are not
/// read, and a changelog that was not written for a while is not what the store was. So do it with a new application id, or with
/// no records waiting and all state thrown away, as with Kafka Streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Optimization {
    pub(crate) reuse: bool,
    pub(crate) merge: bool,
}

impl Optimization {
    /// None of them, the default.
    pub const NONE: Self = Self { reuse: false, merge: false };

    /// The store of a table that is [made of a topic](crate::Builder::table_materialized) has no changelog: it is restored from
    /// that topic, up to the offset that the application has committed.
    ///
    /// The topic must be compacted, or keep its records for ever: it holds the table now. A record that the table's source drops
    /// (without a key, with bytes that do not deserialize, with a negative time) is no row after a restore either.
    ///
    /// What a restore cannot know: that a record was skipped by the processing handler, because code *behind* the table failed
    /// on it. It was no row before, and it is one afterwards. And under at-least-once, which reads records of transactions that
    /// are aborted later, a restore leaves them out. And where a table begins at the topic's end, for nothing was committed and
    /// `auto.offset.reset` is `latest`: that it has never processed what lies before. As long as nothing is committed that is not
    /// restored, but a later restore brings it back with the rest.
    ///
    /// A table keeps a changelog of its own where the topic's bytes are not the store's: if its key's serde has no
    /// [identity](crate::Serde::identity), if `Materialized` names other serdes than `Consumed`,
    /// if it keeps a history or lets rows live for a time, and if event times come from an
    /// extractor other than [`skip_invalid_timestamps`](crate::Consumed::skip_invalid_timestamps).
    pub const REUSE_KTABLE_SOURCE_TOPICS: Self = Self { reuse: true, merge: false };

    /// Groupings (and `to_table`) of one stream whose key has changed share a repartition topic: one, right behind the operator
    /// that changes the key, called as the first of them would be. Operators in between that neither change keys nor values,
    /// such as filters, come behind the topic then. Groupings behind an operator that changes values have topics of their own.
    ///
    /// Behind a [processor](crate::Stream::process) operators stay where they are, and groupings behind them have topics of their
    /// own: the processor may choose among its children, and knows them by their names. Kafka Streams moves them all the same.
    pub const MERGE_REPARTITION_TOPICS: Self = Self { reuse: false, merge: true };

    /// All of them.
    pub const ALL: Self = Self { reuse: true, merge: true };
}

impl BitOr for Optimization {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self { reuse: self.reuse | other.reuse, merge: self.merge | other.merge }
    }
}
