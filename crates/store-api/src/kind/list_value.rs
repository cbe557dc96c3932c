//! The list-value store: a key holds a list of values, in the bytes of Kafka's `ListSerializer` for byte arrays.

use crate::{Direction, Error, ErrorKind, Range, Result, Row, Space, SpaceMut};

/// The serializer's strategy for elements of any length, `VARIABLE_SIZE`.
const VARIABLE_SIZE: u8 = 1;

/// The strategy and the count.
const HEADER: usize = 5;

/// The values under a key, oldest first, lent; an iterator over them. Never empty in a store.
///
/// `01 ‖ int32 count ‖ (int32 length ‖ value)*`, big endian. Damaged bytes are one [`ErrorKind::Corrupt`], then the end.
#[derive(Clone)]
pub struct ListValues<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> ListValues<'a> {
    /// Reads strategy and count; the values are read when they are walked.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`] for short bytes, another strategy or a negative count.
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        let (left, rest) = header(bytes)?;
        Ok(Self { rest, left })
    }

    /// Appends the bytes of a list.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] for more values or longer ones than the format can count (2³¹ − 1).
    pub fn encode<'v>(values: impl ExactSizeIterator<Item = &'v [u8]>, out: &mut Vec<u8>) -> Result<()> {
        out.push(VARIABLE_SIZE);
        put_len(values.len(), out)?;
        for value in values {
            put_len(value.len(), out)?;
            out.extend_from_slice(value);
        }
        Ok(())
    }

    fn value(&mut self) -> Option<&'a [u8]> {
        let (len, rest) = self.rest.split_first_chunk()?;
        let (value, rest) = rest.split_at_checked(usize::try_from(i32::from_be_bytes(*len)).ok()?)?;
        self.rest = rest;
        Some(value)
    }
}

impl<'a> Iterator for ListValues<'a> {
    type Item = Result<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        let value = match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                self.value()
            }
            // The list must end where the bytes end.
            None if self.rest.is_empty() => return None,
            None => None,
        };
        if value.is_none() {
            *self = Self { rest: &[], left: 0 };
        }
        Some(value.ok_or_else(|| Error::new(ErrorKind::Corrupt, "read a list of values")))
    }
}

impl std::iter::FusedIterator for ListValues<'_> {}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for ListValues<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ListValues").field("left", &self.left).field("bytes", &self.rest.len()).finish()
    }
}

fn header(bytes: &[u8]) -> Result<(usize, &[u8])> {
    let read = || {
        let ([VARIABLE_SIZE, count @ ..], rest) = bytes.split_first_chunk::<HEADER>()? else { return None };
        Some((usize::try_from(i32::from_be_bytes(*count)).ok()?, rest))
    };
    let damaged = || Error::new(ErrorKind::Corrupt, "read the head of a list of values").with("bytes", bytes.len());
    read().ok_or_else(damaged)
}

fn put_len(len: usize, out: &mut Vec<u8>) -> Result<()> {
    let len = i32::try_from(len).map_err(|e| Error::new(ErrorKind::Invalid, "write a list").caused_by(e))?;
    out.extend_from_slice(&len.to_be_bytes());
    Ok(())
}

/// A store of bytes with a list of values under each key, over a space. Cheap to make: one per access.
///
/// An append copies the list: it is meant for a few values per key, such as records that wait for their join.
pub struct ListValue<'a, S: ?Sized> {
    space: &'a mut S,
    scratch: Vec<u8>,
}

impl<S: ?Sized> std::fmt::Debug for ListValue<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ListValue").finish_non_exhaustive()
    }
}

impl<S: ?Sized> ListValue<'_, S> {
    /// Lends the view a buffer for lists, so that an append allocates nothing. What is in it is lost.
    #[must_use]
    pub fn with_buffer(mut self, buffer: Vec<u8>) -> Self {
        self.scratch = buffer;
        self
    }

    /// Ends the view, and gives the buffer back.
    pub fn into_buffer(self) -> Vec<u8> {
        self.scratch
    }
}

impl<'a, S: Space + ?Sized> ListValue<'a, S> {
    /// A view over `space`.
    pub fn new(space: &'a mut S) -> Self {
        Self { space, scratch: Vec::new() }
    }

    /// The values under a key.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<ListValues<'_>>> {
        self.space.get(key)?.map(ListValues::decode).transpose()
    }

    /// Calls `each` with one value after the other and its key, until it answers false: all values of a key, then those of
    /// the next. Reverse is the exact mirror, so the newest value of a key comes first.
    pub fn for_each(
        &self,
        range: Range<'_>,
        direction: Direction,
        each: &mut dyn FnMut(Row<'_>) -> Result<bool>,
    ) -> Result<()> {
        let mut cursor = self.space.scan(range, direction)?;
        while let Some(row) = cursor.next()? {
            let values = ListValues::decode(row.value)?;
            let more = match direction {
                Direction::Forward => each_value(values, &mut |value| each(Row { key: row.key, value }))?,
                Direction::Reverse => {
                    let values = values.collect::<Result<Vec<_>>>()?;
                    each_value(values.into_iter().rev().map(Ok), &mut |value| each(Row { key: row.key, value }))?
                }
            };
            if !more {
                break;
            }
        }
        Ok(())
    }
}

fn each_value<'v>(
    values: impl Iterator<Item = Result<&'v [u8]>>,
    each: &mut dyn FnMut(&[u8]) -> Result<bool>,
) -> Result<bool> {
    for value in values {
        if !each(value?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

impl<S: SpaceMut + ?Sized> ListValue<'_, S> {
    /// Appends a value to the list of a key.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] for a value or a list that the format cannot count (2³¹ − 1); [`ErrorKind::Corrupt`] if
    /// what lies there is no list.
    pub fn append(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let Self { space, scratch } = self;
        let (count, values) = space.get(key)?.map_or(Ok((0, &[][..])), header)?;
        scratch.clear();
        scratch.push(VARIABLE_SIZE);
        put_len(count + 1, scratch)?;
        scratch.extend_from_slice(values);
        put_len(value.len(), scratch)?;
        scratch.extend_from_slice(value);
        space.put(key, Some(scratch))
    }

    /// Deletes the whole list of a key; reads nothing.
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.space.put(key, None)
    }
}
