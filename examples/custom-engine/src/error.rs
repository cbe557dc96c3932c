//! redb's errors as the seam's: one table, sorted by what the caller does next.

use std::io;

use millpond_store_api::{Error, ErrorKind};

/// The seam's error for a failed call of redb or of the file system. All errors of redb turn into its one `Error`.
#[cold]
pub(crate) fn of(op: &'static str, cause: impl Into<redb::Error>) -> Error {
    let cause = cause.into();
    Error::new(kind(&cause), op).caused_by(cause)
}

/// The table.
fn kind(error: &redb::Error) -> ErrorKind {
    use redb::Error as E;
    match error {
        // Another process or shard has the file; or this is a reader whose shard has ended.
        E::DatabaseAlreadyOpen | E::DatabaseClosed => ErrorKind::Retry,
        E::LockProtocolMismatch | E::ValueTooLarge(_) => ErrorKind::Invalid,
        // The tables that this engine makes are missing, or are others; or the head of the file names another version of
        // redb's format, although the marker is ours.
        E::Corrupted(_)
        | E::UpgradeRequired(_)
        | E::TableDoesNotExist(_)
        | E::TableTypeMismatch { .. }
        | E::TypeDefinitionChanged { .. }
        | E::TableIsMultimap(_)
        | E::TableIsNotMultimap(_) => ErrorKind::Corrupt,
        E::Io(error) => io_kind(error),
        _ => ErrorKind::Io,
    }
}

fn io_kind(error: &io::Error) -> ErrorKind {
    use io::ErrorKind as K;
    match error.kind() {
        K::StorageFull | K::QuotaExceeded | K::FileTooLarge => ErrorKind::Full,
        K::PermissionDenied | K::ReadOnlyFilesystem | K::NotADirectory | K::IsADirectory => ErrorKind::Invalid,
        // redb says so of a file that does not begin or end like its own.
        K::InvalidData | K::UnexpectedEof => ErrorKind::Corrupt,
        // No descriptor is free, for the process (24) or the system (23); the standard library has no name for it.
        _ if matches!(error.raw_os_error(), Some(23 | 24)) => ErrorKind::Retry,
        _ => ErrorKind::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_caller_does_next_follows_from_the_cause() {
        let io = |kind: io::ErrorKind| redb::Error::Io(kind.into());
        for (cause, want) in [
            (redb::Error::DatabaseAlreadyOpen, ErrorKind::Retry),
            (redb::Error::Corrupted("a page".into()), ErrorKind::Corrupt),
            (redb::Error::UpgradeRequired(2), ErrorKind::Corrupt),
            (redb::Error::PreviousIo, ErrorKind::Io),
            (io(io::ErrorKind::StorageFull), ErrorKind::Full),
            (io(io::ErrorKind::PermissionDenied), ErrorKind::Invalid),
            (io(io::ErrorKind::InvalidData), ErrorKind::Corrupt),
            (redb::Error::Io(io::Error::from_raw_os_error(24)), ErrorKind::Retry),
            (io(io::ErrorKind::BrokenPipe), ErrorKind::Io),
        ] {
            assert_eq!(kind(&cause), want, "{cause}");
        }
    }
}
