//! The instance as one member of its group (D6): drives the membership machine, assigns as leader, spreads tasks over workers.

mod distribute;
mod member;

pub(crate) use member::{GroupMember, WorkerHandle};
