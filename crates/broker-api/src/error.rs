//! The one error type of the log seam, sorted by what the caller does next.

use std::fmt;

/// What the caller of a broker does next (the classes of Kafka's transactional error handling, KIP-1050, and two of records).
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Make the same call again, after a pause.
    Retriable,
    /// Abort the transaction, go back to the committed offsets, go on.
    Abortable,
    /// Generation, member id or static identity were refused: abort, close the tasks, rejoin the group.
    MembershipLost,
    /// The producer's epoch is over: drop it. Still a member: make a new one. Not: as [`ErrorKind::MembershipLost`].
    ProducerFenced,
    /// The offset is not in the log (any more): the partition delivers nothing until it is moved.
    OutOfRange,
    /// This record cannot be written (size, timestamp, missing key): ask the production error handler.
    Refused,
    /// The topic or partition does not exist.
    UnknownTopic,
    /// Configuration, authorisation or wrong use: stop, and show the message.
    Fatal,
}

impl ErrorKind {
    /// A short name for messages and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Retriable => "try again",
            Self::Abortable => "transaction must be aborted",
            Self::MembershipLost => "no longer a member of the group",
            Self::ProducerFenced => "producer fenced",
            Self::OutOfRange => "offset out of range",
            Self::Refused => "record refused",
            Self::UnknownTopic => "unknown topic or partition",
            Self::Fatal => "fatal",
        }
    }
}

/// An error of a broker or its client: kind, operation, context and cause. One pointer wide.
///
/// Match on [`Error::kind`]; the text is for people.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    op: &'static str,
    context: Vec<(&'static str, String)>,
    source: Option<std::sync::Arc<dyn std::error::Error + Send + Sync>>,
}

/// The result of a broker operation.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of the operation `op`, a short verb phrase such as `create topic`.
    #[cold]
    pub fn new(kind: ErrorKind, op: &'static str) -> Self {
        Self(Box::new(Inner { kind, op, context: Vec::new(), source: None }))
    }

    /// Adds a fact for the message. Never a record's key or value.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl fmt::Display) -> Self {
        self.0.context.push((key, value.to_string()));
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into().into());
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
