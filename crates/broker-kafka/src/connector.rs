//! Kafka as what an application connects to by its settings.

use std::sync::Arc;

use millpond_broker_api::{Broker, Connector, Result};

use crate::{KafkaBroker, KafkaSettings};

/// Connects an application to the Kafka cluster that its settings name: `bootstrap.servers`, `security.protocol`, `ssl.*`,
/// `sasl.*`, and librdkafka's names after `consumer.`, `restore.consumer.`, `producer.` and `admin.`.
///
/// ```
/// use millpond_broker_api::Connector;
/// use millpond_broker_kafka::Kafka;
///
/// let settings = [("bootstrap.servers".to_owned(), "localhost:9092".to_owned())];
/// assert_eq!(Kafka.connect(&settings)?.name(), "localhost:9092");
/// # Ok::<(), millpond_broker_api::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Kafka;

impl Connector for Kafka {
    fn connect(&self, settings: &[(String, String)]) -> Result<Arc<dyn Broker>> {
        Ok(Arc::new(KafkaBroker::new(KafkaSettings::from_pairs(settings)?)))
    }
}
