//! Final results that are being told of: read once, in the order in which they are told of, and kept in bytes until it is
//! their turn.

/// A window whose result is final.
#[derive(Clone, Copy)]
pub(crate) struct FinalRow {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) timestamp: i64,
    key: (usize, usize),
    /// Up to where the value's bytes go, which begin behind the key's.
    value_end: usize,
}

/// The final results of a look.
#[derive(Default)]
pub(crate) struct Finals {
    rows: Vec<FinalRow>,
    bytes: Vec<u8>,
}

impl Finals {
    pub(super) fn push(&mut self, key: &[u8], (start, end): (i64, i64), timestamp: i64, value: &[u8]) {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let key = (begin, self.bytes.len());
        self.bytes.extend_from_slice(value);
        self.rows.push(FinalRow { start, end, timestamp, key, value_end: self.bytes.len() });
    }

    /// Orders them by the times of their windows. What is equal stays in the order of the keys, in which it was read.
    pub(super) fn sort(&mut self) {
        self.rows.sort_by_key(|row| (row.end, row.start));
    }

    /// Row `n`, with the bytes of its key and of its value.
    pub(super) fn get(&self, n: u64) -> Option<(FinalRow, &[u8], &[u8])> {
        let row = *self.rows.get(usize::try_from(n).ok()?)?;
        let key = self.bytes.get(row.key.0..row.key.1)?;
        Some((row, key, self.bytes.get(row.key.1..row.value_end)?))
    }

    /// Whether there is a row behind row `n`.
    pub(super) fn has_more(&self, n: u64) -> bool {
        n.saturating_add(1) < self.rows.len() as u64
    }
}
