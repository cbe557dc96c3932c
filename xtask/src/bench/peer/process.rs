//! A running program that tells its events as lines of JSON.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// The fields of an event or a measurement.
pub(super) type Fields = Map<String, Value>;

/// A child that does not outlive this.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Process {
    pub(super) fn start(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let program = command.get_program().to_owned();
        let failed = |error| Error::failed(format!("cannot start {program:?}: {error}"));
        let mut child = command.spawn().map_err(failed)?;
        let out = child.stdout.take().expect("it was asked to be piped");
        Ok(Self { child, lines: BufReader::new(out) })
    }

    /// The next event, or `None` at the end. Lines that are no events are left out.
    pub(super) fn event(&mut self) -> Result<Option<Fields>> {
        loop {
            let mut line = String::new();
            let read = self.lines.read_line(&mut line);
            if read.map_err(|error| Error::failed(format!("cannot read what a program says: {error}")))? == 0 {
                return Ok(None);
            }
            if let Some(event) = parse(&line) {
                return Ok(Some(event));
            }
        }
    }

    /// The next event of a name; an error if there is none.
    pub(super) fn until(&mut self, mut wanted: impl FnMut(&Fields) -> bool) -> Result<Fields> {
        while let Some(event) = self.event()? {
            if wanted(&event) {
                return Ok(event);
            }
        }
        self.wait()?;
        Err(Error::failed("a program has ended before it told what was waited for"))
    }

    /// All events up to the end, which must be a good one.
    pub(super) fn finish(mut self) -> Result<Vec<Fields>> {
        let mut events = Vec::new();
        while let Some(event) = self.event()? {
            events.push(event);
        }
        self.wait()?;
        Ok(events)
    }

    /// Kills it with SIGKILL, and waits until it is gone.
    pub(super) fn kill(mut self) -> Result<()> {
        let gone = self.child.kill().and_then(|()| self.child.wait());
        gone.map(drop).map_err(|error| Error::failed(format!("cannot kill a program: {error}")))
    }

    fn wait(&mut self) -> Result<()> {
        let status = self.child.wait().map_err(|error| Error::failed(format!("cannot wait for a program: {error}")))?;
        if status.success() {
            Ok(())
        } else {
            Err(Error::failed(format!("a program that is measured failed: {status}")))
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has mostly ended by itself, and then there is nobody to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn parse(line: &str) -> Option<Fields> {
    match serde_json::from_str(line) {
        Ok(Value::Object(fields)) => Some(fields),
        Ok(_) | Err(_) => None,
    }
}

/// Whether the event has this name.
pub(super) fn is(event: &Fields, name: &str) -> bool {
    event.get("event").and_then(Value::as_str) == Some(name)
}

/// A number of an event.
pub(super) fn number(event: &Fields, field: &str) -> Option<f64> {
    event.get(field).and_then(Value::as_f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::start(command).unwrap()
    }

    #[test]
    fn events_are_read_and_other_lines_left_out() {
        let events = shell(r#"echo '{"event":"a","n":1}'; echo noise; echo '{"event":"b"}'"#).finish().unwrap();
        assert_eq!(events.len(), 2);
        let first = events.first().unwrap();
        assert!(is(first, "a") && !is(first, "b"));
        assert_eq!((number(first, "n"), number(first, "m")), (Some(1.0), None));
    }

    #[test]
    fn a_bad_end_is_an_error() {
        let error = shell("exit 3").finish().unwrap_err();
        assert!(error.message().unwrap().contains('3'), "{error:?}");
        assert!(shell("true").until(|_| true).is_err());
    }

    #[test]
    fn a_process_that_goes_on_for_ever_can_be_killed() {
        let mut process = shell(r#"while :; do echo '{"event":"progress"}'; done"#);
        process.until(|event| is(event, "progress")).unwrap();
        process.kill().unwrap();
    }
}
