//! A store of other values than the processor expects.

use millpond_topology::{Consumed, Context, I64, KeyValue, Processor, Record, Result, StoreRef, Topology, Utf8};

struct Last(StoreRef<KeyValue<String, i64>>);

impl Processor for Last {
    type In = Record<String, i64>;
    type Out = Record<String, i64>;

    fn process(&mut self, cx: &mut Context<'_, Self>, record: Self::In) -> Result {
        cx.store(&self.0)?.put(&record.key, &record.value)
    }
}

fn main() {
    let mut builder = Topology::builder();
    let names = builder.key_value_store("names", Utf8, Utf8);
    let _ = builder.stream("numbers", Consumed::with(Utf8, I64)).process(&names, |_, names| Ok(Last(names)));
}
