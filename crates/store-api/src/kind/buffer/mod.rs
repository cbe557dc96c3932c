//! Time-ordered buffers: rows that wait until it is their time, on disk with the engine.
//!
//! A buffer has a space of its own, in which the first byte tells rows apart:
//!
//! ```text
//!           buffer by arrival                          buffer by key
//! 00 order  i64 time ‖ u32 sequence ‖ key → value      i64 time ‖ key → empty
//! 01 row                                               key → value ‖ i64 time
//! 02 totals u64 rows ‖ u64 bytes ‖ i64 lowest time ‖ u32 next sequence
//! ```
//!
//! All numbers are big endian; the times of order rows have their sign bit flipped, so that they sort. The totals are
//! written with the rows, so they hold after whatever the rows outlive. An empty buffer has no totals row but for the
//! sequence. These bytes never leave the machine, but for the rows of a buffer by key: what is suppressed is logged as its row
//! stands ([`BufferValue`]).

mod by_arrival;
mod by_key;
mod totals;
mod value;

pub use by_arrival::ArrivalBuffer;
pub use by_key::{BufferScratch, KeyBuffer, MakeValue};
pub use totals::BufferTotals;
pub use value::{BufferValue, ContextHeaders, UpdateContext};

use std::ops::Bound::{Excluded, Included};

use self::totals::Totals;
use crate::{Chunk, Direction, Error, ErrorKind, Range, Result, Row, Space, SpaceMut};

/// What a row of the space is, by its first byte.
const ORDER: u8 = 0;
const ROW: u8 = 1;
const TOTALS: u8 = 2;

/// Where the key begins behind kind and time.
const TIME_END: usize = 9;

/// So many order rows are copied out at a time, at most.
const MAX_CHUNK: usize = 64;

/// A row that waits, lent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Buffered<'a> {
    /// Its time in milliseconds since 1970 (UTC).
    pub time: i64,
    /// The key's bytes.
    pub key: &'a [u8],
    /// The value's bytes.
    pub value: &'a [u8],
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for Buffered<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffered")
            .field("time", &self.time)
            .field("key_len", &self.key.len())
            .field("value_len", &self.value.len())
            .finish()
    }
}

/// The head of an order row.
fn order_head(time: i64, out: &mut Vec<u8>) {
    out.clear();
    out.push(ORDER);
    out.extend_from_slice(&(time ^ i64::MIN).to_be_bytes());
}

/// The time of an order row, and what stands behind it.
fn split_order(key: &[u8]) -> Result<(i64, &[u8])> {
    match key.split_first_chunk::<TIME_END>() {
        Some(([ORDER, time @ ..], rest)) => Ok((i64::from_be_bytes(*time) ^ i64::MIN, rest)),
        _ => Err(damaged("an order row is too short")),
    }
}

/// The time of the first order row that is not before `lowest`.
fn earliest<S: Space + ?Sized>(space: &S, lowest: i64) -> Result<Option<i64>> {
    let mut from = Vec::new();
    order_head(lowest, &mut from);
    let mut cursor = space.scan(Range::new(Included(&from), Excluded(&[ROW])), Direction::Forward)?;
    cursor.next()?.map(|row| split_order(row.key).map(|(time, _)| time)).transpose()
}

/// Changes the rows with their totals, which are written at the end, after an error too.
fn with_totals<S: SpaceMut + ?Sized, T>(
    space: &mut S,
    body: impl FnOnce(&mut S, &mut Totals) -> Result<T>,
) -> Result<T> {
    let before = Totals::read(space)?;
    let mut totals = before;
    let outcome = body(space, &mut totals);
    if totals != before {
        totals.write(space)?;
    }
    outcome
}

/// Has `step` take the oldest row out, if that is due; false if it is not, or there is none.
fn take_oldest<S: SpaceMut + ?Sized>(
    space: &mut S,
    totals: &mut Totals,
    walk: &mut OldestFirst,
    due: &mut dyn FnMut(i64, BufferTotals) -> bool,
    step: &mut dyn FnMut(&mut S, Row<'_>, &mut Totals) -> Result<()>,
) -> Result<bool> {
    if walk.is_new() && (totals.held.rows == 0 || !due(totals.lowest, totals.held)) {
        return Ok(false);
    }
    let Some(order) = walk.next(space, totals.lowest)? else {
        return if totals.held.rows == 0 { Ok(false) } else { Err(damaged("its totals are more than its rows")) };
    };
    totals.lowest = split_order(order.key)?.0;
    if !due(totals.lowest, totals.held) {
        return Ok(false);
    }
    step(space, order, totals)?;
    Ok(true)
}

/// Where a walk over a buffer's rows, oldest first, has come to. It reads some of them at a time, so it holds for as long as
/// only the rows that it has given are taken out, and nothing is put.
#[derive(Default)]
pub struct OldestFirst {
    chunk: Chunk,
    at: usize,
    /// How many rows were read last; none yet: 0.
    limit: usize,
    /// The last order row that was read.
    last: Vec<u8>,
}

impl OldestFirst {
    fn is_new(&self) -> bool {
        self.limit == 0
    }

    /// The next order row, lent until the next call; `lowest`: no row has an earlier time.
    fn next<S: Space + ?Sized>(&mut self, space: &S, lowest: i64) -> Result<Option<Row<'_>>> {
        if self.at == self.chunk.len() {
            let from = match self.limit {
                0 => {
                    order_head(lowest, &mut self.last);
                    Included(self.last.as_slice())
                }
                _ => Excluded(self.last.as_slice()),
            };
            self.limit = (self.limit * 4).clamp(1, MAX_CHUNK);
            self.chunk.fill(&mut *space.scan(Range::new(from, Excluded(&[ROW])), Direction::Forward)?, self.limit)?;
            self.at = 0;
            if let Some(last) = self.chunk.last() {
                last.key.clone_into(&mut self.last);
            }
        }
        let row = self.chunk.get(self.at);
        self.at += usize::from(row.is_some());
        Ok(row)
    }
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for OldestFirst {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OldestFirst").field("read", &self.chunk.len()).field("at", &self.at).finish_non_exhaustive()
    }
}

#[cold]
fn damaged(reason: &'static str) -> Error {
    Error::new(ErrorKind::Corrupt, "read a time-ordered buffer").with("reason", reason)
}
