//! A serde that hands Kafka's null on as `None`.

use crate::error::{Error, ErrorKind, Result};
use crate::serde::{Serde, SerdeId};

/// Makes any serde one that knows null: `Nullable(Utf8)` is a `Serde<Option<String>>`.
///
/// ```
/// use millpond_topology::{Consumed, Nullable, Topology, Utf8};
///
/// let mut builder = Topology::builder();
/// builder
///     .stream("orders", Consumed::with(Nullable(Utf8), Nullable(Utf8)))
///     .filter(|key, _: &Option<String>| key.is_some());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Nullable<S>(pub S);

impl<T: 'static, S: Serde<T>> Serde<Option<T>> for Nullable<S> {
    fn encode(&self, value: &Option<T>, out: &mut Vec<u8>) -> Result {
        match value {
            Some(value) => self.0.encode(value, out),
            None => Err(Error::new(ErrorKind::Serialization, "encode a null")),
        }
    }

    fn decode(&self, bytes: &[u8]) -> Result<Option<T>> {
        self.0.decode(bytes).map(Some)
    }

    fn null(&self) -> Option<Option<T>> {
        Some(None)
    }

    fn is_null(&self, value: &Option<T>) -> bool {
        value.as_ref().is_none_or(|value| self.0.is_null(value))
    }

    /// What is not null has the inner serde's bytes.
    fn identity(&self) -> SerdeId {
        self.0.identity()
    }

    fn ordered(&self) -> bool {
        self.0.ordered()
    }

    fn partitioned_by<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        self.0.partitioned_by(bytes)
    }

    fn constant_size(&self) -> Option<usize> {
        self.0.constant_size()
    }
}
