//! A broker that outlives the process that started it: for a developer's own use, found again by its port.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;

use crate::cache::{cache, create_private_dir, remove_dir, write};
use crate::clock::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::jars::Jars;
use crate::options::KafkaOptions;
use crate::secure::Secure;
use crate::site::{Site, is_broker_of, signal};

/// How long a broker may take to stop by itself.
const PATIENCE: Duration = Duration::from_secs(60);

/// A broker that runs on when our process ends. Its data lies in the cache, in a directory named after its port.
#[derive(Debug)]
pub struct Background {
    options: KafkaOptions,
    dir: PathBuf,
}

/// How to reach a broker that runs in the background.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Running {
    /// `HOST:PORT` of the plaintext listener.
    pub bootstrap: String,
    /// The listener with TLS and SASL.
    pub secure: Secure,
    /// What the broker writes: warnings and errors.
    pub log: PathBuf,
}

impl Background {
    /// The default port.
    pub const PORT: u16 = 19_092;

    /// The broker of this port, whether it runs or not.
    pub fn at(port: u16) -> Result<Self> {
        let options = KafkaOptions { port: Some(port), heap_mib: 1024, ..KafkaOptions::default() };
        Ok(Self { options, dir: cache()?.join("kafka-data").join(port.to_string()) })
    }

    /// Starts it on fresh data.
    pub fn up(&self) -> Result<Running> {
        self.refuse_running()?;
        let jars = Jars::resolve()?;
        remove_dir(&self.dir)?;
        create_private_dir(&self.dir)?;
        self.launch(jars)
    }

    /// Starts it again on the data that it kept.
    pub fn start(&self) -> Result<Running> {
        self.refuse_running()?;
        if !self.dir.is_dir() {
            let what = format!("no data of a broker is kept: bring one up first; port=`{}`", self.port());
            return Err(Error::new(ErrorKind::Usage, what));
        }
        self.launch(Jars::resolve()?)
    }

    /// Ends it at once (SIGKILL); its data stays.
    pub fn kill(&self) -> Result<()> {
        self.end(Signal::KILL)
    }

    /// Stops it in good order and removes its data.
    pub fn down(&self) -> Result<()> {
        self.end(Signal::TERM)?;
        remove_dir(&self.dir)
    }

    fn launch(&self, jars: Jars) -> Result<Running> {
        let mut site = Site::prepare(jars, self.dir.clone(), &self.options)?;
        // Its number is known before it answers, so that a failure of ours leaves nothing that cannot be ended.
        site.launch(false, |child| write(&self.pid_file(), &child.id().to_string()))?;
        Ok(Running { bootstrap: site.bootstrap().to_owned(), secure: site.secure().clone(), log: site.log() })
    }

    fn end(&self, how: Signal) -> Result<()> {
        let Some(process) = self.process() else { return Ok(()) };
        signal(process, how)?;
        let deadline = Deadline::after(PATIENCE);
        while self.process().is_some() {
            if !deadline.pause() {
                let what = format!("the broker did not end within a minute; process=`{process}`");
                return Err(Error::new(ErrorKind::Broker, what));
            }
        }
        Ok(())
    }

    /// The number of its process, if it runs.
    fn process(&self) -> Option<u32> {
        let process = fs::read_to_string(self.pid_file()).ok()?.trim().parse().ok()?;
        is_broker_of(process, &self.dir).then_some(process)
    }

    fn refuse_running(&self) -> Result<()> {
        match self.process() {
            None => Ok(()),
            Some(process) => {
                let what = format!("a broker runs there already; port=`{}`, process=`{process}`", self.port());
                Err(Error::new(ErrorKind::Usage, what))
            }
        }
    }

    fn pid_file(&self) -> PathBuf {
        self.dir.join("pid")
    }

    fn port(&self) -> u16 {
        self.options.port.unwrap_or(Self::PORT)
    }
}
