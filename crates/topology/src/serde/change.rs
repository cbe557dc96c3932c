//! Changes of a table's rows on their way through a repartition topic (KIP-904; `docs/formats/change.md`).

use millpond_store_api::{put_varint, take_varint};

use crate::error::{Error, ErrorKind, Result};
use crate::record::Change;
use crate::serde::Serde;

/// A [`Change`] of values of `S`, as Kafka Streams' `ChangedSerializer`: the sides, then a byte that says which there are.
///
/// A change without any side is an error.
///
/// ```
/// use millpond_topology::{Change, ChangeSerde, Serde, Utf8};
///
/// let change = Change { new: Some("new".to_owned()), old: Some("old".to_owned()) };
/// let mut bytes = vec![];
/// ChangeSerde::new(Utf8).encode(&change, &mut bytes).unwrap();
/// assert_eq!(bytes, b"\x06newold\x02");
/// assert_eq!(ChangeSerde::new(Utf8).decode(&bytes).unwrap(), change);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ChangeSerde<S> {
    inner: S,
    one_sided: bool,
}

const OLD: u8 = 0;
const NEW: u8 = 1;
const BOTH: u8 = 2;
/// Added to the others where a byte in front of them says whether the change is the key's latest. Nobody writes it yet.
const WITH_LATEST: u8 = 3;

impl<S> ChangeSerde<S> {
    /// Changes with one side or both.
    pub const fn new(inner: S) -> Self {
        Self { inner, one_sided: false }
    }

    /// For a group whose other members still run Kafka Streams 2.4 to 3.4, as `upgrade.from` there: a change with both
    /// sides is an error, since they cannot read it. It has to be sent as two, the old side first.
    pub const fn one_sided(inner: S) -> Self {
        Self { inner, one_sided: true }
    }

    /// Reads a change, and whether it is the latest of its key: always so in what Kafka Streams up to 4.4 writes.
    pub fn read<T>(&self, bytes: &[u8]) -> Result<(Change<T>, bool)>
    where
        S: Serde<T>,
    {
        let (flag, sides) = bytes.split_last().ok_or_else(|| unreadable("no flag"))?;
        match flag.checked_sub(WITH_LATEST) {
            None => Ok((self.sides(*flag, sides)?, true)),
            Some(flag) => {
                let (latest, sides) = sides.split_last().ok_or_else(|| unreadable("no byte for latest"))?;
                Ok((self.sides(flag, sides)?, *latest == 1))
            }
        }
    }

    fn sides<T>(&self, flag: u8, bytes: &[u8]) -> Result<Change<T>>
    where
        S: Serde<T>,
    {
        match flag {
            OLD => Ok(Change { new: None, old: Some(self.inner.decode(bytes)?) }),
            NEW => Ok(Change { new: Some(self.inner.decode(bytes)?), old: None }),
            BOTH => {
                let mut rest = bytes;
                let len = take_varint(&mut rest).and_then(|len| usize::try_from(len).ok());
                let sides = len.and_then(|len| rest.split_at_checked(len));
                let (new, old) = sides.ok_or_else(|| unreadable("length"))?;
                Ok(Change { new: Some(self.inner.decode(new)?), old: Some(self.inner.decode(old)?) })
            }
            _ => Err(unreadable("flag")),
        }
    }

    /// A side, if it is there and has bytes.
    fn side<'a, T>(&self, value: &'a Option<T>) -> Option<&'a T>
    where
        S: Serde<T>,
    {
        let is_null = |value: &T| self.inner.null().is_some() && self.inner.is_null(value);
        value.as_ref().filter(|value| !is_null(value))
    }
}

impl<T: 'static, S: Serde<T>> Serde<Change<T>> for ChangeSerde<S> {
    fn encode(&self, value: &Change<T>, out: &mut Vec<u8>) -> Result {
        match (self.side(&value.new), self.side(&value.old)) {
            (Some(new), Some(old)) if !self.one_sided => {
                let at = out.len();
                self.inner.encode(new, out)?;
                let end = out.len();
                let len = i32::try_from(end - at).map_err(|_| unwritable("size"))?;
                // The length stands in front, but is known only now.
                put_varint(len, out);
                if let Some(both) = out.get_mut(at..) {
                    both.rotate_left(end - at);
                }
                self.inner.encode(old, out)?;
                out.push(BOTH);
            }
            (Some(new), None) => {
                self.inner.encode(new, out)?;
                out.push(NEW);
            }
            (None, Some(old)) => {
                self.inner.encode(old, out)?;
                out.push(OLD);
            }
            (Some(_), Some(_)) => return Err(unwritable("both sides in one record")),
            (None, None) => return Err(unwritable("no side")),
        }
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<Change<T>> {
        self.read(bytes).map(|(change, _)| change)
    }
}

#[cold]
fn unreadable(wrong: &'static str) -> Error {
    Error::new(ErrorKind::Deserialization, "read a change").with("wrong", wrong)
}

#[cold]
fn unwritable(wrong: &'static str) -> Error {
    Error::new(ErrorKind::Serialization, "write a change").with("wrong", wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serde::{Nullable, Utf8};

    #[test]
    fn what_is_there_already_is_left_alone() {
        let change = Change { new: Some("n".repeat(100)), old: Some("o".to_owned()) };
        let mut out = b"before".to_vec();
        ChangeSerde::new(Utf8).encode(&change, &mut out).unwrap();
        assert!(out.starts_with(b"before\xC8\x01nn"));
        assert_eq!(ChangeSerde::new(Utf8).decode(&out[6..]).unwrap(), change);
    }

    #[test]
    fn a_side_that_its_serde_calls_null_is_none() {
        let mut out = Vec::new();
        let serde = ChangeSerde::new(Nullable(Utf8));
        serde.encode(&Change { new: Some(None), old: Some(Some("o".to_owned())) }, &mut out).unwrap();
        assert_eq!(out, b"o\0");
        assert!(serde.encode(&Change { new: Some(None), old: None }, &mut out).is_err());
    }

    #[test]
    fn damage_is_named() {
        let most = [0xFE, 0xFF, 0xFF, 0xFF, 0x0F, 2];
        for bytes in
            [&b""[..], b"\x03", b"\x05", b"x\x06", b"\xFF", b"\x02", b"\x04a\x02", b"\x01a\x02", b"\xFF\x00", &most]
        {
            let error = ChangeSerde::new(Utf8).decode(bytes).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Deserialization | ErrorKind::Processing), "{bytes:?} {error:?}");
        }
    }
}
