//! The error of the state directory and the memory budget, sorted by what the caller does next.

use std::{fmt, io};

/// What the caller of a [`StateError`] does next.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StateErrorKind {
    /// Someone else holds it: another process the directory, or another worker the task. Try again later, or tell the user.
    Locked,
    /// What is there is not ours: tell the user; nothing was touched.
    Foreign,
    /// What is there was written by a later release: tell the user; nothing was touched.
    Future,
    /// A file of ours cannot be read: replace the shard and restore it, or tell the user.
    Damaged,
    /// The directory may not be written: tell the user.
    Denied,
    /// The device is full: try again once there is room.
    Full,
    /// The device failed.
    Io,
    /// A setting is wrong: tell the user.
    Invalid,
}

impl StateErrorKind {
    /// A short name for messages and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Locked => "in use",
            Self::Foreign => "not a state directory",
            Self::Future => "written by a later release",
            Self::Damaged => "damaged file",
            Self::Denied => "no permission",
            Self::Full => "no space left",
            Self::Io => "i/o error",
            Self::Invalid => "invalid setting",
        }
    }

    /// The kind that an error of the file system belongs to.
    pub fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::Denied,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full,
            io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory => Self::Foreign,
            io::ErrorKind::InvalidFilename => Self::Invalid,
            _ => Self::Io,
        }
    }
}

/// An error of the state directory or of a memory setting: kind, operation, context and cause.
///
/// Match on [`StateError::kind`]; the text is for people, and names the remedy where there is one.
pub struct StateError(Box<Inner>);

struct Inner {
    kind: StateErrorKind,
    op: &'static str,
    context: Vec<(&'static str, String)>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The result of an operation on the state directory.
pub(super) type Result<T> = std::result::Result<T, StateError>;

impl StateError {
    /// An error of the operation `op`, a short verb phrase such as `open state directory`.
    #[cold]
    pub fn new(kind: StateErrorKind, op: &'static str) -> Self {
        Self(Box::new(Inner { kind, op, context: Vec::new(), source: None }))
    }

    /// An error of the file system, of the kind that [`StateErrorKind::of`] says.
    #[cold]
    pub fn io(op: &'static str, source: io::Error) -> Self {
        let kind = StateErrorKind::of(&source);
        let error = Self::new(kind, op);
        match kind {
            StateErrorKind::Denied => error.with("remedy", "let the process own it, on a writable file system"),
            StateErrorKind::Full => error.with("remedy", "make room on the device"),
            _ => error,
        }
        .caused_by(source)
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
    pub fn kind(&self) -> StateErrorKind {
        self.0.kind
    }

    /// The operation that failed.
    pub fn op(&self) -> &'static str {
        self.0.op
    }

    /// The facts given by [`StateError::with`], in order.
    pub fn context(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.context.iter().map(|(key, value)| (*key, value.as_str()))
    }
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed: {}", self.0.op, self.0.kind.name())?;
        self.0.context.iter().try_for_each(|(key, value)| write!(f, " {key}=`{value}`"))
    }
}

impl fmt::Debug for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        match &self.0.source {
            Some(source) => write!(f, ": {source:?}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for StateError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|error| error as _)
    }
}

const _: () = {
    const fn send_and_sync<T: Send + Sync>() {}
    send_and_sync::<StateError>();
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_names_operation_kind_and_facts_and_never_repeats_the_cause() {
        let error = StateError::io("open", io::Error::from(io::ErrorKind::StorageFull)).with("dir", "/x");
        assert_eq!(error.to_string(), "open failed: no space left remedy=`make room on the device` dir=`/x`");
        assert_eq!((error.kind(), error.op()), (StateErrorKind::Full, "open"));
        assert!(std::error::Error::source(&error).is_some() && format!("{error:?}").contains("StorageFull"));
        assert_eq!(error.context().last(), Some(("dir", "/x")));
    }

    #[test]
    fn file_system_errors_are_sorted_by_what_helps() {
        for (kind, expected) in [
            (io::ErrorKind::PermissionDenied, StateErrorKind::Denied),
            (io::ErrorKind::ReadOnlyFilesystem, StateErrorKind::Denied),
            (io::ErrorKind::QuotaExceeded, StateErrorKind::Full),
            (io::ErrorKind::NotADirectory, StateErrorKind::Foreign),
            (io::ErrorKind::NotFound, StateErrorKind::Io),
        ] {
            assert_eq!(StateErrorKind::of(&kind.into()), expected, "{kind}");
        }
    }
}
