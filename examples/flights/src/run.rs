//! The middle part: runs the application, and waits until it has processed all input.

use std::path::Path;
use std::time::Duration;

use millpond::broker::Broker;
use millpond::prelude::*;
use millpond::runtime::{AppBuilder, TaskProgress};

use crate::error::{Error, Result};
use crate::lag::LagMeter;
use crate::load::Replayed;
use crate::options::{EngineOption, GuaranteeOption, RunOptions};
use crate::ports::Ports;
use crate::show::TotalsReader;
use crate::topology::{APPLICATION, topology};
use crate::view::{Restoring, Snapshot, View};

/// How often the lag is measured.
const TICK: Duration = Duration::from_millis(50);
/// Totals are seen after a tenth of a second under either guarantee, and what was repartitioned is not kept for long: the
/// embedded broker has it in memory.
const SETTINGS: [(&str, &str); 2] = [("commit.interval.ms", "100"), ("repartition.purge.interval.ms", "1000")];

/// Starts the application; `state_dir` is for an engine that writes files.
///
/// # Errors
///
/// The engine is not part of this program, or what [`App`] says: topics, settings, state directory.
pub fn start<B: Broker + 'static>(broker: B, options: &RunOptions, state_dir: Option<&Path>) -> Result<App> {
    let mut builder = App::builder(APPLICATION)
        .broker(broker)
        .guarantee(match options.guarantee {
            GuaranteeOption::AtLeastOnce => Guarantee::AtLeastOnce,
            GuaranteeOption::ExactlyOnce => Guarantee::ExactlyOnce,
        })
        .threads(options.threads as usize);
    for (key, value) in SETTINGS {
        builder = builder.set(key, value).map_err(not_started)?;
    }
    if let Some(path) = state_dir {
        builder = builder.state_dir(path);
    }
    let builder = match options.engine {
        EngineOption::Mem => builder.engine(Memory::default()),
        EngineOption::Rocks => with_rocks(builder)?,
    };
    builder.start(topology()?).map_err(not_started)
}

#[cfg(feature = "rocks")]
fn with_rocks(builder: AppBuilder) -> Result<AppBuilder> {
    use millpond::runtime::{Settings, engine_memory};

    // The engine's part of the memory budget that the application takes the other part of.
    let memory_bytes = engine_memory(&Settings::new(APPLICATION)).map_err(not_started)?;
    let rocks = Rocks::new(RocksSettings { memory_bytes, ..RocksSettings::default() });
    let failed = |error| Error::failed("cannot set up RocksDB").caused_by(error);
    Ok(builder.engine(rocks.map_err(failed)?))
}

#[cfg(not(feature = "rocks"))]
fn with_rocks(_: AppBuilder) -> Result<AppBuilder> {
    let error = Error::new(crate::error::ErrorKind::Usage, "this program was built without RocksDB");
    Err(error.with("remedy", "cargo xtask demo --engine rocks"))
}

/// Waits until all that stands in the sources is processed and committed, drawing how far it is. `replayed` is the replay
/// beside it, whose end is waited for first; without one all input is there already.
///
/// # Errors
///
/// The application failed, the broker's errors, or the signal to stop.
pub fn until_end(
    app: &App,
    broker: &dyn Broker,
    replayed: Option<&Replayed>,
    ports: &Ports,
    view: &mut View,
) -> Result<()> {
    let mut meter = LagMeter::open(broker)?;
    let mut reader = TotalsReader::open(broker)?;
    loop {
        if matches!(app.state(), AppState::Failed | AppState::Stopped) {
            let error = app.wait().err().map(|error| Error::failed("the application failed").caused_by(error.chain()));
            return Err(error.unwrap_or_else(|| Error::failed("the application was stopped")));
        }
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
                totals: reader.totals(),
                is_last: is_over,
            });
        }
        if is_over {
            return Ok(());
        }
        ports.stop.wait(TICK)?;
    }
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
