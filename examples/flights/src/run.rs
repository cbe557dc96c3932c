//! The middle part: runs the application, and waits until it has processed all input.

use std::sync::Arc;
use std::time::Duration;

use millpond::broker::Broker;
use millpond::prelude::*;
use millpond::runtime::{self, AppBuilder, ClientConfigs, MetricsRegistry, TaskProgress};
use millpond_example_custom_engine::CustomEngine;

use crate::cluster;
use crate::error::{Error, ErrorKind, Result};
use crate::events::EventLog;
use crate::lag::LagMeter;
use crate::load::Replayed;
use crate::options::{EngineOption, GuaranteeOption, RunCommand, RunOptions};
use crate::ports::Ports;
use crate::reader::TableReader;
use crate::topology::{APPLICATION, CARRIER_TOTALS, topology};
use crate::view::{Restoring, Snapshot, View};

/// How often the lag is measured.
const TICK: Duration = Duration::from_millis(50);

/// The last hours are over when nothing has come for so long. A broker may be away, or what writes the flights: this is longer,
/// or the flights that come then would be late.
const IDLE: Duration = Duration::from_secs(300);
/// The same where the end of the input is known to be the end, but for pauses between two flights of a slow replay (`--rate`).
pub const IDLE_AT_END: Duration = Duration::from_secs(2);

/// Runs the application on a Kafka cluster, until it is told to stop or, if so wished, has counted all there is.
///
/// # Errors
///
/// A wrong option or setting, what [`start`] says, or the application failed.
pub fn run(options: &RunCommand, ports: &Ports, view: &mut View) -> Result<()> {
    let mut settings = cluster::settings(&options.cluster)?;
    let broker = cluster::connect(&settings)?;
    // The cluster has them now.
    settings.client_configs = ClientConfigs::default();
    settings.state_dir = options.run.state_dir.clone().or(settings.state_dir);
    if options.run.engine.persistent() && settings.state_dir.is_none() {
        let error = Error::new(ErrorKind::Usage, "this engine keeps its files in a state directory, and none is given");
        return Err(error.with("remedy", "--state-dir DIR"));
    }
    let events = options.events.as_ref().map(|file| EventLog::open(file, Arc::clone(&ports.clock))).transpose()?;
    let events = events.map(Arc::new);
    let idle_after = if options.until_end { IDLE_AT_END } else { IDLE };
    let app = start(broker.clone(), settings, &options.run, idle_after, events.clone())?;
    if !options.until_end {
        view.note(&format!("`{APPLICATION}` runs on {}; Ctrl-C ends it in good order", broker.name()));
    }
    let ended = watch(&app, &broker, options.until_end, ports, view);
    let closed = app.shutdown().map_err(|error| Error::failed("the application failed").caused_by(error.chain()));
    if let Some(events) = events {
        events.note("stopped", serde_json::json!({ "failed": closed.is_err() }));
    }
    if closed.is_ok() {
        view.note("stopped; all that was counted is committed");
    }
    // To be stopped is how this ends, unless all was to be counted.
    match ended {
        Err(error) if error.kind() == ErrorKind::Interrupted && !options.until_end => closed,
        ended => closed.and(ended),
    }
}

/// What suits these flights; the user's settings go before.
pub fn settings() -> Settings {
    const CENTURY_MS: i64 = 100 * 365 * 24 * 3_600_000;
    Settings {
        // Totals are seen after a tenth of a second under either guarantee.
        commit_interval: Some(Duration::from_millis(100)),
        // A broker deletes what is older than a changelog keeps, by its own clock: this is for flights that were old when they
        // were written.
        window_additional_retention_ms: CENTURY_MS,
        ..Settings::new(APPLICATION)
    }
}

/// Starts the application with these settings; what `options` says goes before. `idle_after`: see [`topology`].
///
/// # Errors
///
/// The engine is not part of this program, or what [`App`] says: topics, settings, state directory.
pub fn start<B: Broker + 'static>(
    broker: B,
    settings: Settings,
    options: &RunOptions,
    idle_after: Duration,
    events: Option<Arc<EventLog>>,
) -> Result<App> {
    let settings = Settings {
        guarantee: match options.guarantee {
            GuaranteeOption::AtLeastOnce => Guarantee::AtLeastOnce,
            GuaranteeOption::ExactlyOnce => Guarantee::ExactlyOnce,
        },
        workers: options.threads as usize,
        ..settings
    };
    let mut ports = runtime::Ports { metrics: Arc::new(MetricsRegistry::default()), ..runtime::Ports::default() };
    if let Some(events) = events {
        ports.observer = events;
    }
    let builder = App::builder(APPLICATION).broker(broker).ports(ports);
    let builder = match options.engine {
        EngineOption::Mem => builder.engine(Memory::default()),
        EngineOption::Rocks => with_rocks(builder)?,
        EngineOption::Custom => builder.engine(CustomEngine::default()),
    };
    builder.settings(settings).start(topology(idle_after)?).map_err(not_started)
}

#[cfg(feature = "rocks")]
fn with_rocks(builder: AppBuilder) -> Result<AppBuilder> {
    let rocks = Rocks::new(RocksSettings::default());
    let failed = |error| Error::failed("cannot set up RocksDB").caused_by(error);
    Ok(builder.engine(rocks.map_err(failed)?))
}

#[cfg(not(feature = "rocks"))]
fn with_rocks(_: AppBuilder) -> Result<AppBuilder> {
    let error = Error::new(ErrorKind::Usage, "this program was built without RocksDB");
    Err(error.with("remedy", "cargo xtask demo --engine rocks"))
}

/// Watches until the end of the input, or of the application.
fn watch(app: &App, broker: &dyn Broker, until_end: bool, ports: &Ports, view: &mut View) -> Result<()> {
    if until_end {
        return until_end_of_input(app, broker, None, ports, view);
    }
    loop {
        check(app)?;
        ports.stop.wait(TICK)?;
    }
}

/// Waits until all that stands in the sources is processed and committed and the last hours are written, drawing how far it is. `replayed` is the replay
/// beside it, whose end is waited for first; without one all input is there already.
///
/// # Errors
///
/// The application failed, the broker's errors, or the signal to stop.
pub fn until_end_of_input(
    app: &App,
    broker: &dyn Broker,
    replayed: Option<&Replayed>,
    ports: &Ports,
    view: &mut View,
) -> Result<()> {
    let mut meter = LagMeter::open(broker)?;
    let mut reader = TableReader::open(broker, CARRIER_TOTALS, Utf8)?;
    loop {
        check(app)?;
        // Asked before the lag is: what is replayed after the question is not missed.
        let is_replayed = replayed.is_none_or(Replayed::is_complete);
        let lag = meter.measure()?;
        let is_over = is_replayed && lag.is_complete;
        let now = ports.clock.now();
        if is_over || view.is_due(now) {
            reader.catch_up()?;
            view.draw(&Snapshot {
                now,
                state: format!("{:?}", app.state()).to_lowercase(),
                replayed: replayed.map(Replayed::records),
                processed: lag.processed,
                lag: lag.remaining,
                restoring: restoring(app),
                totals: reader.rows(),
                is_last: is_over,
            });
        }
        if is_over {
            return Ok(());
        }
        ports.stop.wait(TICK)?;
    }
}

/// Whether the application still runs.
fn check(app: &App) -> Result<()> {
    if !matches!(app.state(), AppState::Failed | AppState::Stopped) {
        return Ok(());
    }
    let error = app.wait().err().map(|error| Error::failed("the application failed").caused_by(error.chain()));
    Err(error.unwrap_or_else(|| Error::failed("the application was stopped")))
}

fn restoring(app: &App) -> Vec<Restoring> {
    let tasks = app.progress().tasks.into_iter().filter(|task| task.restore_remaining > 0 || task.waiting.is_some());
    let restoring = |task: TaskProgress| Restoring {
        task: task.id.to_string(),
        remaining: task.restore_remaining,
        waiting: task.waiting,
    };
    tasks.map(restoring).collect()
}

fn not_started(error: millpond::Error) -> Error {
    // The chain has the remedy, which the causes one by one have not.
    Error::failed("cannot start the application").with("application", APPLICATION).caused_by(error.chain())
}
