//! The one error type of the storage seam, sorted by what the caller does next.

use std::fmt;

/// What the caller of a storage engine does next.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Make the same call again later (a remote engine is away, a lock is held elsewhere, no descriptor is free).
    Retry,
    /// The device failed: close the shard, reopen it at its durable offset, restore.
    Io,
    /// The device is full: as [`ErrorKind::Io`], once there is room.
    Full,
    /// The files are not what was written: quarantine them and restore from the changelog.
    Corrupt,
    /// A setting or a specification is wrong: tell the user.
    Invalid,
    /// The engine does not declare this ability in its [`Capabilities`](crate::Capabilities).
    Unsupported,
    /// Refused because an earlier write failed; only [`Poison`](crate::Poison) says this, never an engine.
    Poisoned,
}

impl ErrorKind {
    /// A short name for messages and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Retry => "try again",
            Self::Io => "i/o error",
            Self::Full => "no space left",
            Self::Corrupt => "damaged files",
            Self::Invalid => "invalid setting",
            Self::Unsupported => "unsupported",
            Self::Poisoned => "poisoned by an earlier failure",
        }
    }
}

/// An error of a storage engine: kind, operation, context and cause.
///
/// Match on [`Error::kind`]; the text is for people. It is one pointer wide, so a `Result<()>` travels in a register.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    op: &'static str,
    context: Vec<(&'static str, String)>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The result of a storage operation.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of the operation `op`, a short verb phrase such as `open shard`.
    #[cold]
    pub fn new(kind: ErrorKind, op: &'static str) -> Self {
        Self(Box::new(Inner { kind, op, context: Vec::new(), source: None }))
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
