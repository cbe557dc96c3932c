//! A processor of other records, and something that is none.

use millpond_topology::{Consumed, Context, I64, Processor, Record, Result, Topology, Utf8};

struct Double;

impl Processor for Double {
    type In = Record<String, String>;
    type Out = Record<String, i64>;

    fn process(&mut self, _: &mut Context<'_, Self>, _: Self::In) -> Result {
        Ok(())
    }
}

struct NoProcessor;

fn main() {
    let mut builder = Topology::builder();
    let numbers = builder.stream("numbers", Consumed::with(Utf8, I64));
    let _ = numbers.clone().process((), |_, ()| Ok(Double));
    let _ = numbers.process((), |_, ()| Ok(NoProcessor));
}
