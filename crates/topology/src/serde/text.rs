//! The serdes of text, byte for byte those of Kafka's clients.

use std::str::FromStr;

use uuid::Uuid;
use uuid::fmt::Hyphenated;

use crate::error::Result;
use crate::serde::{Serde, SerdeId};

/// Text as UTF-8. Bytes that are not UTF-8 are an error; [`LossyUtf8`] replaces them, as Kafka's reader does.
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

/// Text as UTF-8 that takes any bytes, as Kafka's `StringDeserializer`: what is not UTF-8 is read as U+FFFD. So different keys
/// can become one; use it for texts that are only looked at.
///
/// ```
/// use millpond_topology::{LossyUtf8, Serde};
///
/// assert_eq!(LossyUtf8.decode(b"a\xFFb").unwrap(), "a\u{FFFD}b");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct LossyUtf8;

impl Serde<String> for LossyUtf8 {
    fn encode(&self, value: &String, out: &mut Vec<u8>) -> Result {
        Utf8.encode(value, out)
    }

    fn decode(&self, bytes: &[u8]) -> Result<String> {
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }

    fn ordered(&self) -> bool {
        true
    }
}

/// A UUID as its text of 36 characters with lower-case digits, as Kafka's `UUIDSerializer`.
///
/// ```
/// use millpond_topology::{Serde, UuidText};
///
/// let mut out = vec![];
/// UuidText.encode(&uuid::Uuid::from_u128(1), &mut out).unwrap();
/// assert_eq!(out, b"00000000-0000-0000-0000-000000000001");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct UuidText;

/// How many characters a UUID has.
const LEN: usize = Hyphenated::LENGTH;

impl Serde<Uuid> for UuidText {
    fn encode(&self, value: &Uuid, out: &mut Vec<u8>) -> Result {
        out.extend_from_slice(value.hyphenated().encode_lower(&mut [0; LEN]).as_bytes());
        Ok(())
    }

    /// Upper-case digits are taken too, so these bytes need not be the ones that were read.
    fn decode(&self, bytes: &[u8]) -> Result<Uuid> {
        Ok(Hyphenated::from_str(std::str::from_utf8(bytes)?)?.into_uuid())
    }

    fn ordered(&self) -> bool {
        true
    }

    fn constant_size(&self) -> Option<usize> {
        Some(LEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_36_characters_are_a_uuid() {
        let text = b"123e4567-E89B-12d3-a456-426614174000";
        assert_eq!(UuidText.decode(text).unwrap().as_u128(), 0x123e_4567_e89b_12d3_a456_4266_1417_4000);
        for bytes in [
            &b""[..],
            &text[..35],
            b"{123e4567-e89b-12d3-a456-426614174000}",
            b"123e4567e89b12d3a456426614174000",
            &[0xFF; 36],
        ] {
            assert!(UuidText.decode(bytes).is_err());
        }
    }

    #[test]
    fn what_is_read_in_more_than_one_way_is_not_canonical() {
        assert!(!LossyUtf8.identity().is_same(LossyUtf8.identity()));
        assert!(!UuidText.identity().is_same(UuidText.identity()));
    }
}
