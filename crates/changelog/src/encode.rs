//! From a store's rows to changelog records and back, in Kafka Streams' bytes.

use millpond_broker_api as broker;
use millpond_store_api::{
    self as store, AggregationWithHeaders, Header, Headers, ValueAndTimestamp, ValueTimestampHeaders,
};

use crate::{Change, Logged};

/// How a store holds its values, which decides what its changelog holds (see `docs/formats/changelog.md`).
///
/// What is not the value goes where Kafka has a place for it: into the record's timestamp and headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueFormat {
    /// The value alone: plain key-value, window and session stores. The record's timestamp is the update's event time, and
    /// is not restored. Versioned stores, too: there it is the version's.
    Plain,
    /// `int64 timestamp ‖ value`: timestamped stores.
    Timestamped,
    /// [`ValueTimestampHeaders`]: timestamped stores with headers.
    TimestampedWithHeaders,
    /// [`AggregationWithHeaders`]: session stores with headers. Suppression buffers, too, whose records have headers that say
    /// how their values are to be read.
    AggregationWithHeaders,
}

impl ValueFormat {
    /// The record for a change; borrows from it. [`Corrupt`](store::ErrorKind::Corrupt) if the row is not of this format;
    /// its headers are not looked at.
    pub fn to_log(self, change: Change<'_>) -> store::Result<Logged<'_>> {
        let Change { key, value, timestamp } = change;
        let mut logged = Logged { key, value, timestamp, headers: Headers::NONE };
        let Some(row) = value else { return Ok(logged) };
        match self {
            Self::Plain => {}
            Self::Timestamped => {
                let row = ValueAndTimestamp::decode(row)?;
                (logged.value, logged.timestamp) = (Some(row.value), row.timestamp);
            }
            Self::TimestampedWithHeaders => {
                let row = ValueTimestampHeaders::decode(row)?;
                logged = Logged { key, value: Some(row.value), timestamp: row.timestamp, headers: row.headers };
            }
            Self::AggregationWithHeaders => {
                let row = AggregationWithHeaders::decode(row)?;
                (logged.value, logged.headers) = (Some(row.aggregation), row.headers);
            }
        }
        Ok(logged)
    }

    /// The value that a store holds for a record; borrows the record's or uses `scratch`, whose content is replaced.
    ///
    /// The headers are read only if the store keeps them.
    pub fn to_store<'a, 'h>(
        self,
        value: Option<&'a [u8]>,
        timestamp: i64,
        headers: impl IntoIterator<Item = broker::Header<'h>>,
        scratch: &'a mut RowScratch,
    ) -> Option<&'a [u8]> {
        const FITS: &str = "a record is smaller than 2 GiB, and so are its headers";
        let value = value?;
        let RowScratch { row, list } = scratch;
        row.clear();
        list.clear();
        match self {
            Self::Plain => return Some(value),
            Self::Timestamped => ValueAndTimestamp { timestamp, value }.encode(row),
            Self::TimestampedWithHeaders => {
                let headers = encode(headers, list).expect(FITS);
                ValueTimestampHeaders { headers, timestamp, value }.encode(row).expect(FITS);
            }
            Self::AggregationWithHeaders => {
                let headers = encode(headers, list).expect(FITS);
                AggregationWithHeaders { headers, aggregation: value }.encode(row).expect(FITS);
            }
        }
        Some(row)
    }
}

fn encode<'a, 'h>(
    headers: impl IntoIterator<Item = broker::Header<'h>>,
    list: &'a mut Vec<u8>,
) -> store::Result<Headers<'a>> {
    let headers: Vec<_> = headers.into_iter().map(|h| Header { key: h.name, value: h.value }).collect();
    Headers::encode(&headers, list)?;
    Ok(Headers::from_bytes(list))
}

/// Memory for one row at a time, used again and again.
#[derive(Default)]
pub struct RowScratch {
    row: Vec<u8>,
    list: Vec<u8>,
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for RowScratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowScratch").field("capacity", &(self.row.capacity() + self.list.capacity())).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [ValueFormat; 4] = [
        ValueFormat::Plain,
        ValueFormat::Timestamped,
        ValueFormat::TimestampedWithHeaders,
        ValueFormat::AggregationWithHeaders,
    ];

    #[test]
    fn a_row_that_is_too_short_is_corrupt() {
        let change = Change { key: b"k", value: Some(&[0xFF; 7]), timestamp: 5 };
        assert_eq!(ValueFormat::Plain.to_log(change).unwrap().value, change.value);
        for format in &ALL[1..] {
            assert_eq!(format.to_log(change).unwrap_err().kind(), store::ErrorKind::Corrupt, "{format:?}");
        }
    }

    #[test]
    fn b032_a_delete_is_a_tombstone_both_ways() {
        for format in ALL {
            let logged = format.to_log(Change { key: b"k", value: None, timestamp: 5 }).unwrap();
            assert_eq!(logged, Logged { key: b"k", value: None, timestamp: 5, headers: Headers::NONE });
            assert_eq!(format.to_store(logged.value, logged.timestamp, [], &mut RowScratch::default()), None);
        }
    }

    #[test]
    fn an_empty_value_is_not_a_tombstone() {
        let mut scratch = RowScratch::default();
        for (format, row) in ALL.into_iter().zip([&b""[..], &[0; 8], &[0; 9], &[0]]) {
            assert_eq!(format.to_store(Some(b""), 0, [], &mut scratch), Some(row));
        }
    }

    #[test]
    fn headers_come_back_where_they_are_kept() {
        let mut scratch = RowScratch::default();
        let header = broker::Header { name: "h", value: Some(b"1") };
        for format in ALL {
            for round in 0..2 {
                let row = format.to_store(Some(b"v"), 7, [header], &mut scratch);
                let logged = format.to_log(Change { key: b"k", value: row, timestamp: 7 }).unwrap();
                assert_eq!((logged.value, logged.timestamp), (Some(&b"v"[..]), 7), "{format:?} {round}");
                let kept = matches!(format, ValueFormat::TimestampedWithHeaders | ValueFormat::AggregationWithHeaders);
                let headers: Vec<_> = logged.headers.iter().map(|h| h.unwrap()).collect();
                let expected = Header { key: "h", value: Some(b"1") };
                assert_eq!(headers, if kept { vec![expected] } else { Vec::new() });
            }
        }
    }

    #[test]
    fn debug_output_holds_no_bytes() {
        let change = Change { key: b"secret", value: Some(b"secret"), timestamp: 5 };
        let logged = ValueFormat::Plain.to_log(change).unwrap();
        assert_eq!(format!("{change:?}"), "Change { key_len: 6, value_len: Some(6), timestamp: 5 }");
        assert_eq!(format!("{logged:?}"), "Logged { key_len: 6, value_len: Some(6), timestamp: 5 }");
    }
}
