//! The buffer that keeps the last value of each key: what suppression needs.

use super::totals::{BufferTotals, Totals};
use super::{Buffered, OldestFirst, ROW, damaged, earliest, order_head, split_order, take_oldest, with_totals};
use crate::{Result, Row, Space, SpaceMut, ValueAndTimestamp};

/// Makes the new value of a key of the one that waits, if one does; it appends to the buffer.
pub type MakeValue<'a> = dyn FnMut(Option<&[u8]>, &mut Vec<u8>) -> Result<()> + 'a;

/// A buffer of bytes over a space with one row per key, in the order of the times at which the keys came, then of the keys.
/// A new value of a waiting key takes the place of the old one and does not wait longer. Cheap to make: one per access.
pub struct KeyBuffer<'a, S: ?Sized> {
    space: &'a mut S,
    scratch: BufferScratch,
}

/// Memory of a [`KeyBuffer`] for one row at a time, to be used again by the next.
#[derive(Default)]
pub struct BufferScratch {
    row: Vec<u8>,
    order: Vec<u8>,
    value: Vec<u8>,
}

impl std::fmt::Debug for BufferScratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BufferScratch").finish_non_exhaustive()
    }
}

impl<S: ?Sized> std::fmt::Debug for KeyBuffer<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyBuffer").finish_non_exhaustive()
    }
}

impl<'a, S: Space + ?Sized> KeyBuffer<'a, S> {
    /// A view over `space`, which holds nothing else.
    pub fn new(space: &'a mut S) -> Self {
        Self { space, scratch: BufferScratch::default() }
    }

    /// With memory that an earlier one has left: nothing is allocated once it has grown.
    #[must_use]
    pub fn with_scratch(self, scratch: BufferScratch) -> Self {
        Self { scratch, ..self }
    }

    /// The memory, for the next one.
    pub fn into_scratch(self) -> BufferScratch {
        self.scratch
    }

    /// How much waits.
    pub fn totals(&mut self) -> Result<BufferTotals> {
        Ok(Totals::read(self.space)?.held)
    }

    /// The time of the oldest row.
    pub fn earliest(&mut self) -> Result<Option<i64>> {
        let totals = Totals::read(self.space)?;
        if totals.held.rows == 0 { Ok(None) } else { earliest(self.space, totals.lowest) }
    }

    /// Whether `due` may hold for the oldest row, as [`KeyBuffer::take_oldest`] asks it: found out without a walk.
    pub fn may_be_due(&mut self, due: &mut dyn FnMut(i64, BufferTotals) -> bool) -> Result<bool> {
        let totals = Totals::read(self.space)?;
        Ok(totals.held.rows > 0 && due(totals.lowest, totals.held))
    }

    /// The waiting value of a key, with the time at which the key came.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<ValueAndTimestamp<'_>>> {
        let row = &mut self.scratch.row;
        row_key(key, row);
        self.space.get(row)?.map(split_row).transpose()
    }

    /// The key of a buffer's row of the space, by the row's own; `None` for the rows that follow from these: their order, the
    /// totals. Whoever keeps a log of the space logs the former only, and gives them to [`KeyBuffer::restore`].
    pub fn key_of_row(row: &[u8]) -> Option<&[u8]> {
        row.split_first().filter(|(kind, _)| **kind == ROW).map(|(_, key)| key)
    }
}

impl<S: SpaceMut + ?Sized> KeyBuffer<'_, S> {
    /// Sets the value of a key; answers the time at which the key came, which is `time` if it was not waiting.
    pub fn put(&mut self, time: i64, key: &[u8], value: &[u8]) -> Result<i64> {
        self.put_with(time, key, &mut |_, out| {
            out.extend_from_slice(value);
            Ok(())
        })
    }

    /// As [`KeyBuffer::put`], with a value that depends on the one that waits.
    pub fn put_with(&mut self, time: i64, key: &[u8], make: &mut MakeValue<'_>) -> Result<i64> {
        let Self { space, scratch: BufferScratch { row, order, value } } = self;
        let mut totals = Totals::read(&mut **space)?;
        row_key(key, row);
        value.clear();
        let waiting = space.get(row)?.map(split_row).transpose()?;
        make(waiting.map(|waiting| waiting.value), value)?;
        let since = waiting.map_or(time, |waiting| waiting.timestamp);
        let known = waiting.is_some();
        if let Some(old) = waiting {
            totals.remove(key, old.value)?;
        }
        totals.add(since, key, value);
        value.extend_from_slice(&since.to_be_bytes());
        space.put(row, Some(value))?;
        if !known {
            order_key(since, key, order);
            space.put(order, Some(&[]))?;
        }
        totals.write(&mut **space)?;
        Ok(since)
    }

    /// Makes a row what a log says of it: this value, since this time. `None`: it is gone.
    pub fn restore(&mut self, key: &[u8], row: Option<ValueAndTimestamp<'_>>) -> Result<()> {
        self.remove(key)?;
        match row {
            Some(ValueAndTimestamp { timestamp, value }) => self.put(timestamp, key, value).map(drop),
            None => Ok(()),
        }
    }

    /// Takes out the row of a key; answers whether there was one.
    pub fn remove(&mut self, key: &[u8]) -> Result<bool> {
        let Self { space, scratch: BufferScratch { row, order, .. } } = self;
        row_key(key, row);
        let mut totals = Totals::read(&mut **space)?;
        let Some(old) = space.get(row)?.map(split_row).transpose()? else { return Ok(false) };
        totals.remove(key, old.value)?;
        order_key(old.timestamp, key, order);
        space.put(order, None)?;
        space.put(row, None)?;
        totals.write(&mut **space)?;
        Ok(true)
    }

    /// Takes the oldest row out if `due` holds for its time and what is held with it; false if it does not, or there is none.
    /// One after the other, rows come out by their times, then by their keys.
    ///
    /// `due` must not hold for a later time when it does not for an earlier one: it is asked with a time that may be
    /// earlier than the oldest row's, so that mostly nothing is walked. A row is deleted after `each` has had it; if that
    /// fails, the row stays and the error is handed on.
    ///
    /// `walk` is where the call before has left off. It must be a new one if the buffer was written meanwhile, or if what that
    /// call has done was undone.
    pub fn take_oldest(
        &mut self,
        walk: &mut OldestFirst,
        due: &mut dyn FnMut(i64, BufferTotals) -> bool,
        each: &mut dyn FnMut(Buffered<'_>) -> Result<()>,
    ) -> Result<bool> {
        let Self { space, scratch: BufferScratch { row, .. } } = self;
        with_totals(&mut **space, |space, totals| {
            take_oldest(space, totals, walk, due, &mut |space, order, totals| {
                let waiting = read_row(space, order, row)?;
                each(waiting)?;
                totals.remove(waiting.key, waiting.value)?;
                space.put(order.key, None)?;
                space.put(row, None)
            })
        })
    }

    /// How much would wait if all rows were taken out for which `due` holds, as [`KeyBuffer::take_oldest`] asks it.
    pub fn totals_without(&mut self, due: &mut dyn FnMut(i64, BufferTotals) -> bool) -> Result<BufferTotals> {
        let Self { space, scratch: BufferScratch { row, .. } } = self;
        let (mut totals, mut walk) = (Totals::read(&mut **space)?, OldestFirst::default());
        let mut leave_out = |space: &mut S, order: Row<'_>, totals: &mut Totals| {
            let waiting = read_row(space, order, row)?;
            totals.remove(waiting.key, waiting.value)
        };
        while take_oldest(&mut **space, &mut totals, &mut walk, due, &mut leave_out)? {}
        Ok(totals.held)
    }
}

/// The row that an order row stands for; `row` gets its key in the space.
fn read_row<'a, S: SpaceMut + ?Sized>(space: &'a mut S, order: Row<'a>, row: &mut Vec<u8>) -> Result<Buffered<'a>> {
    let (time, key) = split_order(order.key)?;
    row_key(key, row);
    let waiting = space.get(row)?.map(split_row).transpose()?;
    match waiting.filter(|row| row.timestamp == time) {
        Some(ValueAndTimestamp { value, .. }) => Ok(Buffered { time, key, value }),
        None => Err(damaged("an order row has no row of its time")),
    }
}

fn row_key(key: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.push(ROW);
    out.extend_from_slice(key);
}

fn order_key(time: i64, key: &[u8], out: &mut Vec<u8>) {
    order_head(time, out);
    out.extend_from_slice(key);
}

/// A row's value, and the time since which it waits.
fn split_row(row: &[u8]) -> Result<ValueAndTimestamp<'_>> {
    let (value, time) = row.split_last_chunk().ok_or_else(|| damaged("a row is too short"))?;
    Ok(ValueAndTimestamp { timestamp: i64::from_be_bytes(*time), value })
}
