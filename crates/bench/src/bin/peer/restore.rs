//! Hears of restores: when they began, how many records they read, when the tasks ran.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use millpond_changelog::Decided;
use millpond_runtime::{Observer, TaskId};

use crate::event::{Fields, rounded};
use crate::usage::{Meter, Usage};

/// The restores of one application.
#[derive(Debug, Default)]
pub(crate) struct RestoreLog {
    meter: Meter,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    planned: Option<Usage>,
    records: u64,
    running: BTreeSet<TaskId>,
    last_running: Option<Usage>,
}

impl RestoreLog {
    pub(crate) fn new(meter: Meter) -> Self {
        Self { meter, seen: Mutex::default() }
    }

    /// Records read from changelogs so far.
    pub(crate) fn records(&self) -> u64 {
        self.seen().records
    }

    /// When the last of so many tasks began to run, if all of them have.
    pub(crate) fn all_running(&self, tasks: usize) -> Option<Usage> {
        let seen = self.seen();
        seen.last_running.filter(|_| seen.running.len() >= tasks)
    }

    /// The restore's part of the event `running`. A restore begins when the first changelog is looked at, and ends when the
    /// last task runs.
    pub(crate) fn fields(&self, started: Usage) -> Fields {
        let seen = self.seen();
        let mut fields = Fields::new();
        fields.insert("restored".to_owned(), seen.records.into());
        if let (Some(first), Some(last)) = (seen.planned, seen.last_running) {
            fields.insert("restore_began_s".to_owned(), rounded(first.seconds_since(started)));
            fields.insert("restore_s".to_owned(), rounded(last.seconds_since(first)));
            fields.insert("restore_cpu".to_owned(), rounded(last.cpu_since(first)));
        }
        fields
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for RestoreLog {
    fn restore_planned(&self, _: TaskId, _: &Decided<'_>) {
        let now = self.meter.now();
        self.seen().planned.get_or_insert(now);
    }

    fn restored(&self, _: TaskId, records: u64) {
        self.seen().records += records;
    }

    fn running(&self, task: TaskId) {
        let now = self.meter.now();
        let mut seen = self.seen();
        if seen.running.insert(task) {
            seen.last_running = Some(now);
        }
    }
}
