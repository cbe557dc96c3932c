//! Values of a suppression buffer's changelog.

use millpond_changelog::{BufferRecord, Change, RowLayout, ValueFormat};
use millpond_store_api::{BufferValue, ContextHeaders, Header, SpaceId, UpdateContext};

use crate::case::{Case, Outcome, bytes_of, said, same};
use crate::values::owned;

/// The value is written and read as it stands, and a buffer's row is logged as it, with the header that gives its version.
pub(crate) fn buffer_value(case: &Case<'_>) -> Outcome {
    let context = Case::new(case.get("context")?)?;
    let headers = context.headers("headers")?;
    let mut list = Vec::new();
    let lent: Vec<_> = headers.iter().map(|(key, value)| Header { key, value: value.as_deref() }).collect();
    let written = UpdateContext {
        timestamp: context.int("ts")?,
        offset: context.int("offset")?,
        topic: context.text("topic")?,
        partition: context.int("partition")?,
        headers: ContextHeaders::encode(lent.iter().copied(), &mut list).map_err(said)?,
    };
    context.done()?;
    let part = |name| case.nullable(name, bytes_of);
    let (prior, old, new) = (part("prior_hex")?, part("old_hex")?, part("new_hex")?);
    let (time, expected): (i64, _) = (case.int("buffer_time")?, case.bytes("hex")?);
    let value = BufferValue { context: written, prior: prior.as_deref(), old: old.as_deref(), new: new.as_deref() };

    let mut row = Vec::new();
    value.encode_row(BufferValue::HEADERS, &mut row).map_err(said)?;
    same("row read", BufferValue::decode_row(&row).map_err(said)?, value)?;
    row.extend_from_slice(&time.to_be_bytes());
    let layout = RowLayout::Buffer { space: SpaceId(1) };
    same("key", layout.key_to_log(b"\x01k", &mut Vec::new()).map_err(said)?, b"k")?;
    let change = Change { key: b"k", value: Some(&row), timestamp: -1 };
    let logged = ValueFormat::AggregationWithHeaders.to_log(change).map_err(said)?;
    same("value", logged.value, Some(&expected))?;
    same("headers", owned(logged.headers)?, vec![("v".to_owned(), Some(vec![3]))])?;

    let itself = UpdateContext { timestamp: 9, topic: "log", ..written };
    let read = BufferRecord::decode(Some(&[3]), &expected, itself).map_err(said)?;
    same("read", read, BufferRecord { value, time, prior_is_known: true })?;
    let listed: Vec<_> =
        read.value.context.headers.iter().map(|h| (h.key.to_owned(), h.value.map(<[u8]>::to_vec))).collect();
    same("headers of the update", listed, headers)
}
