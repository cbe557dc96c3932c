//! A compact binary form by serde: the Postcard wire format.

use std::marker::PhantomData;

use postcard::ser_flavors::Flavor;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, ErrorKind, Result};
use crate::serde::Serde;

/// A type as compact bytes, by serde: the [Postcard wire format](https://postcard.jamesmunns.com/wire-format), version 1. Needs
/// the feature `postcard`.
///
/// Numbers are varints, and no names of fields are written: so fields cannot be added, removed or moved while records in the
/// old form are to be read. Where types will change, use [`Json`](crate::Json) or Protobuf. As a key it is encoded anew
/// wherever bytes are needed.
///
/// ```
/// use millpond_topology::{Postcard, Serde};
///
/// #[derive(serde::Serialize, serde::Deserialize, PartialEq, Debug)]
/// struct Point { x: i32, y: u8 }
///
/// let mut out = vec![];
/// Postcard::default().encode(&Point { x: -1, y: 200 }, &mut out).unwrap();
/// assert_eq!(out, [1, 200]);
/// assert_eq!(Postcard::<Point>::default().decode(&out).unwrap(), Point { x: -1, y: 200 });
/// ```
pub struct Postcard<T>(PhantomData<fn(T) -> T>);

impl<T> Default for Postcard<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T> Clone for Postcard<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Postcard<T> {}

impl<T> std::fmt::Debug for Postcard<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Postcard")
    }
}

/// Appends to what a buffer holds already.
struct Append<'a>(&'a mut Vec<u8>);

impl Flavor for Append<'_> {
    type Output = ();

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

impl<T: Serialize + DeserializeOwned + 'static> Serde<T> for Postcard<T> {
    fn encode(&self, value: &T, out: &mut Vec<u8>) -> Result {
        let written = postcard::serialize_with_flavor(value, Append(out));
        written.map_err(|e| Error::new(ErrorKind::Serialization, "write Postcard").caused_by(e))
    }

    fn decode(&self, bytes: &[u8]) -> Result<T> {
        let failed = || Error::new(ErrorKind::Deserialization, "read Postcard").with("bytes", bytes.len());
        match postcard::take_from_bytes(bytes) {
            Ok((value, [])) => Ok(value),
            Ok((_, left)) => Err(failed().with("bytes_left_over", left.len())),
            Err(e) => Err(failed().caused_by(e)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Order {
        id: u64,
        note: Option<String>,
        lines: Vec<(u16, i64)>,
    }

    /// By the format's specification: varints, zigzag for signed numbers, a length before text and lists, a tag before options.
    #[test]
    fn bytes_are_those_of_the_format_and_are_appended() {
        let order = Order { id: 300, note: Some("hi".into()), lines: vec![(1, -2)] };
        let mut out = vec![9];
        Postcard::default().encode(&order, &mut out).unwrap();
        assert_eq!(out, [9, 0xAC, 0x02, 1, 2, b'h', b'i', 1, 1, 3]);
        assert_eq!(Postcard::<Order>::default().decode(&out[1..]).unwrap(), order);
    }

    #[test]
    fn too_few_and_too_many_bytes_are_errors() {
        let serde = Postcard::<(u8, u8)>::default();
        assert!(serde.decode(&[1]).is_err());
        let error = serde.decode(&[1, 2, 3]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Deserialization);
        assert!(error.to_string().contains("bytes_left_over=`1`"), "{error}");
    }

    /// A length that cannot be takes no memory.
    #[test]
    fn a_hostile_length_is_an_error() {
        assert!(Postcard::<Vec<u64>>::default().decode(&[0xFF, 0xFF, 0xFF, 0xFF, 0x0F]).is_err());
        assert!(Postcard::<String>::default().decode(&[0xFF, 0xFF, 0xFF, 0xFF, 0x0F]).is_err());
    }

    #[test]
    fn errors_do_not_hold_the_record() {
        let mut bytes = vec![];
        Postcard::default().encode(&"secret".to_owned(), &mut bytes).unwrap();
        let error = Postcard::<Vec<bool>>::default().decode(&bytes).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    }
}
