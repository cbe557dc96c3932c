//! JSON by serde.

use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, ErrorKind, Result};
use crate::serde::Serde;

/// A type as JSON text. As a key it is encoded anew wherever bytes are needed, since one value has many texts.
///
/// `Json<Option<T>>` writes `None` as the text `null`, which is not Kafka's null: use
/// [`Nullable`](crate::Nullable)`(Json::<T>::default())` for that.
///
/// ```
/// use millpond_topology::{Json, Serde};
///
/// #[derive(serde::Serialize, serde::Deserialize, PartialEq, Debug)]
/// struct Point { x: i32, y: i32 }
///
/// let mut out = vec![];
/// Json::default().encode(&Point { x: 1, y: 2 }, &mut out).unwrap();
/// assert_eq!(out, br#"{"x":1,"y":2}"#);
/// assert_eq!(Json::<Point>::default().decode(&out).unwrap(), Point { x: 1, y: 2 });
/// ```
pub struct Json<T>(PhantomData<fn(T) -> T>);

impl<T> Default for Json<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T> Clone for Json<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Json<T> {}

impl<T> std::fmt::Debug for Json<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Json")
    }
}

impl<T: Serialize + DeserializeOwned + 'static> Serde<T> for Json<T> {
    fn encode(&self, value: &T, out: &mut Vec<u8>) -> Result {
        serde_json::to_writer(out, value).map_err(|e| without_data(ErrorKind::Serialization, "write JSON", &e))
    }

    fn decode(&self, bytes: &[u8]) -> Result<T> {
        serde_json::from_slice(bytes).map_err(|e| without_data(ErrorKind::Deserialization, "read JSON", &e))
    }
}

/// What went wrong and where, but not the text of the cause: it quotes the record.
#[cold]
fn without_data(kind: ErrorKind, op: &'static str, error: &serde_json::Error) -> Error {
    let category = match error.classify() {
        serde_json::error::Category::Io => "io",
        serde_json::error::Category::Syntax => "syntax",
        serde_json::error::Category::Data => "data",
        serde_json::error::Category::Eof => "end of input",
    };
    Error::new(kind, op).with("category", category).with("line", error.line()).with("column", error.column())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_where_but_not_what() {
        let error = Json::<u8>::default().decode(br#" "secret" "#).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Deserialization);
        let text = format!("{error} {error:?}");
        assert!(text.contains("category=`data`") && text.contains("column=`9`"), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }

    #[test]
    fn json_is_not_canonical() {
        let serde = Json::<u8>::default();
        assert!(!serde.identity().is_same(serde.identity()));
    }
}
