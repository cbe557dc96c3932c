//! The cluster, as a factory of its clients.

use std::sync::Arc;

use millpond_broker_api::membership::Link;
use millpond_broker_api::{
    Admin, AdminOptions, Broker, Consumer, ConsumerOptions, GroupOffsets, Producer, ProducerOptions, Result,
};

use crate::admin::KafkaAdmin;
use crate::consumer::KafkaConsumer;
use crate::coordinators::Coordinators;
use crate::link::KafkaLink;
use crate::offsets::KafkaOffsets;
use crate::producer::KafkaProducer;
use crate::settings::{KafkaSettings, WireSettings};
use crate::wire::Cluster;

/// A Kafka cluster. Clones are handles of the same, for any thread.
#[derive(Clone, Debug)]
pub struct KafkaBroker {
    settings: Arc<KafkaSettings>,
    coordinators: Arc<Coordinators>,
}

impl KafkaBroker {
    /// A cluster by its settings. Connects when it is used first.
    pub fn new(settings: KafkaSettings) -> Self {
        Self { settings: Arc::new(settings), coordinators: Arc::default() }
    }

    /// Connects once, to tell early and in words what is wrong: addresses, security, or a broker that is too old.
    ///
    /// [`Retriable`](millpond_broker_api::ErrorKind::Retriable) means that nobody answers now.
    pub fn check(&self) -> Result<()> {
        Cluster::new(self.wire()?).check()
    }

    fn wire(&self) -> Result<Arc<WireSettings>> {
        self.settings.wire().map(Arc::new)
    }
}

impl Broker for KafkaBroker {
    fn name(&self) -> String {
        self.settings.bootstrap_servers().to_owned()
    }

    fn consumer(&self, options: &ConsumerOptions) -> Result<Box<dyn Consumer>> {
        Ok(Box::new(KafkaConsumer::new(&self.settings, options)?))
    }

    fn producer(&self, options: &ProducerOptions<'_>) -> Result<Box<dyn Producer>> {
        Ok(Box::new(KafkaProducer::new(&self.settings, options)?))
    }

    fn offsets(&self) -> Result<Box<dyn GroupOffsets>> {
        Ok(Box::new(KafkaOffsets::new(self.wire()?, self.coordinators.clone())))
    }

    fn admin_with(&self, options: &AdminOptions) -> Result<Box<dyn Admin>> {
        let wire = self.settings.wire()?;
        let wire = match options.patience {
            Some(patience) => wire.impatient(patience),
            None => wire,
        };
        Ok(Box::new(KafkaAdmin::new(Arc::new(wire))))
    }

    fn group_link(&self, group: &str) -> Result<Box<dyn Link>> {
        Ok(Box::new(KafkaLink::new(self.wire()?, self.coordinators.clone(), group)?))
    }
}
