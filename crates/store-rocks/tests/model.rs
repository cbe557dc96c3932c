//! Random topologies over RocksDB, beside the naive model and the same runs in memory: the engine makes no difference.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a panic is how a test fails, and the model is to be plain"
)]

#[path = "../../testkit/tests/model/build.rs"]
mod build;
#[path = "../../testkit/tests/model/check.rs"]
mod check;
#[path = "../../testkit/tests/model/compare.rs"]
mod compare;
#[path = "../../testkit/tests/model/draw.rs"]
mod draw;
#[path = "../../testkit/tests/model/known.rs"]
mod known;
#[path = "../../testkit/tests/model/naive.rs"]
mod naive;
#[path = "../../testkit/tests/model/partition.rs"]
mod partition;
#[path = "../../testkit/tests/model/plan.rs"]
mod plan;
#[path = "../../testkit/tests/model/run.rs"]
mod run;
#[path = "../../testkit/tests/model/seeds.rs"]
mod seeds;
#[path = "../../testkit/tests/model/windows.rs"]
mod windows;

use std::sync::Arc;

use millpond_store_api::Engine;
use millpond_store_rocks::{RocksEngine, RocksSettings};

#[test]
fn random_topologies_agree_with_the_model_and_with_memory() {
    let settings = RocksSettings { memory_bytes: Some(32 << 20), shards: 8, ..RocksSettings::default() };
    // One engine for all of them: what a shard leaves behind is in its files and nowhere else, and opening is most of the work.
    let engine: Arc<dyn Engine> = Arc::new(RocksEngine::new(settings).unwrap());
    let (seeds, _) = seeds::chosen(100);
    let compared = seeds::run_all(seeds, &|| Some(Arc::clone(&engine)));
    println!("topics compared: {:?}\nstores compared: {:?}", compared.shown, compared.stores);
}
