//! The one error type of the example: what went wrong, with what, and what to do about it.

use std::fmt;

/// What the program answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// An option or a combination of options: exit code 2.
    Usage,
    /// Everything else that failed: exit code 1.
    Failed,
    /// The user asked for it: exit code 130, as a shell has it.
    Interrupted,
}

/// An error: kind, message, context and cause.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: &'static str,
    context: Vec<(&'static str, String)>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The result of the example's functions.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error with a message in lower case and without a full stop.
    pub fn new(kind: ErrorKind, message: &'static str) -> Self {
        Self { kind, message, context: Vec::new(), source: None }
    }

    /// Something failed.
    pub fn failed(message: &'static str) -> Self {
        Self::new(ErrorKind::Failed, message)
    }

    /// The user ended the program.
    pub fn interrupted() -> Self {
        Self::new(ErrorKind::Interrupted, "interrupted")
    }

    /// Adds a fact, such as the file, or the remedy.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl fmt::Display) -> Self {
        self.context.push((key, value.to_string()));
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What the program answers with.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The message and all causes, for people.
    pub fn report(&self) -> String {
        let causes = std::iter::successors(std::error::Error::source(self), |error| error.source());
        causes.fold(self.to_string(), |text, cause| format!("{text}: {cause}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message)?;
        self.context.iter().try_for_each(|(key, value)| write!(f, " {key}=`{value}`"))
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|error| error as _)
    }
}
