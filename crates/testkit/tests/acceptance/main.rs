//! What applications may rely on, shown through the driver: every operator, nulls, time, state, errors and caches.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod cache;
mod cogroup;
mod dedup;
mod driver;
mod dsl;
mod emit;
mod errors;
mod expired;
mod failing;
mod grouped_tables;
mod kinds;
mod memory;
mod nulls;
mod processor_api;
mod punctuation;
mod repartition;
mod restart;
mod reuse;
mod sessions;
mod sliding;
mod store_format;
mod stores;
mod streams;
mod support;
mod suppress;
mod suppress_windows;
mod tables;
mod time;
mod transforms;
mod versioned_tables;
mod windows;
