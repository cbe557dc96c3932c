//! The memory budget of a process and how it is split: overlays, engine, client queues and a reserve.

use crate::state::error::{Result, StateError, StateErrorKind};

/// The settings that say how much memory the library may use, as the user gave them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemorySettings {
    /// `memory.budget.bytes`: what all stores, caches and buffers of the process may hold. `None`: a quarter of what
    /// [`available_memory`](super::available_memory) says.
    pub budget: Option<u64>,
    /// `statestore.cache.max.bytes`: clean and pending entries of all overlays; with 0 they go as soon as they
    /// are noticed, and nothing should be held back.
    /// `None`: a quarter of the budget.
    pub cache_max: Option<u64>,
    /// `statestore.uncommitted.max.bytes`: logged entries of all overlays. `None`: an eighth of the budget.
    pub uncommitted_max: Option<u64>,
}

/// The memory budget of a process, split; all in bytes. The parts never exceed the whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryBudget {
    /// The whole.
    pub total: u64,
    /// Clean and pending entries of all overlays.
    pub cache: u64,
    /// Logged entries of all overlays.
    pub uncommitted: u64,
    /// All storage engines together, in equal parts: block caches, write buffers, and what they need beside them.
    pub engines: u64,
    /// Queues of the tasks ([`MemoryBudget::input_queues`]) and of the broker's clients ([`MemoryBudget::clients`]), half each.
    pub queues: u64,
    /// What is left for what is not counted: the allocator, tables that grow, former values of the record at hand.
    pub reserve: u64,
}

/// What the clients of one worker may hold, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientMemory {
    /// Fetched and not yet in a task's queue.
    pub consumer: u64,
    /// Fetched from changelogs and not yet lent.
    pub restore_consumer: u64,
    /// Records of changelogs that go to a shard in one batch.
    pub restore_batch: u64,
    /// Sent and not yet acknowledged.
    pub producer: u64,
}

impl MemoryBudget {
    /// The setting for the whole.
    pub const BUDGET: &str = "memory.budget.bytes";
    /// The setting for clean and pending entries.
    pub const CACHE: &str = "statestore.cache.max.bytes";
    /// The setting for logged entries.
    pub const UNCOMMITTED: &str = "statestore.uncommitted.max.bytes";
    /// The smallest budget with which an application can be expected to run.
    pub const MIN: u64 = 8 << 20;

    /// Splits a budget, where `available` is the memory that the process may use.
    ///
    /// # Errors
    ///
    /// [`StateErrorKind::Invalid`], naming key, value and remedy, for a number that is too small, and for overlays that leave
    /// less than a quarter of the budget to everything else.
    pub fn plan(settings: &MemorySettings, available: u64) -> Result<Self> {
        let total = match settings.budget {
            None => (available / 4).max(Self::MIN),
            Some(bytes) => number(Self::BUDGET, bytes, Self::MIN)?,
        };
        let eighth = total / 8;
        let cache = settings.cache_max;
        let uncommitted = settings.uncommitted_max.map(|bytes| number(Self::UNCOMMITTED, bytes, 1)).transpose()?;
        // Where only one of the two is given, the other one takes what is usual or what is left.
        let room = total - 2 * eighth;
        let left = |other: Option<u64>| room.saturating_sub(other.unwrap_or(0));
        let this_cache = cache.unwrap_or_else(|| (2 * eighth).min(left(uncommitted)));
        let this_uncommitted = uncommitted.unwrap_or_else(|| eighth.min(left(cache)));
        if this_uncommitted == 0 || this_cache.checked_add(this_uncommitted).is_none_or(|both| both > room) {
            return Err(invalid(
                "at most three quarters of memory.budget.bytes for both together; raise it or lower them",
            )
            .with(Self::BUDGET, total)
            .with(Self::CACHE, this_cache)
            .with(Self::UNCOMMITTED, this_uncommitted));
        }
        // The rest in the usual proportions: engines 3, queues 1, reserve 1.
        let rest = total - this_cache - this_uncommitted;
        let (engines, queues) = (rest / 5 * 3, rest / 5);
        let reserve = rest - engines - queues;
        Ok(Self { total, cache: this_cache, uncommitted: this_uncommitted, engines, queues, reserve })
    }

    /// The part that the overlays of the process share, as what they are counted against.
    pub fn overlays(&self) -> super::Budget {
        super::Budget::new(size(self.cache), size(self.uncommitted))
    }

    /// The part that the input queues of the process share: half of that of all queues. The other half is the clients'.
    pub fn input_queues(&self) -> super::QueueBudget {
        super::QueueBudget::new(size(self.queues / 2))
    }

    /// What the clients of each of `workers` workers may hold: together the half of [`MemoryBudget::queues`] that the tasks do
    /// not have. Half of it is the producer's, since a commit sends all at once that was held back; a quarter each have what is
    /// read and what is restored.
    pub fn clients(&self, workers: usize) -> ClientMemory {
        let quarter = self.queues / 2 / 4 / (workers as u64).max(1);
        let restore_batch = quarter / 4;
        ClientMemory {
            consumer: quarter,
            restore_consumer: quarter - restore_batch,
            restore_batch,
            producer: 2 * quarter,
        }
    }

    /// Makes these the limits of what is in use already. Clients keep what they were made with.
    pub fn apply(&self, overlays: &super::Budget, queues: &super::QueueBudget) {
        overlays.set_limits(size(self.cache), size(self.uncommitted));
        queues.set_limit(size(self.queues / 2));
    }
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cold]
fn invalid(remedy: &'static str) -> StateError {
    StateError::new(StateErrorKind::Invalid, "plan memory").with("remedy", remedy)
}

/// A number of bytes that must be at least `min`.
fn number(key: &'static str, bytes: u64, min: u64) -> Result<u64> {
    if bytes >= min {
        return Ok(bytes);
    }
    Err(invalid("give at least the minimum, or leave the key out for the default")
        .with(key, bytes)
        .with("minimum", min))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn plan(budget: Option<u64>, cache: Option<u64>, uncommitted: Option<u64>) -> Result<MemoryBudget> {
        MemoryBudget::plan(&MemorySettings { budget, cache_max: cache, uncommitted_max: uncommitted }, 16 * GIB)
    }

    fn sum(plan: &MemoryBudget) -> u64 {
        plan.cache + plan.uncommitted + plan.engines + plan.queues + plan.reserve
    }

    #[test]
    fn the_default_is_a_quarter_in_eighths() {
        let plan = plan(None, None, None).unwrap();
        assert_eq!((plan.total, plan.cache, plan.uncommitted), (4 * GIB, GIB, GIB / 2));
        assert!(plan.engines.abs_diff(GIB / 2 * 3) < 8 && plan.queues.abs_diff(GIB / 2) < 8);
        assert_eq!(sum(&plan), plan.total);
        let small = MemoryBudget::plan(&MemorySettings::default(), 1 << 20).unwrap();
        assert_eq!(small.total, MemoryBudget::MIN);
    }

    #[test]
    fn the_clients_of_all_workers_have_the_half_that_the_tasks_have_not() {
        for workers in [0, 1, 3, 256] {
            let plan = plan(Some(GIB), None, None).unwrap();
            let each = plan.clients(workers);
            let restore = each.restore_consumer + each.restore_batch;
            let all = (each.consumer + restore + each.producer) * workers.max(1) as u64;
            assert!(all <= plan.queues / 2 && all > plan.queues / 2 - 4 * 257, "{workers}: {all} of {}", plan.queues);
            assert!(each.restore_batch > 0 && each.producer >= each.restore_consumer);
        }
    }

    #[test]
    fn what_is_given_is_kept_and_the_rest_fits_in() {
        let total = 64 << 20;
        for (cache, uncommitted) in
            [(Some(0), None), (Some(40 << 20), Some(8 << 20)), (None, Some(40 << 20)), (Some(47 << 20), None)]
        {
            let plan = plan(Some(total), cache, uncommitted).unwrap();
            assert_eq!((plan.total, sum(&plan)), (64 << 20, 64 << 20));
            assert!(cache.is_none_or(|cache| cache == plan.cache));
            assert!(uncommitted.is_none_or(|uncommitted| uncommitted == plan.uncommitted));
            assert!(plan.uncommitted > 0 && plan.engines >= 9 << 20);
        }
    }

    #[test]
    fn wrong_numbers_are_named_with_a_remedy() {
        let cases = [
            (Some(1024), None, None, "memory.budget.bytes=`1024` minimum=`8388608`"),
            (None, None, Some(0), "statestore.uncommitted.max.bytes=`0`"),
            (Some(16 << 20), Some(16 << 20), None, "statestore.cache.max.bytes=`16777216`"),
            (Some(16 << 20), Some(12 << 20), None, "statestore.cache.max.bytes=`12582912`"),
            (Some(16 << 20), Some(10 << 20), Some(10 << 20), "statestore.uncommitted.max.bytes=`10485760`"),
            (None, Some(u64::MAX), Some(u64::MAX), "statestore.cache.max.bytes=`18446744073709551615`"),
        ];
        for (budget, cache, uncommitted, expected) in cases {
            let error = plan(budget, cache, uncommitted).unwrap_err();
            assert_eq!(error.kind(), StateErrorKind::Invalid);
            assert!(error.to_string().contains(expected) && error.to_string().contains("remedy=`"), "{error}");
        }
    }
}
