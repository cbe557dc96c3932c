//! A serde as nodes use it: nulls decided once, errors named.

use crate::error::{Error, ErrorKind, Result};
use crate::serde::{AnySerde, SerdeId};

/// What is read or written, for messages.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    Key,
    Value,
}

/// An erased serde and what a node needs to know of it without a virtual call.
pub(crate) struct Coder<T> {
    serde: AnySerde<T>,
    nullable: bool,
    part: Part,
}

impl<T> Clone for Coder<T> {
    fn clone(&self) -> Self {
        Self { serde: self.serde.clone(), nullable: self.nullable, part: self.part }
    }
}

impl<T: 'static> Coder<T> {
    pub(crate) fn key(serde: AnySerde<T>) -> Self {
        Self::new(serde, Part::Key)
    }

    pub(crate) fn value(serde: AnySerde<T>) -> Self {
        Self::new(serde, Part::Value)
    }

    fn new(serde: AnySerde<T>, part: Part) -> Self {
        Self { nullable: serde.null().is_some(), serde, part }
    }

    pub(crate) fn identity(&self) -> SerdeId {
        self.serde.identity()
    }

    pub(crate) fn ordered(&self) -> bool {
        self.serde.ordered()
    }

    /// See [`Serde::partitioned_by`](crate::Serde::partitioned_by).
    pub(crate) fn partitioned_by<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        self.serde.partitioned_by(bytes)
    }

    /// True if the value stands for null.
    #[inline]
    pub(crate) fn is_null(&self, value: &T) -> bool {
        self.nullable && self.serde.is_null(value)
    }

    /// True if the value stands for null by its serde; by one that is not known, no value does.
    #[inline]
    pub(crate) fn is_known_null(coder: Option<&Self>, value: &T) -> bool {
        coder.is_some_and(|coder| coder.is_null(value))
    }

    /// What no bytes at all stand for, if they stand for a value.
    pub(crate) fn null(&self) -> Option<T> {
        if self.nullable { self.serde.null() } else { None }
    }

    /// Appends the value's bytes; false, and nothing appended, if the value stands for null.
    #[inline]
    pub(crate) fn encode(&self, value: &T, out: &mut Vec<u8>) -> Result<bool> {
        if self.is_null(value) {
            return Ok(false);
        }
        match self.serde.encode(value, out) {
            Ok(()) => Ok(true),
            Err(e) => Err(self.encoding(e)),
        }
    }

    /// Reads a value.
    #[inline]
    pub(crate) fn decode(&self, bytes: &[u8]) -> Result<T> {
        match self.serde.decode(bytes) {
            Ok(value) => Ok(value),
            Err(e) => Err(self.decoding(e)),
        }
    }

    /// Reads a value that may be null; `None` if it is, and this serde knows no null.
    #[inline]
    pub(crate) fn decode_nullable(&self, bytes: Option<&[u8]>) -> Result<Option<T>> {
        match bytes {
            Some(bytes) => self.decode(bytes).map(Some),
            None => Ok(self.null()),
        }
    }

    #[cold]
    fn encoding(&self, error: Error) -> Error {
        let op = match self.part {
            Part::Key => "encode the key",
            Part::Value => "encode the value",
        };
        error.in_serde::<T>(ErrorKind::Serialization, op)
    }

    #[cold]
    fn decoding(&self, error: Error) -> Error {
        let op = match self.part {
            Part::Key => "decode the key",
            Part::Value => "decode the value",
        };
        error.in_serde::<T>(ErrorKind::Deserialization, op)
    }
}
