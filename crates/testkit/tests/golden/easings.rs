//! Where a case is expected otherwise than its file has it: all such places, and why.
//!
//! What a comparison may always ignore is in `behaviour/README.md`. Where Kafka Streams deviates and a case says so without saying
//! what is right, that is in `readings.json`, with a few cases more that say nothing although it deviates. What is here goes by
//! rule and not by the name of a case, so it holds for other files as well. Each rule is exact: it says what comes instead, and
//! that alone is accepted. The line that a test closes with counts the cases in which each has changed something.
//! `docs/differences.md` has them for users.
//!
//! Not counted are the zeros behind a position in the header `c`: readers have to ignore them, and we write none.

use std::collections::BTreeSet;

/// A rule by which a case is expected otherwise.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Easing {
    /// A window whose end belongs to it, of sliding windows and sessions, is final when its aggregation takes no more records for
    /// it. Kafka Streams says so a millisecond before; two cases in which it therefore says a final result twice are marked, and
    /// no other rule says each once (B007, B013). So a final result is expected at the first step at which time is past that;
    /// the buffer's changelog has the same records per window, at other steps.
    LaterFinals,
    /// In the changelog of a suppression buffer a window has no value before its first update. Kafka Streams writes what the
    /// aggregation began with, an initial value or what a sliding window shares with another: the fault that cases of
    /// `table_group` mark where it does harm. And it writes no old value where a session of one moment is updated, or where a
    /// record makes a sliding window twice; a case does not tell when that is, so ours may have none or the equal one then.
    OldValues,
    /// An update that comes out of a cache has no topic, partition and offset in a suppression buffer's changelog. Kafka Streams'
    /// cache keeps those of the last record beside the value; ours keeps values only.
    NoContext,
    /// What has expired is not shown: not by an engine, a cache, or a store whose task's time is ahead of its own. In Kafka
    /// Streams that depends on the engine, the cache and what was put (B003, B005; `docs/decisions/0012-the-time-of-a-store.md`).
    Expired,
    /// A put that has expired is not logged, and counted as dropped. Kafka Streams logs what its store does not keep (B004).
    ExpiredPuts,
    /// A delete in a store that keeps duplicates does nothing (B022). Kafka Streams logs it, and the store that is restored skips
    /// it.
    DuplicatesStay,
    /// A record that stops its task has no effect (D14). Kafka Streams' store has its write, and its changelog has not: the
    /// changelog is what counts.
    FailedRecord,
    /// What Kafka Streams refuses when it builds a topology, a program of ours that would say it does not compile: there are no
    /// global tables. Then there is nothing to run.
    NotSayable,
}

impl Easing {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::LaterFinals => "final results a millisecond later",
            Self::OldValues => "old values in the log of what waits",
            Self::NoContext => "no context out of a cache",
            Self::Expired => "nothing that has expired is shown",
            Self::ExpiredPuts => "expired puts are not logged",
            Self::DuplicatesStay => "deletes of duplicates are not logged",
            Self::FailedRecord => "nothing of a record that fails",
            Self::NotSayable => "does not compile",
        }
    }
}

/// How a case has passed.
#[derive(Clone, Default)]
pub(crate) struct Help {
    /// It has a reading.
    pub(crate) by_hand: bool,
    pub(crate) easings: BTreeSet<Easing>,
}
