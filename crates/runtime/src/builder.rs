//! How an application is put together: settings, a broker, engines, and then a topology.

use std::path::PathBuf;
use std::sync::Arc;

use millpond_broker_api::{Broker, Connector};
use millpond_store_api::Engine;
use millpond_topology::Topology;

use crate::app::App;
use crate::error::{Error, ErrorKind, Result};
use crate::handler::ErrorHandler;
use crate::instance::InstanceSpec;
use crate::metrics::MetricsRegistry;
use crate::ports::Ports;
use crate::settings::{Guarantee, Settings};

/// Collects what an application needs; [`App::builder`] makes it, [`AppBuilder::start`] ends it.
#[must_use = "nothing runs before `start`"]
pub struct AppBuilder {
    settings: Settings,
    cluster: Option<Cluster>,
    engines: Vec<Arc<dyn Engine>>,
    ports: Ports,
    error_handler: Option<Arc<dyn ErrorHandler>>,
    metrics: Arc<MetricsRegistry>,
}

/// Where the cluster comes from.
enum Cluster {
    Made(Arc<dyn Broker>),
    ToConnect(Box<dyn Connector>),
}

impl AppBuilder {
    pub(crate) fn new(application_id: &str) -> Self {
        let metrics = Arc::new(MetricsRegistry::default());
        let ports = Ports { metrics: metrics.clone(), ..Ports::default() };
        let settings = Settings::new(application_id);
        Self { settings, cluster: None, engines: Vec::new(), ports, error_handler: None, metrics }
    }

    /// The cluster, made by the caller.
    pub fn broker(mut self, broker: impl Broker + 'static) -> Self {
        self.cluster = Some(Cluster::Made(Arc::new(broker)));
        self
    }

    /// The cluster that the settings name ([`Settings::client_configs`]: `bootstrap.servers`, security, client settings).
    pub fn connect(mut self, connector: impl Connector + 'static) -> Self {
        self.cluster = Some(Cluster::ToConnect(Box::new(connector)));
        self
    }

    /// Where stores lie. The first engine is that of all stores which do not name another; more can be given.
    pub fn engine(mut self, engine: impl Engine + 'static) -> Self {
        self.engines.push(Arc::new(engine));
        self
    }

    /// `processing.guarantee`.
    pub fn guarantee(mut self, guarantee: Guarantee) -> Self {
        self.settings.guarantee = guarantee;
        self
    }

    /// `num.stream.threads`: how many workers process tasks.
    pub fn threads(mut self, workers: usize) -> Self {
        self.settings.workers = workers;
        self
    }

    /// `state.dir`: where persistent engines and the process id live.
    pub fn state_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.settings.state_dir = Some(dir.into());
        self
    }

    /// Any setting by its Kafka Streams name; an unknown one is an error that names the nearest.
    pub fn set(mut self, key: &str, value: &str) -> Result<Self> {
        self.settings.set(key, value)?;
        Ok(self)
    }

    /// All settings at once, in place of what was set before; the application's id included.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Time, randomness and threads of your own. Its metrics port is used, too: [`App::metrics`] stays empty then.
    pub fn ports(mut self, ports: Ports) -> Self {
        self.ports = ports;
        self
    }

    /// Who decides what becomes of records that fail, in place of what the settings say.
    pub fn error_handler(mut self, handler: impl ErrorHandler + 'static) -> Self {
        self.error_handler = Some(Arc::new(handler));
        self
    }

    /// Starts it. Wrong settings, missing topics and an unusable state directory are errors here.
    pub fn start(self, topology: Topology) -> Result<App> {
        let failed = || {
            Error::new(ErrorKind::Config, "start the application").with("application.id", &self.settings.application_id)
        };
        let broker = match (&self.cluster, self.settings.client_configs.first()) {
            (None, _) => {
                let remedy = "give the builder a broker, such as `EmbeddedBroker::new()`, or a way to connect to one";
                return Err(failed().with("missing", "broker").remedy(remedy));
            }
            (Some(Cluster::Made(_)), Some((key, _))) => {
                let remedy =
                    "a broker that is made beforehand has its settings: give it this one, or let the builder `connect`";
                return Err(failed().with("setting without effect", key).remedy(remedy));
            }
            (Some(Cluster::Made(broker)), None) => Arc::clone(broker),
            (Some(Cluster::ToConnect(connector)), _) => {
                connector.connect(&self.settings.client_configs).map_err(|e| failed().caused_by(e))?
            }
        };
        let mut ports = self.ports;
        ports.error_handler = self.error_handler.or(ports.error_handler);
        let spec = InstanceSpec { settings: self.settings, topology, broker, engines: self.engines, ports };
        App::start(spec, self.metrics)
    }
}

impl std::fmt::Debug for AppBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AppBuilder").field("settings", &self.settings).finish_non_exhaustive()
    }
}
