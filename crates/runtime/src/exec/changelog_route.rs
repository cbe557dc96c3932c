//! Where the changes of a store go, and which of them the broker may delete as soon as they are there.

use millpond_broker_api::TopicId;

/// The changelog of a store, for the worker's producer.
///
/// A broker that deletes by age goes by the records' times and its own clock. A record that is older than that when it is
/// written, because events of long ago are read, is not kept: what is restored from the changelog lacks it.
#[derive(Clone, Debug)]
pub(crate) struct ChangelogRoute {
    pub(crate) topic: String,
    pub(crate) id: TopicId,
    /// How long a record is kept, in milliseconds; `None`: whatever its age.
    keeps: Option<i64>,
    /// What is older is not kept.
    earliest: i64,
    /// How many of those were written, since the last time somebody asked.
    not_kept: u64,
}

impl ChangelogRoute {
    pub(crate) fn new(topic: String, id: TopicId, keeps: Option<i64>) -> Self {
        Self { topic, id, keeps, earliest: i64::MIN, not_kept: 0 }
    }

    /// Tells what the broker's clock is at, more or less: nobody sets a retention of seconds.
    pub(crate) fn look_at(&mut self, wall: i64) {
        self.earliest = self.keeps.map_or(i64::MIN, |keeps| wall.saturating_sub(keeps));
    }

    /// A record with this time is written.
    #[inline]
    pub(crate) fn written(&mut self, timestamp: i64) {
        self.not_kept += u64::from(timestamp < self.earliest);
    }

    /// How many records were not kept, since the last time somebody asked.
    pub(crate) fn take_not_kept(&mut self) -> u64 {
        std::mem::take(&mut self.not_kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_than_is_kept_is_counted_once() {
        let mut route = ChangelogRoute::new("log".into(), TopicId(0), Some(100));
        route.written(-5);
        assert_eq!(route.take_not_kept(), 0, "the time is not known yet");
        route.look_at(1_000);
        [899, 900, 901].into_iter().for_each(|time| route.written(time));
        assert_eq!((route.take_not_kept(), route.take_not_kept()), (1, 0));
    }

    #[test]
    fn a_changelog_that_is_only_compacted_keeps_all() {
        let mut route = ChangelogRoute::new("log".into(), TopicId(0), None);
        route.look_at(i64::MAX);
        route.written(i64::MIN);
        assert_eq!(route.take_not_kept(), 0);
    }
}
