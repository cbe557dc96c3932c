//! A task's timers: when which punctuation is due.

use millpond_topology::{NodeIndex, PunctuationType, Schedule, TimerId};

/// One timer.
#[derive(Clone, Copy, Debug)]
struct Timer {
    id: TimerId,
    node: NodeIndex,
    slot: u32,
    schedule: Schedule,
    next: i64,
}

/// A punctuation that is due: which of a node's timers, and the time it is called with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Due {
    pub(crate) node: NodeIndex,
    pub(crate) slot: u32,
    pub(crate) at: i64,
    schedule: Schedule,
}

/// All timers of a task.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    timers: Vec<Timer>,
    last_id: u64,
    /// The last timer that was there at the last border.
    kept_id: u64,
    /// Timers that were cancelled since then.
    cancelled: Vec<Timer>,
    /// Those of the graph before: a panic has it built anew.
    former: Vec<Timer>,
}

impl Timers {
    /// Stream time: due for the first time with the first record. Wall clock: one interval from now. Either: at its start, if
    /// it has one; by the wall clock once that has moved on, as in Kafka Streams' test driver.
    pub(crate) fn schedule(&mut self, node: NodeIndex, slot: u32, schedule: Schedule, wall: i64) -> TimerId {
        self.last_id += 1;
        let id = TimerId(self.last_id);
        let schedule = Schedule { every_ms: schedule.every_ms.max(1), ..schedule };
        let former = self.former.iter().find(|t| (t.node, t.slot, t.schedule) == (node, slot, schedule));
        let next = former.map(|t| t.next).unwrap_or_else(|| match (schedule.by, schedule.start_ms) {
            (PunctuationType::StreamTime, start) => start.unwrap_or(0),
            (PunctuationType::WallClockTime, None) => wall.saturating_add(schedule.every_ms),
            (PunctuationType::WallClockTime, Some(start)) => start.max(wall.saturating_add(1)),
        });
        self.timers.push(Timer { id, node, slot, schedule, next });
        id
    }

    pub(crate) fn cancel(&mut self, id: TimerId) {
        self.cancelled.extend(self.timers.extract_if(.., |t| t.id == id));
    }

    pub(crate) fn clear(&mut self) {
        self.timers.clear();
        self.cancelled.clear();
    }

    /// The graph is built anew: a timer that is scheduled as one of those now there is due when that would have been.
    pub(crate) fn carry_over(&mut self) {
        self.former = std::mem::take(&mut self.timers);
    }

    /// The graph is built: the timers are those of its suppliers.
    pub(crate) fn built(&mut self) {
        self.former.clear();
        self.record_done();
    }

    /// The record or punctuation at hand is done: what it started and cancelled stays so.
    #[inline]
    pub(crate) fn record_done(&mut self) {
        self.kept_id = self.last_id;
        self.cancelled.clear();
    }

    /// It failed: what it started is gone, what it cancelled goes on.
    pub(crate) fn record_failed(&mut self) {
        self.timers.retain(|t| t.id.0 <= self.kept_id);
        let kept = self.kept_id;
        self.timers.extend(self.cancelled.drain(..).filter(|t| t.id.0 <= kept));
    }

    /// When a timer of the wall clock is due next.
    pub(crate) fn next_wall(&self) -> Option<i64> {
        let wall = self.timers.iter().filter(|t| t.schedule.by == PunctuationType::WallClockTime);
        wall.map(|t| t.next).min()
    }

    /// Whether a timer is due. Cheap: asked for after each record.
    pub(crate) fn is_due(&self, by: PunctuationType, now: i64) -> bool {
        self.timers.iter().any(|t| t.schedule.by == by && t.next <= now)
    }

    /// Whether what was due can be tried again: a graph that was made anew after a panic has the timers of its suppliers, and
    /// another one may be where one was that is gone.
    pub(crate) fn has(&self, due: &Due) -> bool {
        self.timers.iter().any(|t| (t.node, t.slot, t.schedule) == (due.node, due.slot, due.schedule))
    }

    /// The timer of a clock that has been due for longest, moved on to its next time after `now`: calls that were missed
    /// collapse into this one.
    pub(crate) fn take_due(&mut self, by: PunctuationType, now: i64) -> Option<Due> {
        let due = self.timers.iter_mut().filter(|t| t.schedule.by == by && t.next <= now);
        let timer = due.min_by_key(|t| (t.next, t.id))?;
        let (id, every) = (timer.id, timer.schedule.every_ms);
        let due = Due { node: timer.node, slot: timer.slot, at: now, schedule: timer.schedule };
        // The first call may have come late, but calls keep to whole intervals from the start.
        let begin = timer.schedule.start_ms.unwrap_or(timer.next);
        let passed = now.saturating_sub(begin) / every;
        match passed.checked_add(1).and_then(|n| n.checked_mul(every)).and_then(|by| begin.checked_add(by)) {
            Some(next) => timer.next = next,
            // Time has come to its end: it will not be due again.
            None => self.timers.retain(|t| t.id != id),
        }
        Some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: PunctuationType = PunctuationType::StreamTime;
    const WALL: PunctuationType = PunctuationType::WallClockTime;

    fn every(every_ms: i64, by: PunctuationType) -> Schedule {
        Schedule { every_ms, by, start_ms: None }
    }

    #[test]
    fn b078_wall_clock_punctuation_first_call_and_missed_calls() {
        let mut timers = Timers::default();
        timers.schedule(NodeIndex(1), 0, every(10, WALL), 100);
        assert_eq!(timers.take_due(WALL, 109), None, "the first call comes one interval later");
        assert!(timers.take_due(WALL, 110).is_some());
        assert_eq!(timers.take_due(WALL, 110), None);
        assert_eq!(timers.take_due(WALL, 145).map(|d| d.at), Some(145), "three missed calls are one");
        assert_eq!(timers.take_due(WALL, 149), None);
        assert!(timers.take_due(WALL, 150).is_some(), "and the rhythm stays");
    }

    #[test]
    fn stream_time_punctuation_begins_with_the_first_record_and_keeps_its_rhythm() {
        let mut timers = Timers::default();
        timers.schedule(NodeIndex(1), 0, every(10, STREAM), 5_000);
        assert!(!timers.is_due(STREAM, -1));
        assert_eq!(timers.take_due(STREAM, 23).map(|d| d.at), Some(23));
        assert_eq!(timers.take_due(STREAM, 29), None);
        assert!(timers.take_due(STREAM, 30).is_some());
    }

    #[test]
    fn a_start_that_has_passed_is_due_when_the_clock_moves_and_the_rhythm_is_counted_from_it() {
        let mut timers = Timers::default();
        timers.schedule(NodeIndex(1), 0, Schedule { start_ms: Some(95), ..every(10, WALL) }, 100);
        assert_eq!((timers.next_wall(), timers.take_due(WALL, 100)), (Some(101), None));
        assert_eq!(timers.take_due(WALL, 101).map(|d| d.at), Some(101));
        assert_eq!(timers.next_wall(), Some(105));
        assert_eq!(timers.take_due(WALL, 128).map(|d| d.at), Some(128));
        assert_eq!(timers.next_wall(), Some(135));
    }

    #[test]
    fn after_a_panic_timers_keep_their_rhythm() {
        let mut timers = Timers::default();
        let all = [every(10, STREAM), every(10, WALL), Schedule { start_ms: Some(5), ..every(10, WALL) }];
        let schedule = |timers: &mut Timers, wall| {
            for (slot, schedule) in (0..).zip(all) {
                timers.schedule(NodeIndex(1), slot, schedule, wall);
            }
            timers.built();
        };
        schedule(&mut timers, 100);
        while timers.take_due(STREAM, 23).or_else(|| timers.take_due(WALL, 118)).is_some() {}
        timers.carry_over();
        timers.clear();
        schedule(&mut timers, 119);
        assert_eq!((timers.take_due(STREAM, 29), timers.take_due(WALL, 119)), (None, None), "none is due at once");
        assert!(timers.take_due(STREAM, 30).is_some());
        assert_eq!(timers.take_due(WALL, 120).map(|d| d.slot), Some(1));
        assert_eq!(timers.take_due(WALL, 125).map(|d| d.slot), Some(2));
    }

    #[test]
    fn the_end_of_time_is_the_end_of_a_timer_not_of_the_program() {
        for interval in [1, 1_000, i64::MAX] {
            let mut timers = Timers::default();
            timers.schedule(NodeIndex(1), 0, every(interval, STREAM), 0);
            assert!(timers.take_due(STREAM, i64::MAX).is_some());
            assert_eq!(timers.take_due(STREAM, i64::MAX), None, "every {interval} ms");
            timers.schedule(NodeIndex(1), 0, every(interval, WALL), i64::MAX - 1);
            assert!(timers.next_wall().is_some());
        }
    }

    #[test]
    fn a_failed_record_starts_and_cancels_nothing() {
        let mut timers = Timers::default();
        let a = timers.schedule(NodeIndex(1), 0, every(10, WALL), 0);
        timers.record_done();
        timers.cancel(a);
        let b = timers.schedule(NodeIndex(2), 0, every(5, WALL), 0);
        timers.cancel(b);
        timers.schedule(NodeIndex(3), 0, every(5, WALL), 0);
        timers.record_failed();
        assert_eq!(timers.take_due(WALL, 10).map(|d| d.node), Some(NodeIndex(1)));
        assert_eq!(timers.take_due(WALL, 10), None);
        timers.cancel(a);
        timers.record_done();
        timers.record_failed();
        assert_eq!(timers.next_wall(), None);
    }

    #[test]
    fn the_longest_due_goes_first_and_cancelled_ones_not_at_all() {
        let mut timers = Timers::default();
        let a = timers.schedule(NodeIndex(1), 0, every(30, WALL), 0);
        timers.schedule(NodeIndex(2), 0, every(20, WALL), 0);
        assert_eq!(timers.next_wall(), Some(20));
        assert_eq!(timers.take_due(WALL, 35).map(|d| d.node), Some(NodeIndex(2)));
        timers.cancel(a);
        assert_eq!(timers.take_due(WALL, 35), None);
    }
}
