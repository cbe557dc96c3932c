//! What happens to the tasks of an application, as lines of JSON in a file: for those who watch it from outside.
//!
//! Each line is written at once, so that what was written is there after a kill.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use millpond::broker::Clock;
use millpond::changelog::{Decided, ShardMetadata};
use millpond::runtime::{Observer, TaskId};
use serde_json::{Value, json};

use crate::error::{Error, Result};

/// Appends events to a file.
pub struct EventLog {
    file: Mutex<File>,
    clock: Arc<dyn Clock>,
}

impl EventLog {
    /// Opens the file, and notes that the program has started.
    ///
    /// # Errors
    ///
    /// The file cannot be opened.
    pub fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let failed =
            |error| Error::failed("cannot open the file of events").with("file", path.display()).caused_by(error);
        let log = Self { file: Mutex::new(file.map_err(failed)?), clock };
        log.note("started", json!({ "pid": std::process::id() }));
        Ok(log)
    }

    /// Appends one event. One that cannot be written is no error: the work goes on.
    pub fn note(&self, event: &str, mut facts: Value) {
        if let Some(facts) = facts.as_object_mut() {
            facts.insert("event".to_owned(), event.into());
            facts.insert("ms".to_owned(), self.clock.wall_ms().into());
        }
        let line = format!("{facts}\n");
        let _ = self.file.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
    }

    fn shard(&self, event: &str, task: TaskId, metadata: &ShardMetadata) {
        let changelogs = metadata.changelogs().map(|c| (format!("{}-{}", c.topic, c.partition), c.next.into()));
        let changelogs: serde_json::Map<String, Value> = changelogs.collect();
        self.note(event, json!({ "task": task.to_string(), "changelogs": changelogs }));
    }
}

impl Observer for EventLog {
    fn restore_planned(&self, task: TaskId, decided: &Decided<'_>) {
        let Decided { changelog, decision, until } = decided;
        let facts = json!({
            "task": task.to_string(),
            "changelog": format!("{}-{}", changelog.topic, changelog.partition),
            "decision": decision.name(),
            "from": decision.from(),
            "until": until,
        });
        self.note("planned", facts);
    }

    fn restored(&self, task: TaskId, records: u64) {
        self.note("restored", json!({ "task": task.to_string(), "records": records }));
    }

    fn applied(&self, task: TaskId, metadata: &ShardMetadata) {
        self.shard("applied", task, metadata);
    }

    fn flushing(&self, task: TaskId) {
        self.note("flushing", json!({ "task": task.to_string() }));
    }

    fn durable(&self, task: TaskId, metadata: &ShardMetadata) {
        self.shard("durable", task, metadata);
    }

    fn running(&self, task: TaskId) {
        self.note("running", json!({ "task": task.to_string() }));
    }
}

impl std::fmt::Debug for EventLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventLog").finish_non_exhaustive()
    }
}
