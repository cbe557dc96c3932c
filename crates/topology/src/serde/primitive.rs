//! The serdes of simple types, byte for byte those of Kafka's clients.

use bytes::Bytes;

use crate::error::Result;
use crate::serde::{Serde, SerdeId};

/// Text as UTF-8. Bytes that are not UTF-8 are an error (Kafka's reader would replace them).
#[derive(Clone, Copy, Debug, Default)]
pub struct Utf8;

impl Serde<String> for Utf8 {
    fn encode(&self, value: &String, out: &mut Vec<u8>) -> Result {
        out.extend_from_slice(value.as_bytes());
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<String> {
        Ok(std::str::from_utf8(bytes)?.to_owned())
    }

    fn identity(&self) -> SerdeId {
        SerdeId::of::<Self>()
    }

    fn ordered(&self) -> bool {
        true
    }
}

/// Bytes as they are: `Serde<Bytes>` and `Serde<Vec<u8>>`. Decoding copies them out of the record.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByteArray;

impl Serde<Bytes> for ByteArray {
    fn encode(&self, value: &Bytes, out: &mut Vec<u8>) -> Result {
        out.extend_from_slice(value);
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<Bytes> {
        Ok(Bytes::copy_from_slice(bytes))
    }

    fn identity(&self) -> SerdeId {
        SerdeId::of::<Self>()
    }

    fn ordered(&self) -> bool {
        true
    }
}

impl Serde<Vec<u8>> for ByteArray {
    fn encode(&self, value: &Vec<u8>, out: &mut Vec<u8>) -> Result {
        out.extend_from_slice(value);
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        Ok(bytes.to_vec())
    }

    fn identity(&self) -> SerdeId {
        SerdeId::of::<Self>()
    }

    fn ordered(&self) -> bool {
        true
    }
}

macro_rules! big_endian {
    ($(#[$doc:meta])* $name:ident($type:ty), ordered: $ordered:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name;

        impl Serde<$type> for $name {
            #[inline]
            fn encode(&self, value: &$type, out: &mut Vec<u8>) -> Result {
                out.extend_from_slice(&value.to_be_bytes());
                Ok(())
            }

            #[inline]
            fn decode(&self, bytes: &[u8]) -> Result<$type> {
                Ok(<$type>::from_be_bytes(bytes.try_into()?))
            }

            fn identity(&self) -> SerdeId {
                SerdeId::of::<Self>()
            }

            fn ordered(&self) -> bool {
                $ordered
            }
        }
    };
}

big_endian! {
    /// A signed 64-bit integer, 8 bytes big endian, as Kafka's `LongSerializer`. Negative numbers sort *behind* the others in a
    /// store, so range scans are refused; use [`U64`] where they are needed.
    I64(i64), ordered: false
}
big_endian! {
    /// A signed 32-bit integer, 4 bytes big endian, as Kafka's `IntegerSerializer`; range scans are refused, see [`I64`].
    I32(i32), ordered: false
}
big_endian! {
    /// A 64-bit float, 8 bytes big endian, as Kafka's `DoubleSerializer`; range scans are refused, see [`I64`].
    F64(f64), ordered: false
}
big_endian! {
    /// An unsigned 64-bit integer, 8 bytes big endian: the bytes of [`I64`] for numbers that both can hold, in order.
    U64(u64), ordered: true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serde::Nullable;

    fn bytes<T>(serde: &impl Serde<T>, value: &T) -> Vec<u8> {
        let mut out = b"before".to_vec();
        serde.encode(value, &mut out).unwrap();
        out.split_off(6)
    }

    /// The bytes of Kafka 4.4's own serdes.
    #[test]
    fn bytes_are_kafkas() {
        assert_eq!(bytes(&Utf8, &"ä€".to_owned()), [0xC3, 0xA4, 0xE2, 0x82, 0xAC]);
        assert_eq!(bytes(&I64, &-2), [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFE]);
        assert_eq!(bytes(&I32, &258), [0, 0, 1, 2]);
        assert_eq!(bytes(&F64, &1.5), [0x3F, 0xF8, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes(&ByteArray, &vec![1, 2]), [1, 2]);
    }

    #[test]
    fn canonical_serdes_give_back_the_same_bytes() {
        for raw in [&b""[..], b"a", "ä€".as_bytes()] {
            assert_eq!(bytes(&Utf8, &Utf8.decode(raw).unwrap()), raw);
        }
        for raw in [[0_u8; 8], [0xFF; 8], [0x7F, 0xF8, 0, 0, 0, 0, 0, 1]] {
            assert_eq!(bytes(&I64, &I64.decode(&raw).unwrap()), raw);
            assert_eq!(bytes(&F64, &F64.decode(&raw).unwrap()), raw);
            assert_eq!(bytes(&U64, &U64.decode(&raw).unwrap()), raw);
        }
    }

    #[test]
    fn wrong_lengths_and_bad_text_are_errors() {
        assert!(I64.decode(&[1; 7]).is_err());
        assert!(I32.decode(&[]).is_err());
        assert!(Utf8.decode(&[0xFF]).is_err());
    }

    #[test]
    fn an_order_is_claimed_only_where_it_holds() {
        assert!(Serde::<String>::ordered(&Utf8) && U64.ordered() && !I64.ordered() && !I32.ordered() && !F64.ordered());
        assert!(bytes(&I64, &-1) > bytes(&I64, &1));
        assert!(bytes(&U64, &1) < bytes(&U64, &u64::MAX));
    }

    #[test]
    fn null_is_a_value_for_nullable_only() {
        assert!(Serde::<String>::null(&Utf8).is_none());
        assert_eq!(Nullable(Utf8).null(), Some(None));
        assert!(Nullable(Utf8).is_null(&None) && !Nullable(Utf8).is_null(&Some(String::new())));
        assert_eq!(Nullable(Utf8).decode(b"").unwrap(), Some(String::new()));
        assert!(Nullable(Utf8).identity().is_same(Serde::<String>::identity(&Utf8)));
    }
}
