//! Kafka's list serde over its other serdes.

use millpond_topology::{List, Nullable, Serde};
use serde_json::Value;

use crate::case::{Case, Outcome, bytes_of, ensure, said, same};
use crate::damage;
use crate::serdes::{Kind, by_name};

pub(crate) fn list_serde(case: &Case<'_>) -> Outcome {
    by_name!(case.text("inner")?, list(case))
}

fn list<S: Serde<T> + Copy, T: Clone + 'static>(kind: Kind<S, T>, case: &Case<'_>) -> Outcome {
    let Kind { serde, parse, bits } = kind;
    let value = case.find("value_hex").or_else(|| case.find("value")).ok_or("no value")?;
    let Some(hex) = case.nullable("hex", bytes_of)? else {
        return ensure(value.is_null() && Nullable(List(serde)).is_null(&None), "null is written as null");
    };
    let element = |v: &Value| if v.is_null() { Some(None) } else { parse(v).map(Some) };
    let elements: Option<Vec<Option<T>>> = value.as_array().ok_or("no list")?.iter().map(element).collect();
    let elements = elements.ok_or("an element is of another type")?;
    let with_nulls = List(Nullable(serde));
    let mut out = Vec::new();
    with_nulls.encode(&elements, &mut out).map_err(said)?;
    same("bytes", &out, &hex)?;
    let all_bits = |list: &[Option<T>]| list.iter().map(|v| v.as_ref().map(bits)).collect::<Vec<_>>();
    same("list", all_bits(&with_nulls.decode(&hex).map_err(said)?), all_bits(&elements))?;

    // A serde without null writes and reads the same, as long as there is none.
    let values: Option<Vec<T>> = elements.into_iter().collect();
    match (values, List(serde).decode(&hex)) {
        (None, read) => ensure(read.is_err(), "a null is refused where there can be none")?,
        (Some(values), read) => {
            let all_bits = |list: &[T]| list.iter().map(bits).collect::<Vec<_>>();
            same("list without null", all_bits(&read.map_err(said)?), all_bits(&values))?;
            out.clear();
            List(serde).encode(&values, &mut out).map_err(said)?;
            same("bytes without null", &out, &hex)?;
        }
    }
    damage::readable(&hex, &|bytes| {
        let mut out = Vec::new();
        with_nulls.encode(&with_nulls.decode(bytes).ok()?, &mut out).ok()?;
        Some(out)
    })
}
