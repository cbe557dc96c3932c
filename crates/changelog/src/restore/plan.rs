//! What a restore does with each changelog partition: decided from the shard's position and what the broker says.

use millpond_broker_api::{Offset, Source};

use crate::restore::Accepts;
use crate::{ChangelogPosition, RowLayout, ValueFormat};

/// A changelog partition, and the store that it is the log of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changelog {
    /// The number that its records carry in the restore consumer's batches.
    pub source: Source,
    /// The topic.
    pub topic: Box<str>,
    /// The partition: the task's.
    pub partition: i32,
    /// The store's name.
    pub store: Box<str>,
    /// Where the store's rows lie in the shard.
    pub rows: RowLayout,
    /// How the store holds its values.
    pub format: ValueFormat,
    /// The store's node may still need rows that have expired: none of them is left out.
    pub held: bool,
    /// Of a topic that is not the store's own: which of its records are the store's; the others are left out. `None`: all.
    pub accepts: Option<Accepts>,
}

/// What the broker says of a changelog partition.
///
/// For a task that is taken over, asked *after* its new generation is known: a former owner that writes later can no
/// longer commit what it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRange {
    /// The topic's id; 0 if the broker gives none.
    pub topic_id: u128,
    /// The first offset that is still there.
    pub start: Offset,
    /// The log's end, read uncommitted (the high watermark).
    pub end: Offset,
    /// Where the restore ends: `end`; for a source topic that is reused as changelog the committed offset, if smaller;
    /// [`Offset::MAX`] for a standby, which never ends.
    pub until: Offset,
    /// For how long the broker keeps tombstones (`delete.retention.ms`). Rows of a shard that was away for longer may have
    /// been deleted without a trace, so it is built anew. `None`: do not ask how old the state is.
    pub tombstones_kept_ms: Option<i64>,
}

impl LogRange {
    /// The whole of a log, without a question of age.
    pub const fn whole(topic_id: u128, start: Offset, end: Offset) -> Self {
        Self { topic_id, start, end, until: end, tombstones_kept_ms: None }
    }
}

/// What is done with a changelog partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The store has everything: read nothing.
    Nothing {
        /// The position.
        at: Offset,
    },
    /// Read what came since.
    Resume {
        /// The shard's position.
        from: Offset,
    },
    /// The shard has no position for it (a new shard, a new store, a restore that was cut short while it cleared the store):
    /// clear the store, read everything.
    FromStart {
        /// The log's start.
        from: Offset,
    },
    /// The shard's rows cannot be continued: clear the store, read everything, and warn once.
    Rebuild {
        /// The log's start.
        from: Offset,
        /// Why.
        why: RebuildReason,
    },
}

impl Decision {
    /// Where reading begins.
    pub const fn from(self) -> Offset {
        match self {
            Self::Nothing { at } => at,
            Self::Resume { from } | Self::FromStart { from } | Self::Rebuild { from, .. } => from,
        }
    }

    /// What is done, in one word for logs and events.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing { .. } => "nothing",
            Self::Resume { .. } => "resume",
            Self::FromStart { .. } => "from-start",
            Self::Rebuild { .. } => "rebuild",
        }
    }

    /// True if the store's rows go first.
    pub const fn clears(self) -> bool {
        matches!(self, Self::FromStart { .. } | Self::Rebuild { .. })
    }
}

/// Why a store's rows cannot be continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RebuildReason {
    /// Records that the store lacks are no longer in the log.
    BelowStart {
        /// The shard's position.
        local: Offset,
        /// The log's start.
        start: Offset,
    },
    /// The store has records that are not in the log: it was truncated, or is another one.
    BeyondEnd {
        /// The shard's position.
        local: Offset,
        /// The log's end.
        end: Offset,
    },
    /// The topic was deleted and made again: its offsets mean something else.
    OtherTopic {
        /// The id that the shard's position was taken with.
        local: u128,
        /// The id now.
        now: u128,
    },
    /// The store was away for longer than tombstones are kept.
    TooOld {
        /// How long, in milliseconds.
        age_ms: i64,
        /// For how long the broker keeps tombstones, in milliseconds.
        kept_ms: i64,
    },
}

impl std::fmt::Display for RebuildReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::BelowStart { local, start } => {
                write!(f, "records the store lacks are gone from the changelog local=`{local}` start=`{start}`")
            }
            Self::BeyondEnd { local, end } => {
                write!(f, "the store is ahead of the changelog local=`{local}` end=`{end}`")
            }
            Self::OtherTopic { local, now } => {
                write!(f, "the changelog was deleted and made again local=`{local:032x}` now=`{now:032x}`")
            }
            Self::TooOld { age_ms, kept_ms } => {
                write!(f, "the store is older than the changelog's tombstones age_ms=`{age_ms}` kept_ms=`{kept_ms}`")
            }
        }
    }
}

/// Decides about one changelog partition. `age_ms`: for how long the shard was away; `None` if that is not known.
pub fn decide(local: Option<ChangelogPosition<'_>>, log: &LogRange, age_ms: Option<i64>) -> Decision {
    let from = log.start;
    let Some(local) = local else { return Decision::FromStart { from } };
    let rebuild = |why| Decision::Rebuild { from, why };
    let next = local.next;
    if local.topic_id != 0 && log.topic_id != 0 && local.topic_id != log.topic_id {
        return rebuild(RebuildReason::OtherTopic { local: local.topic_id, now: log.topic_id });
    }
    if next > log.end {
        return rebuild(RebuildReason::BeyondEnd { local: next, end: log.end });
    }
    if next < log.start {
        return rebuild(RebuildReason::BelowStart { local: next, start: log.start });
    }
    if next >= log.until {
        return Decision::Nothing { at: next };
    }
    match (age_ms, log.tombstones_kept_ms) {
        (Some(age_ms), Some(kept_ms)) if age_ms > kept_ms && next < log.end => {
            rebuild(RebuildReason::TooOld { age_ms, kept_ms })
        }
        _ => Decision::Resume { from: next },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(next: Offset) -> Option<ChangelogPosition<'static>> {
        Some(ChangelogPosition { topic: "t", topic_id: 7, partition: 0, next })
    }

    fn log(start: Offset, end: Offset) -> LogRange {
        LogRange::whole(7, start, end)
    }

    #[test]
    fn b091_a_position_outside_the_log_is_rebuilt_from_its_start() {
        assert_eq!(
            decide(local(50), &log(200, 300), None),
            Decision::Rebuild { from: 200, why: RebuildReason::BelowStart { local: 50, start: 200 } }
        );
        assert_eq!(
            decide(local(400), &log(200, 300), None),
            Decision::Rebuild { from: 200, why: RebuildReason::BeyondEnd { local: 400, end: 300 } }
        );
    }

    #[test]
    fn b094_every_position_in_an_empty_log_ends() {
        assert_eq!(decide(None, &log(0, 0), None), Decision::FromStart { from: 0 });
        assert_eq!(decide(None, &log(500, 500), None), Decision::FromStart { from: 500 });
        assert_eq!(decide(local(500), &log(500, 500), None), Decision::Nothing { at: 500 });
        assert!(matches!(decide(local(499), &log(500, 500), None), Decision::Rebuild { from: 500, .. }));
        for next in [499, 500] {
            let why = RebuildReason::BeyondEnd { local: next, end: 0 };
            assert_eq!(decide(local(next), &log(0, 0), None), Decision::Rebuild { from: 0, why });
        }
        assert_eq!(decide(local(0), &log(0, 0), None), Decision::Nothing { at: 0 });
    }

    #[test]
    fn b097_offset_zero_is_an_offset() {
        assert_eq!(decide(None, &log(0, 1), None), Decision::FromStart { from: 0 });
        assert_eq!(decide(local(0), &log(0, 1), None), Decision::Resume { from: 0 });
        assert_eq!(decide(local(1), &log(0, 1), None), Decision::Nothing { at: 1 });
        assert_eq!(decide(local(1), &log(0, 2), None), Decision::Resume { from: 1 });
        assert!(decide(local(2), &log(0, 1), None).clears());
    }

    #[test]
    fn b098_a_log_that_does_not_start_at_zero_is_read_from_its_start() {
        assert_eq!(decide(None, &log(300, 400), None), Decision::FromStart { from: 300 });
    }

    #[test]
    fn b102_a_store_without_a_position_is_restored_alone() {
        assert_eq!(decide(local(40), &log(0, 50), None), Decision::Resume { from: 40 });
        assert_eq!(decide(None, &log(0, 50), None), Decision::FromStart { from: 0 });
    }

    #[test]
    fn another_topic_of_the_same_name_is_found_out() {
        let again = LogRange { topic_id: 8, ..log(0, 100) };
        let why = RebuildReason::OtherTopic { local: 7, now: 8 };
        assert_eq!(decide(local(50), &again, None), Decision::Rebuild { from: 0, why });
        let unknown = LogRange { topic_id: 0, ..log(0, 100) };
        assert_eq!(decide(local(50), &unknown, None), Decision::Resume { from: 50 });
    }

    #[test]
    fn state_older_than_the_tombstones_is_rebuilt_if_it_lacks_anything() {
        let log = LogRange { tombstones_kept_ms: Some(1000), ..log(0, 100) };
        let why = RebuildReason::TooOld { age_ms: 1001, kept_ms: 1000 };
        assert_eq!(decide(local(50), &log, Some(1001)), Decision::Rebuild { from: 0, why });
        assert_eq!(decide(local(50), &log, Some(1000)), Decision::Resume { from: 50 });
        assert_eq!(decide(local(50), &log, None), Decision::Resume { from: 50 });
        assert_eq!(decide(local(100), &log, Some(1001)), Decision::Nothing { at: 100 });
    }

    #[test]
    fn a_reused_source_topic_ends_at_the_committed_offset() {
        let log = LogRange { until: 60, ..log(0, 100) };
        assert_eq!(decide(local(50), &log, None), Decision::Resume { from: 50 });
        // The shard was applied, its input offset not committed any more.
        assert_eq!(decide(local(70), &log, None), Decision::Nothing { at: 70 });
    }

    #[test]
    fn a_standby_never_ends() {
        let log = LogRange { until: Offset::MAX, ..log(0, 100) };
        assert_eq!(decide(local(100), &log, None), Decision::Resume { from: 100 });
    }

    #[test]
    fn reasons_are_told_with_their_numbers() {
        let text = RebuildReason::BelowStart { local: 50, start: 200 }.to_string();
        assert!(text.ends_with("local=`50` start=`200`"), "{text}");
    }
}
