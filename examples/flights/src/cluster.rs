//! The Kafka cluster that an address and settings name.

use millpond::broker::Broker;
use millpond::prelude::*;

use crate::error::{Error, ErrorKind, Result};
use crate::options::ClusterOptions;
use crate::run;

/// The application's settings as the command line has them, those of the clients included.
///
/// # Errors
///
/// A setting that does not exist, or whose value is wrong.
pub fn settings(options: &ClusterOptions) -> Result<Settings> {
    let mut settings = run::settings();
    let all = std::iter::once(("bootstrap.servers", &*options.broker));
    for (key, value) in all.chain(options.set.iter().map(|(key, value)| (&**key, &**value))) {
        let wrong =
            |error: millpond::Error| Error::new(ErrorKind::Usage, "cannot use a setting").caused_by(error.chain());
        settings.set(key, value).map_err(wrong)?;
    }
    Ok(settings)
}

/// The cluster. Connects when it is used first.
///
/// # Errors
///
/// A client setting is wrong, or the program was built without Kafka.
#[cfg(feature = "kafka")]
pub fn connect(settings: &Settings) -> Result<impl Broker + Clone + 'static> {
    let wrong = |error| Error::new(ErrorKind::Usage, "cannot use a client setting").caused_by(error);
    let broker = KafkaSettings::from_pairs(&settings.client_configs).map(KafkaBroker::new).map_err(wrong)?;
    Ok(broker)
}

/// The cluster.
///
/// # Errors
///
/// Always: the program was built without Kafka.
#[cfg(not(feature = "kafka"))]
pub fn connect(_: &Settings) -> Result<impl Broker + Clone + 'static> {
    let error = Error::new(ErrorKind::Usage, "this program was built without Kafka");
    Err::<EmbeddedBroker, _>(
        error.with("remedy", "cargo run --release -p millpond-example-flights --features kafka,rocks"),
    )
}
