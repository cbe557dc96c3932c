//! A failure as it is reported: the seed, the difference, and as few actions as lead to one.

use super::plan::{Action, Plan};
use super::{Make, run};

/// A history in which stack and models differ.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What the history was drawn from.
    pub seed: u64,
    /// Where it failed and why, in the shortened history.
    pub message: String,
    /// Kind and retention of each store.
    pub stores: Vec<String>,
    /// What was done, up to the failure.
    pub actions: Vec<String>,
}

impl Failure {
    /// Leaves out what is not needed for a failure: first halves, then quarters, in the end single actions.
    pub(super) fn shortest(make: Make<'_>, mut plan: Plan, mut message: String) -> Self {
        let mut size = plan.actions.len().div_ceil(2);
        while size > 0 {
            let mut at = 0;
            while at < plan.actions.len() {
                let shorter = without(&plan, at, size);
                match run::run(make, &shorter, false) {
                    Err(wrong) => (plan, message) = (shorter, wrong.message),
                    Ok(()) => at += size,
                }
            }
            size /= 2;
        }
        let mut actions = Vec::new();
        // What depends on threads may not fail twice: then there is the message alone.
        if let Err(wrong) = run::run(make, &plan, true) {
            (message, actions) = (wrong.message, wrong.done);
        }
        let stores = plan.stores.iter().map(|(kind, retention)| format!("{kind:?}, {retention} ms")).collect();
        Self { seed: plan.seed, message, stores, actions }
    }
}

/// The plan without some of its actions.
fn without(plan: &Plan, at: usize, size: usize) -> Plan {
    let (before, rest) = plan.actions.split_at(at);
    let actions: Vec<Action> = before.iter().chain(rest.iter().skip(size)).copied().collect();
    Plan { actions, ..plan.clone() }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "the history of seed {0} fails; `MILLPOND_SEED={0}` runs it alone", self.seed)?;
        writeln!(f, "{}", self.message)?;
        for (number, store) in self.stores.iter().enumerate() {
            writeln!(f, "store {number}: {store}")?;
        }
        self.actions.iter().try_for_each(|action| writeln!(f, "  {action}"))
    }
}
