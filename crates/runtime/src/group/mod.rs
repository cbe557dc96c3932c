//! The instance as one member of its group (D6): drives the membership machine, assigns as leader, spreads tasks over workers.

mod distribute;
mod member;
mod seat;

pub(crate) use member::GroupMember;
pub(crate) use seat::WorkerHandle;
