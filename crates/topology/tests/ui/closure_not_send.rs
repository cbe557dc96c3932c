//! A closure that cannot be shared between threads.

use std::cell::Cell;
use std::rc::Rc;

use millpond_topology::{Consumed, I64, Topology, Utf8};

fn main() {
    let mut builder = Topology::builder();
    let seen = Rc::new(Cell::new(0));
    builder.stream("numbers", Consumed::with(Utf8, I64)).foreach(move |_, _| seen.set(seen.get() + 1));
}
