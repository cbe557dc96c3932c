//! Random topologies beside a naive model: whatever the caches, partitions, restarts and guarantees, the results are those
//! that follow from the input by the definitions.
//!
//! What follows and what does not is said by `known.rs`; a run that shows a difference is made smaller before it is told of. The
//! same runs over RocksDB are in `crates/store-rocks/tests/model.rs`.
//!
//! `MILLPOND_SEED=7` runs one seed, `MILLPOND_SEED=2000..9000` others; `MILLPOND_SLOW=1` ten times as many.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a panic is how a test fails, and the model is to be plain"
)]

mod build;
mod check;
mod compare;
mod draw;
mod known;
mod naive;
mod partition;
mod plan;
mod run;
mod seeds;
mod windows;

use known::Known;

const SEEDS: u64 = 2_000;

#[test]
fn random_topologies_agree_with_the_model() {
    let (seeds, all) = seeds::chosen(SEEDS);
    let compared = seeds::run_all(seeds, &|| None);
    println!("topics compared: {:?}\nstores compared: {:?}", compared.shown, compared.stores);
    if all {
        for known in [Known::Last, Known::Bag, Known::PerKey, Known::Total] {
            assert!(compared.shown.get(&known).is_some_and(|n| *n > SEEDS / 8), "few topics are known by {known:?}");
        }
        assert!(compared.shown[&Known::Nothing] < compared.shown.values().sum::<u64>() / 3, "little is known");
    }
}
