//! What a buffer holds, counted as it changes and kept beside its rows.

use super::{TOTALS, damaged};
use crate::{Result, Space, SpaceMut};

/// How much waits in a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferTotals {
    /// The number of rows.
    pub rows: u64,
    /// The bytes of their keys and values, without what a row costs beyond them.
    pub bytes: u64,
}

/// The totals row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) held: BufferTotals,
    /// No row has an earlier time; the first one may have a later time.
    pub(super) lowest: i64,
    /// Of the next row of a buffer by arrival.
    pub(super) sequence: u32,
}

impl Totals {
    const NONE: Self = Self { held: BufferTotals { rows: 0, bytes: 0 }, lowest: i64::MAX, sequence: 0 };

    pub(super) fn read<S: Space + ?Sized>(space: &mut S) -> Result<Self> {
        let Some(bytes) = space.get(&[TOTALS])? else { return Ok(Self::NONE) };
        let decode = || {
            let (rows, rest) = bytes.split_first_chunk()?;
            let (held, rest) = rest.split_first_chunk()?;
            let (lowest, rest) = rest.split_first_chunk()?;
            Some(Self {
                held: BufferTotals { rows: u64::from_be_bytes(*rows), bytes: u64::from_be_bytes(*held) },
                lowest: i64::from_be_bytes(*lowest),
                sequence: u32::from_be_bytes(rest.try_into().ok()?),
            })
        };
        decode().ok_or_else(|| damaged("the totals have another length"))
    }

    /// Writes them; an empty buffer without a past leaves no row.
    pub(super) fn write<S: SpaceMut + ?Sized>(&self, space: &mut S) -> Result<()> {
        if *self == Self::NONE {
            return space.put(&[TOTALS], None);
        }
        let mut bytes = Vec::with_capacity(28);
        bytes.extend_from_slice(&self.held.rows.to_be_bytes());
        bytes.extend_from_slice(&self.held.bytes.to_be_bytes());
        bytes.extend_from_slice(&self.lowest.to_be_bytes());
        bytes.extend_from_slice(&self.sequence.to_be_bytes());
        space.put(&[TOTALS], Some(&bytes))
    }

    pub(super) fn add(&mut self, time: i64, key: &[u8], value: &[u8]) {
        self.held.rows += 1;
        self.held.bytes += size(key, value);
        self.lowest = self.lowest.min(time);
    }

    /// # Errors
    ///
    /// `Corrupt` if the totals do not hold as much.
    pub(super) fn remove(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let short = || damaged("its totals are less than its rows");
        self.held.rows = self.held.rows.checked_sub(1).ok_or_else(short)?;
        self.held.bytes = self.held.bytes.checked_sub(size(key, value)).ok_or_else(short)?;
        if self.held.rows == 0 {
            self.lowest = i64::MAX;
        }
        Ok(())
    }
}

fn size(key: &[u8], value: &[u8]) -> u64 {
    (key.len() + value.len()) as u64
}
