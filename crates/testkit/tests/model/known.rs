//! What can be known of a step's records from the input alone, whatever the library does in its own time.
//!
//! * In one task without caches everything is determined: the sequence of all records.
//! * Several partitions: each task has its own records in order. Behind a repartition topic the records of several tasks
//!   come in any order; if keys have not changed, at least those of one key come from one task, in order.
//! * Two ways to one task, one of them through another topic: which record is first is not determined.
//! * A cache leaves out updates of a row between two commits: only the last one of a key is certain. An aggregate of such
//!   updates as a stream is not determined, an aggregate of the table is.
//! * What does not depend on the order of its values is known without it.
//! * A row of a table that has moved from group to group may have been in groups that an observer of the last updates never
//!   hears of: there it counts for nothing, but the group may have a row.

use crate::plan::Fold;

/// How much is known of the records of a step, from little to much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Known {
    Nothing,
    /// The last value of each key; but a row that amounts to nothing may be missing, or be there.
    Loose,
    /// The last value of each key, not its time.
    Values,
    /// The last record of each key.
    Last,
    /// Which records there are, not in which order.
    Bag,
    /// The records of each key, in order.
    PerKey,
    /// All records of each task, in order.
    Total,
}

impl Known {
    /// Of some of the records only.
    pub(crate) fn of_some(self) -> Self {
        if self <= Self::Last { Self::Nothing } else { self }
    }

    /// Of what is made of each row of a table.
    pub(crate) fn of_rows(self) -> Self {
        if self == Self::Loose { Self::Nothing } else { self }
    }

    /// Of the same records under other keys.
    pub(crate) fn rekeyed(self) -> Self {
        match self {
            Self::Total => Self::Total,
            Self::PerKey | Self::Bag => Self::Bag,
            _ => Self::Nothing,
        }
    }

    /// Of two steps' records together; `same_way` if they have come through the same topics.
    pub(crate) fn merged(left: Self, right: Self, same_way: bool) -> Self {
        match (left, right) {
            (Self::Total, Self::Total) if same_way => Self::Total,
            (Self::Bag | Self::PerKey | Self::Total, Self::Bag | Self::PerKey | Self::Total) => Self::Bag,
            _ => Self::Nothing,
        }
    }

    /// Of the same records behind a repartition topic.
    pub(crate) fn repartitioned(self, partitions: i32, rekeyed: bool) -> Self {
        match self {
            same if partitions == 1 => same,
            Self::Total if rekeyed => Self::Bag,
            Self::Total => Self::PerKey,
            other => other,
        }
    }

    /// Of a table of the last value of each key.
    pub(crate) fn latest(self) -> Self {
        if self == Self::Bag { Self::Nothing } else { self }
    }

    /// Of a table of these records, folded by key.
    pub(crate) fn folded(self, fold: Fold) -> Self {
        match self {
            Self::Bag if fold.commutes() => Self::Last,
            Self::PerKey | Self::Total => self,
            // Each update that is left out is one value less.
            _ => Self::Nothing,
        }
    }

    /// Of the rows of a table by another key, folded. `all_groups`: the rows that there are at the end tell of all groups that
    /// there have been.
    pub(crate) fn regrouped(self, partitions: i32, all_groups: bool) -> Self {
        match self {
            Self::Total if partitions == 1 => Self::Total,
            Self::Total | Self::PerKey => Self::Last,
            Self::Last | Self::Values if all_groups => Self::Values,
            Self::Last | Self::Values => Self::Loose,
            _ => Self::Nothing,
        }
    }
}

/// The part of a run that decides what is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct World {
    pub(crate) partitions: i32,
    /// Of `statestore.cache.max.bytes`; None: no caches.
    pub(crate) caching: Option<u64>,
    /// The process stops or dies in between.
    pub(crate) breaks: bool,
}

impl World {
    /// Of the updates of a table whose store is cached, if it has one.
    pub(crate) fn cached(&self, known: Known) -> Known {
        if self.caching.is_some() { known.min(Known::Last) } else { known }
    }
}
