//! The broker: a cheap handle of a cluster that lives in this process.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use millpond_broker_api::membership::Link;
use millpond_broker_api::{
    Admin, AdminOptions, Broker, Clock, Consumer, ConsumerOptions, GroupOffsets, Producer, ProducerOptions, Result,
};

use crate::admin::MemAdmin;
use crate::clock::ManualClock;
use crate::consumer::MemConsumer;
use crate::faults::{Faults, OpKind, Verdict};
use crate::link::MemLink;
use crate::offsets::MemOffsets;
use crate::producer::MemProducer;
use crate::state::{Shared, Time};

/// What can be set of a broker; the defaults are those of a small Kafka cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// A clock that a test moves; `None`: the system's.
    pub clock: Option<ManualClock>,
    /// How long the markers of a transaction take after the answer to its commit or abort.
    pub marker_lag: Duration,
    /// How long the first member of an empty group waits for others (`group.initial.rebalance.delay.ms`).
    pub initial_rebalance_delay: Duration,
    /// The shortest session timeout that is allowed (`group.min.session.timeout.ms`).
    pub min_session_timeout: Duration,
    /// The longest session timeout that is allowed (`group.max.session.timeout.ms`).
    pub max_session_timeout: Duration,
    /// After this time a link gives up a request whose answer was lost (`request.timeout.ms`).
    pub request_timeout: Duration,
    /// How many records a poll lends at most.
    pub max_poll_records: usize,
    /// How many bytes a poll lends at most, if it is more than one record.
    pub max_poll_bytes: usize,
    /// How many bytes of unanswered records a producer takes before it says that it is full.
    pub buffer_bytes: usize,
    /// How many milliseconds a record's time may lie ahead of the clock, in topics that do not say it
    /// (`log.message.timestamp.after.max.ms`).
    pub timestamp_after_max_ms: i64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: None,
            marker_lag: Duration::ZERO,
            initial_rebalance_delay: Duration::ZERO,
            min_session_timeout: Duration::from_secs(6),
            max_session_timeout: Duration::from_secs(1_800),
            request_timeout: Duration::from_secs(30),
            max_poll_records: 500,
            max_poll_bytes: 1 << 20,
            buffer_bytes: 1 << 20,
            timestamp_after_max_ms: 3_600_000,
        }
    }
}

/// A cluster of one broker that lives in this process and is gone with its last handle.
///
/// Clones are handles of the same cluster, for any thread.
///
/// ```
/// use millpond_broker_api::{Broker, NewTopic};
/// use millpond_broker_mem::EmbeddedBroker;
///
/// let broker = EmbeddedBroker::new();
/// let topic = NewTopic { name: "flights", partitions: 4, replication: None, configs: &[("retention.ms", "-1")] };
/// broker.admin()?.create_topics(&[topic])?.remove(0)?;
/// # Ok::<(), millpond_broker_api::Error>(())
/// ```
#[derive(Clone)]
pub struct EmbeddedBroker {
    pub(crate) shared: Arc<Shared>,
}

impl EmbeddedBroker {
    /// A broker on the system's clock.
    pub fn new() -> Self {
        Self::with_options(Options::default())
    }

    /// A broker on a clock that a test moves; its clients never wait.
    pub fn with_clock(clock: ManualClock) -> Self {
        Self::with_options(Options { clock: Some(clock), ..Options::default() })
    }

    /// A broker with options.
    pub fn with_options(options: Options) -> Self {
        Self { shared: Arc::new(Shared::new(options)) }
    }

    /// The broker's clock.
    pub fn clock(&self) -> Arc<dyn Clock> {
        match &self.shared.time {
            Time::System(clock) => Arc::new(*clock),
            Time::Manual(clock) => Arc::new(clock.clone()),
        }
    }

    /// Asks this policy before everything that happens; it replaces the former one.
    pub fn set_faults(&self, faults: impl Faults + 'static) {
        self.shared.lock().faults.policy = Some(Box::new(faults));
    }

    /// Plans a fault for the next operation of a kind. Planned faults are used up in order, before the policy is asked.
    pub fn plan(&self, op: OpKind, verdict: Verdict) {
        self.shared.lock().faults.push(op, verdict);
    }

    /// Cuts all links of a group: requests in flight get no answer, and every link reports
    /// [`Disconnected`](millpond_broker_api::membership::Incoming::Disconnected).
    pub fn disconnect(&self, group: &str) {
        let now = self.shared.now();
        self.shared.lock().links.disconnect_group(group, now);
        self.shared.notify();
    }

    /// Forgets a group's committed offsets, as Kafka does when it had no members for `offsets.retention.minutes`. False: it has
    /// members, or there is no such group.
    pub fn expire_group(&self, group: &str) -> bool {
        self.shared.lock().groups.expire(group)
    }

    /// Ends all faults, planned ones and the policy.
    pub fn clear_faults(&self) {
        self.shared.lock().faults = crate::faults::Plan::default();
    }
}

impl Default for EmbeddedBroker {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for EmbeddedBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedBroker").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

impl Broker for EmbeddedBroker {
    fn name(&self) -> String {
        "embedded".to_owned()
    }

    fn consumer(&self, options: &ConsumerOptions) -> Result<Box<dyn Consumer>> {
        Ok(Box::new(MemConsumer::new(self.shared.clone(), options.isolation)))
    }

    fn producer(&self, options: &ProducerOptions<'_>) -> Result<Box<dyn Producer>> {
        Ok(Box::new(MemProducer::new(self.shared.clone(), options)))
    }

    fn offsets(&self) -> Result<Box<dyn GroupOffsets>> {
        Ok(Box::new(MemOffsets { shared: self.shared.clone() }))
    }

    /// What this broker cannot do now it will not do a moment later, however patient the caller is.
    fn admin_with(&self, _: &AdminOptions) -> Result<Box<dyn Admin>> {
        Ok(Box::new(MemAdmin { shared: self.shared.clone() }))
    }

    fn group_link(&self, group: &str) -> Result<Box<dyn Link>> {
        Ok(Box::new(MemLink::new(self.shared.clone(), group)))
    }
}
