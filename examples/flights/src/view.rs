//! What a person sees while the application runs: on a terminal a view that is redrawn in place, elsewhere plain lines.

use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use crate::show::TotalsByCarrier;

/// How many carriers are shown.
const TOP: usize = 5;
/// The widest bar of a carrier.
const BAR: u64 = 50;
/// No line of the live view is longer: one that wraps would be redrawn in the wrong place.
const COLUMNS: usize = 79;
/// How many restoring tasks are shown.
const RESTORING: usize = 4;

/// How a view is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Redrawn in place, four times a second: for a terminal.
    Live,
    /// A line a second: for files and pipes.
    Plain,
}

/// The state of things at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot<'a> {
    /// Monotonic time.
    pub now: Duration,
    /// The application's state.
    pub state: String,
    /// Records replayed so far; `None`: by another process.
    pub replayed: Option<u64>,
    /// Flights processed and committed.
    pub processed: u64,
    /// Offsets of all sources that are not.
    pub lag: u64,
    /// Tasks that restore their state.
    pub restoring: Vec<Restoring>,
    /// The totals as far as they are committed.
    pub totals: &'a TotalsByCarrier,
    /// Nothing comes after it: the rate is that of the whole time, not that since the last one.
    pub is_last: bool,
}

/// A task that restores its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restoring {
    /// The task's id, such as `1_0`.
    pub task: String,
    /// Changelog records that are still to be read.
    pub remaining: u64,
    /// What it waits for, if it waits.
    pub waiting: Option<String>,
}

/// Draws snapshots. That one cannot be shown is no error: the work goes on.
pub struct View {
    style: Style,
    out: Box<dyn Write + Send>,
    /// When the first snapshot was drawn, and what was processed by then.
    start: Option<(Duration, u64)>,
    /// The same of the last.
    last: Option<(Duration, u64)>,
    /// How many lines the next drawing goes over.
    drawn: usize,
}

impl View {
    /// A view in a style; it counts time from its first snapshot.
    pub fn new(style: Style, out: Box<dyn Write + Send>) -> Self {
        Self { style, out, start: None, last: None, drawn: 0 }
    }

    /// On the standard error stream: the standard output is for the result. Live on a terminal that can move its cursor.
    pub fn on_stderr() -> Self {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let style = if io::stderr().is_terminal() && !is_dumb { Style::Live } else { Style::Plain };
        Self::new(style, Box::new(io::stderr()))
    }

    /// Whether it is time to draw again.
    pub fn is_due(&self, now: Duration) -> bool {
        let every = match self.style {
            Style::Live => Duration::from_millis(250),
            Style::Plain => Duration::from_secs(1),
        };
        self.last.is_none_or(|(at, _)| now.saturating_sub(at) >= every)
    }

    /// Draws now.
    pub fn draw(&mut self, snapshot: &Snapshot<'_>) {
        let (start, at_start) = *self.start.get_or_insert((snapshot.now, snapshot.processed));
        let elapsed = snapshot.now.saturating_sub(start);
        let (since, before) = self.last.filter(|_| !snapshot.is_last).unwrap_or((start, at_start));
        let rate = rate(snapshot.processed.saturating_sub(before), snapshot.now.saturating_sub(since));
        self.last = Some((snapshot.now, snapshot.processed));
        let text = match self.style {
            Style::Plain => plain(snapshot, elapsed, rate),
            Style::Live => self.redrawn(&live(snapshot, elapsed, rate)),
        };
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }

    /// Says something once; drawings go on below it.
    pub fn note(&mut self, text: &str) {
        self.drawn = 0;
        let _ = writeln!(self.out, "{text}");
    }

    /// Moves to where the last drawing began, and clears what is below.
    fn redrawn(&mut self, text: &str) -> String {
        let back = match self.drawn {
            0 => String::new(),
            lines => format!("\x1b[{lines}A\x1b[J"),
        };
        self.drawn = text.lines().count();
        back + text
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("style", &self.style).finish_non_exhaustive()
    }
}

fn plain(snapshot: &Snapshot<'_>, elapsed: Duration, rate: u64) -> String {
    let Snapshot { state, processed, lag, .. } = snapshot;
    let mut line = format!("{:.1} s {state}", elapsed.as_secs_f64());
    append(&mut line, format_args!("{}", replayed(snapshot, " replayed=")));
    append(&mut line, format_args!(" processed={processed} lag={lag} rate={rate}/s"));
    if !snapshot.restoring.is_empty() {
        append(&mut line, format_args!(" restoring=[{}]", restoring(&snapshot.restoring)));
    }
    let top = top(snapshot.totals).into_iter().map(|(carrier, flights)| format!("{carrier}:{flights}"));
    let top = top.collect::<Vec<_>>().join(",");
    if !top.is_empty() {
        append(&mut line, format_args!(" top={top}"));
    }
    line.push('\n');
    line
}

fn live(snapshot: &Snapshot<'_>, elapsed: Duration, rate: u64) -> String {
    let Snapshot { state, processed, lag, .. } = snapshot;
    let mut text = format!("flights  {state}  {:.1} s\n", elapsed.as_secs_f64());
    append(&mut text, format_args!("  processed {processed}  lag {lag}  {rate}/s"));
    append(&mut text, format_args!("{}\n", replayed(snapshot, "  replayed ")));
    if !snapshot.restoring.is_empty() {
        append(&mut text, format_args!("  restoring {}\n", restoring(&snapshot.restoring)));
    }
    let top = top(snapshot.totals);
    let most = top.first().map_or(1, |(_, flights)| *flights).max(1);
    for (carrier, flights) in top {
        let bar = "█".repeat(usize::try_from(flights * BAR / most).unwrap_or(0));
        append(&mut text, format_args!("  {carrier:<3.3}{flights:>9}  {bar}\n"));
    }
    text.lines().map(|line| line.chars().take(COLUMNS).chain(['\n']).collect::<String>()).collect()
}

fn append(text: &mut String, what: fmt::Arguments<'_>) {
    text.write_fmt(what).expect("a string takes all text");
}

fn replayed(snapshot: &Snapshot<'_>, label: &str) -> String {
    snapshot.replayed.map(|records| format!("{label}{records}")).unwrap_or_default()
}

fn restoring(tasks: &[Restoring]) -> String {
    let shown = tasks.iter().take(RESTORING).map(|task| match &task.waiting {
        Some(reason) => format!("{}: {reason}", task.task),
        None => format!("{} {} to go", task.task, task.remaining),
    });
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if let Some(more) = tasks.len().checked_sub(RESTORING).filter(|more| *more > 0) {
        append(&mut text, format_args!(" and {more} more"));
    }
    text
}

/// The carriers with the most flights, most first.
fn top(totals: &TotalsByCarrier) -> Vec<(&str, u64)> {
    let mut carriers = totals.iter().map(|(carrier, totals)| (&**carrier, totals.flights)).collect::<Vec<_>>();
    carriers.sort_by_key(|(_, flights)| std::cmp::Reverse(*flights));
    carriers.truncate(TOP);
    carriers
}

fn rate(records: u64, time: Duration) -> u64 {
    let per_second = u128::from(records) * 1_000_000 / time.as_micros().max(1);
    u64::try_from(per_second).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
