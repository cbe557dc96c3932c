//! Kafka's serdes of simple types.

use millpond_topology::{
    Bool, ByteArray, ErrorKind, F32, F64, I16, I32, I64, LossyUtf8, Nullable, Serde, Utf8, UuidText, Void,
};
use serde_json::Value;
use uuid::Uuid;

use crate::case::{Case, Outcome, bytes_of, ensure, said, same, text_of};
use crate::damage;

/// A serde, and how its values stand in the files.
pub(crate) struct Kind<S, T> {
    pub(crate) serde: S,
    pub(crate) parse: fn(&Value) -> Option<T>,
    /// A value's bits: equal ones are the same value, NaN too.
    pub(crate) bits: fn(&T) -> Vec<u8>,
}

pub(crate) const LONG: Kind<I64, i64> =
    Kind { serde: I64, parse: Value::as_i64, bits: |value| value.to_le_bytes().to_vec() };
pub(crate) const INT: Kind<I32, i32> =
    Kind { serde: I32, parse: |value| value.as_i64()?.try_into().ok(), bits: |value| value.to_le_bytes().to_vec() };
pub(crate) const SHORT: Kind<I16, i16> =
    Kind { serde: I16, parse: |value| value.as_i64()?.try_into().ok(), bits: |value| value.to_le_bytes().to_vec() };
pub(crate) const DOUBLE: Kind<F64, f64> =
    Kind { serde: F64, parse: |value| value.as_str()?.parse().ok(), bits: |value| value.to_le_bytes().to_vec() };
pub(crate) const FLOAT: Kind<F32, f32> =
    Kind { serde: F32, parse: |value| value.as_str()?.parse().ok(), bits: |value| value.to_le_bytes().to_vec() };
pub(crate) const STRING: Kind<Utf8, String> =
    Kind { serde: Utf8, parse: text_of, bits: |value| value.as_bytes().to_vec() };
pub(crate) const UUID: Kind<UuidText, Uuid> =
    Kind { serde: UuidText, parse: |value| value.as_str()?.parse().ok(), bits: |value| value.as_bytes().to_vec() };
pub(crate) const BYTES: Kind<ByteArray, Vec<u8>> = Kind { serde: ByteArray, parse: bytes_of, bits: Vec::clone };
pub(crate) const BOOLEAN: Kind<Bool, bool> =
    Kind { serde: Bool, parse: Value::as_bool, bits: |value| vec![u8::from(*value)] };

/// Calls a function with the kind of a name and more arguments.
macro_rules! by_name {
    ($name:expr, $call:ident($($argument:expr),*)) => {
        match $name {
            "long" => $call($crate::serdes::LONG, $($argument),*),
            "int" => $call($crate::serdes::INT, $($argument),*),
            "short" => $call($crate::serdes::SHORT, $($argument),*),
            "double" => $call($crate::serdes::DOUBLE, $($argument),*),
            "float" => $call($crate::serdes::FLOAT, $($argument),*),
            "string" => $call($crate::serdes::STRING, $($argument),*),
            "uuid" => $call($crate::serdes::UUID, $($argument),*),
            "bytes" => $call($crate::serdes::BYTES, $($argument),*),
            "boolean" => $call($crate::serdes::BOOLEAN, $($argument),*),
            other => Err(format!("unknown serde {other}")),
        }
    };
}
pub(crate) use by_name;

pub(crate) fn serdes(case: &Case<'_>) -> Outcome {
    match case.text("serde")? {
        "void" => {
            ensure(case.get("value")?.is_null() && case.get("hex")?.is_null(), "void has no value")?;
            ensure(Void.null().is_some() && Void.is_null(&()), "void is written as null")
        }
        name => by_name!(name, both(case)),
    }
}

fn both<S: Serde<T> + Copy, T: 'static>(kind: Kind<S, T>, case: &Case<'_>) -> Outcome {
    let Kind { serde, parse, bits } = kind;
    let value = case.find("value_hex").or_else(|| case.find("value")).ok_or("no value")?;
    let Some(hex) = case.nullable("hex", bytes_of)? else {
        ensure(value.is_null() && Nullable(serde).is_null(&None), "null is written as null")?;
        return ensure(Nullable(serde).null().is_some_and(|null| null.is_none()), "null is read as null");
    };
    let value = parse(value).ok_or("the value is of another type")?;
    let mut out = Vec::new();
    serde.encode(&value, &mut out).map_err(said)?;
    same("bytes", &out, &hex)?;
    same("value", bits(&serde.decode(&hex).map_err(said)?), bits(&value))?;
    damage::readable(&hex, &|bytes| {
        let mut out = Vec::new();
        serde.encode(&serde.decode(bytes).ok()?, &mut out).ok()?;
        Some(out)
    })
}

pub(crate) fn bad_input(case: &Case<'_>) -> Outcome {
    let bytes = case.bytes("hex")?;
    if case.error() {
        return match case.text("serde")? {
            "void" => named(Void.decode(&bytes).map_err(|e| e.kind())),
            name => by_name!(name, refuses(&bytes)),
        };
    }
    // Kafka's reader of strings takes all bytes. Ours is told to, or names the error.
    same("serde", case.text("serde")?, "string")?;
    same("text", LossyUtf8.decode(&bytes).map_err(said)?.as_str(), case.text("decoded")?)?;
    refuses(STRING, &bytes)
}

fn refuses<S: Serde<T>, T>(kind: Kind<S, T>, bytes: &[u8]) -> Outcome {
    named(kind.serde.decode(bytes).map(|_| ()).map_err(|e| e.kind()))
}

/// What a serde takes from the standard library becomes an error of reading where its node asks it.
fn named(read: Result<(), ErrorKind>) -> Outcome {
    match read {
        Err(ErrorKind::Deserialization | ErrorKind::Processing) => Ok(()),
        other => Err(format!("reading ends with {other:?}")),
    }
}
