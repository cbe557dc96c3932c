//! What is computed: the flights of each carrier, added up.

use millpond::prelude::*;

use crate::error::{Error, Result};
use crate::flight::{Flight, Totals};

/// The application's id: its consumer group, and the first part of its internal topics' names.
pub const APPLICATION: &str = "flights";
/// The input topic.
pub const FLIGHTS: &str = "flights";
/// The output topic.
pub const CARRIER_TOTALS: &str = "carrier-totals";
/// All topics that the application reads: upstream first.
pub const SOURCES: [&str; 2] = [FLIGHTS, "flights-by-carrier-repartition"];

/// Builds the graph.
///
/// # Errors
///
/// None as it stands: names are used once and types fit.
pub fn topology() -> Result<Topology> {
    let mut topology = Topology::builder();
    topology
        .stream(FLIGHTS, Consumed::with(Utf8, Json::<Flight>::default()))
        .group_by(|_, flight| flight.carrier.clone(), Grouped::named("by-carrier").key(Utf8))
        .aggregate(
            Totals::default,
            |totals, _carrier, flight| totals.add(flight),
            Materialized::named("carrier-totals").serdes(Utf8, Json::default()),
        )
        .to_stream()
        .to(CARRIER_TOTALS, Produced::with(Utf8, Json::default()));
    topology.build().map_err(|error| Error::failed("cannot build the topology").caused_by(error))
}
