//! The test driver: the real tasks of a topology over an in-process broker, on one thread, by a clock that a test moves.
//!
//! ```
//! use millpond_testkit::Driver;
//! use millpond_topology::{Consumed, I64, Materialized, Produced, Topology, Utf8};
//!
//! let mut topology = Topology::builder();
//! topology
//!     .stream("flights", Consumed::with(Utf8, Utf8))
//!     .group_by_key()
//!     .count(Materialized::named("counts"))
//!     .to_stream()
//!     .to("totals", Produced::with(Utf8, I64));
//!
//! let driver = Driver::builder(topology.build().unwrap()).build()?;
//! let flights = driver.input("flights", Utf8, Utf8);
//! let totals = driver.output("totals", Utf8, I64);
//!
//! flights.pipe("UA", "EWR", 1_000)?;
//! flights.pipe("UA", "JFK", 2_000)?;
//! assert_eq!(totals.read_key_values(), [("UA".to_owned(), 1), ("UA".to_owned(), 2)]);
//! assert_eq!(driver.store("counts", Utf8, I64).get("UA"), Some(2));
//!
//! driver.restart()?;
//! flights.pipe("UA", "LGA", 3_000)?;
//! assert_eq!(totals.read().unwrap().value, 3);
//! # Ok::<(), millpond_runtime::Error>(())
//! ```
//!
//! # What is real and what is not
//!
//! Everything that a record meets is what an application runs: the group member, workers, tasks, overlays, changelogs,
//! transactions, restore. Only the broker is [in this process](millpond_broker_mem), and time stands still.
//!
//! * **Commit**: after each `pipe` the driver steps until nothing is left to do, and commits, until all that came of it,
//!   through repartition topics as well, is committed. With [`DriverBuilder::manual_commit`] only [`Driver::commit`] and
//!   the commit interval do.
//! * **Caching** is off, so that every update is forwarded and seen; [`DriverBuilder::caching`] turns it on. Then the
//!   updates of one commit interval are coalesced: use [`InputTopic::send`] and [`Driver::run`] to have several.
//! * **Time** moves by [`Driver::advance`] alone. (If the runtime itself waits, as between two attempts after an injected
//!   fault, the driver lets that time pass, and no more.) Timeouts of the group and of transactions are out of reach unless
//!   a setting says otherwise.
//! * **State** survives [`Driver::restart`], and as far as it was flushed [`Driver::crash`], on a
//!   [simulated disk](millpond_store_mem::SimulatedDisk).
//!
//! # Errors and panics
//!
//! What the application gets wrong is an [`Error`](millpond_runtime::Error) with its whole chain. What the test itself gets
//! wrong (a topic or store that is not there, a serde that does not fit an output) panics at the test's line.

mod builder;
mod input;
mod output;
mod process;
mod record;
mod rows;
mod store;

use std::cell::{RefCell, RefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use millpond_broker_api::Broker;
use millpond_broker_mem::{EmbeddedBroker, ManualClock};
use millpond_runtime::{Counter, MemorySettings, MetricsRegistry, Result, TaskId, TaskState};
use millpond_store_mem::SimulatedDisk;
use millpond_topology::{Serde, Topology};

pub(crate) use rows::each as each_row;

pub use builder::DriverBuilder;
pub use input::InputTopic;
pub use output::OutputTopic;
use process::Process;
pub use record::{RawRecord, TestRecord};
pub use store::{SessionStore, Store, VersionedStore, WindowStore};

/// Runs a topology for a test; see the [module](self).
///
/// A handle: clones, topics and stores made from it belong to the same driver. It stays on its thread.
#[derive(Clone)]
pub struct Driver(Rc<RefCell<Process>>);

impl Driver {
    /// Begins a driver for a topology.
    pub fn builder(topology: Topology) -> DriverBuilder {
        DriverBuilder::new(topology)
    }

    fn process(&self) -> RefMut<'_, Process> {
        self.0.borrow_mut()
    }

    /// A topic to pipe typed records into.
    ///
    /// # Panics
    ///
    /// If there is no such topic.
    #[track_caller]
    pub fn input<K: 'static, V: 'static>(
        &self,
        topic: &str,
        key: impl Serde<K>,
        value: impl Serde<V>,
    ) -> InputTopic<K, V> {
        let topic = self.process().known_topic(topic);
        InputTopic::new(self.clone(), topic, Arc::new(key), Arc::new(value))
    }

    /// A topic to read typed records from, from its beginning: read-committed, each record once.
    ///
    /// An internal topic goes by its name with or without the application's id.
    ///
    /// # Panics
    ///
    /// If there is no such topic.
    #[track_caller]
    pub fn output<K: 'static, V: 'static>(
        &self,
        topic: &str,
        key: impl Serde<K>,
        value: impl Serde<V>,
    ) -> OutputTopic<K, V> {
        let topic = self.process().known_topic(topic);
        OutputTopic::new(self.broker(), topic, Arc::new(key), Arc::new(value))
    }

    /// A key-value store, to look into; there are [`Driver::window_store`], [`Driver::session_store`] and
    /// [`Driver::versioned_store`] for the others.
    ///
    /// # Panics
    ///
    /// If the topology has no such store, or it is of another kind.
    #[track_caller]
    pub fn store<K: 'static, V: 'static>(&self, name: &str, key: impl Serde<K>, value: impl Serde<V>) -> Store<K, V> {
        Store::new(self, name, key, value)
    }

    /// A window store, to look into; its keys' serde is that of the keys without their windows.
    ///
    /// # Panics
    ///
    /// If the topology has no such store, or it is of another kind.
    #[track_caller]
    pub fn window_store<K: 'static, V: 'static>(
        &self,
        name: &str,
        key: impl Serde<K>,
        value: impl Serde<V>,
    ) -> WindowStore<K, V> {
        WindowStore::new(self, name, key, value)
    }

    /// A session store, to look into; its keys' serde is that of the keys without their sessions.
    ///
    /// # Panics
    ///
    /// If the topology has no such store, or it is of another kind.
    #[track_caller]
    pub fn session_store<K: 'static, V: 'static>(
        &self,
        name: &str,
        key: impl Serde<K>,
        value: impl Serde<V>,
    ) -> SessionStore<K, V> {
        SessionStore::new(self, name, key, value)
    }

    /// A versioned store, to look into.
    ///
    /// # Panics
    ///
    /// If the topology has no such store, or it is of another kind.
    #[track_caller]
    pub fn versioned_store<K: 'static, V: 'static>(
        &self,
        name: &str,
        key: impl Serde<K>,
        value: impl Serde<V>,
    ) -> VersionedStore<K, V> {
        VersionedStore::new(self, name, key, value)
    }

    /// All rows of a store of any kind as bytes: their partition, their keys as in the changelog, their values as in the store;
    /// sorted by partition, then as the store sorts them.
    ///
    /// # Panics
    ///
    /// If the topology has no such store.
    #[track_caller]
    pub fn raw_store(&self, name: &str) -> Vec<(i32, Vec<u8>, Vec<u8>)> {
        store::raw_of(self, name)
    }

    /// Pipes a record of bytes: writes it, then does what `pipe` does. Without a partition the key decides, as for a
    /// Kafka producer; a record without a key goes to partition 0.
    ///
    /// # Panics
    ///
    /// If there is no such topic or partition.
    #[track_caller]
    pub fn pipe(&self, topic: &str, partition: Option<i32>, record: &RawRecord) -> Result {
        self.send(topic, partition, record)?;
        self.settle()
    }

    /// Writes a record of bytes to a topic and processes nothing.
    ///
    /// # Panics
    ///
    /// If there is no such topic or partition.
    #[track_caller]
    pub fn send(&self, topic: &str, partition: Option<i32>, record: &RawRecord) -> Result {
        self.process().send(topic, partition, record)
    }

    /// Steps until there is nothing left to do. Commits nothing but what is due by the commit interval or asked for by a
    /// processor.
    pub fn run(&self) -> Result {
        self.process().run()
    }

    /// Commits, and processes what came of it through repartition topics, until all of it is committed.
    pub fn commit(&self) -> Result {
        self.process().commit()
    }

    /// What a pipe ends with: run, and commit unless that is manual.
    fn settle(&self) -> Result {
        self.process().settle()
    }

    /// Moves the wall clock on in one leap: punctuations that were missed collapse into one call, as after a long pause.
    pub fn advance(&self, by: Duration) -> Result {
        self.process().advance(by)
    }

    /// Changes the memory budget of the running process, as `App::set_memory` does; a restart begins with the settings again.
    pub fn set_memory(&self, settings: &MemorySettings) -> Result {
        self.process().set_memory(settings)
    }

    /// Stops in good order and starts again; state is kept.
    pub fn restart(&self) -> Result {
        self.process().restart()
    }

    /// Dies without a commit, a flush or a word to the group, and starts again with what was durable.
    pub fn crash(&self) -> Result {
        self.process().crash()
    }

    /// Stops in good order, loses all local state and starts again: stores come back from their changelogs.
    pub fn restart_without_state(&self) -> Result {
        self.process().restart_without_state()
    }

    /// Stops in good order. Piping again is an error until [`Driver::restart`].
    pub fn stop(&self) -> Result {
        self.process().stop()
    }

    /// All records of a topic that readers may see, as bytes: partition by partition, in order. An internal topic goes by
    /// its name with or without the application's id.
    ///
    /// # Panics
    ///
    /// If there is no such topic.
    #[track_caller]
    pub fn records(&self, topic: &str) -> Vec<RawRecord> {
        let topic = self.process().known_topic(topic);
        self.process().records(&topic)
    }

    /// The tasks that run, and their states.
    pub fn tasks(&self) -> Vec<(TaskId, TaskState)> {
        self.process().tasks()
    }

    /// What was counted and measured since the driver was built; restarts do not reset it.
    pub fn metrics(&self) -> Arc<MetricsRegistry> {
        self.process().metrics()
    }

    /// A counter, summed over all tasks and workers.
    pub fn count(&self, counter: Counter) -> u64 {
        self.metrics().total(counter)
    }

    /// The offset that is committed for an input partition: the next one to read.
    pub fn committed(&self, topic: &str, partition: i32) -> Option<i64> {
        self.process().committed(topic, partition)
    }

    /// The broker, for faults and for what the driver does not show.
    pub fn broker(&self) -> EmbeddedBroker {
        self.process().broker.clone()
    }

    /// The clock. [`Driver::advance`] moves it and steps the runtime; this only tells the time.
    pub fn clock(&self) -> ManualClock {
        self.process().clock.clone()
    }

    /// The disk that the default engine lies on, for faults.
    pub fn disk(&self) -> SimulatedDisk {
        self.process().disk.clone()
    }

    /// The wall clock, in milliseconds since 1970.
    pub fn wall_ms(&self) -> i64 {
        self.process().wall_ms()
    }
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.try_borrow() {
            Ok(process) => f.debug_struct("Driver").field("process", &*process).finish(),
            Err(_) => f.debug_struct("Driver").finish_non_exhaustive(),
        }
    }
}

/// The error of a client of the driver's own.
fn client_error(op: &'static str) -> impl Fn(millpond_broker_api::Error) -> millpond_runtime::Error {
    move |e| millpond_runtime::Error::broker(op, e)
}

/// The partition count of a topic.
fn partitions(broker: &EmbeddedBroker, topic: &str) -> Result<Option<i32>> {
    let mut admin = broker.admin().map_err(client_error("make an admin client"))?;
    let found = admin.describe(&[topic]).map_err(client_error("describe a topic"))?;
    Ok(found.into_iter().flatten().next().map(|info| info.partitions))
}
