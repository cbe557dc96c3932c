//! The broker that all is measured on: one that runs already, or one of our own that goes when we do.

use millpond_kafka_dev::{Kafka, KafkaOptions};

use super::runner::TEN_YEARS_MS;
use crate::error::Result;

/// Twice what a broker under tests has.
const HEAP_MIB: u32 = 1_024;
const A_DAY_MS: u64 = 86_400_000;

/// A broker that is there.
#[derive(Debug)]
pub(super) struct Broker {
    bootstrap: String,
    /// Goes with this.
    _own: Option<Kafka>,
}

impl Broker {
    /// The one at this address; without one a new one.
    pub(super) fn find(bootstrap: Option<&str>) -> Result<Self> {
        if let Some(bootstrap) = bootstrap {
            return Ok(Self { bootstrap: bootstrap.to_owned(), _own: None });
        }
        let options = KafkaOptions { heap_mib: HEAP_MIB, ..KafkaOptions::default() };
        // A test wants to see records expire; a measurement must not.
        let options = options.with("log.retention.check.interval.ms", A_DAY_MS).with("log.roll.ms", TEN_YEARS_MS);
        let kafka = Kafka::up(&options)?;
        Ok(Self { bootstrap: kafka.bootstrap().to_owned(), _own: Some(kafka) })
    }

    pub(super) fn bootstrap(&self) -> &str {
        &self.bootstrap
    }
}
