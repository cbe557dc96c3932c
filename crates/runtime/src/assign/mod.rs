//! Who gets which task: a pure function from a view of the group to an assignment (D7).
//!
//! This is a simple sticky balance: tasks stay where their state is as far as the balance by worker counts allows.

mod codec;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use codec::{Subscription, TaskAssignment};

use crate::task::TaskId;

/// A member of the group, as the leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberView {
    /// The id that the coordinator gave.
    pub member_id: Arc<str>,
    /// What the member said about itself.
    pub subscription: Subscription,
}

/// All that the assignment depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterView {
    /// All tasks of the application.
    pub tasks: BTreeSet<TaskId>,
    /// Those of them that have state.
    pub stateful: BTreeSet<TaskId>,
    /// All members.
    pub members: Vec<MemberView>,
}

/// Gives each task to one member.
///
/// * Loads differ by worker count: a member's share is `tasks × its workers / all workers`, rounded down or up. That holds for
///   the tasks that have state, and for all tasks together.
/// * A task stays with a member that holds it, as long as that does not exceed the member's share.
/// * A task goes to no member that says it is blocked there (a stuck worker has its shard open); if it is blocked
///   everywhere, nobody gets it.
/// * The order of `members` is of no meaning: equal views give equal assignments.
pub fn assign(view: &ClusterView) -> BTreeMap<Arc<str>, Vec<TaskId>> {
    let mut loads = Load::of_all(view);
    let stateful: BTreeSet<TaskId> = view.tasks.intersection(&view.stateful).copied().collect();
    let others = view.tasks.difference(&view.stateful).copied().collect();
    // Those with state first: they weigh the most, and those without even out what the rounding leaves.
    let mut so_far = 0;
    for mut open in [stateful, others] {
        so_far += open.len();
        loads.iter_mut().for_each(|load| load.share = so_far * load.workers / load.all_workers);
        keep(&mut loads, &mut open, so_far);
        for task in open {
            place(&mut loads, task);
        }
    }
    loads.into_iter().map(|load| (load.member.member_id.clone(), load.tasks.into_iter().collect())).collect()
}

/// A member's share, and what it has of it.
struct Load<'a> {
    member: &'a MemberView,
    held: BTreeSet<TaskId>,
    blocked: BTreeSet<TaskId>,
    workers: usize,
    all_workers: usize,
    /// The share of all tasks, rounded down.
    total: usize,
    /// The share of the tasks that are being given out or have been, rounded down.
    share: usize,
    tasks: BTreeSet<TaskId>,
}

impl<'a> Load<'a> {
    /// In order of how much they hold, so that the shares that are rounded up go where they move the least.
    fn of_all(view: &'a ClusterView) -> Vec<Self> {
        let workers = |m: &MemberView| m.subscription.workers.max(1) as usize;
        let all: usize = view.members.iter().map(workers).sum();
        let mut loads: Vec<Self> = view
            .members
            .iter()
            .map(|member| Load {
                member,
                held: member.subscription.held.intersection(&view.tasks).copied().collect(),
                blocked: member.subscription.blocked.clone(),
                workers: workers(member),
                all_workers: all.max(1),
                total: view.tasks.len() * workers(member) / all.max(1),
                share: 0,
                tasks: BTreeSet::new(),
            })
            .collect();
        loads.sort_by(|a, b| b.held.len().cmp(&a.held.len()).then_with(|| a.member.member_id.cmp(&b.member.member_id)));
        loads
    }

    fn room(&self) -> bool {
        self.tasks.len() < self.share
    }

    fn may_have(&self, task: TaskId) -> bool {
        !self.blocked.contains(&task)
    }

    fn of_sub_topology(&self, sub: u32) -> usize {
        self.tasks.iter().filter(|t| t.sub_topology == sub).count()
    }
}

/// Which shares are rounded up: best those that stay within the share of all tasks.
#[derive(Clone, Copy)]
enum RoundUp {
    Never,
    WithinTotal,
    Anywhere,
}

impl RoundUp {
    fn allows(self, load: &Load<'_>) -> bool {
        match self {
            Self::Never => false,
            Self::WithinTotal => load.tasks.len() < load.total,
            Self::Anywhere => true,
        }
    }
}

/// Leaves tasks where they are held, first within the shares of the `all` tasks, then one more each for as many members as the
/// rounding leaves.
fn keep(loads: &mut [Load<'_>], open: &mut BTreeSet<TaskId>, all: usize) {
    let rounded_off = all.saturating_sub(loads.iter().map(|l| l.share).sum::<usize>());
    let mut extra = rounded_off.saturating_sub(loads.iter().filter(|l| l.tasks.len() > l.share).count());
    for round_up in [RoundUp::Never, RoundUp::WithinTotal, RoundUp::Anywhere] {
        for load in loads.iter_mut() {
            let mut may_round_up = extra > 0 && round_up.allows(load);
            let mine: Vec<TaskId> = load.held.intersection(open).copied().filter(|t| load.may_have(*t)).collect();
            for task in mine {
                if !load.room() {
                    if load.tasks.len() > load.share || !std::mem::take(&mut may_round_up) {
                        break;
                    }
                    extra -= 1;
                }
                load.tasks.insert(task);
                open.remove(&task);
            }
        }
    }
}

/// Gives a task to the member with room and the fewest tasks per share; among equals, with the fewest of its sub-topology.
/// When nobody has room, nobody gets a second one above its share before all others have one.
fn place(loads: &mut [Load<'_>], task: TaskId) {
    let worth = |load: &Load<'_>| {
        // The load relative to the share, in thousandths, as if the task were there already.
        let relative = (load.tasks.len() + 1) * 1_000 / load.share.max(1);
        let above = (load.tasks.len() + 1).saturating_sub(load.share);
        let beyond = (load.tasks.len() + 1).saturating_sub(load.total);
        (above, beyond, relative, load.of_sub_topology(task.sub_topology), load.member.member_id.clone())
    };
    let best = loads.iter_mut().filter(|l| l.may_have(task)).min_by_key(|l| worth(l));
    if let Some(load) = best {
        load.tasks.insert(task);
    }
}

#[cfg(test)]
mod tests;
