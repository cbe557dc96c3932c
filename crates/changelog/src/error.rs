//! The error type of this crate, sorted by what the caller does next.

use std::fmt;

use millpond_broker_api as broker;

/// What the caller does next.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Make the same call again, after a pause.
    Retriable,
    /// A topic exists and is not what the topology needs: stop, and show the message, which names the remedy.
    Mismatch,
    /// A topic does not exist and may not be created: stop, and show the message, which names the remedy.
    MissingTopic,
    /// A name or a setting is wrong: tell the user.
    Invalid,
    /// These bytes are not what was written: set the shard aside and restore it from its changelogs.
    Corrupt,
    /// These bytes come from a later version: stop; a newer program reads them. Nothing is damaged, nothing may be deleted.
    Future,
    /// The broker refused for good: stop, and show the message and its source.
    Broker,
}

impl ErrorKind {
    /// A short name for messages and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Retriable => "try again",
            Self::Mismatch => "topic is not as needed",
            Self::MissingTopic => "topic is missing",
            Self::Invalid => "invalid setting",
            Self::Corrupt => "damaged bytes",
            Self::Future => "written by a later version",
            Self::Broker => "refused by the broker",
        }
    }
}

/// An error of this crate: kind, operation, context and cause. One pointer wide.
///
/// Match on [`Error::kind`]; the text is for people.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    op: &'static str,
    context: Vec<(&'static str, String)>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The result of this crate's operations.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of the operation `op`, a short verb phrase such as `check topic`.
    #[cold]
    pub fn new(kind: ErrorKind, op: &'static str) -> Self {
        Self(Box::new(Inner { kind, op, context: Vec::new(), source: None }))
    }

    /// An answer of the broker to `op`: retriable stays retriable, everything else is [`ErrorKind::Broker`].
    #[cold]
    pub fn from_broker(op: &'static str, error: broker::Error) -> Self {
        let kind = match error.kind() {
            broker::ErrorKind::Retriable => ErrorKind::Retriable,
            _ => ErrorKind::Broker,
        };
        Self::new(kind, op).caused_by(error)
    }

    /// Adds a fact for the message. Never a record's key or value: state is business data.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl fmt::Display) -> Self {
        self.0.context.push((key, value.to_string()));
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// What the caller does next.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The operation that failed.
    pub fn op(&self) -> &'static str {
        self.0.op
    }

    /// The facts given by [`Error::with`], in order.
    pub fn context(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.context.iter().map(|(k, v)| (*k, v.as_str()))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed: {}", self.0.op, self.0.kind.name())?;
        self.0.context.iter().try_for_each(|(k, v)| write!(f, " {k}=`{v}`"))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        match &self.0.source {
            Some(source) => write!(f, ": {source:?}"),
            None => Ok(()),
        }
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
