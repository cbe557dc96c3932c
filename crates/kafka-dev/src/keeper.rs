//! The keeper: a tiny shell beside a broker that ends it, and removes its data, when our process is killed.
//!
//! A process that dies by SIGKILL runs no destructor. But the system closes its pipes: the keeper reads from one that
//! only we hold, and acts at its end. It runs in a group of its own, so that what kills our group leaves it alive.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::error::{Error, ErrorKind, Result};

/// Each line is the process to end, 0 for none; the last one counts. The argument is what to remove, if anything. A
/// killed process may still write for a moment, so what could not be removed is tried once more.
const SCRIPT: &str = r#"
pid=0
while read -r line; do pid=$line; done
[ "$pid" = 0 ] || kill -KILL "$pid"
[ -z "$1" ] || rm -rf -- "$1" || { sleep 1; rm -rf -- "$1"; }
"#;

#[derive(Debug)]
pub(crate) struct Keeper {
    shell: Child,
    /// `None` only while it is dropped.
    pipe: Option<ChildStdin>,
}

impl Keeper {
    /// Starts one that removes the directory at the end.
    pub(crate) fn start(remove: Option<&Path>) -> Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "keeper"]).arg(remove.unwrap_or(Path::new("")));
        command.current_dir("/").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let what = "cannot run `sh`, which ends the broker when this process is killed";
        let mut shell = command.spawn().map_err(|error| Error::new(ErrorKind::Io, what).caused_by(error))?;
        let pipe = shell.stdin.take();
        Ok(Self { shell, pipe })
    }

    /// Tells it which process to end.
    pub(crate) fn watch(&mut self, process: u32) -> Result<()> {
        let written = self.pipe.as_mut().map_or(Ok(()), |pipe| writeln!(pipe, "{process}"));
        written.map_err(|error| Error::new(ErrorKind::Io, "the broker's keeper is gone").caused_by(error))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.pipe = None;
        // It ends by itself now; this only collects it.
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    /// A process that would live for long.
    fn sleeper() -> Child {
        Command::new("sleep").arg("600").spawn().unwrap()
    }

    #[test]
    fn when_the_pipe_ends_the_last_process_dies_and_the_directory_goes() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("data");
        std::fs::create_dir_all(dir.join("logs")).unwrap();
        let (mut first, mut second) = (sleeper(), sleeper());
        let mut keeper = Keeper::start(Some(&dir)).unwrap();
        keeper.watch(first.id()).unwrap();
        keeper.watch(second.id()).unwrap();
        drop(keeper);
        assert_eq!(second.wait().unwrap().signal(), Some(9));
        assert_eq!(first.try_wait().unwrap(), None);
        assert!(!dir.exists() && temp.path().exists());
        first.kill().unwrap();
        first.wait().unwrap();
    }

    #[test]
    fn a_process_that_is_no_longer_ours_is_left_alone() {
        let mut stranger = sleeper();
        let mut keeper = Keeper::start(None).unwrap();
        keeper.watch(stranger.id()).unwrap();
        keeper.watch(0).unwrap();
        drop(keeper);
        assert_eq!(stranger.try_wait().unwrap(), None);
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }
}
