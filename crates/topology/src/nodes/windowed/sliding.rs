//! Sliding windows (KIP-450): which windows a record goes into, and which ones it makes.
//!
//! For each record with the time *t* there is the window [*t* − difference, *t*], its *left* one, and if there is anything in
//! it the window [*t* + 1, *t* + 1 + difference], its *right* one. A window that is made anew is filled from one that is there
//! and has the same records in it. A row's own time, that of the latest record in its window, says which records those are.

use millpond_store_api::Direction;

use super::window_rows::FoundRow;
use super::{FoldRef, Updates, WindowRows};
use crate::error::Result;
use crate::node::TaskCx;
use crate::record::Record;

/// What is needed to put one record into its windows.
struct Taking<'a, K, V> {
    record: &'a Record<K, V>,
    time: i64,
    difference: i64,
    close: i64,
    taken: bool,
}

/// What the windows near a record say of those that it makes.
#[derive(Default)]
struct Near {
    /// The time of the latest record before this one, as far as it matters.
    previous: Option<i64>,
    /// The row that has the records before this one, up to the difference.
    before: Option<FoundRow>,
    /// The row that has the records behind this one, up to the difference, and maybe others.
    behind: Option<FoundRow>,
    has_left: bool,
    has_right: bool,
}

impl<K: Clone + 'static, A: 'static, F> WindowRows<K, A, F> {
    /// Puts a record into all open windows that hold it, and makes those that begin or end with it.
    pub(super) fn take_sliding<V>(
        &mut self,
        cx: &mut TaskCx<'_>,
        to: Option<&mut Updates<K, A>>,
        record: &Record<K, V>,
        difference: i64,
        close: i64,
    ) -> Result<bool>
    where
        F: FoldRef<K, V, A>,
    {
        let time = record.timestamp;
        // Its right window is the last one that has to do with it. Kafka Streams calls that closed when its end is reached.
        if self.end(time.saturating_add(1)) <= close {
            return Ok(false);
        }
        let mut taking = Taking { record, time, difference, close, taken: false };
        if time < difference {
            self.take_early(cx, to, &mut taking)?;
        } else {
            self.take_late(cx, to, &mut taking)?;
        }
        Ok(taking.taken)
    }

    /// A record whose left window would begin before 1970: all such records share the window [0, difference].
    fn take_early<V>(
        &mut self,
        cx: &mut TaskCx<'_>,
        mut to: Option<&mut Updates<K, A>>,
        taking: &mut Taking<'_, K, V>,
    ) -> Result
    where
        F: FoldRef<K, V, A>,
    {
        let time = taking.time;
        self.find(cx, 0, time.saturating_add(1), Direction::Forward)?;
        let mut near = Near::default();
        let mut combined = None;
        for at in 0..self.found.rows.len() {
            let Some(row) = self.found.rows.get(at).copied() else { break };
            if row.start == 0 {
                combined = Some(row);
                // If it has a later record, the right window of the previous one was made by that.
                near.previous = Some(row.time).filter(|latest| *latest < time);
            } else if row.start <= time {
                near.behind = Some(row);
                self.add(cx, to.as_deref_mut(), taking, row)?;
            } else {
                near.has_right = true;
            }
        }
        // Without a window that begins between, all records of the combined one are behind this one if any is.
        near.behind = near.behind.or(combined.filter(|row| row.time > time));
        self.make_right(cx, to.as_deref_mut(), taking, &near)?;
        if let Some(previous) = near.previous.filter(|previous| !self.begins(previous.saturating_add(1))) {
            self.begin(cx, to.as_deref_mut(), taking, previous.saturating_add(1), None)?;
        }
        match combined {
            Some(row) => self.add(cx, to, taking, row),
            None => self.begin(cx, to, taking, 0, None),
        }
    }

    /// A record whose left window begins in 1970 or later.
    fn take_late<V>(
        &mut self,
        cx: &mut TaskCx<'_>,
        mut to: Option<&mut Updates<K, A>>,
        taking: &mut Taking<'_, K, V>,
    ) -> Result
    where
        F: FoldRef<K, V, A>,
    {
        let (time, difference) = (taking.time, taking.difference);
        let from = time.saturating_sub(difference).saturating_sub(difference).max(0);
        self.find(cx, from, time.saturating_add(1), Direction::Reverse)?;
        let mut near = Near::default();
        for at in 0..self.found.rows.len() {
            let Some(row) = self.found.rows.get(at).copied() else { break };
            let end = self.end(row.start);
            if row.start > time {
                near.has_right = true;
            } else if end < time {
                (near.before, near.previous) = (Some(row), Some(row.time));
                break;
            } else if end > time || row.start > time.saturating_sub(difference) {
                near.behind = near.behind.or(Some(row));
                self.add(cx, to.as_deref_mut(), taking, row)?;
            } else {
                near.has_left = true;
                self.add(cx, to.as_deref_mut(), taking, row)?;
                if row.time >= time {
                    // A record of this very time has made all windows already.
                    return Ok(());
                }
                near.previous = Some(row.time);
            }
        }
        self.make_windows(cx, to, taking, &near)
    }

    /// Makes the windows that are not there yet: the right one of the record before, the left one and the right one of this.
    fn make_windows<V>(
        &mut self,
        cx: &mut TaskCx<'_>,
        mut to: Option<&mut Updates<K, A>>,
        taking: &mut Taking<'_, K, V>,
        near: &Near,
    ) -> Result
    where
        F: FoldRef<K, V, A>,
    {
        let left = taking.time.saturating_sub(taking.difference);
        let right_of_previous = near.previous.map(|previous| previous.saturating_add(1));
        let mut left_was_made = false;
        if let Some(start) = right_of_previous.filter(|start| *start >= left && !self.begins(*start)) {
            self.begin(cx, to.as_deref_mut(), taking, start, None)?;
            left_was_made = start == left;
        }
        if !near.has_left {
            let base = near.before.filter(|_| near.previous.is_some_and(|previous| previous >= left));
            // Kafka Streams tells of it twice if the record before lies right behind its window's end.
            let old = if left_was_made && self.wants_old { self.get(cx, left)?.map(|(value, ..)| value) } else { None };
            self.begin_with(cx, to.as_deref_mut(), taking, left, base, old)?;
        }
        self.make_right(cx, to, taking, near)
    }

    /// Makes the record's right window if there is anything in it. The record itself is not.
    fn make_right<V>(
        &mut self,
        cx: &mut TaskCx<'_>,
        to: Option<&mut Updates<K, A>>,
        taking: &mut Taking<'_, K, V>,
        near: &Near,
    ) -> Result {
        let Some(row) = near.behind.filter(|row| row.time > taking.time && !near.has_right) else { return Ok(()) };
        let value = self.value_of(row)?;
        self.put(cx, to, taking.record, taking.time.saturating_add(1), (value, None, row.time)).map(drop)
    }

    /// Whether a window that was found begins then.
    fn begins(&self, start: i64) -> bool {
        self.found.rows.iter().any(|row| row.start == start)
    }

    /// Puts the record into a window that is there.
    fn add<V>(
        &mut self,
        cx: &mut TaskCx<'_>,
        to: Option<&mut Updates<K, A>>,
        taking: &mut Taking<'_, K, V>,
        row: FoundRow,
    ) -> Result
    where
        F: FoldRef<K, V, A>,
    {
        let old = self.old_of(row)?;
        self.begin_with(cx, to, taking, row.start, Some(row), old)
    }

    /// Puts the record into a new window, with what is in a row.
    fn begin<V>(
        &mut self,
        cx: &mut TaskCx<'_>,
        to: Option<&mut Updates<K, A>>,
        taking: &mut Taking<'_, K, V>,
        start: i64,
        base: Option<FoundRow>,
    ) -> Result
    where
        F: FoldRef<K, V, A>,
    {
        self.begin_with(cx, to, taking, start, base, None)
    }

    fn begin_with<V>(
        &mut self,
        cx: &mut TaskCx<'_>,
        to: Option<&mut Updates<K, A>>,
        taking: &mut Taking<'_, K, V>,
        start: i64,
        base: Option<FoundRow>,
        old: Option<A>,
    ) -> Result
    where
        F: FoldRef<K, V, A>,
    {
        if self.is_closed(start, taking.close) {
            return Ok(());
        }
        let so_far = base.map(|row| self.value_of(row)).transpose()?;
        let record = taking.record;
        let new = self.fold.fold(so_far, &record.key, &record.value)?;
        let time = base.map_or(taking.time, |row| row.time.max(taking.time));
        taking.taken |= self.put(cx, to, record, start, (new, old, time))?;
        Ok(())
    }
}
