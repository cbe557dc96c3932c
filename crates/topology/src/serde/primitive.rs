//! The serdes of simple types, byte for byte those of Kafka's clients.

use bytes::Bytes;

use crate::error::{Error, ErrorKind, Result};
use crate::serde::{Serde, SerdeId};

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

/// As many bytes as a number has.
#[inline]
fn sized<const N: usize>(bytes: &[u8], number: &'static str) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| wrong_size(N, number, bytes.len()))
}

#[cold]
fn wrong_size(needed: usize, number: &'static str, len: usize) -> Error {
    let article = if number.starts_with('u') { "a" } else { "an" };
    let are = if len == 1 { "is" } else { "are" };
    Error::other(format!("{needed} bytes are {article} {number}, here {are} {len}"))
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
                Ok(<$type>::from_be_bytes(sized(bytes, stringify!($type))?))
            }

            fn identity(&self) -> SerdeId {
                SerdeId::of::<Self>()
            }

            fn ordered(&self) -> bool {
                $ordered
            }

            fn constant_size(&self) -> Option<usize> {
                Some(size_of::<$type>())
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
    /// A signed 16-bit integer, 2 bytes big endian, as Kafka's `ShortSerializer`; range scans are refused, see [`I64`].
    I16(i16), ordered: false
}
big_endian! {
    /// An unsigned 64-bit integer, 8 bytes big endian: the bytes of [`I64`] for numbers that both can hold, in order.
    U64(u64), ordered: true
}

macro_rules! float {
    ($(#[$doc:meta])* $name:ident($type:ident)) => {
        $(#[$doc])*
        ///
        /// Range scans are refused, see [`I64`]. All NaNs are written alike, as Java does: what a processor computes has other
        /// bits than `NAN`.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name;

        impl Serde<$type> for $name {
            #[inline]
            fn encode(&self, value: &$type, out: &mut Vec<u8>) -> Result {
                let value = if value.is_nan() { $type::NAN } else { *value };
                out.extend_from_slice(&value.to_be_bytes());
                Ok(())
            }

            #[inline]
            fn decode(&self, bytes: &[u8]) -> Result<$type> {
                Ok($type::from_be_bytes(sized(bytes, stringify!($type))?))
            }

            fn constant_size(&self) -> Option<usize> {
                Some(size_of::<$type>())
            }
        }
    };
}

float! {
    /// A 64-bit float, 8 bytes big endian, as Kafka's `DoubleSerializer`.
    F64(f64)
}
float! {
    /// A 32-bit float, 4 bytes big endian, as Kafka's `FloatSerializer`.
    F32(f32)
}

/// A truth value, one byte, as Kafka's `BooleanSerializer`: 1 or 0. Any other byte is an error.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bool;

impl Serde<bool> for Bool {
    fn encode(&self, value: &bool, out: &mut Vec<u8>) -> Result {
        out.push(u8::from(*value));
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<bool> {
        match bytes {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(Error::new(ErrorKind::Deserialization, "read a truth value").with("bytes", bytes.len())),
        }
    }

    fn identity(&self) -> SerdeId {
        SerdeId::of::<Self>()
    }

    fn ordered(&self) -> bool {
        true
    }
}

/// Nothing: null and no other bytes, as Kafka's `VoidSerializer`. For keys or values that a topic does not have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Void;

impl Serde<()> for Void {
    fn encode(&self, _: &(), _: &mut Vec<u8>) -> Result {
        Err(Error::new(ErrorKind::Serialization, "write nothing as bytes"))
    }

    fn decode(&self, bytes: &[u8]) -> Result<()> {
        Err(Error::new(ErrorKind::Deserialization, "read nothing from bytes").with("bytes", bytes.len()))
    }

    fn null(&self) -> Option<()> {
        Some(())
    }

    fn is_null(&self, (): &()) -> bool {
        true
    }

    fn identity(&self) -> SerdeId {
        SerdeId::of::<Self>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serde::{Nullable, Utf8};

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
            assert_eq!(bytes(&U64, &U64.decode(&raw).unwrap()), raw);
        }
    }

    #[test]
    fn a_wrong_length_is_named_beside_the_right_one() {
        fn said<T>(read: Result<T>) -> String {
            read.map(|_| ()).unwrap_err().source().unwrap().to_string()
        }
        assert_eq!(said(I64.decode(b"short")), "8 bytes are an i64, here are 5");
        assert_eq!(said(U64.decode(b"1")), "8 bytes are a u64, here is 1");
        assert_eq!(said(F32.decode(b"")), "4 bytes are an f32, here are 0");
    }

    #[test]
    fn wrong_lengths_and_bad_text_are_errors() {
        assert!(I64.decode(&[1; 7]).is_err());
        assert!(I32.decode(&[]).is_err());
        assert!(I16.decode(&[1]).is_err());
        assert!(F32.decode(&[0; 8]).is_err());
        assert!(Bool.decode(&[2]).is_err());
        assert!(Void.decode(&[]).is_err());
        assert!(Utf8.decode(&[0xFF]).is_err());
    }

    /// So floats are not canonical: bytes of other NaNs do not come back.
    #[test]
    fn all_nans_have_the_bytes_of_javas() {
        for bits in [0x7FF8_0000_0000_0000, 0xFFF8_0000_0000_0000, 0x7FF0_0000_0000_0001] {
            assert_eq!(bytes(&F64, &f64::from_bits(bits)), [0x7F, 0xF8, 0, 0, 0, 0, 0, 0]);
        }
        assert_eq!(bytes(&F32, &f32::from_bits(0xFFC0_0001)), [0x7F, 0xC0, 0, 0]);
        assert!(!F64.identity().is_same(F64.identity()));
    }

    #[test]
    fn an_order_is_claimed_only_where_it_holds() {
        assert!(Serde::<String>::ordered(&Utf8) && U64.ordered() && !I64.ordered() && !I32.ordered() && !F64.ordered());
        assert!(bytes(&I64, &-1) > bytes(&I64, &1));
        assert!(bytes(&U64, &1) < bytes(&U64, &u64::MAX));
    }

    #[test]
    fn null_is_a_value_for_nullable_and_void_only() {
        assert!(Void.null().is_some() && Void.is_null(&()));
        assert!(Serde::<String>::null(&Utf8).is_none());
        assert_eq!(Nullable(Utf8).null(), Some(None));
        assert!(Nullable(Utf8).is_null(&None) && !Nullable(Utf8).is_null(&Some(String::new())));
        assert_eq!(Nullable(Utf8).decode(b"").unwrap(), Some(String::new()));
        assert!(Nullable(Utf8).identity().is_same(Serde::<String>::identity(&Utf8)));
    }
}
