//! A broker process of one's own: started, killed, frozen, stopped, and started again on what it kept.

use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use rustix::process::Signal;

use crate::cache::remove_dir;
use crate::error::{Error, ErrorKind, Result};
use crate::jars::Jars;
use crate::keeper::Keeper;
use crate::options::KafkaOptions;
use crate::secure::Secure;
use crate::site::{Site, signal, temporary_dir, wait_for_end};

/// How long a broker may take to stop by itself.
const PATIENCE: Duration = Duration::from_secs(60);

/// A broker process that lives as long as this value.
///
/// Dropping it kills the process and removes its data (but not a directory that the options named). The same happens when
/// our own process is killed: a tiny shell beside it sees to that.
#[derive(Debug)]
pub struct Kafka {
    site: Site,
    child: Option<Child>,
    keeper: Keeper,
    /// What to remove in the end.
    temporary: Option<PathBuf>,
}

impl Kafka {
    /// Formats a directory, starts a broker on it and waits until it answers: some four seconds on two cores. The first
    /// one on a machine also fetches the jars and makes the certificates.
    ///
    /// ```no_run
    /// use millpond_kafka_dev::{Kafka, KafkaOptions};
    ///
    /// # fn main() -> millpond_kafka_dev::Result<()> {
    /// let mut kafka = Kafka::up(&KafkaOptions::default())?;
    /// let address = kafka.bootstrap().to_owned();
    /// kafka.kill()?;
    /// kafka.start()?;
    /// assert_eq!(kafka.bootstrap(), address);
    /// # Ok(())
    /// # }
    /// ```
    pub fn up(options: &KafkaOptions) -> Result<Self> {
        let jars = Jars::resolve()?;
        let (dir, temporary) = match &options.data {
            Some(dir) => {
                std::fs::create_dir_all(dir).map_err(|error| Error::io("cannot create", dir, error))?;
                (dir.canonicalize().map_err(|error| Error::io("cannot find", dir, error))?, None)
            }
            None => {
                let dir = temporary_dir()?;
                (dir.clone(), Some(dir))
            }
        };
        // From here on somebody removes the directory, whatever happens.
        let keeper = Keeper::start(temporary.as_deref())?;
        let site = Site::prepare(jars, dir, options)?;
        let mut kafka = Self { site, child: None, keeper, temporary };
        kafka.launch(true)?;
        Ok(kafka)
    }

    fn launch(&mut self, may_move: bool) -> Result<()> {
        let keeper = &mut self.keeper;
        let launched = self.site.launch(may_move, |child| keeper.watch(child.id()));
        match launched {
            Ok(child) => self.child = Some(child),
            Err(error) => {
                self.keeper.watch(0)?;
                return Err(error);
            }
        }
        Ok(())
    }

    /// `HOST:PORT` of the plaintext listener. It stays the same when the broker is started again.
    #[must_use]
    pub fn bootstrap(&self) -> &str {
        self.site.bootstrap()
    }

    /// How to reach the listener with TLS and SASL, as [`ADMIN`](crate::ADMIN) or [`LIMITED`](crate::LIMITED).
    #[must_use]
    pub fn secure(&self) -> &Secure {
        self.site.secure()
    }

    /// The number of the process, `None` while none runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// What the broker has written since it was last started: warnings and errors.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.site.log()
    }

    /// Ends the process at once (SIGKILL); its data stays. Nothing happens if none runs.
    pub fn kill(&mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        let killed = child.kill().and_then(|()| child.wait());
        // Its number may soon be a stranger's.
        self.keeper.watch(0)?;
        killed.map_err(|error| Error::new(ErrorKind::Io, "cannot kill the broker").caused_by(error))?;
        Ok(())
    }

    /// Ends the process in good order (SIGTERM) and waits for its end; its data stays. Nothing happens if none runs. A
    /// broker that does not stop within a minute is killed, and that is an error.
    pub fn stop(&mut self) -> Result<()> {
        let Some(child) = &mut self.child else { return Ok(()) };
        signal(child.id(), Signal::TERM)?;
        // A frozen process takes no other signal.
        signal(child.id(), Signal::CONT)?;
        let status = wait_for_end(child, PATIENCE)?;
        self.kill()?;
        match status {
            Some(_) => Ok(()),
            None => Err(Error::new(ErrorKind::Broker, "the broker did not stop within a minute and was killed")),
        }
    }

    /// Starts the broker again on what it kept, at the same addresses, and waits until it answers.
    pub fn start(&mut self) -> Result<()> {
        if self.child.is_some() {
            return Err(Error::new(ErrorKind::Usage, "the broker runs already: kill or stop it first"));
        }
        self.launch(false)
    }

    /// Freezes the process (SIGSTOP): connections stay open and nothing is answered.
    pub fn pause(&mut self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets a frozen process go on (SIGCONT).
    pub fn resume(&mut self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, what: Signal) -> Result<()> {
        let stopped = || Error::new(ErrorKind::Usage, "no broker runs: start it first");
        signal(self.pid().ok_or_else(stopped)?, what)
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        // Nobody is left to be told; the keeper tries once more.
        let _ = self.kill();
        let _ = self.temporary.as_deref().map_or(Ok(()), |dir: &Path| remove_dir(dir));
    }
}
