//! From a store's rows to changelog records and back, in Kafka Streams' bytes.

use millpond_store_api::{self as store, ValueAndTimestamp};

use crate::{Change, Logged};

/// How a store holds its values, which decides what its changelog holds (see `docs/formats/changelog.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueFormat {
    /// The value alone: plain key-value stores. The record's timestamp is the update's event time, and is not restored.
    Plain,
    /// `int64 timestamp ‖ value`: timestamped key-value stores. The record holds the value alone, and the timestamp as its own.
    Timestamped,
}

impl ValueFormat {
    /// The record for a change; borrows from it. [`Corrupt`](store::ErrorKind::Corrupt) if a timestamped row is too short.
    pub fn to_log(self, change: Change<'_>) -> store::Result<Logged<'_>> {
        let Change { key, value, timestamp } = change;
        Ok(match (self, value) {
            (Self::Timestamped, Some(row)) => {
                let ValueAndTimestamp { timestamp, value } = ValueAndTimestamp::decode(row)?;
                Logged { key, value: Some(value), timestamp }
            }
            (Self::Plain, _) | (_, None) => Logged { key, value, timestamp },
        })
    }

    /// The value that a store holds for a record; borrows the record's or uses `scratch`, whose content is replaced.
    pub fn to_store<'a>(self, value: Option<&'a [u8]>, timestamp: i64, scratch: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        match self {
            Self::Plain => value,
            Self::Timestamped => {
                scratch.clear();
                ValueAndTimestamp { timestamp, value: value? }.encode(scratch);
                Some(scratch)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamped_row_that_is_too_short_is_corrupt() {
        let change = Change { key: b"k", value: Some(&[0; 7]), timestamp: 5 };
        let error = ValueFormat::Timestamped.to_log(change).unwrap_err();
        assert_eq!(error.kind(), store::ErrorKind::Corrupt);
        assert_eq!(ValueFormat::Plain.to_log(change).unwrap().value, Some(&[0; 7][..]));
    }

    #[test]
    fn b032_a_delete_is_a_tombstone_both_ways() {
        for format in [ValueFormat::Plain, ValueFormat::Timestamped] {
            let logged = format.to_log(Change { key: b"k", value: None, timestamp: 5 }).unwrap();
            assert_eq!(logged, Logged { key: b"k", value: None, timestamp: 5 });
            assert_eq!(format.to_store(logged.value, logged.timestamp, &mut vec![1, 2, 3]), None);
        }
    }

    #[test]
    fn an_empty_value_is_not_a_tombstone() {
        let mut scratch = Vec::new();
        assert_eq!(ValueFormat::Plain.to_store(Some(b""), 1, &mut scratch), Some(&b""[..]));
        assert_eq!(ValueFormat::Timestamped.to_store(Some(b""), 1, &mut scratch), Some(&1i64.to_be_bytes()[..]));
    }

    #[test]
    fn debug_output_holds_no_bytes() {
        let change = Change { key: b"secret", value: Some(b"secret"), timestamp: 5 };
        let logged = ValueFormat::Plain.to_log(change).unwrap();
        assert_eq!(format!("{change:?}"), "Change { key_len: 6, value_len: Some(6), timestamp: 5 }");
        assert_eq!(format!("{logged:?}"), "Logged { key_len: 6, value_len: Some(6), timestamp: 5 }");
    }
}
