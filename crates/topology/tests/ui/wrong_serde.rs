//! A serde of another type than the topic is said to hold.

use millpond_topology::{Consumed, Topology, Utf8};

fn main() {
    let mut builder = Topology::builder();
    let numbers = builder.stream("numbers", Consumed::<String, i64>::with(Utf8, Utf8));
    numbers.foreach(|_, _| ());
}
