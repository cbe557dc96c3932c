//! How a driver is put together.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use millpond_broker_mem::{ManualClock, Options};
use millpond_runtime::{Error, ErrorHandler, ErrorKind, Guarantee, Result, Settings};
use millpond_store_api::Engine;
use millpond_topology::Topology;

use super::Driver;
use super::process::{Commit, Plan, Process};

/// Longer than any test lets pass: what is set to it happens when a test asks for it.
const FOREVER: Duration = Duration::from_secs(200 * 365 * 86_400);

/// Collects what a driver needs; [`Driver::builder`] makes it, [`DriverBuilder::build`] ends it.
#[must_use = "nothing runs before `build`"]
pub struct DriverBuilder {
    topology: Topology,
    settings: Settings,
    refused: Option<Error>,
    engines: Vec<Arc<dyn Engine>>,
    error_handler: Option<Arc<dyn ErrorHandler>>,
    topics: Vec<(String, i32)>,
    partitions: i32,
    create_topics: bool,
    commit: Commit,
    start_ms: i64,
}

impl DriverBuilder {
    pub(super) fn new(topology: Topology) -> Self {
        let settings = Settings {
            commit_interval: Some(FOREVER / 2),
            cache_max: Some(0),
            memory_budget: Some(256 << 20),
            session_timeout: FOREVER,
            heartbeat_interval: Some(FOREVER / 4),
            rebalance_timeout: FOREVER / 2,
            max_poll_interval: FOREVER,
            transaction_timeout: FOREVER,
            poll: Duration::ZERO,
            ..Settings::new("test")
        };
        Self {
            topology,
            settings,
            refused: None,
            engines: Vec::new(),
            error_handler: None,
            topics: Vec::new(),
            partitions: 1,
            create_topics: true,
            commit: Commit::AfterEachPipe,
            start_ms: 0,
        }
    }

    /// `application.id`, the beginning of the names of internal topics. Default `test`.
    pub fn application_id(mut self, id: &str) -> Self {
        id.clone_into(&mut self.settings.application_id);
        self
    }

    /// Who decides what becomes of records that fail, as `AppBuilder::error_handler`.
    pub fn error_handler(mut self, handler: impl ErrorHandler + 'static) -> Self {
        self.error_handler = Some(Arc::new(handler));
        self
    }

    /// A topic with its partition count. Source and sink topics and those for dead letters that are not named here are made
    /// with one partition, or as many as [`DriverBuilder::partitions`] says. One that no part of the topology reads or writes is an
    /// error of [`DriverBuilder::build`], unless a sink chooses its topics when it runs.
    pub fn topic(mut self, name: &str, partitions: i32) -> Self {
        self.topics.push((name.to_owned(), partitions));
        self
    }

    /// The partition count of topics that are not named. Default 1.
    pub fn partitions(mut self, partitions: i32) -> Self {
        self.partitions = partitions;
        self
    }

    /// Makes no topics but those that [`DriverBuilder::topic`] names, as a broker that does not create them by itself.
    pub fn only_named_topics(mut self) -> Self {
        self.create_topics = false;
        self
    }

    /// `processing.guarantee`. Default at-least-once.
    pub fn guarantee(mut self, guarantee: Guarantee) -> Self {
        self.settings.guarantee = guarantee;
        self
    }

    /// A setting by its Kafka Streams name. A wrong one is an error of [`DriverBuilder::build`].
    pub fn setting(mut self, key: &str, value: &str) -> Self {
        if let Err(e) = self.settings.set(key, value) {
            self.refused.get_or_insert(e);
        }
        self
    }

    /// `statestore.cache.max.bytes`: turns caching on, so that the updates of a commit interval are coalesced.
    pub fn caching(mut self, bytes: u64) -> Self {
        self.settings.cache_max = Some(bytes);
        self
    }

    /// Where stores lie; the first engine is that of all stores that name none. Default: in memory, on a simulated disk.
    pub fn engine(mut self, engine: impl Engine + 'static) -> Self {
        self.engines.push(Arc::new(engine));
        self
    }

    /// As [`DriverBuilder::engine`].
    #[cfg(feature = "store-conformance")]
    pub(crate) fn shared_engine(mut self, engine: Arc<dyn Engine>) -> Self {
        self.engines.push(engine);
        self
    }

    /// `state.dir`, to look into it or to have it prepared. Default: a directory that is deleted with the driver.
    pub fn state_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.settings.state_dir = Some(dir.into());
        self
    }

    /// Commits only when [`Driver::commit`] says so, a processor asks for it, or `commit.interval.ms` has passed (which by
    /// default it never has).
    pub fn manual_commit(mut self) -> Self {
        self.commit = Commit::Manual;
        self
    }

    /// Commits after each record that a task takes, from a repartition topic as well: as Kafka Streams' `TopologyTestDriver`
    /// does. With caching, that a record's own updates are coalesced is all that can be seen of it then.
    pub fn commit_each_record(mut self) -> Self {
        self.commit = Commit::AfterEachRecord;
        self
    }

    /// The wall clock at the start, in milliseconds since 1970 (UTC). Default 0.
    pub fn start_time(mut self, wall_ms: i64) -> Self {
        self.start_ms = wall_ms;
        self
    }

    /// Makes the topics and starts the topology. Returns when all its tasks run.
    ///
    /// # Errors
    ///
    /// Those of an application's start: wrong settings, missing topics or engines, a supplier that fails.
    pub fn build(self) -> Result<Driver> {
        if let Some(refused) = self.refused {
            return Err(refused);
        }
        let clock = ManualClock::starting_at(self.start_ms);
        // A test's records may be of any year, whatever its clock shows.
        let options = Options {
            clock: Some(clock.clone()),
            max_session_timeout: FOREVER,
            timestamp_after_max_ms: i64::MAX,
            ..Options::default()
        };
        let plan = Plan {
            topology: self.topology,
            settings: self.settings,
            engines: self.engines,
            error_handler: self.error_handler,
            commit: self.commit,
        };
        let mut process = Process::new(plan, clock, options)?;
        process.check_topics(&self.topics)?;
        let mut topics = self.topics;
        if self.create_topics {
            for name in process.external_topics() {
                if !topics.iter().any(|(known, _)| *known == name) {
                    topics.push((name, self.partitions));
                }
            }
        }
        process.create_topics(&topics)?;
        process.start()?;
        Ok(Driver(Rc::new(RefCell::new(process))))
    }
}

impl std::fmt::Debug for DriverBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DriverBuilder")
            .field("settings", &self.settings)
            .field("topics", &self.topics)
            .finish_non_exhaustive()
    }
}

/// A temporary state directory that could not be made.
pub(super) fn no_state_dir(e: std::io::Error) -> Error {
    Error::new(ErrorKind::StateDir, "make a state directory for the driver").caused_by(e)
}
