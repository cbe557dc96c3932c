//! The cluster, as a factory of its clients.

use std::sync::Arc;

use crate::settings::KafkaSettings;

/// A Kafka cluster. Clones are handles of the same, for any thread.
#[derive(Clone, Debug)]
pub struct KafkaBroker {
    #[expect(dead_code, reason = "the clients are made from it")]
    settings: Arc<KafkaSettings>,
}

impl KafkaBroker {
    /// A cluster by its settings. Connects when it is used first.
    pub fn new(settings: KafkaSettings) -> Self {
        Self { settings: Arc::new(settings) }
    }
}
