//! Cases of a whole task on an engine: the runtime, driven over a broker in this process.

use millpond_store_conformance::Harness;
use millpond_topology::{Consumed, I64, Materialized, Topology, Utf8};

use crate::{Driver, DriverBuilder};

/// A topology that counts the keys of `in`, on the harness's engine.
fn counting(harness: &dyn Harness) -> DriverBuilder {
    let mut topology = Topology::builder();
    let _ = topology.stream("in", Consumed::with(Utf8, I64)).group_by_key().count(Materialized::named("counts"));
    Driver::builder(topology.build().expect("the topology is sound")).shared_engine(harness.engine().into())
}

/// B040: a task is closed with a row in its cache and in its shard; meanwhile another owner goes on in the log. The task that
/// opens the shard again reads what the other one wrote, and goes on from there.
pub fn b040_what_another_owner_wrote_meanwhile_is_seen(harness: &dyn Harness) {
    let driver = counting(harness).caching(1 << 20).build().expect("the application starts");
    let input = driver.input("in", Utf8, I64);
    for time in [1, 2] {
        input.pipe("k", 1, time).expect("the record is processed");
    }
    driver.stop().expect("the application stops");
    driver.input("counts-changelog", Utf8, I64).send("k", 7, 3).expect("the log takes it");
    driver.restart().expect("the application starts again");
    let counts = driver.store("counts", Utf8, I64);
    assert_eq!(counts.get("k"), Some(7));
    input.pipe("k", 1, 4).expect("the record is processed");
    assert_eq!(counts.get("k"), Some(8));
    assert_eq!(counts.changelog(), [("k".to_owned(), 8)]);
}
