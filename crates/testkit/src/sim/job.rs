//! The simulated application: a processor with a plain store and punctuations, a repartition, an aggregate with a cached
//! timestamped store, final results of windows; and a model that knows what has to come out.

use std::collections::BTreeMap;

use fastrand::Rng;
use millpond_topology::{
    Consumed, Context, Grouped, I64, KeyValue, Materialized, Processor, Produced, Record, Result, Schedule, StoreRef,
    StoreSpec, Topology, Utf8,
};

use super::{finals, kinds};

pub(super) const INPUT: &str = "in";
/// Read by the same tasks as [`INPUT`], with other keys.
pub(super) const SECOND_INPUT: &str = "in-2";
pub(super) const OUTPUT: &str = "out";
pub(super) const PARTITIONS: i32 = 4;
/// A plain store, uncached: how many records each key had since its last delete.
pub(super) const LEDGER: &str = "ledger";
/// A timestamped store, cached if the seed says so: how many records each value had.
pub(super) const COUNTS: &str = "counts";
/// The value that deletes its key from the ledger, and is not counted.
pub(super) const DELETE: &str = "delete";

/// Counts per key, deletes on demand, forwards what is not a delete. Its wall-clock punctuation writes although no record
/// came, so that there are commits that move no offset.
struct Ledger {
    store: StoreRef<KeyValue<String, i64>>,
}

/// A key of its own in every partition's ledger, which no input has.
pub(super) const TICKS: &str = "ticks";

impl Processor for Ledger {
    type In = Record<String, String>;
    type Out = Record<String, String>;

    fn process(&mut self, cx: &mut Context<'_, Self>, record: Self::In) -> Result {
        let mut ledger = cx.store(&self.store)?;
        if record.value == DELETE {
            return ledger.delete(&record.key);
        }
        ledger.update(&record.key, |n| Some(n.unwrap_or(0) + 1))?;
        cx.forward(record)
    }
}

/// The topology; the seed says what is cached.
pub(super) fn topology(rng: &mut Rng) -> Topology {
    let mut builder = Topology::builder();
    let ledger = builder.add_store(StoreSpec::key_value(LEDGER, Utf8, I64));
    let input = builder.stream_of(&[INPUT, SECOND_INPUT], Consumed::with(Utf8, Utf8));
    let counts = input
        .clone()
        .process(&ledger, |init, store| {
            let every = Schedule::wall_clock_ms(700);
            init.schedule(every, |ledger: &mut Ledger, cx: &mut Context<'_, Ledger>, _| {
                cx.store(&ledger.store)?.update(&TICKS.to_owned(), |n| Some(n.unwrap_or(0) + 1))?;
                Ok(())
            })?;
            Ok(Ledger { store })
        })
        .group_by(|_, value: &String| value.clone(), Grouped::named("by-value").key(Utf8).value(Utf8))
        .count(Materialized::named(COUNTS).key(Utf8))
        .to_stream();
    // Behind the ledger, so that a record that fails there has written and forwarded before.
    kinds::add_to_input(rng, &mut builder, &input);
    kinds::add_to_counts(rng, &mut builder, &counts);
    finals::add(rng, &input);
    counts.to(OUTPUT, Produced::with(Utf8, I64));
    builder.build().expect("the simulated topology is sound")
}

/// What has to be in the stores when every record has counted once.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) ledger: BTreeMap<String, i64>,
    pub(super) counts: BTreeMap<String, i64>,
}

impl Model {
    pub(super) fn record(&mut self, key: &str, value: &str) {
        if value == DELETE {
            self.ledger.remove(key);
        } else {
            *self.ledger.entry(key.to_owned()).or_default() += 1;
            *self.counts.entry(value.to_owned()).or_default() += 1;
        }
    }
}
