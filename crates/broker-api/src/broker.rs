//! A cluster, as a factory of its clients.

use std::sync::Arc;
use std::time::Duration;

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

/// What a consumer is for. Brokers over a network read the settings of each role from a place of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConsumerRole {
    /// Reads the input of tasks, or anything else.
    #[default]
    Main,
    /// Reads changelogs to restore state.
    Restore,
}

/// Which consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerOptions {
    /// What it sees of transactions.
    pub isolation: Isolation,
    /// What it is for.
    pub role: ConsumerRole,
    /// How many bytes of memory the records may take that it has fetched and not lent yet, with what it keeps beside them; at
    /// least one record is fetched whatever its size. What the user has set for the client by name wins. `None`: the client's
    /// default. A client without a queue has nothing to bound.
    pub memory: Option<u64>,
}

impl From<Isolation> for ConsumerOptions {
    fn from(isolation: Isolation) -> Self {
        Self { isolation, role: ConsumerRole::default(), memory: None }
    }
}

/// Which producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerOptions<'a> {
    /// With an id all records stand in transactions; a later producer of the same id fences this one.
    pub transactional_id: Option<&'a str>,
    /// The coordinator aborts a transaction that is open for this long. Means nothing without an id.
    pub transaction_timeout: Duration,
    /// How many bytes of memory the records may take that it was handed and that have no answer yet, with what it keeps beside
    /// them: above it the answer is [`Sent::Full`](crate::Sent::Full). A record of the largest size always has room. What the
    /// user has set for the client by name wins. `None`: the client's default. A client without a queue has nothing to bound.
    pub memory: Option<u64>,
}

impl<'a> ProducerOptions<'a> {
    /// A transactional producer with the default timeout.
    pub fn transactional(id: &'a str) -> Self {
        Self { transactional_id: Some(id), ..Self::default() }
    }
}

impl Default for ProducerOptions<'_> {
    /// Without an id; a timeout of 10 s; as much memory as the client likes.
    fn default() -> Self {
        Self { transactional_id: None, transaction_timeout: Duration::from_secs(10), memory: None }
    }
}

/// Which administration client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdminOptions {
    /// For how long a call repeats what may still come right, such as a question to a partition without a leader; `None`: the
    /// client's default. Callers with other work to do have little patience, and come back; a broker that does not answer at
    /// all does not keep them for long either.
    pub patience: Option<Duration>,
}

/// Makes a [`Broker`] from an application's client settings: what stands in one file with all the others.
pub trait Connector: Send + Sync {
    /// The cluster of these settings, as names and values in the order in which they were given: addresses, security, and
    /// client settings by prefix. [`Fatal`](crate::ErrorKind::Fatal) names a setting that is missing or wrong. Does no I/O.
    fn connect(&self, settings: &[(String, String)]) -> Result<Arc<dyn Broker>>;
}

/// All clients of one cluster; shared by all workers of an application.
pub trait Broker: Send + Sync {
    /// What messages call the cluster, such as `embedded` or `HOST:PORT`.
    fn name(&self) -> String;

    /// A consumer without assignment.
    fn consumer(&self, options: &ConsumerOptions) -> Result<Box<dyn Consumer>>;

    /// A producer; transactional if it has an id.
    fn producer(&self, options: &ProducerOptions<'_>) -> Result<Box<dyn Producer>>;

    /// Access to committed offsets.
    fn offsets(&self) -> Result<Box<dyn GroupOffsets>>;

    /// Administration with the client's default patience.
    fn admin(&self) -> Result<Box<dyn Admin>> {
        self.admin_with(&AdminOptions::default())
    }

    /// Administration.
    fn admin_with(&self, options: &AdminOptions) -> Result<Box<dyn Admin>>;

    /// The connection that carries a member's requests to the group's coordinator.
    fn group_link(&self, group: &str) -> Result<Box<dyn Link>>;
}
