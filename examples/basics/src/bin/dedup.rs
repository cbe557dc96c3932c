//! Lets each order through once, however often a client has sent it.
//!
//! ```sh
//! cargo run -p millpond-example-basics --bin dedup
//! ```
//!
//! A client that hears no answer sends its order again. Both copies have the same id, and `dedup_by` lets the first of them
//! through. It remembers ids for as long as copies may be apart, and no longer: the store does not grow with the orders.
//! Exactly-once alone does not do this: it keeps the library from counting a record twice, but these are two records.

use std::time::Duration;

use millpond::prelude::*;
use millpond::topology::BuildError;
use millpond_example_basics::Stage;
use serde::{Deserialize, Serialize};

const APPLICATION: &str = "dedup";
/// Customers, and what they send.
const ORDERS: &str = "orders";
/// The same without repetitions.
const ORDERS_ONCE: &str = "orders-once";

/// Nobody tries for longer.
const WITHIN: Duration = Duration::from_secs(3_600);

/// An order, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Order {
    /// Made by the client, once for all copies.
    id: String,
    item: String,
}

fn topology() -> Result<Topology, BuildError> {
    let mut topology = Topology::builder();
    topology
        .stream(ORDERS, Consumed::with(Utf8, Json::<Order>::default()))
        .dedup_by(|_customer, order| order.id.clone(), WITHIN, Materialized::named("seen").key(Utf8))
        .to(ORDERS_ONCE, Produced::default());
    topology.build()
}

fn order(id: &str, item: &str) -> Order {
    Order { id: id.to_owned(), item: item.to_owned() }
}

fn main() -> millpond_example_basics::Result {
    let stage = Stage::with_topics(&[ORDERS, ORDERS_ONCE])?;
    let minute = |minutes: i64| 1_357_034_400_000 + 60_000 * minutes;
    let orders = [
        ("ada", order("7f3a", "a kettle"), minute(0)),
        ("ben", order("91c0", "a chair"), minute(0)),
        ("ada", order("7f3a", "a kettle"), minute(1)),
        ("ada", order("e2d4", "a kettle"), minute(5)),
        ("ben", order("91c0", "a chair"), minute(59)),
    ];
    stage.write(ORDERS, Utf8, Json::<Order>::default(), orders)?;

    let app = App::builder(APPLICATION)
        .broker(stage.broker())
        .engine(Memory::default())
        .guarantee(Guarantee::ExactlyOnce)
        .start(topology()?)?;
    stage.await_processed(APPLICATION, &[ORDERS])?;
    app.shutdown()?;

    for order in stage.output(ORDERS_ONCE, Utf8, Json::<Order>::default())?.ready()? {
        println!("{} ordered {} ({})", order.key, order.value.item, order.value.id);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use millpond_testkit::{Driver, InputTopic};

    use super::*;

    const HOUR: i64 = 3_600_000;

    fn driver() -> (Driver, InputTopic<String, Order>) {
        let driver = Driver::builder(topology().unwrap()).build().unwrap();
        let orders = driver.input(ORDERS, Utf8, Json::<Order>::default());
        (driver, orders)
    }

    fn ids(driver: &Driver) -> Vec<String> {
        driver.output(ORDERS_ONCE, Utf8, Json::<Order>::default()).read_values().into_iter().map(|o| o.id).collect()
    }

    #[test]
    fn a_copy_is_dropped_and_a_second_order_is_not() {
        let (driver, orders) = driver();
        orders.pipe("ada", order("1", "tea"), 0).unwrap();
        orders.pipe("ada", order("1", "tea"), HOUR).unwrap();
        orders.pipe("ada", order("2", "tea"), HOUR).unwrap();
        orders.pipe("ben", order("1", "tea"), HOUR).unwrap();
        assert_eq!(ids(&driver), ["1", "2", "1"], "ids are the customer's");
    }

    #[test]
    fn copies_are_known_across_a_crash() {
        let (driver, orders) = driver();
        orders.pipe("ada", order("1", "tea"), 0).unwrap();
        driver.crash().unwrap();
        orders.pipe("ada", order("1", "tea"), 1_000).unwrap();
        assert_eq!(ids(&driver), ["1"]);
    }

    #[test]
    fn what_comes_after_an_hour_is_no_copy() {
        let (driver, orders) = driver();
        orders.pipe("ada", order("1", "tea"), 0).unwrap();
        orders.pipe("ada", order("1", "tea"), HOUR + 1).unwrap();
        assert_eq!(ids(&driver), ["1", "1"]);
    }
}
