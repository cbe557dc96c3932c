//! A stream that is used twice without a clone.

use millpond_topology::{Consumed, I64, Produced, Topology, Utf8};

fn main() {
    let mut builder = Topology::builder();
    let orders = builder.stream("orders", Consumed::with(Utf8, I64));
    orders.filter(|_, amount| *amount > 0).to("in", Produced::default());
    orders.filter(|_, amount| *amount < 0).to("out", Produced::default());
}
