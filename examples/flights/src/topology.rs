//! What is computed: the flights of each carrier added up, departures by hour, and the legs of each plane.

use std::time::Duration;

use millpond::prelude::*;

use crate::error::{Error, Result};
use crate::flight::{Departures, Flight, Legs, Totals};

/// The application's id: its consumer group, and the first part of its internal topics' names.
pub const APPLICATION: &str = "flights";
/// The input topic: the flights, spread over its partitions by their numbers.
pub const FLIGHTS: &str = "flights";
/// The same flights in one partition, in the order of their schedule, with the airports that they leave from as keys.
pub const FLIGHTS_ORDERED: &str = "flights-ordered";
/// The totals of each carrier.
pub const CARRIER_TOTALS: &str = "carrier-totals";
/// What left an airport in an hour, once and for all: written when the hour takes no flights any more.
pub const HOURLY_DEPARTURES: &str = "hourly-departures";
/// What a plane flew without a long rest, as far as it is known.
pub const PLANE_LEGS: &str = "plane-legs";
/// The flights that came after their hour was over.
pub const LATE_FLIGHTS: &str = "late-flights";
/// All topics that the application reads: upstream first.
pub const SOURCES: [&str; 4] =
    [FLIGHTS, "flights-by-carrier-repartition", FLIGHTS_ORDERED, "flights-by-plane-repartition"];
/// The store of the hours.
pub const HOURLY_STORE: &str = "hourly-departures";

/// The windows of departures.
pub const HOUR: Duration = Duration::from_secs(3_600);
/// No flight leaves so long after its schedule, so none is late.
const DAY: Duration = Duration::from_secs(24 * 3_600);
/// A plane that stands for longer rests.
const REST: Duration = Duration::from_secs(6 * 3_600);

/// Builds the graph. `idle_after`: when nothing has come for so long, the last hours are over.
///
/// # Errors
///
/// None as it stands: names are used once and types fit.
pub fn topology(idle_after: Duration) -> Result<Topology> {
    let mut topology = Topology::builder();
    totals_by_carrier(topology.stream(FLIGHTS, Consumed::with(Utf8, Json::default())));
    // What never left has no departure; it does not move time on either, for windows see only what they are given.
    let departed = topology
        .stream(FLIGHTS_ORDERED, Consumed::with(Utf8, Json::<Flight>::default()))
        .filter(|_origin, flight| flight.has_left());
    departures_by_hour(departed.clone(), idle_after);
    late_departures(departed.clone());
    legs_by_plane(departed);
    topology.build().map_err(|error| Error::failed("cannot build the topology").caused_by(error))
}

fn totals_by_carrier(flights: Stream<String, Flight>) {
    flights
        .group_by(|_number, flight| flight.carrier.clone(), Grouped::named("by-carrier").key(Utf8))
        .aggregate(
            Totals::default,
            |totals, _carrier, flight| totals.add(flight),
            Materialized::named("carrier-totals").serdes(Utf8, Json::default()),
        )
        .to_stream()
        .to(CARRIER_TOTALS, Produced::with(Utf8, Json::default()));
}

/// Final results: an hour is written once, when it takes no flights any more.
fn departures_by_hour(departed: Stream<String, Flight>, idle_after: Duration) {
    departed
        .group_by_key()
        .windowed_by(TimeWindows::of_size_and_grace(HOUR, DAY).idle_after(idle_after))
        .emit_strategy(EmitStrategy::on_window_close())
        .aggregate(
            Departures::default,
            |departures, _origin, flight| departures.add(flight),
            Materialized::named(HOURLY_STORE).serdes(Utf8, Json::default()),
        )
        .to_stream()
        .to(HOURLY_DEPARTURES, Produced::with(hours(), Json::default()));
}

/// The same hours, had nobody waited: what comes too late for its hour goes to a topic.
fn late_departures(departed: Stream<String, Flight>) {
    departed
        .group_by_key()
        .windowed_by(TimeWindows::of_size_with_no_grace(HOUR))
        .late_to(LATE_FLIGHTS, Produced::with(Utf8, Json::default()))
        .count(Materialized::named("departures-in-time").key(Utf8));
}

/// Updates: a session is written whenever it grows, and deleted where it has become a part of another.
fn legs_by_plane(departed: Stream<String, Flight>) {
    departed
        .group_by(|_origin, flight| flight.tailnum.clone().unwrap_or_default(), Grouped::named("by-plane").key(Utf8))
        .windowed_by(SessionWindows::of_inactivity_gap_and_grace(REST, DAY))
        .aggregate(
            Legs::default,
            |legs, _plane, flight| legs.add(flight),
            |_plane, earlier, later| earlier.join(later),
            Materialized::named("plane-legs").serdes(Utf8, Json::default()),
        )
        .to_stream()
        .to(PLANE_LEGS, Produced::with(sessions(), Nullable(Json::default())));
}

/// Airports with their hours.
pub fn hours() -> impl Serde<Windowed<String>> {
    TimeWindowed::new(Utf8, 3_600_000)
}

/// Planes with their sessions.
pub fn sessions() -> impl Serde<Windowed<String>> {
    SessionWindowed(Utf8)
}
