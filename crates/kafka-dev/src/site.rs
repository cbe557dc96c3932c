//! A broker's site: its directory, ports and configuration, from which its process is launched.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::cache::{create_private_dir, random, write};
use crate::clock::Deadline;
use crate::config::{LOCAL, Listeners, Ports, render, scram_options};
use crate::error::{Error, ErrorKind, Result};
use crate::jars::{Jars, run};
use crate::options::KafkaOptions;
use crate::ready;
use crate::secure::{Certificates, Secure};

/// How long a broker may take to answer, on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(90);

/// How many times other ports are chosen when somebody was faster.
const ATTEMPTS: usize = 5;

/// Where free ports are looked for: below those that systems give to outgoing connections, so that a killed broker finds
/// its own again.
const FREE_PORTS: std::ops::Range<u16> = 20_000..32_000;

/// What a broker is launched from, again and again.
#[derive(Debug)]
pub(crate) struct Site {
    jars: Jars,
    dir: PathBuf,
    ports: Ports,
    secure: Secure,
    bootstrap: String,
    options: KafkaOptions,
    certificates: Certificates,
}

impl Site {
    /// Writes the configuration, and formats the directory unless it holds a broker's data already.
    pub(crate) fn prepare(jars: Jars, dir: PathBuf, options: &KafkaOptions) -> Result<Self> {
        let certificates = Certificates::ensure(&jars)?;
        let ports = match options.port {
            Some(port) => following(port)?,
            None => free_ports()?,
        };
        let secure = certificates.secure(String::new());
        let mut site =
            Self { jars, dir, ports, secure, bootstrap: String::new(), options: options.clone(), certificates };
        site.configure(ports)?;
        if !site.dir.join("logs/meta.properties").is_file() {
            site.format()?;
        }
        Ok(site)
    }

    pub(crate) fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    pub(crate) fn secure(&self) -> &Secure {
        &self.secure
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.dir.join("broker.log")
    }

    fn configuration(&self) -> PathBuf {
        self.dir.join("server.properties")
    }

    fn configure(&mut self, ports: Ports) -> Result<()> {
        self.ports = ports;
        self.bootstrap = format!("{LOCAL}:{}", ports.plain);
        self.secure.address = format!("{LOCAL}:{}", ports.secure);
        let text = render(Listeners::local(ports), &self.dir, &self.certificates.store(), &self.options.properties);
        write(&self.configuration(), &text)
    }

    fn format(&self) -> Result<()> {
        let mut tool = self.jars.tool("kafka.tools.StorageTool");
        tool.args(["format", "-t", &cluster_id(), "-c"]).arg(self.configuration()).args(scram_options());
        run(&mut tool, ErrorKind::Broker, "cannot format the broker's directory")
    }

    /// Starts the process and waits until the broker answers. Ports that were our own choice are chosen anew when
    /// somebody else was faster to take them; `may_move` is false once clients may know them.
    pub(crate) fn launch(&mut self, may_move: bool, mut started: impl FnMut(&Child) -> Result<()>) -> Result<Child> {
        let mut attempt = 1;
        loop {
            let mut child = self.spawn()?;
            let ready = started(&child).and_then(|()| self.wait(&mut child));
            let Err(error) = ready else { return Ok(child) };
            let _ = child.kill();
            let _ = child.wait();
            let is_taken = self.tail().iter().any(|line| line.contains("Address already in use"));
            if !may_move || self.options.port.is_some() || !is_taken || attempt == ATTEMPTS {
                return Err(error);
            }
            attempt += 1;
            self.configure(free_ports()?)?;
        }
    }

    fn spawn(&self) -> Result<Child> {
        let path = self.log();
        let failed = |error| Error::io("cannot write", &path, error);
        let log = File::create(&path).map_err(failed)?;
        let heap = format!("-Xmx{}m", self.options.heap_mib);
        let options = [heap.as_str(), "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"];
        let mut command = self.jars.class("kafka.Kafka", &options);
        command.arg(self.configuration()).current_dir(&self.dir).process_group(0);
        command.stdin(Stdio::null()).stdout(log.try_clone().map_err(failed)?).stderr(log);
        command.spawn().map_err(|error| Error::new(ErrorKind::Java, "cannot run `java`").caused_by(error))
    }

    fn wait(&self, child: &mut Child) -> Result<()> {
        let waited = ready::wait(&self.bootstrap, Deadline::after(PATIENCE), || match child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => {
                Err(Error::new(ErrorKind::Broker, format!("the broker ended at its start: status=`{status}`")))
            }
            Err(error) => Err(Error::new(ErrorKind::Io, "cannot look after the broker's process").caused_by(error)),
        });
        waited.map_err(|error| self.with_log(&error))
    }

    /// The error with what the broker said last.
    fn with_log(&self, error: &Error) -> Error {
        let what = format!("{error}; log=`{}`, which ends with:\n{}", self.log().display(), self.tail().join("\n"));
        Error::new(error.kind(), what)
    }

    fn tail(&self) -> Vec<String> {
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        let lines = text.lines().collect::<Vec<_>>();
        lines.iter().skip(lines.len().saturating_sub(30)).map(|&line| line.to_owned()).collect()
    }
}

/// A new directory for a broker's data.
pub(crate) fn temporary_dir() -> Result<PathBuf> {
    let dir = std::env::temp_dir().join(format!("millpond-kafka-{:016x}", random()));
    create_private_dir(&dir)?;
    Ok(dir)
}

/// Sends a signal to a process that is ours and not yet waited for.
pub(crate) fn signal(process: u32, signal: Signal) -> Result<()> {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    let sent = pid.map_or(Err(rustix::io::Errno::SRCH), |pid| kill_process(pid, signal));
    sent.map_err(|errno| {
        Error::new(ErrorKind::Io, format!("cannot send {signal:?} to the broker: process=`{process}`"))
            .caused_by(errno.into())
    })
}

/// Waits until the process ends; `None` when it did not in time.
pub(crate) fn wait_for_end(child: &mut Child, patience: Duration) -> Result<Option<ExitStatus>> {
    let deadline = Deadline::after(patience);
    loop {
        let status = child.try_wait();
        let status =
            status.map_err(|error| Error::new(ErrorKind::Io, "cannot wait for the broker").caused_by(error))?;
        if status.is_some() || !deadline.pause() {
            return Ok(status);
        }
    }
}

/// The port and the next two.
fn following(port: u16) -> Result<Ports> {
    match (port, port.checked_add(1), port.checked_add(2)) {
        (1.., Some(secure), Some(controller)) => Ok(Ports { plain: port, secure, controller }),
        _ => Err(Error::new(ErrorKind::Usage, format!("a broker takes this port and the next two; port=`{port}`"))),
    }
}

/// Three ports that nobody listens on.
pub(crate) fn free_ports() -> Result<Ports> {
    let span = u64::from(FREE_PORTS.end - FREE_PORTS.start);
    let first = FREE_PORTS.start + u16::try_from(random() % span).unwrap_or(0);
    let order = (first..FREE_PORTS.end).chain(FREE_PORTS.start..first);
    let mut free = order.filter(|&port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok());
    match (free.next(), free.next(), free.next()) {
        (Some(plain), Some(secure), Some(controller)) => Ok(Ports { plain, secure, controller }),
        _ => Err(Error::new(ErrorKind::Io, format!("no three ports are free; range=`{FREE_PORTS:?}`"))),
    }
}

/// Sixteen random bytes in Kafka's spelling: 22 digits of base 64, the last of which holds only two bits.
pub(crate) fn cluster_id() -> String {
    const DIGITS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let digit = |_| DIGITS.iter().copied().cycle().nth((random() % 62) as usize).map_or('A', char::from);
    (0..21).map(digit).chain(['A']).collect()
}

/// Whether the directory's process with this number is a broker of that directory, and not a stranger that has got the
/// number since.
pub(crate) fn is_broker_of(process: u32, dir: &Path) -> bool {
    let configuration = dir.join("server.properties");
    let ps = std::process::Command::new("ps").args(["-ww", "-o", "args=", "-p", &process.to_string()]).output();
    let line = match fs::read(format!("/proc/{process}/cmdline")) {
        Ok(line) => line,
        Err(_) => ps.map(|output| output.stdout).unwrap_or_default(),
    };
    String::from_utf8_lossy(&line).contains(&*configuration.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_port_takes_the_next_two_with_it() {
        assert_eq!(following(19_092).unwrap(), Ports { plain: 19_092, secure: 19_093, controller: 19_094 });
        for port in [0, u16::MAX - 1, u16::MAX] {
            assert_eq!(following(port).unwrap_err().kind(), ErrorKind::Usage, "{port}");
        }
    }

    #[test]
    fn free_ports_differ_and_can_be_listened_on() {
        let Ports { plain, secure, controller } = free_ports().unwrap();
        assert!(plain != secure && secure != controller && plain != controller);
        assert!(FREE_PORTS.contains(&plain));
    }

    #[test]
    fn a_cluster_has_an_id_of_its_own() {
        let id = cluster_id();
        assert_eq!(id.len(), 22);
        assert_ne!(id, cluster_id());
    }

    #[test]
    fn a_stranger_is_not_taken_for_a_broker() {
        assert!(!is_broker_of(std::process::id(), Path::new("/no/such/dir")));
    }
}
