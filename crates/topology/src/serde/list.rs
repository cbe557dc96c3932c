//! Lists, in the bytes of Kafka's `ListSerializer` (`docs/formats/serdes.md`).

use crate::error::{Error, ErrorKind, Result};
use crate::serde::{Serde, SerdeId};

/// A list of what `S` writes: `List(I64)` is a `Serde<Vec<i64>>`, `List(Nullable(Utf8))` a `Serde<Vec<Option<String>>>`.
///
/// ```
/// use millpond_topology::{I32, List, Nullable, Serde, Utf8};
///
/// let mut out = vec![];
/// List(I32).encode(&vec![7], &mut out).unwrap();
/// assert_eq!(out, [0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 7]);
/// assert_eq!(List(I32).decode(&out).unwrap(), [7]);
///
/// out.clear();
/// List(Nullable(Utf8)).encode(&vec![None], &mut out).unwrap();
/// assert_eq!(out, [1, 0, 0, 0, 1, 0xFF, 0xFF, 0xFF, 0xFF]);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct List<S>(pub S);

/// In front of values that all have one length: which are null, how many there are, those that are not null.
const CONSTANT: u8 = 0;
/// In front of values with a length each: how many there are, then they.
const VARIABLE: u8 = 1;
/// The length of a null.
const NULL: i32 = -1;

impl<T: 'static, S: Serde<T>> Serde<Vec<T>> for List<S> {
    fn encode(&self, value: &Vec<T>, out: &mut Vec<u8>) -> Result {
        match self.0.constant_size() {
            Some(size) => self.put_constant(value, size, out),
            None => self.put_variable(value, out),
        }
    }

    fn decode(&self, bytes: &[u8]) -> Result<Vec<T>> {
        match bytes.split_first() {
            Some((&CONSTANT, rest)) => self.read_constant(Reader(rest)),
            Some((&VARIABLE, rest)) => self.read_variable(Reader(rest)),
            _ => Err(unreadable("kind")),
        }
    }

    /// A list is read from both kinds of bytes, but only one of them is written.
    fn identity(&self) -> SerdeId {
        SerdeId::UNKNOWN
    }
}

impl<S> List<S> {
    fn is_null<T>(&self, value: &T) -> bool
    where
        S: Serde<T>,
    {
        self.0.null().is_some() && self.0.is_null(value)
    }

    fn put_constant<T>(&self, values: &[T], size: usize, out: &mut Vec<u8>) -> Result
    where
        S: Serde<T>,
    {
        out.push(CONSTANT);
        let mut nulls = Vec::new();
        for (i, value) in values.iter().enumerate() {
            if self.is_null(value) {
                nulls.push(i);
            }
        }
        put_len(nulls.len(), out)?;
        nulls.into_iter().try_for_each(|i| put_len(i, out))?;
        put_len(values.len(), out)?;
        for value in values.iter().filter(|value| !self.is_null(*value)) {
            let before = out.len();
            self.0.encode(value, out)?;
            if out.len() - before != size {
                return Err(Error::new(ErrorKind::Serialization, "write a list").with("wrong", "constant size"));
            }
        }
        Ok(())
    }

    fn put_variable<T>(&self, values: &[T], out: &mut Vec<u8>) -> Result
    where
        S: Serde<T>,
    {
        out.push(VARIABLE);
        put_len(values.len(), out)?;
        for value in values {
            if self.is_null(value) {
                out.extend_from_slice(&NULL.to_be_bytes());
                continue;
            }
            let at = out.len();
            put_len(0, out)?;
            let before = out.len();
            self.0.encode(value, out)?;
            let len = int32(out.len() - before)?;
            if let Some(place) = out.get_mut(at..before) {
                place.copy_from_slice(&len.to_be_bytes());
            }
        }
        Ok(())
    }

    fn read_constant<T>(&self, mut read: Reader<'_>) -> Result<Vec<T>>
    where
        S: Serde<T>,
    {
        let size = self.0.constant_size().filter(|size| *size > 0).ok_or_else(|| unreadable("kind"))?;
        let nulls = read.len().ok_or_else(|| unreadable("number of nulls"))?;
        let mut nulls = Reader(read.take(nulls.saturating_mul(4)).ok_or_else(|| unreadable("number of nulls"))?);
        let mut next_null = nulls.len();
        let count = read.len().ok_or_else(|| unreadable("length"))?;
        // Each value has bytes, here or among the nulls, so that nobody can ask for more memory than they sent.
        let mut values = Vec::new();
        for i in 0..count {
            if next_null == Some(i) {
                next_null = nulls.len();
                values.push(self.null()?);
            } else {
                values.push(self.0.decode(read.take(size).ok_or_else(|| unreadable("length"))?)?);
            }
        }
        if next_null.is_some() || !nulls.0.is_empty() {
            return Err(unreadable("index of a null"));
        }
        read.end(values)
    }

    fn read_variable<T>(&self, mut read: Reader<'_>) -> Result<Vec<T>>
    where
        S: Serde<T>,
    {
        let count = read.len().ok_or_else(|| unreadable("length"))?;
        let mut values = Vec::new();
        for _ in 0..count {
            values.push(match read.int().ok_or_else(|| unreadable("length"))? {
                NULL => self.null()?,
                len => {
                    let bytes = usize::try_from(len).ok().and_then(|len| read.take(len));
                    self.0.decode(bytes.ok_or_else(|| unreadable("length of a value"))?)?
                }
            });
        }
        read.end(values)
    }

    fn null<T>(&self) -> Result<T>
    where
        S: Serde<T>,
    {
        self.0.null().ok_or_else(|| unreadable("null in a list of a serde without null"))
    }
}

/// Bytes that are read from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn int(&mut self) -> Option<i32> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(i32::from_be_bytes(*head))
    }

    fn len(&mut self) -> Option<usize> {
        usize::try_from(self.int()?).ok()
    }

    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(head)
    }

    fn end<T>(self, values: Vec<T>) -> Result<Vec<T>> {
        if self.0.is_empty() { Ok(values) } else { Err(unreadable("bytes left over")) }
    }
}

fn int32(n: usize) -> Result<i32> {
    i32::try_from(n).map_err(|_| Error::new(ErrorKind::Serialization, "write a list").with("size", n))
}

fn put_len(len: usize, out: &mut Vec<u8>) -> Result {
    out.extend_from_slice(&int32(len)?.to_be_bytes());
    Ok(())
}

#[cold]
fn unreadable(wrong: &'static str) -> Error {
    Error::new(ErrorKind::Deserialization, "read a list").with("wrong", wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serde::{Bool, I16, I32, Nullable, Utf8, Void};

    fn refused<T: 'static>(serde: &impl Serde<Vec<T>>, bytes: &[u8]) -> String {
        let error = serde.decode(bytes).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Deserialization);
        error.context().map(|(_, what)| what.to_owned()).collect()
    }

    #[test]
    fn damage_is_named() {
        assert_eq!(refused(&List(I16), &[]), "kind");
        assert_eq!(refused(&List(I16), &[2]), "kind");
        assert_eq!(refused(&List(Utf8), &[0, 0, 0, 0, 0, 0, 0, 0, 0]), "kind");
        assert_eq!(refused(&List(I16), &[0, 0x7F, 0xFF, 0xFF, 0xFF]), "number of nulls");
        assert_eq!(refused(&List(I16), &[0, 0xFF, 0xFF, 0xFF, 0xFF]), "number of nulls");
        assert_eq!(refused(&List(I16), &[0, 0, 0, 0, 0, 0x7F, 0xFF, 0xFF, 0xFF, 1, 2]), "length");
        assert_eq!(refused(&List(I16), &[0, 0, 0, 0, 0, 0, 0, 0, 0, 1]), "bytes left over");
        assert_eq!(refused(&List(Utf8), &[1, 0x7F, 0xFF, 0xFF, 0xFF]), "length");
        assert_eq!(refused(&List(Utf8), &[1, 0, 0, 0, 1, 0x7F, 0xFF, 0xFF, 0xFF]), "length of a value");
        assert_eq!(refused(&List(Utf8), &[1, 0, 0, 0, 1, 0xFF, 0xFF, 0xFF, 0xFE]), "length of a value");
        assert_eq!(refused(&List(Bool), &[1, 0, 0, 0, 0, 7]), "bytes left over");
    }

    #[test]
    fn nulls_are_in_order_and_in_the_list() {
        let list = |nulls: &[u8]| [&[0, 0, 0, 0, nulls.len() as u8 / 4], nulls, &[0, 0, 0, 2, 0, 9]].concat();
        assert_eq!(List(Nullable(I16)).decode(&list(&[0, 0, 0, 1])).unwrap(), [Some(9), None]);
        for nulls in [&[0, 0, 0, 2][..], &[0, 0, 0, 0, 0, 0, 0, 0], &[0xFF, 0xFF, 0xFF, 0xFF]] {
            assert!(List(Nullable(I16)).decode(&list(nulls)).is_err(), "{nulls:?}");
        }
        assert!(refused(&List(I16), &list(&[0, 0, 0, 1])).contains("without null"));
    }

    #[test]
    fn a_list_with_lengths_is_read_where_they_need_not_be() {
        assert_eq!(List(I32).decode(&[1, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 7]).unwrap(), [7]);
    }

    #[test]
    fn a_list_of_nothing_has_only_nulls() {
        let mut out = Vec::new();
        List(Void).encode(&vec![(), ()], &mut out).unwrap();
        assert_eq!(List(Void).decode(&out).unwrap(), [(), ()]);
    }

    #[test]
    fn a_constant_size_that_is_none_is_an_error() {
        struct Liar;
        impl Serde<String> for Liar {
            fn encode(&self, value: &String, out: &mut Vec<u8>) -> Result {
                Utf8.encode(value, out)
            }
            fn decode(&self, bytes: &[u8]) -> Result<String> {
                Utf8.decode(bytes)
            }
            fn constant_size(&self) -> Option<usize> {
                Some(2)
            }
        }
        let mut out = Vec::new();
        assert!(List(Liar).encode(&vec!["ab".to_owned()], &mut out).is_ok());
        assert_eq!(List(Liar).encode(&vec!["abc".to_owned()], &mut out).unwrap_err().kind(), ErrorKind::Serialization);
    }
}
