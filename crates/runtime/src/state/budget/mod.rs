//! The memory budget of the process: how it is split, what the overlays of all tasks hold together, what a queue may hold.

mod available;
mod plan;
mod queues;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

pub use self::available::available_memory;
pub use self::plan::{ClientMemory, MemoryBudget, MemorySettings};
pub use self::queues::{QueueBudget, QueueShare};

/// What the overlays of a process hold together, and may hold.
///
/// Shared by all workers. The numbers are sums of what the overlays published, each at most [`Share::STEP`] bytes per limit
/// behind the truth. Read without order between them: they steer, they do not decide what is right.
///
/// Between two records a worker asks for the [`Excess`], and each of its overlays for its part; it evicts that much, and where
/// that frees nothing drains the oldest pending entries, which makes them logged. Then it asks [`Budget::over_uncommitted`], and
/// commits early. What was committed is clean, so it asks once more after a commit.
#[derive(Debug)]
pub struct Budget {
    clean: AtomicUsize,
    pending: AtomicUsize,
    logged: AtomicUsize,
    cache_max: AtomicUsize,
    uncommitted_max: AtomicUsize,
}

impl Budget {
    /// By so many bytes a limit may be exceeded for a while, however small it is.
    const SLACK: usize = 1 << 20;

    /// A budget with these limits, in bytes, for what is clean and pending and for what is logged.
    pub fn new(cache_max: usize, uncommitted_max: usize) -> Self {
        Self {
            clean: AtomicUsize::new(0),
            pending: AtomicUsize::new(0),
            logged: AtomicUsize::new(0),
            cache_max: AtomicUsize::new(cache_max),
            uncommitted_max: AtomicUsize::new(uncommitted_max),
        }
    }

    /// Changes the limits, in bytes; workers follow at their next look.
    pub fn set_limits(&self, cache_max: usize, uncommitted_max: usize) {
        self.cache_max.store(cache_max, Relaxed);
        self.uncommitted_max.store(uncommitted_max, Relaxed);
    }

    /// What all overlays hold.
    pub fn held(&self) -> Held {
        Held { clean: self.clean.load(Relaxed), pending: self.pending.load(Relaxed), logged: self.logged.load(Relaxed) }
    }

    /// Bytes that are clean and pending in all overlays.
    pub fn cache(&self) -> usize {
        self.held().cache()
    }

    /// Bytes that are logged and not applied in all overlays.
    pub fn uncommitted(&self) -> usize {
        self.logged.load(Relaxed)
    }

    /// What the overlays have to free together: clean entries first, then the oldest pending ones. `None` while they are
    /// within `statestore.cache.max.bytes`.
    pub fn excess(&self) -> Option<Excess> {
        let cache = self.cache();
        let over = cache.checked_sub(self.cache_max.load(Relaxed)).filter(|over| *over > 0)?;
        Some(Excess { over, cache })
    }

    /// True if the overlays have outgrown a limit by far: whoever processes records stops to make room before it goes on.
    pub fn is_tight(&self) -> bool {
        let far_over = |held: usize, max: &AtomicUsize| {
            let max = max.load(Relaxed);
            held > max.saturating_add(max / 8).saturating_add(Self::SLACK)
        };
        let held = self.held();
        far_over(held.cache(), &self.cache_max) || far_over(held.logged, &self.uncommitted_max)
    }

    /// True if more is logged than `statestore.uncommitted.max.bytes` allows: time for an early commit.
    pub fn over_uncommitted(&self) -> bool {
        self.uncommitted() > self.uncommitted_max.load(Relaxed)
    }
}

/// What overlays hold, in bytes, by what it is to their shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// As in the shard, or not looked up there yet: it can be dropped.
    pub clean: usize,
    /// Written, neither forwarded nor logged.
    pub pending: usize,
    /// In the log or the transaction, not in the shard.
    pub logged: usize,
}

impl Held {
    /// What `statestore.cache.max.bytes` bounds.
    pub const fn cache(self) -> usize {
        self.clean + self.pending
    }

    /// The largest difference of a part.
    fn distance(self, other: Self) -> usize {
        let parts = self.clean.abs_diff(other.clean).max(self.pending.abs_diff(other.pending));
        parts.max(self.logged.abs_diff(other.logged))
    }
}

/// By how much the overlays are over the cache limit, at one moment: all of a worker's are measured by the same, so that the
/// first one does not pay for the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Excess {
    over: usize,
    cache: usize,
}

impl Excess {
    /// How much of it falls to an overlay that holds `own` bytes: in proportion, rounded up, so that a busy store does not
    /// pay for what an idle one holds.
    pub fn part(self, own: usize) -> usize {
        let part = (self.over as u128 * own as u128).div_ceil(self.cache.max(1) as u128);
        usize::try_from(part).unwrap_or(usize::MAX).min(own)
    }
}

/// An overlay's part of a [`Budget`], as it was published last; leaves the budget when dropped.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    told: Held,
}

impl Share {
    /// By how many bytes an overlay may differ from what it published, between two commits.
    pub const STEP: usize = 4096;

    /// A share of nothing yet.
    pub fn new(budget: Arc<Budget>) -> Self {
        Self { budget, told: Held::default() }
    }

    /// True if what is held has moved by more than [`Share::STEP`] since it was published.
    #[inline]
    pub fn moved(&self, held: Held) -> bool {
        self.told.distance(held) > Self::STEP
    }

    /// Publishes what is held.
    pub fn publish(&mut self, held: Held) {
        // Wrapping on purpose: the sum of all shares is exact, whatever the order of additions.
        let Budget { clean, pending, logged, .. } = &*self.budget;
        clean.fetch_add(held.clean.wrapping_sub(self.told.clean), Relaxed);
        pending.fetch_add(held.pending.wrapping_sub(self.told.pending), Relaxed);
        logged.fetch_add(held.logged.wrapping_sub(self.told.logged), Relaxed);
        self.told = held;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.publish(Held::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(clean: usize, logged: usize) -> Held {
        Held { clean, pending: 0, logged }
    }

    #[test]
    fn shares_add_up_and_leave_when_they_are_dropped() {
        let budget = Arc::new(Budget::new(1000, 500));
        let (mut a, mut b) = (Share::new(Arc::clone(&budget)), Share::new(Arc::clone(&budget)));
        a.publish(held(600, 100));
        b.publish(held(300, 500));
        assert_eq!((budget.cache(), budget.uncommitted()), (900, 600));
        assert_eq!((budget.excess(), budget.over_uncommitted()), (None, true));
        b.publish(held(900, 400));
        let excess = Excess { over: 500, cache: 1500 };
        assert_eq!((budget.excess(), budget.over_uncommitted()), (Some(excess), false));
        drop(b);
        assert_eq!((budget.cache(), budget.uncommitted()), (600, 100));
        a.publish(held(0, 0));
        assert_eq!((budget.cache(), budget.uncommitted()), (0, 0));
    }

    #[test]
    fn what_is_pending_counts_as_cache_and_is_told_apart() {
        let budget = Arc::new(Budget::new(1000, 500));
        let (mut a, mut b) = (Share::new(Arc::clone(&budget)), Share::new(Arc::clone(&budget)));
        a.publish(Held { clean: 600, pending: 300, logged: 7 });
        b.publish(Held { clean: 0, pending: 200, logged: 0 });
        assert_eq!(budget.held(), Held { clean: 600, pending: 500, logged: 7 });
        assert_eq!((budget.cache(), budget.excess()), (1100, Some(Excess { over: 100, cache: 1100 })));
        a.publish(Held { clean: 900, pending: 0, logged: 7 });
        assert_eq!(budget.held(), Held { clean: 900, pending: 200, logged: 7 });
        assert!(b.moved(Held { pending: 201 + Share::STEP, ..Held::default() }));
    }

    #[test]
    fn a_limit_that_is_exceeded_by_far_is_tight() {
        let mib = 1 << 20;
        let budget = Arc::new(Budget::new(8 * mib, 0));
        let mut share = Share::new(Arc::clone(&budget));
        for (clean, logged, tight) in
            [(10 * mib, mib, false), (10 * mib + 1, 0, true), (0, mib + 1, true), (0, 0, false)]
        {
            share.publish(held(clean, logged));
            assert_eq!(budget.is_tight(), tight, "{clean} {logged}");
        }
        budget.set_limits(usize::MAX, usize::MAX);
        share.publish(held(10 * mib + 1, mib + 1));
        assert!(!budget.is_tight());
    }

    #[test]
    fn what_is_over_is_freed_in_proportion() {
        let budget = Arc::new(Budget::new(1000, 0));
        let (mut idle, mut busy) = (Share::new(Arc::clone(&budget)), Share::new(Arc::clone(&budget)));
        idle.publish(held(900, 0));
        busy.publish(held(300, 0));
        let excess = budget.excess().unwrap();
        assert_eq!([900, 300, 0, 1].map(|own| excess.part(own)), [150, 50, 0, 1]);
        idle.publish(held(750, 0));
        assert_eq!(excess.part(300), 50, "what the first one has freed does not change the second one's part");
        budget.set_limits(0, 0);
        let all = budget.excess().unwrap();
        assert_eq!([750, 300].map(|own| all.part(own)), [750, 300]);
        budget.set_limits(usize::MAX, 0);
        assert_eq!(budget.excess(), None);
    }

    #[test]
    fn only_a_step_is_worth_telling() {
        let mut share = Share::new(Arc::new(Budget::new(0, 0)));
        assert!(
            !share.moved(held(Share::STEP, Share::STEP))
                && share.moved(held(Share::STEP + 1, 0))
                && share.moved(held(0, Share::STEP + 1))
        );
        share.publish(held(Share::STEP + 1, 0));
        assert!(!share.moved(held(1, 0)) && share.moved(held(0, 0)));
    }
}
