//! The program on the front page, word for word in shape: groups flights by carrier and adds them up.

use millpond_topology::*;
use serde::{Deserialize, Serialize};

use crate::support::driver::Driver;

#[derive(Serialize, Deserialize)]
struct Flight {
    carrier: String,
    distance: i64,
}

#[derive(Serialize, Deserialize, Default)]
struct Totals {
    flights: i64,
    distance: i64,
}

impl Totals {
    fn add(self, flight: &Flight) -> Self {
        Self { flights: self.flights + 1, distance: self.distance + flight.distance }
    }
}

#[test]
fn flights_by_carrier() {
    let mut topology = Topology::builder();
    topology
        .stream("flights", Consumed::with(Utf8, Json::<Flight>::default()))
        .group_by(|_, flight| flight.carrier.clone(), Grouped::named("by-carrier").key(Utf8))
        .aggregate(
            Totals::default,
            |totals, _carrier, flight| totals.add(flight),
            Materialized::named("carrier-totals").serdes(Utf8, Json::default()),
        )
        .to_stream()
        .to("carrier-totals", Produced::with(Utf8, Json::default()));
    let topology = topology.build().unwrap();

    let mut driver = Driver::new(&topology);
    for (key, value) in [("1", r#"{"carrier":"UA","distance":10}"#), ("2", r#"{ "carrier": "UA", "distance": 5 }"#)] {
        driver.pipe("flights", Some(key.as_bytes()), Some(value.as_bytes()), 7).unwrap();
    }
    let totals: Vec<_> =
        driver.take().into_iter().map(|(.., value, _)| String::from_utf8(value.unwrap()).unwrap()).collect();
    assert_eq!(totals, [r#"{"flights":1,"distance":10}"#, r#"{"flights":2,"distance":15}"#]);
    let internal: Vec<_> = topology.internal_topics().iter().map(|t| t.topic.full_name("flights")).collect();
    assert_eq!(internal, ["flights-by-carrier-repartition", "flights-carrier-totals-changelog"]);
}
