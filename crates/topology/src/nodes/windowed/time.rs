//! Tumbling and hopping windows.

use super::{FoldRef, Updates, WindowRows};
use crate::error::Result;
use crate::node::TaskCx;
use crate::record::Record;

impl<K: Clone + 'static, A: 'static, F> WindowRows<K, A, F> {
    /// Puts a record into all windows that its time lies in and that are open, the earliest first.
    pub(super) fn take_time<V>(
        &mut self,
        cx: &mut TaskCx<'_>,
        mut to: Option<&mut Updates<K, A>>,
        record: &Record<K, V>,
        (size, advance): (i64, i64),
        close: i64,
    ) -> Result<bool>
    where
        F: FoldRef<K, V, A>,
    {
        let mut taken = false;
        for start in starts(record.timestamp, size, advance) {
            if self.is_closed(start, close) {
                continue;
            }
            let (so_far, old, time) = match self.get(cx, start)? {
                Some((so_far, old, time)) => (Some(so_far), old, time.max(record.timestamp)),
                None => (None, None, record.timestamp),
            };
            let new = self.fold.fold(so_far, &record.key, &record.value)?;
            taken |= self.put(cx, to.as_deref_mut(), record, start, (new, old, time))?;
        }
        Ok(taken)
    }
}

/// The starts of all windows that a time (not negative) lies in: whole multiples of the advance, none of them negative.
fn starts(time: i64, size: i64, advance: i64) -> impl Iterator<Item = i64> {
    let last = time - time.rem_euclid(advance);
    let before = size.saturating_sub(1).saturating_sub(time - last) / advance;
    let first = last.saturating_sub(before.saturating_mul(advance)).max(last.rem_euclid(advance));
    std::iter::successors(Some(first), move |start| start.checked_add(advance)).take_while(move |start| *start <= last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b002_a_time_lies_in_the_windows_that_hold_it() {
        let of = |time, size, advance| starts(time, size, advance).collect::<Vec<_>>();
        assert_eq!(of(7, 10, 5), [0, 5]);
        assert_eq!(of(14, 10, 5), [5, 10]);
        assert_eq!(of(11, 10, 3), [3, 6, 9]);
        assert_eq!(of(9, 10, 10), [0]);
        assert_eq!(of(10, 10, 10), [10]);
        assert_eq!(of(0, 1, 1), [0]);
        for (size, advance) in [(1, 1), (4, 1), (10, 3), (10, 10), (7, 2), (i64::MAX, i64::MAX), (i64::MAX, 1 << 61)] {
            for time in (0..30).chain([i64::MAX - 8, i64::MAX]) {
                let holds = |start: &i64| *start <= time && time - start < size;
                let found = of(time, size, advance);
                assert!(found.iter().all(holds), "{size}/{advance} at {time}");
                if time < 30 {
                    let all = (0..=time).step_by(usize::try_from(advance).unwrap_or(usize::MAX)).filter(holds);
                    assert_eq!(found, all.collect::<Vec<_>>(), "{size}/{advance} at {time}");
                }
            }
        }
    }
}
