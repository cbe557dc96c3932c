//! Retention on demand: what is older than `retention.ms` goes from the start of the log.

use millpond_broker_api::Result;

use crate::broker::EmbeddedBroker;
use crate::log::Log;

impl EmbeddedBroker {
    /// Applies `retention.ms` to all partitions of a topic, if its `cleanup.policy` has `delete`: batches at the start of
    /// the log whose records are all older than that, by their timestamps, are gone.
    ///
    /// [`UnknownTopic`](millpond_broker_api::ErrorKind::UnknownTopic) is the only error.
    pub fn expire(&self, topic: &str) -> Result<()> {
        let now = self.shared.time.clock().wall_ms();
        self.shared.lock().topics.each_log("expire records", topic, |log| {
            if log.rules.delete && log.rules.retention_ms >= 0 {
                expire(log, now - log.rules.retention_ms);
            }
        })
    }
}

fn expire(log: &mut Log, before: i64) {
    let stable = log.stable_end();
    let old = log.batches().take_while(|b| b.next <= stable && b.newest() < before);
    if let Some(start) = old.last().map(|b| b.next) {
        log.delete_below(start);
    }
}
