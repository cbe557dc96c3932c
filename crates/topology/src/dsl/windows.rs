//! Windows as they are declared, and the one rule that says when a window is closed.

use std::time::Duration;

use crate::millis::counted;

/// Windows of a fixed size, aligned to 1970: tumbling, or hopping if they advance by less than their size.
///
/// A window contains the event times from its start to its end; the end is exclusive. No window begins before 1970.
///
/// ```
/// use std::time::Duration;
/// use millpond_topology::TimeWindows;
///
/// let (minute, hour) = (Duration::from_secs(60), Duration::from_secs(3600));
/// let every_hour = TimeWindows::of_size_and_grace(hour, minute);
/// let the_last_hour_every_minute = TimeWindows::of_size_and_grace(hour, minute).advance_by(minute);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeWindows {
    pub(crate) size: Duration,
    pub(crate) advance: Duration,
    pub(crate) late: Lateness,
}

/// Windows that end with a record or begin right behind one (KIP-450): for each record with the time *t* the window from
/// *t* − difference to *t*, and the one from *t* + 1 on if there is anything in it. Both ends are inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingWindows {
    pub(crate) difference: Duration,
    pub(crate) late: Lateness,
}

/// Sessions: records of a key belong together as long as the gaps between their times are not longer than this.
///
/// A session begins with its first record and ends with its last one; both ends are inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionWindows {
    pub(crate) gap: Duration,
    pub(crate) late: Lateness,
}

/// What windows say of late records and of silence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lateness {
    pub(crate) grace: Duration,
    pub(crate) idle_after: Option<Duration>,
}

impl TimeWindows {
    /// Tumbling windows of this size, which close as soon as they end.
    pub fn of_size_with_no_grace(size: Duration) -> Self {
        Self::of_size_and_grace(size, Duration::ZERO)
    }

    /// Tumbling windows of this size, which take records for `grace` of event time after their end.
    pub fn of_size_and_grace(size: Duration, grace: Duration) -> Self {
        Self { size, advance: size, late: Lateness { grace, idle_after: None } }
    }

    /// A window begins every so often: at most the size, or times would lie in no window.
    #[must_use]
    pub fn advance_by(self, advance: Duration) -> Self {
        Self { advance, ..self }
    }
}

impl SlidingWindows {
    /// Windows of this time difference, which close as soon as they end.
    pub fn of_time_difference_with_no_grace(difference: Duration) -> Self {
        Self::of_time_difference_and_grace(difference, Duration::ZERO)
    }

    /// Windows of this time difference, which take records for `grace` of event time after their end.
    pub fn of_time_difference_and_grace(difference: Duration, grace: Duration) -> Self {
        Self { difference, late: Lateness { grace, idle_after: None } }
    }
}

impl SessionWindows {
    /// Sessions with this gap, which close as soon as no record in time can belong to them.
    pub fn of_inactivity_gap_with_no_grace(gap: Duration) -> Self {
        Self::of_inactivity_gap_and_grace(gap, Duration::ZERO)
    }

    /// Sessions with this gap, which take records for `grace` of event time more.
    pub fn of_inactivity_gap_and_grace(gap: Duration, grace: Duration) -> Self {
        Self { gap, late: Lateness { grace, idle_after: None } }
    }
}

macro_rules! idle_after {
    ($($windows:ident),+) => {$(
        impl $windows {
            /// Lets time go on when nothing comes: once the task has had nothing to read for so long by the wall clock, its
            /// event time counts as the wall clock's less this limit, as far as these windows go. Windows close then that would
            /// stay open until the next record, and records that come later for them are late.
            ///
            /// Off by default: then time moves with records only, as in Kafka Streams. It is meant for inputs whose event times
            /// follow the clock; when old records are read, a pause of this length closes all windows. So make the limit longer
            /// than any pause of what is before the topic.
            #[must_use]
            pub fn idle_after(mut self, limit: Duration) -> Self {
                self.late.idle_after = Some(limit);
                self
            }
        }
    )+};
}

idle_after!(TimeWindows, SlidingWindows, SessionWindows);

/// When the windows of an aggregation are closed: one rule for whoever accepts, forwards, suppresses or drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closing {
    /// For how long a window takes records after its end (milliseconds of event time): the grace, of a session the gap as well.
    pub(crate) delay: i64,
    /// A window's end belongs to it: of sliding windows and sessions.
    pub(crate) inclusive: bool,
    /// See [`TimeWindows::idle_after`], in milliseconds.
    pub(crate) idle_after: Option<i64>,
}

impl Closing {
    /// The window close at this time: what Kafka Streams commits beside offsets. A window that ends with the end of time, since
    /// its own end cannot be counted, never closes: it holds that last time too.
    pub(crate) fn close_at(self, time: i64) -> i64 {
        time.saturating_sub(self.delay).min(i64::MAX - 1)
    }

    /// Whether a window with this end takes nothing more once `close` has been reached.
    pub(crate) fn is_closed(self, end: i64, close: i64) -> bool {
        if self.inclusive { end < close } else { end <= close }
    }
}

/// Windows in whole milliseconds, as nodes use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowSpec {
    pub(crate) shape: Shape,
    pub(crate) closing: Closing,
    /// For how long a store has to keep rows, as Kafka Streams counts it: windows from their start, sessions from their end.
    pub(crate) needed: i64,
}

/// The windows that a time lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Time { size: i64, advance: i64 },
    Sliding { difference: i64 },
    Session { gap: i64 },
}

impl Shape {
    /// From a window's start to its end; a session may have any length.
    pub(crate) fn length(self) -> i64 {
        match self {
            Self::Time { size, .. } => size,
            Self::Sliding { difference } => difference,
            Self::Session { .. } => 0,
        }
    }
}

/// Durations in milliseconds, and what is wrong with them.
struct Millis {
    windows: &'static str,
    mistakes: Vec<String>,
}

impl Millis {
    fn of(windows: &'static str) -> Self {
        Self { windows, mistakes: Vec::new() }
    }

    /// A duration of at least so many whole milliseconds; any other is reported and taken as the least.
    fn take(&mut self, what: &str, duration: Duration, least: i64) -> i64 {
        counted(duration, least).unwrap_or_else(|wrong| {
            self.mistakes.push(format!("{} have {what} of {wrong}", self.windows));
            least
        })
    }

    /// The sum of the durations with these names; one that cannot be counted is reported.
    fn sum(&mut self, parts: &[(&str, i64)]) -> i64 {
        let sum = parts.iter().try_fold(0_i64, |sum, (_, millis)| sum.checked_add(*millis));
        // A store keeps what is closed for one more millisecond.
        if let Some(sum) = sum.filter(|sum| *sum < i64::MAX) {
            return sum;
        }
        let parts: Vec<_> = parts.iter().map(|(what, millis)| format!("{what} of {millis} ms")).collect();
        self.mistakes.push(format!(
            "{} have {}, which is together more than can be counted",
            self.windows,
            parts.join(" and ")
        ));
        0
    }

    fn closing(&mut self, late: Lateness, inclusive: bool, behind: i64) -> Closing {
        let grace = self.take("a grace", late.grace, 0);
        let idle_after = late.idle_after.map(|limit| self.take("an idle limit", limit, 1));
        Closing { delay: grace.saturating_add(behind), inclusive, idle_after }
    }
}

impl TimeWindows {
    pub(crate) fn spec(self) -> (WindowSpec, Vec<String>) {
        let mut millis = Millis::of("time windows");
        let size = millis.take("a size", self.size, 1);
        let advance = millis.take("an advance", self.advance, 1);
        if advance > size {
            millis.mistakes.push(format!(
                "time windows advance by {advance} ms, which is more than their size of {size} ms: times between them would lie \
                 in no window"
            ));
        }
        let closing = millis.closing(self.late, false, 0);
        let needed = millis.sum(&[("a size", size), ("a grace", closing.delay)]);
        (WindowSpec { shape: Shape::Time { size, advance }, closing, needed }, millis.mistakes)
    }
}

impl SlidingWindows {
    pub(crate) fn spec(self) -> (WindowSpec, Vec<String>) {
        let mut millis = Millis::of("sliding windows");
        let difference = millis.take("a time difference", self.difference, 0);
        let closing = millis.closing(self.late, true, 0);
        // What goes into a window is found in the one before it.
        let needed = millis.sum(&[
            ("a time difference", difference),
            ("as much before it", difference),
            ("a grace", closing.delay),
        ]);
        (WindowSpec { shape: Shape::Sliding { difference }, closing, needed }, millis.mistakes)
    }
}

impl SessionWindows {
    pub(crate) fn spec(self) -> (WindowSpec, Vec<String>) {
        let mut millis = Millis::of("sessions");
        let gap = millis.take("a gap", self.gap, 0);
        let closing = millis.closing(self.late, true, gap);
        let grace = closing.delay.saturating_sub(gap);
        let needed = millis.sum(&[("a gap", gap), ("a grace", grace)]);
        (WindowSpec { shape: Shape::Session { gap }, closing, needed }, millis.mistakes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exclusive_end_closes_when_it_is_reached_and_an_inclusive_one_after_it() {
        let closing = |inclusive| Closing { delay: 5, inclusive, idle_after: None };
        let closed = |inclusive, end, time| closing(inclusive).is_closed(end, closing(inclusive).close_at(time));
        assert!(!closed(false, 10, 14) && closed(false, 10, 15));
        assert!(!closed(true, 10, 15) && closed(true, 10, 16));
    }

    #[test]
    fn no_window_is_closed_before_the_first_record_nor_does_time_overflow() {
        let closing = Closing { delay: i64::MAX, inclusive: false, idle_after: None };
        assert!(!closing.is_closed(1, closing.close_at(-1)));
        assert!(!closing.is_closed(i64::MAX, closing.close_at(i64::MIN)));
        let closing = Closing { delay: 0, inclusive: false, idle_after: None };
        assert!(!closing.is_closed(i64::MAX, closing.close_at(i64::MAX)));
    }
}
