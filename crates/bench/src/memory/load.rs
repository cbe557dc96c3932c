//! What the application does: puts, gets and scans in eight stores of each task.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millpond_topology::{
    ByteArray, Consumed, Context, KeyValue, Processor, Record, Result, StoreRef, StoreSpec, Topology, U64,
};

use crate::error;

/// The topic that is read.
pub(super) const INPUT: &str = "in";

/// Rows that a record puts into each store, and how many of them are there already.
const ROWS: u64 = 8;
const UPDATES: u64 = 2;
const SCANNED: usize = 20;
const KEY: usize = 16;
const VALUE: usize = 200;

/// Stores of one processor.
const STORES: usize = 4;

type Bytes = KeyValue<Vec<u8>, Vec<u8>>;

/// The event time of a record: a second has a hundred.
pub(super) fn timestamp(number: u64) -> i64 {
    1_000_000 + number as i64 * 10
}

/// How far all tasks are together.
#[derive(Debug, Default)]
pub(super) struct Progress {
    writes: AtomicU64,
    rows: AtomicU64,
}

impl Progress {
    pub(super) fn writes(&self) -> u64 {
        self.writes.load(Relaxed)
    }

    /// Bytes of keys and values.
    pub(super) fn state(&self) -> u64 {
        self.rows.load(Relaxed) * (KEY + VALUE) as u64
    }
}

/// One sub-topology with two processors of four stores each. Every other store has a cache.
pub(super) fn topology(shards: i32, progress: &Arc<Progress>) -> error::Result<Topology> {
    let mut builder = Topology::builder();
    let mut stores = (0..2 * STORES).map(|number| {
        let spec = StoreSpec::key_value(&format!("store-{number}"), ByteArray, ByteArray).logging_disabled();
        builder.add_store(if number % 2 == 0 { spec } else { spec.caching_enabled() })
    });
    let mut four = || stores.by_ref().take(STORES).collect::<Vec<_>>();
    let (first, second) = (four(), four());
    let ([a, b, c, d], [e, f, g, h]) = (&first[..], &second[..]) else {
        return Err("there are twice four stores".into());
    };
    let shards = shards as u64;
    let load = |salt, progress: &Arc<Progress>| {
        let progress = Arc::clone(progress);
        move |(a, b, c, d)| Load { stores: [a, b, c, d], salt, shards, progress: Arc::clone(&progress) }
    };
    let (one, two) = (load(0, progress), load(1, progress));
    let input = builder.stream(INPUT, Consumed::with(ByteArray, U64));
    let between = input.process((a, b, c, d), move |_, stores| Ok(one(stores)));
    // What it forwards goes nowhere.
    let _ = between.process((e, f, g, h), move |_, stores| Ok(two(stores)));
    Ok(builder.build()?)
}

/// Four stores, and what is done to them.
struct Load {
    stores: [StoreRef<Bytes>; STORES],
    /// Tells the processors of a task apart.
    salt: u64,
    shards: u64,
    progress: Arc<Progress>,
}

impl Processor for Load {
    type In = Record<Vec<u8>, u64>;
    type Out = Record<Vec<u8>, u64>;

    fn process(&mut self, cx: &mut Context<'_, Self>, record: Self::In) -> Result {
        let number = record.value;
        let mut random = fastrand::Rng::with_seed(number);
        let mut value = vec![0; VALUE];
        for (at, store) in (self.salt..).step_by(2).zip(&self.stores) {
            for row in 0..ROWS {
                random.fill(&mut value);
                let mut view = cx.store(store)?;
                if row < UPDATES {
                    let key = key(self.former(number, &mut random), at, UPDATES + row);
                    let found = view.get(&key)?.is_some();
                    view.put(&key, &value)?;
                    self.progress.rows.fetch_add(u64::from(!found), Relaxed);
                } else {
                    view.put(&key(number, at, row), &value)?;
                }
            }
            let mut rows = cx.store(store)?.range(key(random.u64(..), at, 0)..)?;
            for _ in 0..SCANNED {
                if rows.next(cx)?.is_none() {
                    break;
                }
            }
        }
        let stores = STORES as u64;
        self.progress.writes.fetch_add(stores * ROWS, Relaxed);
        self.progress.rows.fetch_add(stores * (ROWS - UPDATES), Relaxed);
        cx.forward(record)
    }
}

impl Load {
    /// The number of an earlier record of the same task, or of this one.
    fn former(&self, number: u64, random: &mut fastrand::Rng) -> u64 {
        number % self.shards + self.shards * random.u64(..=number / self.shards)
    }
}

/// A row's key: nowhere near those of the same record.
fn key(number: u64, store: u64, row: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(number << 16 | store << 8 | row);
    let mut key = vec![0; KEY];
    random.fill(&mut key);
    key
}
