//! A cluster, as a factory of its clients.

use crate::membership::Link;
use crate::{Admin, Consumer, GroupOffsets, Producer, Result};

/// What a consumer sees of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Committed records only, up to the last stable offset.
    ReadCommitted,
    /// All records, up to the high watermark.
    ReadUncommitted,
}

/// All clients of one cluster; shared by all workers of an application.
pub trait Broker: Send + Sync {
    /// What messages call the cluster, such as `embedded` or `HOST:PORT`.
    fn name(&self) -> String;

    /// A consumer without assignment.
    fn consumer(&self, isolation: Isolation) -> Result<Box<dyn Consumer>>;

    /// A producer; transactional if it has an id.
    fn producer(&self, transactional_id: Option<&str>) -> Result<Box<dyn Producer>>;

    /// Access to committed offsets.
    fn offsets(&self) -> Result<Box<dyn GroupOffsets>>;

    /// Administration.
    fn admin(&self) -> Result<Box<dyn Admin>>;

    /// The connection that carries a member's requests to the group's coordinator.
    fn group_link(&self, group: &str) -> Result<Box<dyn Link>>;
}
