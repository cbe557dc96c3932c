//! All parts in one process: load and run beside each other on the embedded broker, then show.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use millpond::prelude::*;
use tempfile::TempDir;

use crate::data::Input;
use crate::error::{Error, ErrorKind, Result};
use crate::load::{self, Replayed};
use crate::options::{BrokerOption, DemoOptions, RunOptions};
use crate::ports::Ports;
use crate::run;
use crate::show::{self, Results};
use crate::view::View;

/// Replays the flights, counts them, and answers with the results once all of them are processed and committed.
///
/// # Errors
///
/// What the parts say; the first that fails ends the others. The signal to stop ends them too.
pub fn demo(options: &DemoOptions, ports: &Ports, view: &mut View) -> Result<Results> {
    let BrokerOption::Embedded = options.broker;
    let input = Input::find(&options.replay.data)?;
    let state = StateDir::prepare(&options.run)?;
    let broker = EmbeddedBroker::new();
    load::create_topics(&broker)?;
    let settings = Settings {
        // What was repartitioned is not kept for long: the embedded broker has it in memory.
        purge_interval: Duration::from_secs(1),
        state_dir: state.path().map(Path::to_owned),
        ..run::settings()
    };
    let app = run::start(broker.clone(), settings, &options.run, run::IDLE_AT_END, None)?;
    if let StateDir::Temporary(folder) = &state {
        view.note(&format!("state is in {}, removed at the end", folder.path().display()));
    }
    let replayed = Replayed::default();
    let stop_all = |result: Result<()>| result.inspect_err(|_| ports.stop.stop());
    let (loaded, ran) = thread::scope(|scope| {
        let loading = scope.spawn(|| stop_all(load::replay(&broker, &input, &options.replay, ports, &replayed)));
        let ran = stop_all(run::until_end_of_input(&app, &broker, Some(&replayed), ports, view));
        (loading.join().unwrap_or_else(|_| Err(Error::failed("the replay panicked"))), ran)
    });
    let closed = app.shutdown().map_err(|error| Error::failed("the application failed").caused_by(error.chain()));
    first_cause([closed, loaded, ran])?;
    let results = show::results(&broker, &ports.stop)?;
    drop(state);
    Ok(results)
}

/// A part that failed has stopped the others, so their `interrupted` is the last to be believed.
fn first_cause<const N: usize>(results: [Result<()>; N]) -> Result<()> {
    let errors = results.into_iter().filter_map(Result::err);
    errors.min_by_key(|error| error.kind() == ErrorKind::Interrupted).map_or(Ok(()), Err)
}

/// Where the application's files lie.
enum StateDir {
    /// The engine writes none.
    Without,
    /// The user's, which stays.
    Given(PathBuf),
    /// Ours, removed when this is dropped.
    Temporary(TempDir),
}

impl StateDir {
    fn prepare(options: &RunOptions) -> Result<Self> {
        let failed = |error| Error::failed("cannot make a temporary state directory").caused_by(error);
        match (&options.state_dir, options.engine.persistent()) {
            (Some(path), _) => check_empty(path).map(|()| Self::Given(path.clone())),
            (None, false) => Ok(Self::Without),
            (None, true) => {
                tempfile::Builder::new().prefix("millpond-flights-").tempdir().map_err(failed).map(Self::Temporary)
            }
        }
    }

    fn path(&self) -> Option<&Path> {
        match self {
            Self::Without => None,
            Self::Given(path) => Some(path),
            Self::Temporary(folder) => Some(folder.path()),
        }
    }
}

/// State of an earlier demo belongs to a broker that is gone: it fits no later one.
fn check_empty(path: &Path) -> Result<()> {
    let first = match fs::read_dir(path) {
        Ok(mut entries) => entries.next().transpose(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    };
    match first {
        Ok(None) => Ok(()),
        Ok(Some(_)) => {
            let error =
                Error::failed("the state directory is not empty, and the embedded broker begins anew each time");
            Err(error.with("state_dir", path.display()).with("remedy", "give an empty or a new directory"))
        }
        Err(error) => {
            Err(Error::failed("cannot read the state directory").with("state_dir", path.display()).caused_by(error))
        }
    }
}
