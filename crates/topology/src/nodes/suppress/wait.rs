//! What updates wait for, and how much may wait.

use millpond_store_api::BufferTotals;

use crate::dsl::Closing;
use crate::error::{Error, ErrorKind};

/// What an update waits for.
#[derive(Clone, Copy)]
pub(crate) enum Wait {
    /// Until so many milliseconds of event time have passed since the first update of its row.
    TimeLimit { limit: i64, idle_after: Option<i64> },
    /// Until its window takes no more records: by the rule of the aggregation itself.
    WindowCloses(Closing),
}

impl Wait {
    /// What a node that has seen this event time lets through: all that is [due](Self::is_due) then.
    pub(super) fn reached(self, time: i64) -> i64 {
        match self {
            Self::TimeLimit { limit, .. } => time.saturating_sub(limit),
            Self::WindowCloses(closing) => closing.close_at(time),
        }
    }

    /// Whether what waits since this time, or for a window with this end, is let through.
    pub(super) fn is_due(self, time: i64, reached: i64) -> bool {
        match self {
            Self::TimeLimit { .. } => time <= reached,
            Self::WindowCloses(closing) => closing.is_closed(time, reached),
        }
    }

    /// What is let through is final: said once, and not of rows that are gone.
    pub(crate) fn is_final(self) -> bool {
        matches!(self, Self::WindowCloses(_))
    }

    pub(super) fn idle_after(self) -> Option<i64> {
        match self {
            Self::TimeLimit { idle_after, .. } => idle_after,
            Self::WindowCloses(closing) => closing.idle_after,
        }
    }
}

/// What happens when a buffer holds more than its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhenFull {
    /// Nothing: the buffer lies in its engine.
    Spill,
    /// The oldest rows go first.
    EmitEarly,
    /// The program stops.
    ShutDown,
}

/// How much a buffer is to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) records: Option<u64>,
    pub(crate) bytes: Option<u64>,
    pub(crate) when_full: WhenFull,
}

impl Room {
    pub(super) fn is_exceeded(self, held: BufferTotals) -> bool {
        self.records.is_some_and(|most| held.rows > most) || self.bytes.is_some_and(|most| held.bytes > most)
    }

    #[cold]
    pub(super) fn exceeded(self, held: BufferTotals) -> Error {
        let mut error =
            Error::new(ErrorKind::Full, "hold an update back").with("records", held.rows).with("bytes", held.bytes);
        if let Some(most) = self.records {
            error = error.with("max records", most);
        }
        if let Some(most) = self.bytes {
            error = error.with("max bytes", most);
        }
        error
    }
}

/// Which rows of a buffer are let through: those whose time has come, and the oldest ones that there is no room for.
#[derive(Clone, Copy)]
pub(super) struct Due {
    pub(super) wait: Wait,
    /// What [`Wait::reached`] has answered.
    pub(super) reached: i64,
    /// Of a buffer that lets rows through when it is full.
    pub(super) room: Option<Room>,
}

impl Due {
    pub(super) fn is(self, time: i64, held: BufferTotals) -> bool {
        self.wait.is_due(time, self.reached) || self.room.is_some_and(|room| room.is_exceeded(held))
    }
}
