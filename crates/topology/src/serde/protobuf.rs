//! Protobuf messages by prost.

use std::marker::PhantomData;

use prost::Message;

use crate::error::{Error, ErrorKind, Result};
use crate::serde::Serde;

/// A [prost] message as Protobuf. Needs the feature `prost`.
///
/// The bytes are the message alone, without the header of a schema registry. No bytes at all are a message whose fields all
/// have their defaults, which is not Kafka's null. As a key it is encoded anew wherever bytes are needed, since Protobuf has no
/// canonical form.
///
/// [prost]: https://docs.rs/prost
///
/// ```
/// use millpond_topology::{Protobuf, Serde};
///
/// #[derive(Clone, PartialEq, prost::Message)]
/// struct Point {
///     #[prost(int32, tag = "1")]
///     x: i32,
///     #[prost(int32, tag = "2")]
///     y: i32,
/// }
///
/// let mut out = vec![];
/// Protobuf::default().encode(&Point { x: 3, y: 0 }, &mut out).unwrap();
/// assert_eq!(out, [0x08, 3]);
/// assert_eq!(Protobuf::<Point>::default().decode(&out).unwrap(), Point { x: 3, y: 0 });
/// ```
pub struct Protobuf<M>(PhantomData<fn(M) -> M>);

impl<M> Default for Protobuf<M> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<M> Clone for Protobuf<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Protobuf<M> {}

impl<M> std::fmt::Debug for Protobuf<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Protobuf")
    }
}

impl<M: Message + Default + 'static> Serde<M> for Protobuf<M> {
    fn encode(&self, value: &M, out: &mut Vec<u8>) -> Result {
        value.encode(out).map_err(|e| Error::new(ErrorKind::Serialization, "write Protobuf").caused_by(e))
    }

    fn decode(&self, bytes: &[u8]) -> Result<M> {
        // Its errors name fields and wire types, no contents.
        M::decode(bytes).map_err(|e| {
            Error::new(ErrorKind::Deserialization, "read Protobuf").with("bytes", bytes.len()).caused_by(e)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, PartialEq, Message)]
    struct Order {
        #[prost(uint64, tag = "1")]
        id: u64,
        #[prost(string, optional, tag = "2")]
        note: Option<String>,
        #[prost(sint64, repeated, tag = "3")]
        amounts: Vec<i64>,
    }

    /// By Protobuf's encoding: a tag of field and wire type before each, lengths before text and packed numbers.
    #[test]
    fn bytes_are_protobufs_and_are_appended() {
        let order = Order { id: 300, note: Some("hi".into()), amounts: vec![-1, 1] };
        let mut out = vec![9];
        Protobuf::default().encode(&order, &mut out).unwrap();
        assert_eq!(out, [9, 0x08, 0xAC, 0x02, 0x12, 2, b'h', b'i', 0x1A, 2, 1, 2]);
        assert_eq!(Protobuf::<Order>::default().decode(&out[1..]).unwrap(), order);
    }

    #[test]
    fn no_bytes_are_a_message_and_fields_that_are_unknown_are_left_out() {
        let serde = Protobuf::<Order>::default();
        assert_eq!(serde.decode(&[]).unwrap(), Order::default());
        assert_eq!(serde.decode(&[0x78, 5]).unwrap(), Order::default(), "field 15");
    }

    #[test]
    fn cut_off_bytes_are_errors_without_the_record() {
        let error = Protobuf::<Order>::default().decode(&[0x12, 9, b's', b'e', b'c', b'r', b'e', b't']).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Deserialization);
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    }
}
