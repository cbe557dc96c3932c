//! Which worker of an instance runs which of its tasks; pure.

use std::collections::BTreeSet;

use crate::task::TaskId;

/// Spreads `tasks` over workers. `held`: what each worker has now; `None` for a stuck worker, which gets nothing.
///
/// A task stays with its worker as far as loads differ by one at most; the answer has an entry for each worker.
pub(crate) fn distribute(tasks: &BTreeSet<TaskId>, held: &[Option<BTreeSet<TaskId>>]) -> Vec<BTreeSet<TaskId>> {
    let mut given = vec![BTreeSet::new(); held.len()];
    let able: Vec<usize> = held.iter().enumerate().filter(|(_, h)| h.is_some()).map(|(i, _)| i).collect();
    if able.is_empty() {
        return given;
    }
    let most = tasks.len().div_ceil(able.len());
    let mut open = tasks.clone();
    for (has, mine) in held.iter().zip(&mut given) {
        let kept: Vec<TaskId> = has.iter().flatten().filter(|t| open.contains(t)).take(most).copied().collect();
        open.retain(|t| !kept.contains(t));
        mine.extend(kept);
    }
    for task in open {
        give_to_least(&mut given, &able, task);
    }
    level(&mut given, &able);
    given
}

fn give_to_least(given: &mut [BTreeSet<TaskId>], able: &[usize], task: TaskId) {
    let load = |given: &[BTreeSet<TaskId>], i: usize| {
        let of_sub = given.get(i).map_or(0, |g| g.iter().filter(|t| t.sub_topology == task.sub_topology).count());
        (given.get(i).map_or(0, BTreeSet::len), of_sub, i)
    };
    let least = able.iter().copied().min_by_key(|i| load(given, *i));
    if let Some(mine) = least.and_then(|i| given.get_mut(i)) {
        mine.insert(task);
    }
}

/// Moves single tasks from the fullest to the emptiest worker until they differ by one at most.
fn level(given: &mut [BTreeSet<TaskId>], able: &[usize]) {
    let len = |given: &[BTreeSet<TaskId>], i: usize| given.get(i).map_or(0, BTreeSet::len);
    loop {
        let fullest = able.iter().copied().max_by_key(|i| (len(given, *i), usize::MAX - i));
        let emptiest = able.iter().copied().min_by_key(|i| (len(given, *i), *i));
        let (Some(from), Some(to)) = (fullest, emptiest) else { return };
        if len(given, from) <= len(given, to) + 1 {
            return;
        }
        let Some(task) = given.get_mut(from).and_then(BTreeSet::pop_last) else { return };
        if let Some(mine) = given.get_mut(to) {
            mine.insert(task);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(tasks: impl IntoIterator<Item = i32>) -> BTreeSet<TaskId> {
        tasks.into_iter().map(|partition| TaskId { sub_topology: 0, partition }).collect()
    }

    proptest! {
        #[test]
        fn all_tasks_are_given_once_evenly_and_stay(tasks in 0i32..60, held in prop::collection::vec(prop::option::of(prop::collection::btree_set(0i32..80, 0..20)), 1..6)) {
            let held: Vec<_> = held.into_iter().map(|h| h.map(set)).collect();
            let given = distribute(&set(0..tasks), &held);
            let able: Vec<_> = given.iter().zip(&held).filter(|(_, h)| h.is_some()).map(|(g, _)| g).collect();
            prop_assert!(given.iter().zip(&held).all(|(g, h)| h.is_some() || g.is_empty()));
            if able.is_empty() {
                return Ok(());
            }
            let mut all: Vec<_> = given.iter().flatten().copied().collect();
            all.sort_unstable();
            prop_assert_eq!(all, set(0..tasks).into_iter().collect::<Vec<_>>());
            let loads = able.iter().map(|g| g.len());
            prop_assert!(loads.clone().max().unwrap_or(0) - loads.min().unwrap_or(0) <= 1);
            let again: Vec<_> = given.iter().zip(&held).map(|(g, h)| h.as_ref().map(|_| g.clone())).collect();
            prop_assert_eq!(distribute(&set(0..tasks), &again), given);
        }
    }

    #[test]
    fn nothing_moves_without_need() {
        let held = [Some(set([0, 1])), Some(set([2])), Some(set([]))];
        assert_eq!(distribute(&set(0..4), &held), [set([0, 1]), set([2]), set([3])]);
    }
}
