//! The part of the memory budget that the input queues share: the same for each partition of the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// How many bytes the input queues of a process may hold together, and how many queues there are.
///
/// Every queue may hold the same part of the whole. An idle partition's part is not lent to a busy one: it could not be had
/// back at once when records come, and then the sum would not be bounded.
#[derive(Debug)]
pub struct QueueBudget {
    max: AtomicUsize,
    queues: AtomicUsize,
}

impl QueueBudget {
    /// A budget of `max` bytes that no queue has a part of yet.
    pub fn new(max: usize) -> Self {
        Self { max: AtomicUsize::new(max), queues: AtomicUsize::new(0) }
    }

    /// Changes the whole, in bytes; workers follow at their next look.
    pub fn set_limit(&self, max: usize) {
        self.max.store(max, Relaxed);
    }

    /// How many bytes each queue may hold, as of now.
    pub fn part(&self) -> usize {
        self.max.load(Relaxed) / self.queues.load(Relaxed).max(1)
    }
}

/// A queue's place in a [`QueueBudget`]: while it lives, the others' parts are smaller.
#[derive(Debug)]
pub struct QueueShare(Arc<QueueBudget>);

impl QueueShare {
    /// One more queue.
    pub fn new(budget: &Arc<QueueBudget>) -> Self {
        budget.queues.fetch_add(1, Relaxed);
        Self(Arc::clone(budget))
    }

    /// How many bytes the queue may hold, as of now. It may be less than a record, so an empty queue always takes one.
    pub fn limit(&self) -> usize {
        self.0.part()
    }
}

impl Drop for QueueShare {
    fn drop(&mut self) {
        self.0.queues.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_all_queues_fill_the_whole_whatever_comes_and_goes() {
        let budget = Arc::new(QueueBudget::new(1000));
        assert_eq!(budget.part(), 1000);
        let mut queues: Vec<_> = (0..4).map(|_| QueueShare::new(&budget)).collect();
        assert!(queues.iter().all(|q| q.limit() == 250));
        budget.set_limit(100);
        assert!(queues.iter().all(|q| q.limit() == 25));
        queues.truncate(2);
        assert!(queues.iter().all(|q| q.limit() == 50));
        queues.clear();
        assert_eq!(budget.part(), 100);
    }
}
