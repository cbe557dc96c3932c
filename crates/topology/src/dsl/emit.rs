//! When a windowed aggregation gives its results.

use std::time::Duration;

/// When a windowed aggregation forwards results (KIP-825): each update of a window, or each window once, when it is closed.
///
/// ```
/// use std::time::Duration;
/// use millpond_topology::*;
///
/// let mut builder = Topology::builder();
/// builder
///     .stream("clicks", Consumed::with(Utf8, Utf8))
///     .group_by_key()
///     .windowed_by(TimeWindows::of_size_with_no_grace(Duration::from_secs(60)))
///     .emit_strategy(EmitStrategy::on_window_close())
///     .count(Materialized::named("clicks-per-minute"))
///     .to_stream()
///     .to("final-counts", Produced::with(TimeWindowed::new(Utf8, 60_000), I64));
/// # builder.build().unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmitStrategy {
    /// Results come when windows close, at most once in so much wall-clock time; `None`: they come with each update.
    pub(crate) on_close: Option<Duration>,
}

impl EmitStrategy {
    /// Each update of a window is a result: the default.
    pub const fn on_window_update() -> Self {
        Self { on_close: None }
    }

    /// Each window has one result, which comes when the window is closed: in the order of the windows' times, those of one
    /// window in the order of their keys' bytes. It has the time of the aggregate and no headers.
    ///
    /// It comes exactly once, over restarts as well: which windows were told of is committed with the input's offsets. The
    /// rows of a window stay until then, however far time jumps.
    pub const fn on_window_close() -> Self {
        Self { on_close: Some(Duration::from_secs(1)) }
    }

    /// Looks for closed windows at most once in so much wall-clock time: one second by default. What is put off comes at the
    /// latest when as much time has passed again, whether a record comes or not. Zero: with every record.
    ///
    /// It changes nothing where results come with each update.
    #[must_use]
    pub const fn at_most_every(self, interval: Duration) -> Self {
        match self.on_close {
            Some(_) => Self { on_close: Some(interval) },
            None => self,
        }
    }
}
