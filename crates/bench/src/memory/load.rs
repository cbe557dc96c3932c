//! What the application does: puts, gets and scans in eight stores of each task, three of them with windows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use millpond_topology::{
    ByteArray, Consumed, Context, KeyValue, Processor, Record, Result, StoreKind, StoreRef, StoreSpec, Topology, U64,
    Window, Writable,
};

use super::MemoryOptions;
use crate::error;

/// The topic that is read.
pub(super) const INPUT: &str = "in";

/// Rows that a record puts into each store, and how many of them are there already.
const ROWS: u64 = 8;
const UPDATES: u64 = 2;
const SCANNED: usize = 20;
const KEY: usize = 16;

/// Stores of one processor, and how many of the first one's have windows.
const STORES: usize = 4;
const WINDOW: Duration = Duration::from_secs(60);
const RETENTION: Duration = Duration::from_secs(30 * 60);

type Bytes = KeyValue<Vec<u8>, Vec<u8>>;
type Windows = Window<Vec<u8>, Vec<u8>>;

/// The event time of a record.
pub(super) fn timestamp(number: u64, pace: Duration) -> i64 {
    1_000_000_000 + (number * pace.as_millis() as u64) as i64
}

/// How far all tasks are together.
#[derive(Debug)]
pub(super) struct Progress {
    row: u64,
    writes: AtomicU64,
    rows: AtomicU64,
}

impl Progress {
    /// With values of so many bytes.
    pub(super) fn new(value: usize) -> Self {
        Self { row: (KEY + value) as u64, writes: AtomicU64::new(0), rows: AtomicU64::new(0) }
    }

    pub(super) fn writes(&self) -> u64 {
        self.writes.load(Relaxed)
    }

    /// Bytes of keys and values, expired ones included.
    pub(super) fn state(&self) -> u64 {
        self.rows.load(Relaxed) * self.row
    }
}

/// One sub-topology with two processors of four stores each. Three have windows; of the others every second one has a cache.
pub(super) fn topology(options: &MemoryOptions, progress: &Arc<Progress>) -> error::Result<Topology> {
    let mut builder = Topology::builder();
    let mut windows = |name| {
        let spec = StoreSpec::<Windows>::window(name, RETENTION, WINDOW, ByteArray, ByteArray);
        builder.add_store(spec.logging_disabled())
    };
    let (a, b, c) = (windows("windows-0"), windows("windows-1"), windows("windows-2"));
    let mut plain = |number| {
        let spec = StoreSpec::key_value(&format!("plain-{number}"), ByteArray, ByteArray).logging_disabled();
        builder.add_store(if number % 2 == 0 { spec } else { spec.caching_enabled() })
    };
    let (d, e, f, g, h) = (plain(0), plain(1), plain(2), plain(3), plain(4));
    let load = Load {
        stores: Vec::new(),
        first: 0,
        shards: options.shards as u64,
        pace: options.pace,
        value: vec![0; options.value],
        progress: Arc::clone(progress),
    };
    let (one, two) = (load.clone(), load);
    let input = builder.stream(INPUT, Consumed::with(ByteArray, U64));
    let between = input.process((&a, &b, &c, &d), move |_, (a, b, c, d)| {
        let stores = vec![Store::Windows(a), Store::Windows(b), Store::Windows(c), Store::Plain(d)];
        Ok(Load { stores, ..one.clone() })
    });
    // What it forwards goes nowhere.
    let _ = between.process((&e, &f, &g, &h), move |_, (e, f, g, h)| {
        let stores = [e, f, g, h].into_iter().map(Store::Plain).collect();
        Ok(Load { stores, first: STORES as u64, ..two.clone() })
    });
    Ok(builder.build()?)
}

#[derive(Clone)]
enum Store {
    Plain(StoreRef<Bytes>),
    Windows(StoreRef<Windows>),
}

/// Four stores, and what is done to them.
#[derive(Clone)]
struct Load {
    stores: Vec<Store>,
    /// The number of the first one.
    first: u64,
    shards: u64,
    pace: Duration,
    value: Vec<u8>,
    progress: Arc<Progress>,
}

impl Processor for Load {
    type In = Record<Vec<u8>, u64>;
    type Out = Record<Vec<u8>, u64>;

    fn process(&mut self, cx: &mut Context<'_, Self>, record: Self::In) -> Result {
        let number = record.value;
        let mut random = fastrand::Rng::with_seed(number);
        for (at, store) in (self.first..).zip(&self.stores) {
            for row in 0..ROWS {
                random.fill(&mut self.value);
                let is_update = row < UPDATES;
                let (of, row) =
                    if is_update { (former(number, self.shards, &mut random), UPDATES + row) } else { (number, row) };
                let (key, time) = (key(of, at, row), timestamp(of, self.pace));
                let is_new = match store {
                    Store::Plain(store) => put(&mut cx.store(store)?, &key, &self.value, is_update)?,
                    Store::Windows(store) => put_in_window(&mut cx.store(store)?, &key, time, &self.value, is_update)?,
                };
                self.progress.rows.fetch_add(u64::from(is_new), Relaxed);
            }
        }
        let at = random.usize(..STORES);
        if let Some(store) = self.stores.get(at) {
            scan(cx, store, key(random.u64(..), at as u64, 0), record.timestamp)?;
        }
        self.progress.writes.fetch_add(STORES as u64 * ROWS, Relaxed);
        cx.forward(record)
    }
}

/// Answers whether the row is a new one.
fn put(
    store: &mut <Bytes as StoreKind>::View<'_, Writable>,
    key: &Vec<u8>,
    value: &Vec<u8>,
    is_update: bool,
) -> Result<bool> {
    let is_new = !is_update || store.get(key)?.is_none();
    store.put(key, value)?;
    Ok(is_new)
}

fn put_in_window(
    store: &mut <Windows as StoreKind>::View<'_, Writable>,
    key: &Vec<u8>,
    time: i64,
    value: &Vec<u8>,
    is_update: bool,
) -> Result<bool> {
    let start = time - time % WINDOW.as_millis() as i64;
    let is_new = !is_update || store.get(key, start)?.is_none();
    // What has expired is not put.
    Ok(store.put(key, start, value)? && is_new)
}

/// Reads a few rows, from a key on.
fn scan(cx: &mut Context<'_, Load>, store: &Store, from: Vec<u8>, now: i64) -> Result {
    match store {
        Store::Plain(store) => {
            let mut rows = cx.store(store)?.range(from..)?;
            for _ in 0..SCANNED {
                if rows.next(cx)?.is_none() {
                    break;
                }
            }
        }
        Store::Windows(store) => {
            let five = 5 * WINDOW.as_millis() as i64;
            let mut rows = cx.store(store)?.fetch_range(from.., now - five..=now)?;
            for _ in 0..SCANNED {
                if rows.next(cx)?.is_none() {
                    break;
                }
            }
        }
    }
    Ok(())
}

/// The number of an earlier record of the same task, or of this one.
fn former(number: u64, shards: u64, random: &mut fastrand::Rng) -> u64 {
    number % shards + shards * random.u64(..=number / shards)
}

/// A row's key: nowhere near those of the same record.
fn key(number: u64, store: u64, row: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(number << 16 | store << 8 | row);
    let mut key = vec![0; KEY];
    random.fill(&mut key);
    key
}
