//! What can go wrong in a command, and the exit code that says so.

/// The result of everything here.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// A failed command.
#[derive(Debug)]
pub(crate) enum Error {
    /// The command line makes no sense; the text names what and the remedy. Exit code 2.
    Usage(String),
    /// Something did not work; the text names what and, where there is one, the remedy. Exit code 1.
    Failed(String),
    /// A program that we ran has already said what is wrong; its exit code becomes ours.
    Child(u8),
}

impl Error {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::Failed(message.into())
    }

    /// An I/O error with what was being done to which path.
    pub(crate) fn io(op: &str, path: &std::path::Path, source: &std::io::Error) -> Self {
        Self::Failed(format!("{op} {}: {source}", path.display()))
    }

    pub(crate) fn message(&self) -> Option<&str> {
        match self {
            Self::Usage(message) | Self::Failed(message) => Some(message),
            Self::Child(_) => None,
        }
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Failed(_) => 1,
            Self::Child(code) => *code,
        }
    }
}

impl From<millpond_kafka_dev::Error> for Error {
    fn from(error: millpond_kafka_dev::Error) -> Self {
        let cause = std::error::Error::source(&error).map(|source| format!(": {source}")).unwrap_or_default();
        Self::Failed(format!("{error}{cause}"))
    }
}
