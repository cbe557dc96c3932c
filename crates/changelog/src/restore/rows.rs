//! The records of one batch as writes: keys and values change their form in one buffer each.

use millpond_broker_api::{Record, Records};
use millpond_store_api::{List, SpaceId, SpaceMut, TtlKeyValue, Write, Writes};

use super::Part;
use super::select::Span;
use crate::{RowLayout, RowScratch};

/// The chosen records as rows, then the staged rows.
pub(super) struct Restored<'a> {
    records: &'a dyn Records,
    parts: &'a [Part],
    spans: &'a [Span],
    staged: List<'a>,
    scratch: &'a mut Scratch,
    at: Place,
}

/// Memory for one row at a time, used again and again.
#[derive(Default)]
pub(super) struct Scratch {
    key: Vec<u8>,
    value: RowScratch,
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scratch").field("key", &self.key.capacity()).field("value", &self.value).finish()
    }
}

/// What comes next.
#[derive(Default)]
struct Place {
    span: usize,
    /// The next record of the span; `None`: its first.
    record: Option<usize>,
    /// The index row of the row that was lent last, in this space; its key is made already.
    index: Option<SpaceId>,
}

impl<'a> Restored<'a> {
    pub(super) fn new(
        records: &'a dyn Records,
        parts: &'a [Part],
        spans: &'a [Span],
        staged: &'a [Write<'a>],
        scratch: &'a mut Scratch,
    ) -> Self {
        Self { records, parts, spans, staged: List::new(staged), scratch, at: Place::default() }
    }

    /// The next record that has a key.
    fn record(&mut self) -> Option<(&'a Part, &'a [u8], Record<'a>)> {
        loop {
            let span = self.spans.get(self.at.span)?;
            let at = self.at.record.unwrap_or(span.records.start);
            if at >= span.records.end {
                self.at = Place { span: self.at.span + 1, ..Place::default() };
                continue;
            }
            self.at.record = Some(at + 1);
            let Some(record) = self.records.get(at) else { continue };
            let Some(key) = record.key else { continue };
            return Some((self.parts.get(span.part)?, key, record));
        }
    }
}

impl Writes for Restored<'_> {
    fn rewind(&mut self) {
        self.staged.rewind();
        self.at = Place::default();
    }

    fn next(&mut self) -> Option<Write<'_>> {
        if let Some(space) = self.at.index.take() {
            return Some(Write { space, key: &self.scratch.key, value: Some(&[]) });
        }
        loop {
            let Some((part, logged, record)) = self.record() else { return self.staged.next() };
            let (rows, now) = (part.changelog.rows, part.pending_observed.unwrap_or(i64::MIN));
            // One that cannot be read was refused when it was chosen.
            let Ok(expiring) = rows.key_of_log(logged) else { continue };
            let expired = !part.changelog.held && expiring.is_some_and(|key| rows.has_expired(key.suffix.time(), now));
            if expired || rows.depends_on_rows() {
                continue;
            }
            let Scratch { key: buffer, value: scratch } = &mut *self.scratch;
            let (format, headers) = (part.changelog.format, record.headers.iter());
            let value = format.to_store(record.value, record.timestamp, headers, scratch);
            if let (RowLayout::Ttl { windowed, store, time_to_live, .. }, Some(_)) = (rows, value) {
                TtlKeyValue::<dyn SpaceMut>::index_key(store, time_to_live, logged, record.timestamp, buffer);
                self.at.index = Some(windowed);
            }
            let key = match expiring {
                Some(key) => {
                    buffer.clear();
                    key.encode(buffer);
                    buffer.as_slice()
                }
                None => logged,
            };
            return Some(Write { space: rows.record_space(), key, value });
        }
    }
}
