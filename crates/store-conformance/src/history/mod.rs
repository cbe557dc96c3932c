//! Random histories of a task's state: stores of all kinds in one shard, through records that are kept or fail, commits,
//! aborts, flushes, expiry, crashes and restarts, beside plain models.
//!
//! A history is drawn from its seed: which stores there are, their retentions, and a list of actions. After whatever goes
//! back (a failed record, an abort, a crash) the models are those of the moment that was gone back to; which that is after a
//! crash, the shard's metadata says. So a difference in any answer, at any time, is a failure.
//!
//! [`check`] runs the histories of some seeds on whatever is a [`Stack`].

mod caught;
mod failure;
mod plan;
mod run;

use std::ops::Range;

use millpond_store_api::{Shard, SpaceMut};

pub use self::failure::Failure;
use self::plan::Plan;

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The shard is closed.
    Close,
    /// The shard is dropped as it is.
    Crash,
}

/// A task's stores over one shard, with whatever lies between: what a history drives.
///
/// Nothing of it may fail: an error is a panic.
pub trait Stack {
    /// Lends the spaces of a store, as a part of the record at hand: one of its own, and its view of the windowed one, in
    /// which all stores have their rows.
    fn lend(&mut self, store: u16, body: &mut dyn FnMut(&mut dyn SpaceMut, &mut dyn SpaceMut));

    /// The record at hand is done: what it wrote stays.
    fn record_done(&mut self);

    /// The record at hand failed: what it wrote is undone.
    fn record_failed(&mut self);

    /// Moves all that was written since the last commit into the shard, as one batch with this metadata. Called between
    /// records.
    fn commit(&mut self, metadata: &[u8]);

    /// Forgets all that was written since the last commit. Called between records.
    fn abort(&mut self);

    /// The shard, to flush it and to ask where it stands. Nothing is written to it.
    fn shard(&mut self) -> &mut dyn Shard;

    /// Rows of the windowed space below a key are never asked for again.
    fn drop_below(&mut self, key: &[u8]);

    /// Ends the process and starts the next one, in which the shard is opened again. What was not committed is gone.
    fn restart(&mut self, end: End);
}

/// Makes an empty stack of so many stores.
pub type Make<'a> = &'a dyn Fn(u16) -> Box<dyn Stack>;

/// Runs the histories of some seeds; the one that `MILLPOND_SEED` names instead, if it is set.
///
/// # Panics
///
/// With the first [`Failure`].
#[track_caller]
pub fn check(make: Make<'_>, seeds: Range<u64>) {
    let one = std::env::var("MILLPOND_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = one.map_or(seeds, |seed: u64| seed..seed + 1);
    if let Some(failure) = find(make, seeds) {
        panic!("{failure}");
    }
}

/// The first failure among the histories of some seeds, in its shortest form.
pub fn find(make: Make<'_>, seeds: Range<u64>) -> Option<Failure> {
    seeds.into_iter().find_map(|seed| {
        let plan = Plan::draw(seed);
        let message = run::run(make, &plan, false).err()?.message;
        Some(Failure::shortest(make, plan, message))
    })
}
