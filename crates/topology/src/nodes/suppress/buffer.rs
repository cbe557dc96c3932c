//! The buffer of a node: a store, and memory for its rows.

use millpond_store_api as store;
use store::{
    BufferScratch, BufferTotals, BufferValue, ContextHeaders, Headers, KeyBuffer, OldestFirst, UpdateContext,
    ValueTimestampHeaders,
};

use crate::error::Result;
use crate::headers::Headers as RecordHeaders;
use crate::node::Turn;
use crate::nodes::suppress::wait::Due;
use crate::port::{LayerSpace, Port, StoreIndex};

/// An update on its way into a buffer.
pub(super) struct Waiting<'a> {
    pub(super) time: i64,
    pub(super) key: &'a [u8],
    pub(super) old: Option<&'a [u8]>,
    pub(super) new: Option<&'a [u8]>,
    pub(super) timestamp: i64,
}

/// The store of a node, and memory for its rows.
pub(super) struct Buffer {
    pub(super) store: StoreIndex,
    /// Stores keep headers: it says beside old values which they had.
    with_headers: bool,
    scratch: BufferScratch,
    /// The topic of the record at hand.
    topic: String,
    headers: Vec<u8>,
    pub(super) taken: Taken,
    walk: OldestFirst,
    /// The turn of the row to which the walk has come.
    next: Turn,
}

impl Buffer {
    pub(super) fn new(store: StoreIndex, with_headers: bool) -> Self {
        let (scratch, taken, walk, next) =
            (BufferScratch::default(), Taken::default(), OldestFirst::default(), Turn::default());
        Self { store, with_headers, scratch, topic: String::new(), headers: Vec::new(), taken, walk, next }
    }

    pub(super) fn put(&mut self, port: &mut dyn Port, update: Waiting<'_>, headers: &RecordHeaders) -> Result {
        let Waiting { time, key, old, new, timestamp } = update;
        self.topic.clear();
        let (mut offset, mut partition) = (-1, -1);
        if let Some(from) = port.metadata() {
            self.topic.push_str(from.topic);
            (offset, partition) = (from.offset, from.partition);
        }
        let headers = match headers.is_empty() {
            true => ContextHeaders::NONE,
            false => {
                let each = headers.iter().map(|h| store::Header { key: &h.name, value: h.value.as_deref() });
                ContextHeaders::encode(each, &mut self.headers)?
            }
        };
        let context = UpdateContext { timestamp, offset, topic: &self.topic, partition, headers };
        let with_headers = self.with_headers;
        with_buffer(port, self.store, &mut self.scratch, |buffer| {
            buffer.put_with(time, key, &mut |waiting, out| {
                let waiting = waiting.map(BufferValue::decode_row).transpose()?;
                let value = BufferValue { context, prior: waiting.map_or(old, |waiting| waiting.prior), old, new };
                if with_headers {
                    value.encode_row(Headers::from_bytes(&record_headers(value, waiting)?), out)
                } else {
                    value.encode_row(BufferValue::HEADERS, out)
                }
            })
        })?;
        Ok(())
    }

    /// How much waits.
    pub(super) fn totals(&mut self, port: &mut dyn Port) -> Result<BufferTotals> {
        with_buffer(port, self.store, &mut self.scratch, |buffer| buffer.totals())
    }

    /// How much waits beside what is due.
    pub(super) fn totals_without(&mut self, port: &mut dyn Port, due: Due) -> Result<BufferTotals> {
        with_buffer(port, self.store, &mut self.scratch, |buffer| {
            buffer.totals_without(&mut |time, held| due.is(time, held))
        })
    }

    /// Whether there may be a row that is due.
    pub(super) fn may_be_due(&mut self, port: &mut dyn Port, due: Due) -> Result<bool> {
        with_buffer(port, self.store, &mut self.scratch, |buffer| {
            buffer.may_be_due(&mut |time, held| due.is(time, held))
        })
    }

    pub(super) fn earliest(&mut self, port: &mut dyn Port) -> Result<Option<i64>> {
        with_buffer(port, self.store, &mut self.scratch, |buffer| buffer.earliest())
    }

    /// Takes the oldest row out if it is due; what it was is in `taken` then. `turn`: by which the walk knows whether the row
    /// before came out as well.
    pub(super) fn take(&mut self, port: &mut dyn Port, due: Due, turn: Turn) -> Result<bool> {
        let Self { store, scratch, taken, walk, next, .. } = self;
        if turn.had == 0 || turn != *next {
            *walk = OldestFirst::default();
        }
        *next = Turn { had: turn.had.saturating_add(1), pass_over: false };
        with_buffer(port, *store, scratch, |buffer| {
            buffer.take_oldest(walk, &mut |time, held| due.is(time, held), &mut |row| {
                taken.key.clear();
                taken.key.extend_from_slice(row.key);
                taken.value.clear();
                taken.value.extend_from_slice(row.value);
                Ok(())
            })
        })
    }
}

/// What changelog records of a buffer have as their time: none, as Kafka Streams writes them.
const NO_TIMESTAMP: i64 = -1;

/// The headers of a row's record where stores keep headers (KIP-1271): the version, and what stood before its old and its prior
/// value in such a store. An update that waited is known with time and headers, a row that did not is not.
fn record_headers(value: BufferValue<'_>, waiting: Option<BufferValue<'_>>) -> store::Result<Vec<u8>> {
    let mut list = Vec::new();
    let unknown = ValueTimestampHeaders { headers: Headers::NONE, timestamp: NO_TIMESTAMP, value: &[] };
    let known = match waiting {
        Some(BufferValue { context, .. }) => {
            Headers::encode(&context.headers.iter().collect::<Vec<_>>(), &mut list)?;
            ValueTimestampHeaders { headers: Headers::from_bytes(&list), timestamp: context.timestamp, value: &[] }
        }
        None => unknown,
    };
    let (mut of_old, mut of_prior, mut out) = (Vec::new(), Vec::new(), Vec::new());
    known.encode(&mut of_old)?;
    unknown.encode(&mut of_prior)?;
    let mut all = vec![store::Header { key: "v", value: Some(&[BufferValue::VERSION]) }];
    if value.old.is_some() {
        all.push(store::Header { key: "vh.old", value: Some(&of_old) });
    }
    // One that is the same as the old value is not written again, nor is what stood before it.
    if value.prior.is_some() && value.prior != value.old {
        all.push(store::Header { key: "vh.prior", value: Some(&of_prior) });
    }
    Headers::encode(&all, &mut out)?;
    Ok(out)
}

/// Opens a buffer for one access.
fn with_buffer<T>(
    port: &mut dyn Port,
    store: StoreIndex,
    scratch: &mut BufferScratch,
    access: impl FnOnce(&mut KeyBuffer<'_, LayerSpace<'_>>) -> store::Result<T>,
) -> Result<T> {
    let opened = port.store(store)?;
    let mut space = LayerSpace { layer: opened.layer, base: opened.base, timestamp: NO_TIMESTAMP };
    let mut buffer = KeyBuffer::new(&mut space).with_scratch(std::mem::take(scratch));
    let done = access(&mut buffer);
    *scratch = buffer.into_scratch();
    Ok(done?)
}

/// A row that was taken out and is to be forwarded.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
}
