//! Properties of the assignment.

use proptest::prelude::*;

use super::*;

fn task(n: usize) -> TaskId {
    TaskId { sub_topology: (n / 64) as u32, partition: (n % 64) as i32 }
}

fn member(id: usize, workers: u32, held: impl IntoIterator<Item = TaskId>) -> MemberView {
    let held = held.into_iter().collect();
    let subscription = Subscription { process: id as u128, workers, held, blocked: BTreeSet::new() };
    MemberView { member_id: format!("m{id}").into(), subscription }
}

fn view(tasks: usize, members: Vec<MemberView>) -> ClusterView {
    // Every third has no state.
    let stateful = (0..tasks).filter(|t| t % 3 != 2).map(task).collect();
    ClusterView { tasks: (0..tasks).map(task).collect(), stateful, members }
}

/// The view after everybody has taken what `assigned` says.
fn settled(view: &ClusterView, assigned: &BTreeMap<Arc<str>, Vec<TaskId>>) -> ClusterView {
    let mut next = view.clone();
    for m in &mut next.members {
        m.subscription.held = assigned[&m.member_id].iter().copied().collect();
    }
    next
}

fn moves(before: &ClusterView, after: &BTreeMap<Arc<str>, Vec<TaskId>>) -> usize {
    let kept: usize = before
        .members
        .iter()
        .map(|m| after.get(&m.member_id).map_or(0, |t| t.iter().filter(|t| m.subscription.held.contains(t)).count()))
        .sum();
    before.tasks.len() - kept
}

fn views() -> impl Strategy<Value = ClusterView> {
    (1usize..150, prop::collection::vec((1u32..5, any::<u64>()), 1..12)).prop_map(|(tasks, members)| {
        let members = members.into_iter().enumerate().map(|(i, (workers, seed))| {
            let held =
                (0..tasks).filter(move |t| (seed.rotate_left(*t as u32) ^ *t as u64).is_multiple_of(5)).map(task);
            member(i, workers, held)
        });
        view(tasks, members.collect())
    })
}

proptest! {
    #[test]
    fn every_task_has_one_owner_and_loads_are_balanced(view in views()) {
        let assigned = assign(&view);
        let mut all: Vec<TaskId> = assigned.values().flatten().copied().collect();
        all.sort_unstable();
        prop_assert_eq!(all, view.tasks.iter().copied().collect::<Vec<_>>());
        let workers: usize = view.members.iter().map(|m| m.subscription.workers as usize).sum();
        for m in &view.members {
            let share = view.tasks.len() * m.subscription.workers as usize / workers;
            let has = assigned[&m.member_id].len();
            // Members of different weights: what evens out the tasks with state may leave one too few of all.
            prop_assert!(has + 1 >= share, "{} has {} of {}", m.member_id, has, share);
            prop_assert!(has <= share + 1, "{} has {} of {}", m.member_id, has, share);
            let share = view.stateful.len() * m.subscription.workers as usize / workers;
            let has = assigned[&m.member_id].iter().filter(|t| view.stateful.contains(t)).count();
            prop_assert!((share..=share + 1).contains(&has), "{} has {} of {} with state", m.member_id, has, share);
        }
    }

    #[test]
    fn equal_members_differ_by_one_task_at_most(tasks in 1usize..150, members in 1usize..12) {
        let assigned = assign(&view(tasks, (0..members).map(|i| member(i, 2, [])).collect()));
        let loads: Vec<usize> = assigned.values().map(Vec::len).collect();
        prop_assert!(loads.iter().max().unwrap() - loads.iter().min().unwrap() <= 1, "{:?}", loads);
    }

    #[test]
    fn what_was_assigned_stays(view in views()) {
        let first = assign(&view);
        let again = settled(&view, &first);
        prop_assert_eq!(assign(&again), first);
    }

    #[test]
    fn the_order_of_members_is_of_no_meaning(view in views(), seed in any::<u64>()) {
        let mut other = view.clone();
        let n = other.members.len();
        other.members.rotate_left(seed as usize % n);
        prop_assert_eq!(assign(&other), assign(&view));
    }

    #[test]
    fn a_newcomer_moves_no_more_than_its_share(tasks in 1usize..150, members in 1usize..10) {
        let before = view(tasks, (0..members).map(|i| member(i, 1, [])).collect());
        let before = settled(&before, &assign(&before));
        let mut after = before.clone();
        after.members.push(member(members, 1, []));
        let assigned = assign(&after);
        // Some more than its share, where both kinds of tasks are rounded.
        let (moved, share) = (moves(&before, &assigned), tasks.div_ceil(members + 1));
        prop_assert!(moved <= share + 2, "{} moved, the share is {}", moved, share);
    }

    #[test]
    fn a_leaver_moves_little_more_than_its_own(tasks in 1usize..150, members in 2usize..10) {
        let before = view(tasks, (0..members).map(|i| member(i, 1, [])).collect());
        let before = settled(&before, &assign(&before));
        let mut after = before.clone();
        let gone = after.members.pop().unwrap();
        let (moved, owned) = (moves(&before, &assign(&after)), gone.subscription.held.len());
        prop_assert!((owned..=owned + members).contains(&moved), "{} moved, {} had to", moved, owned);
    }
}

#[test]
fn b116_a_blocked_task_goes_elsewhere_or_nowhere() {
    let mut v = view(4, vec![member(0, 1, [task(0)]), member(1, 1, [])]);
    v.members[0].subscription.blocked.insert(task(0));
    let assigned = assign(&v);
    assert!(assigned["m1"].contains(&task(0)));
    v.members[1].subscription.blocked.insert(task(0));
    assert!(assign(&v).values().flatten().all(|t| *t != task(0)));
}

#[test]
fn no_members_no_assignment() {
    assert!(assign(&view(3, vec![])).is_empty());
}

#[test]
fn a_newcomer_gets_its_part_of_the_state() {
    let all: BTreeSet<TaskId> =
        (0..2).flat_map(|sub_topology| (0..4).map(move |partition| TaskId { sub_topology, partition })).collect();
    let stateful = all.iter().copied().filter(|t| t.sub_topology == 1).collect();
    let members = vec![member(0, 2, all.iter().copied()), member(1, 2, [])];
    let assigned = assign(&ClusterView { tasks: all, stateful, members });
    for tasks in assigned.values() {
        assert_eq!(tasks.iter().filter(|t| t.sub_topology == 1).count(), 2, "{assigned:?}");
        assert_eq!(tasks.len(), 4, "{assigned:?}");
    }
}
