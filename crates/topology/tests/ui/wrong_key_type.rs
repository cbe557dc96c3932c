//! A grouping by another type than the serde of its key, and a table of another key.

use millpond_topology::{Consumed, Grouped, I64, Materialized, Topology, Utf8};

fn main() {
    let mut builder = Topology::builder();
    let words = builder.stream("words", Consumed::with(Utf8, Utf8));
    // The new key is a number.
    let lengths = words.group_by(|_, word| word.len() as i64, Grouped::named("by-length").key(Utf8));
    let _ = lengths.count(Materialized::named("lengths").key(I64));
}
