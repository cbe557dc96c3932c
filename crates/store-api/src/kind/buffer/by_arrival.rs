//! The buffer that keeps every row: what a join with a grace period needs.

use super::totals::{BufferTotals, Totals};
use super::{Buffered, OldestFirst, damaged, earliest, order_head, split_order, take_oldest, with_totals};
use crate::{Result, Row, Space, SpaceMut};

/// A buffer of bytes over a space, in the order of the rows' times; rows of one time in the order of their arrival, whatever
/// their keys. A key may have any number of rows. Cheap to make: one per access.
pub struct ArrivalBuffer<'a, S: ?Sized> {
    space: &'a mut S,
    scratch: Vec<u8>,
}

impl<S: ?Sized> std::fmt::Debug for ArrivalBuffer<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArrivalBuffer").finish_non_exhaustive()
    }
}

impl<'a, S: Space + ?Sized> ArrivalBuffer<'a, S> {
    /// A view over `space`, which holds nothing else.
    pub fn new(space: &'a mut S) -> Self {
        Self { space, scratch: Vec::new() }
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
}

impl<S: SpaceMut + ?Sized> ArrivalBuffer<'_, S> {
    /// Adds a row. It is numbered; the numbers go on after a restart and begin again after 2³², so that rows of one time
    /// and key never take each other's place.
    pub fn put(&mut self, time: i64, key: &[u8], value: &[u8]) -> Result<()> {
        let mut totals = Totals::read(self.space)?;
        order_head(time, &mut self.scratch);
        self.scratch.extend_from_slice(&totals.sequence.to_be_bytes());
        self.scratch.extend_from_slice(key);
        totals.sequence = totals.sequence.wrapping_add(1);
        totals.add(time, key, value);
        self.space.put(&self.scratch, Some(value))?;
        totals.write(self.space)
    }

    /// Takes rows out, oldest first, for as long as `due` holds for the oldest row's time and what is held with it; answers
    /// how many.
    ///
    /// `due` must not hold for a later time when it does not for an earlier one: it is asked with a time that may be
    /// earlier than the oldest row's, so that mostly nothing is walked. A row is deleted after `each` has had it; if that
    /// fails, the row stays and the error is handed on.
    pub fn evict(
        &mut self,
        due: &mut dyn FnMut(i64, BufferTotals) -> bool,
        each: &mut dyn FnMut(Buffered<'_>) -> Result<()>,
    ) -> Result<u64> {
        let mut step = |space: &mut S, order: Row<'_>, totals: &mut Totals| {
            let (time, rest) = split_order(order.key)?;
            let key = rest.get(4..).ok_or_else(|| damaged("an order row is too short"))?;
            each(Buffered { time, key, value: order.value })?;
            totals.remove(key, order.value)?;
            space.put(order.key, None)
        };
        with_totals(self.space, |space, totals| {
            let (mut walk, mut taken) = (OldestFirst::default(), 0);
            while take_oldest(space, totals, &mut walk, due, &mut step)? {
                taken += 1;
            }
            Ok(taken)
        })
    }
}
