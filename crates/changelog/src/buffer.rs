//! Records of a suppression buffer's changelog, as all releases of Kafka Streams since 2.1 have written them.

use millpond_broker_api::Record;
use millpond_store_api::{
    self as store, BufferValue, ContextHeaders, ErrorKind, Header, Headers, KeyBuffer, SpaceMut, UpdateContext,
    ValueAndTimestamp,
};

/// An update that waits, as a changelog record has it (`docs/formats/suppression-buffer.md`); lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferRecord<'a> {
    /// What waits. Its prior value is that of the key's row if [`BufferRecord::prior_is_known`] does not hold.
    pub value: BufferValue<'a>,
    /// Since when it waits, as the time by which it will be due: an event time, or a window's end (milliseconds since 1970).
    pub time: i64,
    /// The record says what the row was before it waited; the oldest two versions do not.
    pub prior_is_known: bool,
}

impl<'a> BufferRecord<'a> {
    /// Reads a value of the version that the header `v` of its record gives; none is version 0. `record` is what is known of
    /// the record itself, which is where a value of version 0 comes from.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid), with the version, for one that is not known, and for bytes that are not of it: nothing
    /// that is read again gets better, somebody has to look at the topic.
    pub fn decode(version: Option<&[u8]>, value: &'a [u8], record: UpdateContext<'a>) -> store::Result<Self> {
        let (number, read) = match version {
            None => (0, Self::decode_0(value, record)),
            Some([1]) => (1, Self::decode_1(value)),
            // Three releases marked what they wrote in version 3 as version 2 (KAFKA-10173).
            Some([2]) => (2, Self::decode_2(value).or_else(|| Self::decode_3(value))),
            Some([BufferValue::VERSION]) => (BufferValue::VERSION, Self::decode_3(value)),
            Some(unknown) => return Err(unknown_version(unknown)),
        };
        read.ok_or_else(|| {
            store::Error::new(ErrorKind::Invalid, READ)
                .with("reason", "the bytes are not of the version that they claim")
                .with("version", number)
                .with("bytes", value.len())
        })
    }

    /// `time ‖ change`.
    fn decode_0(value: &'a [u8], context: UpdateContext<'a>) -> Option<Self> {
        let (time, mut rest) = value.split_first_chunk()?;
        let (old, new) = take_change(&mut rest)?;
        let value = BufferValue { context, prior: old, old, new };
        rest.is_empty().then_some(Self { value, time: i64::from_be_bytes(*time), prior_is_known: false })
    }

    /// `time ‖ context ‖ length ‖ change`.
    fn decode_1(value: &'a [u8]) -> Option<Self> {
        let (time, mut rest) = value.split_first_chunk()?;
        let context = UpdateContext::take(&mut rest)?;
        let mut change = take_bytes(&mut rest)??;
        let (old, new) = take_change(&mut change)?;
        let value = BufferValue { context, prior: old, old, new };
        let whole = rest.is_empty() && change.is_empty();
        whole.then_some(Self { value, time: i64::from_be_bytes(*time), prior_is_known: false })
    }

    /// `context ‖ length ‖ change ‖ prior ‖ time`.
    fn decode_2(value: &'a [u8]) -> Option<Self> {
        let (mut rest, time) = value.split_last_chunk()?;
        let context = UpdateContext::take(&mut rest)?;
        let mut change = take_bytes(&mut rest)??;
        let (old, new) = take_change(&mut change)?;
        let prior = take_bytes(&mut rest)?;
        let value = BufferValue { context, prior, old, new };
        let whole = rest.is_empty() && change.is_empty();
        whole.then_some(Self { value, time: i64::from_be_bytes(*time), prior_is_known: true })
    }

    /// `value ‖ time`.
    fn decode_3(value: &'a [u8]) -> Option<Self> {
        let (value, time) = value.split_last_chunk()?;
        let value = BufferValue::decode(value).ok()?;
        Some(Self { value, time: i64::from_be_bytes(*time), prior_is_known: true })
    }
}

/// The name of the header that gives the version.
const VERSION: &str = "v";

/// Headers that carry what stands before an old and a prior value in stores with headers (KIP-1271).
const KEPT: [&str; 2] = ["vh.old", "vh.prior"];

const READ: &str = "read a record of a suppression buffer";

/// Makes the buffer what a record from this topic and partition says of its key.
pub(crate) fn restore<S: SpaceMut + ?Sized>(
    buffer: &mut KeyBuffer<'_, S>,
    key: &[u8],
    record: &Record<'_>,
    (topic, partition): (&str, i32),
) -> store::Result<()> {
    let Some(value) = record.value else { return buffer.restore(key, None) };
    let headers: Vec<_> = record.headers.iter().map(|h| Header { key: h.name, value: h.value }).collect();
    let version = headers.iter().rev().find(|h| h.key == VERSION).map(|h| h.value.unwrap_or_default());
    let mut list = Vec::new();
    let itself = UpdateContext {
        timestamp: record.timestamp,
        offset: record.offset,
        topic,
        partition,
        headers: ContextHeaders::encode(headers.iter().copied(), &mut list)?,
    };
    let mut read = BufferRecord::decode(version, value, itself)?;
    let mut waiting = Vec::new();
    if !read.prior_is_known
        && let Some(row) = buffer.get(key)?
    {
        waiting.extend_from_slice(row.value);
        read.value.prior = BufferValue::decode_row(&waiting)?.prior;
    }
    let mut row = Vec::new();
    read.value.encode_row(Headers::from_bytes(&headers_of_row(&headers)?), &mut row)?;
    buffer.restore(key, Some(ValueAndTimestamp { timestamp: read.time, value: &row }))
}

/// The headers that a row has of its record: the version that it is kept in, and what belongs to its values.
fn headers_of_row(record: &[Header<'_>]) -> store::Result<Vec<u8>> {
    let mut kept = vec![Header { key: VERSION, value: Some(&[BufferValue::VERSION]) }];
    kept.extend(record.iter().filter(|h| KEPT.contains(&h.key)));
    let mut out = Vec::new();
    Headers::encode(&kept, &mut out)?;
    Ok(out)
}

/// An old and a new value, each behind its length.
type Values<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

fn take_change<'a>(bytes: &mut &'a [u8]) -> Option<Values<'a>> {
    Some((take_bytes(bytes)?, take_bytes(bytes)?))
}

/// Takes what has its length before it; the inner `None` is nothing, with the length −1.
fn take_bytes<'a>(bytes: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let (len, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    match i32::from_be_bytes(*len) {
        -1 => Some(None),
        len => Some(Some(bytes.split_off(..usize::try_from(len).ok()?)?)),
    }
}

#[cold]
fn unknown_version(version: &[u8]) -> store::Error {
    let error = store::Error::new(ErrorKind::Invalid, READ)
        .with("reason", "the version of the format is not known")
        .with("format", "suppression buffer");
    match version {
        [number] => error.with("version", number),
        _ => error.with("version", format_args!("{version:02x?}")),
    }
}
