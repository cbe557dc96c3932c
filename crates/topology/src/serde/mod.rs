//! Serdes: how keys and values become bytes and come back, and what null means to them.

mod change;
mod coder;
mod json;
mod list;
mod nullable;
#[cfg(feature = "postcard")]
mod postcard;
mod primitive;
#[cfg(feature = "prost")]
mod protobuf;
mod text;
mod windowed;

use std::any::TypeId;
use std::sync::Arc;

pub use change::ChangeSerde;
pub(crate) use coder::Coder;
pub use json::Json;
pub use list::List;
pub use nullable::Nullable;
#[cfg(feature = "postcard")]
pub use postcard::Postcard;
pub use primitive::{Bool, ByteArray, F32, F64, I16, I32, I64, U64, Void};
#[cfg(feature = "prost")]
pub use protobuf::Protobuf;
pub use text::{LossyUtf8, Utf8, UuidText};
pub use windowed::{SessionWindowed, TimeWindowed, Windowed};

use crate::error::Result;

/// Turns values of one type into bytes and back.
///
/// # Nulls
///
/// Kafka's keys and values may be null, which is not the same as empty. A *plain* serde (the default) knows no null: a
/// source drops a record with one and counts it; a table source takes a null value as a delete. A serde with
/// [`Serde::null`] hands nulls on as a value: see [`Nullable`].
///
/// # Threading
///
/// One serde serves all tasks of all threads.
///
/// ```
/// use millpond_topology::{Result, Serde};
///
/// struct Celsius;
/// impl Serde<f32> for Celsius {
///     fn encode(&self, value: &f32, out: &mut Vec<u8>) -> Result {
///         out.extend_from_slice(&value.to_be_bytes());
///         Ok(())
///     }
///     fn decode(&self, bytes: &[u8]) -> Result<f32> {
///         Ok(f32::from_be_bytes(bytes.try_into()?))
///     }
/// }
/// # let mut bytes = vec![];
/// # Celsius.encode(&1.5, &mut bytes).unwrap();
/// # assert_eq!(Celsius.decode(&bytes).unwrap(), 1.5);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a serde of `{T}`",
    label = "it does not turn `{T}` into bytes and back",
    note = "a `String` has `Utf8`, an `i64` has `I64`, bytes have `ByteArray`, an `Option` of them `Nullable(..)`, what implements \
            `serde`'s traits has `Json::default()`; or implement `Serde<{T}>` yourself"
)]
pub trait Serde<T>: Send + Sync + 'static {
    /// Appends the value's bytes. It MUST NOT change what `out` holds already. Never asked for a value that
    /// [`Serde::is_null`].
    fn encode(&self, value: &T, out: &mut Vec<u8>) -> Result;

    /// Reads a value. Any error it returns counts as [`ErrorKind::Deserialization`](crate::ErrorKind::Deserialization);
    /// its text must not hold the bytes.
    fn decode(&self, bytes: &[u8]) -> Result<T>;

    /// What null bytes stand for; `None` (the default): this serde knows no null. It MUST answer alike every time.
    fn null(&self) -> Option<T> {
        None
    }

    /// True if the value is written as null. Only asked if [`Serde::null`] gives a value.
    fn is_null(&self, _value: &T) -> bool {
        false
    }

    /// Says which serdes write the same bytes. The library reuses a key's bytes as they came from the source where both
    /// serdes [are the same](SerdeId::is_same).
    ///
    /// Answer [`SerdeId::of`] only if **`encode(decode(bytes))` gives exactly `bytes`** for all bytes that decode, and if
    /// the serde has no settings. (JSON does not: `{"a":1}` and `{ "a": 1 }` are one key.) The default answers
    /// [`SerdeId::UNKNOWN`], which is always right and costs an encode.
    fn identity(&self) -> SerdeId {
        SerdeId::UNKNOWN
    }

    /// True if the bytes sort as the values do. Range scans of a store need it of the key's serde; the default is no.
    fn ordered(&self) -> bool {
        false
    }

    /// The part of a key's bytes that chooses the partition where records are written to a topic; `None`, the default: all of
    /// them. For a windowed key it is the key without its window, so that all windows of a key are in one partition, as in Kafka
    /// Streams.
    fn partitioned_by<'a>(&self, _bytes: &'a [u8]) -> Option<&'a [u8]> {
        None
    }

    /// The number of bytes of every value, if [`List`] is to leave the lengths out. It MUST be `None`, the default, for what
    /// Kafka's list serializer writes with lengths: everything but short, int, long, float, double and UUID.
    fn constant_size(&self) -> Option<usize> {
        None
    }
}

impl<T: 'static, S: Serde<T> + ?Sized> Serde<T> for Arc<S> {
    fn encode(&self, value: &T, out: &mut Vec<u8>) -> Result {
        (**self).encode(value, out)
    }

    fn decode(&self, bytes: &[u8]) -> Result<T> {
        (**self).decode(bytes)
    }

    fn null(&self) -> Option<T> {
        (**self).null()
    }

    fn is_null(&self, value: &T) -> bool {
        (**self).is_null(value)
    }

    fn identity(&self) -> SerdeId {
        (**self).identity()
    }

    fn ordered(&self) -> bool {
        (**self).ordered()
    }

    fn partitioned_by<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        (**self).partitioned_by(bytes)
    }

    fn constant_size(&self) -> Option<usize> {
        (**self).constant_size()
    }
}

/// Which serdes write the same bytes; see [`Serde::identity`].
#[derive(Clone, Copy, Debug)]
pub struct SerdeId(Option<TypeId>);

impl SerdeId {
    /// The same as no serde, not even as itself.
    pub const UNKNOWN: Self = Self(None);

    /// The same as all serdes that answer with the type `S`.
    pub fn of<S: 'static>() -> Self {
        Self(Some(TypeId::of::<S>()))
    }

    /// True if both are known and the same.
    pub fn is_same(self, other: Self) -> bool {
        self.0.is_some() && self.0 == other.0
    }
}

/// An erased serde, as definitions hold it.
pub(crate) type AnySerde<T> = Arc<dyn Serde<T>>;
