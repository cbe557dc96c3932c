//! The brokers of a cluster: who leads, who coordinates, and a connection to each as needed.

use std::collections::BTreeMap;
use std::sync::Arc;

use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::{MetadataResponsePartition, MetadataResponseTopic};
use kafka_protocol::messages::{
    BrokerId, FindCoordinatorRequest, FindCoordinatorResponse, MetadataRequest, MetadataResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use millpond_broker_api::membership::code;
use millpond_broker_api::{Error, ErrorKind, Result};

use super::connection::Connection;
use super::{Address, Api, Interrupt, text};
use crate::deadline::Deadline;
use crate::settings::WireSettings;

/// A broker's number.
pub(crate) type Node = i32;

/// What one client knows of a cluster. Its connections are its own: a broker works on one request per connection at a
/// time, so one that waits would hold up others.
#[derive(Debug)]
pub(crate) struct Cluster {
    settings: Arc<WireSettings>,
    interrupt: Arc<Interrupt>,
    /// By number, as the brokers advertise themselves.
    addresses: BTreeMap<Node, Address>,
    connections: BTreeMap<Node, Connection>,
    /// A connection to a broker whose number is not known, the first of all.
    seed: Option<Connection>,
    /// Which of the addresses is tried first.
    first: usize,
    controller: Option<Node>,
    coordinators: BTreeMap<String, Node>,
    /// By topic and partition, of topics whose partitions all had a leader.
    leaders: BTreeMap<String, BTreeMap<i32, Leader>>,
}

/// Who leads a partition, and since which epoch: one that was deposed without noticing is told by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leader {
    pub(crate) node: Node,
    pub(crate) epoch: i32,
}

/// Whom a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To<'a> {
    /// Whoever answers.
    Any,
    /// This broker.
    Node(Node),
    /// The coordinator of a group, which has been found.
    Coordinator(&'a str),
    /// The controller, if there is one that clients may know.
    Controller,
}

impl Cluster {
    pub(crate) fn new(settings: Arc<WireSettings>) -> Self {
        Self::interruptible(settings, Arc::default())
    }

    /// A cluster whose calls another thread may end.
    pub(crate) fn interruptible(settings: Arc<WireSettings>, interrupt: Arc<Interrupt>) -> Self {
        Self {
            settings,
            interrupt,
            addresses: BTreeMap::new(),
            connections: BTreeMap::new(),
            seed: None,
            first: 0,
            controller: None,
            coordinators: BTreeMap::new(),
            leaders: BTreeMap::new(),
        }
    }

    pub(crate) fn settings(&self) -> &WireSettings {
        &self.settings
    }

    /// When a call that begins now is given up.
    pub(crate) fn request_deadline(&self) -> Deadline {
        Deadline::after(self.settings.request_limit)
    }

    /// Whether some broker can be reached that is new enough for all that this crate does.
    pub(crate) fn check(&mut self) -> Result<()> {
        let connection = self.take_any(&self.request_deadline())?;
        let address = connection.address().clone();
        let suffices = connection.versions().suffice().map_err(|e| e.with("address", address));
        self.put(connection);
        suffices?;
        // Only now does a broker that wants a login end the connection.
        self.metadata(&[]).map(drop)
    }

    /// Makes sure that there is a connection for such a call. An error of a call that follows leaves open what became of it.
    pub(crate) fn connect(&mut self, to: To<'_>, deadline: &Deadline) -> Result<()> {
        let connection = self.take(to, deadline)?;
        self.put(connection);
        Ok(())
    }

    /// Sends a request and waits for its answer. After an error the connection is gone; the next call makes a new one.
    pub(crate) fn call<R: Api>(
        &mut self,
        to: To<'_>,
        deadline: Deadline,
        request: impl FnOnce(i16) -> R,
    ) -> Result<R::Response> {
        let mut connection = self.take(to, &deadline)?;
        let answer = connection.call(deadline, request)?;
        self.put(connection);
        Ok(answer)
    }

    /// Asks for topics and brokers. No topic comes into being by this.
    pub(crate) fn metadata(&mut self, topics: &[&str]) -> Result<MetadataResponse> {
        let name = |name: &&str| MetadataRequestTopic::default().with_name(Some(TopicName(text(name))));
        let request = MetadataRequest::default()
            .with_topics(Some(topics.iter().map(name).collect()))
            .with_allow_auto_topic_creation(false);
        let answer = self.call(To::Any, self.request_deadline(), |_| request)?;
        for broker in &answer.brokers {
            if let Some(address) = Address::advertised(&broker.host, broker.port) {
                self.learn(broker.node_id.0, address);
            }
        }
        for topic in &answer.topics {
            self.learn_leaders(topic);
        }
        self.controller = self.addresses.contains_key(&answer.controller_id.0).then_some(answer.controller_id.0);
        Ok(answer)
    }

    /// Who led a partition when that was asked last.
    pub(crate) fn leader(&self, topic: &str, partition: i32) -> Option<Leader> {
        self.leaders.get(topic)?.get(&partition).copied()
    }

    /// The leaders are others, or cannot be reached.
    pub(crate) fn forget_leaders(&mut self, topic: &str) {
        self.leaders.remove(topic);
    }

    fn learn_leaders(&mut self, topic: &MetadataResponseTopic) {
        let Some(name) = &topic.name else { return };
        let led = |p: &MetadataResponsePartition| {
            let leader = Leader { node: p.leader_id.0, epoch: p.leader_epoch };
            (leader.node >= 0).then_some((p.partition_index, leader))
        };
        match topic.partitions.iter().map(led).collect::<Option<BTreeMap<_, _>>>() {
            Some(leaders) if topic.error_code == code::NONE => drop(self.leaders.insert(name.to_string(), leaders)),
            _ => drop(self.leaders.remove(name.as_str())),
        }
    }

    /// Asks who coordinates a group; answers with the error code.
    pub(crate) fn find_coordinator(&mut self, group: &str, deadline: Deadline) -> Result<i16> {
        self.coordinators.remove(group);
        let request = |version| {
            let request = FindCoordinatorRequest::default();
            if version >= 4 { request.with_coordinator_keys(vec![text(group)]) } else { request.with_key(text(group)) }
        };
        let found = Found::of(self.call(To::Any, deadline, request)?);
        if found.code == code::NONE {
            let Some(address) = Address::advertised(&found.host, found.port) else {
                return Ok(code::COORDINATOR_NOT_AVAILABLE);
            };
            self.adopt_coordinator(group, found.node.0, address);
        }
        Ok(found.code)
    }

    /// Takes somebody else's word for who coordinates a group.
    pub(crate) fn adopt_coordinator(&mut self, group: &str, node: Node, address: Address) {
        self.learn(node, address);
        self.coordinators.insert(group.to_owned(), node);
    }

    /// The group's coordinator, if it is known and has not been given up since.
    pub(crate) fn coordinator(&self, group: &str) -> Option<(Node, &Address)> {
        let node = self.coordinators.get(group)?;
        Some((*node, self.addresses.get(node)?))
    }

    /// The coordinator is another one, or gone.
    pub(crate) fn forget_coordinator(&mut self, group: &str) {
        self.coordinators.remove(group);
    }

    /// The controller is another one.
    pub(crate) fn forget_controller(&mut self) {
        self.controller = None;
    }

    /// Takes down where a broker can be reached. A connection to where it was before is of no use.
    fn learn(&mut self, node: Node, address: Address) {
        if self.addresses.get(&node).is_some_and(|known| *known != address) {
            self.connections.remove(&node);
        }
        self.addresses.insert(node, address);
    }

    fn take(&mut self, to: To<'_>, deadline: &Deadline) -> Result<Connection> {
        match to {
            To::Any => self.take_any(deadline),
            To::Node(node) => self.take_node(node, deadline),
            To::Coordinator(group) => match self.coordinators.get(group) {
                Some(node) => self.take_node(*node, deadline),
                None => Err(Error::new(ErrorKind::Retriable, "find a coordinator").with("group", group)),
            },
            To::Controller => match self.controller {
                Some(node) => self.take_node(node, deadline),
                None => self.take_any(deadline),
            },
        }
    }

    /// Puts a connection back after use.
    fn put(&mut self, connection: Connection) {
        match self.addresses.iter().find(|(_, address)| *address == connection.address()) {
            Some((node, _)) => drop(self.connections.insert(*node, connection)),
            None => self.seed = Some(connection),
        }
    }

    fn take_node(&mut self, node: Node, deadline: &Deadline) -> Result<Connection> {
        if let Some(connection) = self.connections.remove(&node).filter(Connection::is_usable) {
            return Ok(connection);
        }
        let Some(address) = self.addresses.get(&node) else {
            return Err(Error::new(ErrorKind::Retriable, "connect to a broker").with("broker", node));
        };
        let is_there = |seed: &mut Connection| seed.address() == address;
        if let Some(seed) = self.seed.take_if(is_there).filter(Connection::is_usable) {
            return Ok(seed);
        }
        Connection::open(address, &self.settings, &self.interrupt, deadline)
    }

    fn take_any(&mut self, deadline: &Deadline) -> Result<Connection> {
        while let Some((_, connection)) = self.connections.pop_first() {
            if connection.is_usable() {
                return Ok(connection);
            }
        }
        if let Some(seed) = self.seed.take().filter(Connection::is_usable) {
            return Ok(seed);
        }
        self.open_any(deadline)
    }

    /// Tries all addresses in turn while there is time, those of the settings first, and the next time what follows. The first
    /// error that time does not mend is told; else the last.
    fn open_any(&mut self, deadline: &Deadline) -> Result<Connection> {
        let configured = self.settings.bootstrap.iter();
        let advertised = self.addresses.values().filter(|address| !self.settings.bootstrap.contains(address));
        let all: Vec<_> = configured.chain(advertised).collect();
        let count = all.len();
        let (mut told, mut tried): (Option<Error>, Vec<String>) = (None, Vec::new());
        for (at, address) in all.iter().enumerate().cycle().skip(self.first % count.max(1)).take(count) {
            match Connection::open(address, &self.settings, &self.interrupt, deadline) {
                Ok(connection) => {
                    self.first = at;
                    return Ok(connection);
                }
                Err(e) => {
                    self.first = at + 1;
                    tried.push(address.to_string());
                    told = told.filter(|told| told.kind() == ErrorKind::Fatal).or(Some(e));
                }
            }
            if deadline.is_over() {
                break;
            }
        }
        let told = told.unwrap_or_else(|| Error::new(ErrorKind::Fatal, "connect to a broker"));
        Err(if count > 1 { told.with("tried", tried.join(",")) } else { told })
    }
}

/// The answer to FindCoordinator, whatever its version.
struct Found {
    code: i16,
    node: BrokerId,
    host: StrBytes,
    port: i32,
}

impl Found {
    fn of(answer: FindCoordinatorResponse) -> Self {
        match answer.coordinators.into_iter().next() {
            Some(c) => Self { code: c.error_code, node: c.node_id, host: c.host, port: c.port },
            None => Self { code: answer.error_code, node: answer.node_id, host: answer.host, port: answer.port },
        }
    }
}
