//! What instances tell in their files of events.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

/// Events in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events(Vec<Value>);

impl Events {
    /// All that stands in a file; none if there is no file. A last line that was cut by a kill is left out.
    pub(crate) fn read(file: &Path) -> Self {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        Self(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn skip(mut self, n: usize) -> Self {
        self.0.drain(..n.min(self.0.len()));
        self
    }

    /// Those of a kind.
    pub(crate) fn of<'a>(&'a self, event: &'a str) -> impl DoubleEndedIterator<Item = &'a Value> {
        self.0.iter().filter(move |e| e["event"] == event)
    }

    /// When the first of a kind was.
    pub(crate) fn first_ms(&self, event: &str) -> Option<i64> {
        self.of(event).next().map(ms)
    }

    /// The changelog positions of the last event of a kind, by `topic-partition`; those of tasks that are silent later count.
    pub(crate) fn positions(&self, event: &str, until_ms: i64) -> BTreeMap<String, i64> {
        let mut positions = BTreeMap::new();
        for e in self.of(event).filter(|e| ms(e) <= until_ms) {
            for (changelog, next) in e["changelogs"].as_object().into_iter().flatten() {
                positions.insert(changelog.clone(), next.as_i64().unwrap());
            }
        }
        positions
    }

    /// The longest time that a flush took, from its start until it was durable.
    pub(crate) fn longest_flush_ms(&self) -> i64 {
        let mut begun = BTreeMap::new();
        let mut longest = 0;
        for e in &self.0 {
            let task = e["task"].as_str().unwrap_or_default();
            match e["event"].as_str().unwrap_or_default() {
                "flushing" => drop(begun.insert(task, ms(e))),
                "durable" => longest = longest.max(begun.remove(task).map_or(0, |at| ms(e) - at)),
                _ => {}
            }
        }
        longest
    }
}

/// When an event was, in milliseconds since 1970.
pub(crate) fn ms(event: &Value) -> i64 {
    event["ms"].as_i64().unwrap()
}
