//! What happens in a history, as data: drawn from a seed, and run again without some of its actions to find a shorter one.

use fastrand::Rng;
use millpond_store_api::Flush;

use super::End;
use crate::expiring::{MINUTE, Times};
use crate::twin::{Kind, RETENTIONS};

/// A thing that happens. Any list of them is a history.
#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    /// A random operation on a store, in the record at hand.
    Step {
        /// Which store.
        store: usize,
        /// What the operation is drawn from.
        seed: u64,
    },
    /// The record at hand is done.
    Done,
    /// The record at hand fails.
    Failed,
    /// Time leaps; what it is drawn from.
    Leap(u64),
    /// All stores observe the time.
    Observe,
    Commit,
    Abort,
    Flush(Flush),
    /// Asks what is durable.
    Durable,
    /// Drops the buckets that have expired.
    Drop,
    /// Time moves on, what has expired is deleted, committed and flushed, and the buckets are dropped: as a task does it.
    Expire,
    Restart(End),
}

/// A history.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    /// Kind and retention of each store.
    pub(super) stores: Vec<(Kind, i64)>,
    pub(super) times: Times,
    pub(super) actions: Vec<Action>,
}

impl Plan {
    /// Some five stores mostly, so that each has something to do, and one of each kind at times.
    pub(super) fn draw(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let mut kinds = Kind::ALL;
        random.shuffle(&mut kinds);
        let count = if random.u8(..8) == 0 { kinds.len() } else { random.usize(1..=5) };
        let stores = kinds[..count].iter().map(|kind| (*kind, RETENTIONS[random.usize(..RETENTIONS.len())])).collect();
        let start = [-20 * MINUTE, 0, 100 * MINUTE, 1_700_000_000_000][random.usize(..4)];
        let times = if random.u8(..8) == 0 { Times::Edges } else { Times::flowing(start + random.i64(0..MINUTE)) };
        let actions = (0..random.usize(30..=60)).map(|_| action(&mut random, count)).collect();
        Self { seed, stores, times, actions }
    }
}

fn action(random: &mut Rng, stores: usize) -> Action {
    match random.u8(..100) {
        0..60 => Action::Step { store: random.usize(..stores), seed: random.u64(..) },
        60..72 => Action::Done,
        72..77 => Action::Failed,
        77..80 => Action::Leap(random.u64(..)),
        80..82 => Action::Observe,
        82..89 => Action::Commit,
        89 => Action::Abort,
        90 => Action::Flush(Flush::Start),
        91 | 92 => Action::Flush(Flush::Wait),
        93 => Action::Durable,
        94 => Action::Drop,
        95..98 => Action::Expire,
        98 => Action::Restart(End::Close),
        _ => Action::Restart(End::Crash),
    }
}
