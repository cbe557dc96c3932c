//! RocksDB's errors as the seam's: one table.

use std::io;
use std::path::Path;

use millpond_store_api::{Error, ErrorKind};
use rocksdb::ErrorKind as Rocks;

/// The seam's error for a failed call of RocksDB.
#[cold]
pub(crate) fn rocks(op: &'static str, error: rocksdb::Error) -> Error {
    Error::new(kind(&error), op).caused_by(error)
}

/// The seam's error for a directory that RocksDB does not open.
#[cold]
pub(crate) fn opening(op: &'static str, dir: &Path, error: rocksdb::Error) -> Error {
    let kind = opening_kind(&error);
    let out = Error::new(kind, op).with("dir", dir.display());
    let out = match kind {
        ErrorKind::Retry => out.with("reason", "another process or shard holds it, or no file descriptor is free"),
        ErrorKind::Invalid => out.with(
            "remedy",
            "make it readable and writable for this user, or use the version of Millpond that wrote it",
        ),
        ErrorKind::Full => out.with("remedy", "make room on the device"),
        _ => out,
    };
    out.caused_by(error)
}

/// The seam's error for a failed call of the file system on a path of the shard.
#[cold]
pub(crate) fn files(op: &'static str, path: &Path, error: io::Error) -> Error {
    use io::ErrorKind as K;
    let kind = match error.kind() {
        K::StorageFull | K::QuotaExceeded => ErrorKind::Full,
        K::PermissionDenied | K::ReadOnlyFilesystem | K::NotADirectory | K::AlreadyExists => ErrorKind::Invalid,
        // Descriptors run out for the process (24) or the system (23), and the standard library has no name for it.
        _ if matches!(error.raw_os_error(), Some(23 | 24)) => ErrorKind::Retry,
        _ => ErrorKind::Io,
    };
    let out = Error::new(kind, op).with("path", path.display());
    let out = match kind {
        ErrorKind::Invalid => out.with("remedy", "make it readable and writable for this user"),
        _ => out,
    };
    out.caused_by(error)
}

/// The table. RocksDB has one kind for everything that the system refuses; what it was stands in the text.
fn kind(error: &rocksdb::Error) -> ErrorKind {
    match error.kind() {
        Rocks::Corruption => ErrorKind::Corrupt,
        Rocks::IOError if says(error, &["No space left on device", "Disk quota exceeded"]) => ErrorKind::Full,
        Rocks::IOError if says(error, &["Too many open files"]) => ErrorKind::Retry,
        Rocks::Busy | Rocks::TryAgain | Rocks::Incomplete | Rocks::MergeInProgress => ErrorKind::Retry,
        Rocks::InvalidArgument | Rocks::NotSupported => ErrorKind::Invalid,
        _ => ErrorKind::Io,
    }
}

/// The table's rows that hold only while a directory is opened.
fn opening_kind(error: &rocksdb::Error) -> ErrorKind {
    match kind(error) {
        ErrorKind::Io if says(error, &["lock hold by current process", "While lock file"]) => ErrorKind::Retry,
        ErrorKind::Io if says(error, &["Permission denied", "Read-only file system"]) => ErrorKind::Invalid,
        // A file that another one names, or the one that names all others: the files are not what was written.
        ErrorKind::Io if says(error, &["No such file or directory"]) => ErrorKind::Corrupt,
        ErrorKind::Invalid if says(error, &["create_if_missing is false"]) => ErrorKind::Corrupt,
        kind => kind,
    }
}

fn says(error: &rocksdb::Error, texts: &[&str]) -> bool {
    texts.iter().any(|t| error.as_ref().contains(t))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn io_errors_are_told_apart_by_their_text() {
        for (text, all, open) in [
            ("No space left on device", ErrorKind::Full, ErrorKind::Full),
            ("Too many open files", ErrorKind::Retry, ErrorKind::Retry),
            ("lock hold by current process", ErrorKind::Io, ErrorKind::Retry),
            ("Permission denied", ErrorKind::Io, ErrorKind::Invalid),
            ("No such file or directory", ErrorKind::Io, ErrorKind::Corrupt),
        ] {
            let made = io_error(text);
            assert_eq!((kind(&made), opening_kind(&made)), (all, open), "{made}");
        }
    }

    /// A real I/O error of RocksDB whose text holds `text`: the name of a file that is not there.
    fn io_error(text: &str) -> rocksdb::Error {
        let dir = tempfile::tempdir().unwrap();
        // "No such file or directory" is in every one of them, so it is asked for last, by both tables.
        let path = dir.path().join(text).join("missing");
        rocksdb::DB::open_for_read_only(&rocksdb::Options::default(), path, false).err().unwrap()
    }

    #[test]
    fn an_invalid_argument_is_invalid() {
        let made = rocksdb::Options::default().get_options_from_string("no_such_option=1").err().unwrap();
        assert_eq!(kind(&made), ErrorKind::Invalid, "{made}");
    }

    #[test]
    fn file_errors_have_the_path_and_a_remedy() {
        for (kind, want) in [
            (io::ErrorKind::StorageFull, ErrorKind::Full),
            (io::ErrorKind::PermissionDenied, ErrorKind::Invalid),
            (io::ErrorKind::BrokenPipe, ErrorKind::Io),
        ] {
            let error = files("open shard", Path::new("/state/0_1"), kind.into());
            assert_eq!(error.kind(), want);
            assert!(error.to_string().contains("path=`/state/0_1`"), "{error}");
        }
        assert_eq!(files("open shard", Path::new("x"), io::Error::from_raw_os_error(24)).kind(), ErrorKind::Retry);
    }
}
