//! The runtime's error, and in one table what is done about each kind.

use std::borrow::Cow;
use std::fmt;

use millpond_broker_api as broker;
use millpond_store_api as store;
use millpond_topology as topology;

use crate::state::{StateError, StateErrorKind};

/// What went wrong.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// A setting, topic or topology is wrong: mend it and start again.
    Config,
    /// The broker does not answer, or asks for patience: it is tried again.
    Broker,
    /// A local store failed: the task is opened and restored anew.
    Store,
    /// The state directory cannot be used: see the message.
    StateDir,
    /// A record, or a user's function on it, failed, and the error policy is to stop.
    Record,
    /// This instance is no longer in the group: it gives up its tasks and joins again.
    MembershipLost,
    /// The producer was fenced: it is made anew, and the tasks go back to what is committed.
    ProducerFenced,
    /// The transaction was aborted: the tasks go back to what is committed.
    Aborted,
    /// Nobody knows whether the transaction was committed: the broker is asked, and the tasks go back to what is committed.
    UnknownOutcome,
    /// The broker refuses for good (authorisation, wrong use).
    Fatal,
    /// A simulated process died at a fail point; never in production.
    Crashed,
}

/// Under this an error of a graph says what the reader can do about it.
pub(crate) const FIX: &str = "fix";

/// What the worker does about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Disposition {
    /// Do the same again later.
    Retry,
    /// Open and restore the task anew.
    RestoreTask,
    /// Go back to what is committed, with all tasks of the worker.
    Rollback,
    /// Give up all tasks and join the group again.
    Rejoin,
    /// Stop the application and show the error.
    Shutdown,
}

impl ErrorKind {
    /// The one table of what follows from an error.
    pub const fn disposition(self) -> Disposition {
        match self {
            Self::Broker => Disposition::Retry,
            Self::Store => Disposition::RestoreTask,
            Self::Aborted | Self::UnknownOutcome | Self::ProducerFenced => Disposition::Rollback,
            Self::MembershipLost => Disposition::Rejoin,
            Self::Config | Self::StateDir | Self::Record | Self::Fatal | Self::Crashed => Disposition::Shutdown,
        }
    }
}

/// An error of the runtime: kind, operation, context and cause. One pointer wide; cheap to clone.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    op: &'static str,
    context: Vec<(&'static str, String)>,
    remedy: Option<Cow<'static, str>>,
    source: Option<std::sync::Arc<dyn std::error::Error + Send + Sync>>,
}

/// The result of a runtime operation.
pub type Result<T = ()> = std::result::Result<T, Error>;

impl Error {
    /// An error of the operation `op`, a short verb phrase such as `open task`.
    #[cold]
    pub fn new(kind: ErrorKind, op: &'static str) -> Self {
        Self(Box::new(Inner { kind, op, context: Vec::new(), remedy: None, source: None }))
    }

    /// Adds a fact for the message. Never a record's key or value.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl fmt::Display) -> Self {
        self.0.context.push((key, value.to_string()));
        self
    }

    /// Adds what the reader can do about it.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<Cow<'static, str>>) -> Self {
        self.0.remedy = Some(remedy.into());
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into().into());
        self
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What the worker does about it.
    pub fn disposition(&self) -> Disposition {
        self.0.kind.disposition()
    }

    /// The message with all its causes, each behind a colon, and the remedy. `{error:#}` prints the same; `{error}` leaves the
    /// causes out.
    pub fn chain(&self) -> String {
        format!("{self:#}")
    }

    /// A broker's error of the operation `op`.
    #[cold]
    pub fn broker(op: &'static str, source: broker::Error) -> Self {
        let kind = match source.kind() {
            broker::ErrorKind::Retriable => ErrorKind::Broker,
            broker::ErrorKind::Abortable => ErrorKind::Aborted,
            broker::ErrorKind::MembershipLost => ErrorKind::MembershipLost,
            broker::ErrorKind::ProducerFenced => ErrorKind::ProducerFenced,
            broker::ErrorKind::Refused => ErrorKind::Record,
            broker::ErrorKind::UnknownTopic => ErrorKind::Config,
            _ => ErrorKind::Fatal,
        };
        Self::new(kind, op).caused_by(source)
    }

    /// A store's error of the operation `op`. A full or failing device, damaged files and refused writes all lead to the
    /// same: the shard is opened at its durable offset and restored.
    #[cold]
    pub fn store(op: &'static str, source: store::Error) -> Self {
        let kind = match source.kind() {
            store::ErrorKind::Invalid | store::ErrorKind::Unsupported => ErrorKind::Config,
            _ => ErrorKind::Store,
        };
        Self::new(kind, op).caused_by(source)
    }
}

/// A full or failing device is as if a store had failed: tried again. All else is the user's to mend.
impl From<StateError> for Error {
    #[cold]
    fn from(source: StateError) -> Self {
        let kind = match source.kind() {
            StateErrorKind::Full | StateErrorKind::Io => ErrorKind::Store,
            _ => ErrorKind::StateDir,
        };
        Self::new(kind, "use the state directory").caused_by(source)
    }
}

impl From<topology::BuildError> for Error {
    #[cold]
    fn from(source: topology::BuildError) -> Self {
        Self::new(ErrorKind::Config, "build the topology").caused_by(source)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed", self.0.op)?;
        self.0.context.iter().try_for_each(|(k, v)| write!(f, " {k}=`{v}`"))?;
        let mut source = std::error::Error::source(self).filter(|_| f.alternate());
        while let Some(cause) = source {
            write!(f, ": {cause}")?;
            source = cause.source();
        }
        self.0.remedy.iter().try_for_each(|remedy| write!(f, "; {remedy}"))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.chain())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|e| e as _)
    }
}

const _: () = {
    const fn send_sync<T: Send + Sync>() {}
    send_sync::<Error>();
    assert!(size_of::<Result<()>>() == size_of::<usize>(), "an error travels in a register");
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_state_directory_is_tried_again_and_a_foreign_one_is_not() {
        let disposition = |kind| Error::from(StateError::new(kind, "open state directory")).disposition();
        assert_eq!(disposition(StateErrorKind::Full), Disposition::RestoreTask);
        assert_eq!(disposition(StateErrorKind::Foreign), Disposition::Shutdown);
    }

    #[test]
    fn the_remedy_is_always_said_and_the_causes_on_request() {
        let cause = std::io::Error::other("no space left");
        let error =
            Error::new(ErrorKind::Store, "flush a shard").with("task", "0_1").caused_by(cause).remedy("make room");
        assert_eq!(error.to_string(), "flush a shard failed task=`0_1`; make room");
        assert_eq!(format!("{error:#}"), "flush a shard failed task=`0_1`: no space left; make room");
        assert_eq!(error.chain(), format!("{error:#}"));
        assert_eq!(format!("{error:?}"), error.chain());
    }
}
