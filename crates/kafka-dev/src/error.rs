//! What can go wrong with a broker, and what the caller does next.

use std::fmt;
use std::path::Path;

/// The result of everything here.
pub type Result<T> = std::result::Result<T, Error>;

/// What the caller does next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Java is missing or too old: install it.
    Java,
    /// The jars are not there and could not be fetched: install Maven, or see to the network.
    Jars,
    /// The options or the environment make no sense: change them.
    Usage,
    /// The broker did not start, answer or stop: look at its log.
    Broker,
    /// The file system or the system refused something.
    Io,
}

/// A failure, with its remedy in the text where there is one.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    what: String,
    source: Option<std::io::Error>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into(), source: None }
    }

    /// What was being done to which path.
    pub(crate) fn io(op: &str, path: &Path, source: std::io::Error) -> Self {
        Self { source: Some(source), ..Self::new(ErrorKind::Io, format!("{op} path=`{}`", path.display())) }
    }

    pub(crate) fn caused_by(self, source: std::io::Error) -> Self {
        Self { source: Some(source), ..self }
    }

    /// What the caller does next.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}
