//! Ops on tables and their updates, whatever their types are.

use std::any::Any;
use std::time::Duration;

use millpond_topology::{BufferConfig, Deletes, Produced, RowContext, Stream, Suppressed, Table, TableKind, Upserts};

use super::{Cx, Made, Result, broken};
use crate::op::{Op, Until, ValueFn, WhenFull};
use crate::value::{Cell, KeyKind, Kind, TableKey, TableValue, Val};

/// A table of some types.
pub(super) trait AnyTable {
    fn again(&self) -> Box<dyn AnyTable>;

    fn op(self: Box<Self>, cx: &mut Cx<'_>, op: &Op) -> Result<Made>;

    fn to_stream(self: Box<Self>, name: Option<String>) -> Made;

    /// The name of its store, and how that is read.
    fn store(&self) -> Option<(String, (KeyKind, Kind))>;
}

/// A table, and the kinds of its keys and values.
pub(super) struct Tabled<K: 'static, V: 'static, D> {
    table: Table<K, V, D>,
    key: KeyKind,
    value: Kind,
}

impl<K: TableKey, V: TableValue, D: Mark> Tabled<K, V, D> {
    pub(super) fn boxed(table: Table<K, V, D>, key: KeyKind, value: Kind) -> Box<dyn AnyTable> {
        Box::new(Self { table, key, value })
    }
}

impl<K: TableKey, V: TableValue, D: Mark> AnyTable for Tabled<K, V, D> {
    fn again(&self) -> Box<dyn AnyTable> {
        Self::boxed(self.table.clone(), self.key, self.value)
    }

    fn op(self: Box<Self>, cx: &mut Cx<'_>, op: &Op) -> Result<Made> {
        let Self { table, key, value } = *self;
        Ok(Made::Table(match op {
            Op::ToStream {} => return Ok(Self::boxed(table, key, value).to_stream(cx.name.take())),
            Op::Filter { r#fn } => {
                let f = r#fn.clone();
                let holds = move |k: &K, v: &V| f.holds(k.inner(), &v.cell()).is_ok_and(|yes| yes);
                let filtered = match cx.kept {
                    Some(_) => table.filter_materialized(holds, cx.materialized(key, value)?),
                    None => table.filter(holds),
                };
                Tabled::boxed(filtered, key, value)
            }
            Op::FilterNot { r#fn } => {
                let f = r#fn.clone();
                let holds = move |k: &K, v: &V| f.holds(k.inner(), &v.cell()).is_ok_and(|yes| yes);
                let filtered = match cx.kept {
                    Some(_) => table.filter_not_materialized(holds, cx.materialized(key, value)?),
                    None => table.filter_not(holds),
                };
                Tabled::boxed(filtered, key, value)
            }
            Op::MapValues { r#fn } => {
                let (f, kind) = (r#fn.clone(), r#fn.kind(value));
                let map = move |k: &K, v: V| f.apply(k.inner(), v.cell()).unwrap_or(None);
                let mapped = match cx.kept {
                    Some(_) => table.map_values_with_key_materialized(map, cx.materialized::<K, Cell>(key, kind)?),
                    None => table.map_values_with_key(map),
                };
                Tabled::boxed(mapped, key, kind)
            }
            Op::TransformValues { r#fn } => {
                let (f, kind) = (r#fn.clone(), r#fn.kind(value));
                let transform = move |()| {
                    let f = f.clone();
                    Ok(move |_: &mut RowContext<'_>, k: &K, v: Option<V>| f.apply(k.inner(), v.cell()))
                };
                let transformed = match cx.kept {
                    Some(_) => {
                        let m = cx.materialized::<K, Val>(key, kind)?;
                        table.transform_values_materialized((), transform, m)
                    }
                    None => table.transform_values((), transform),
                };
                Tabled::boxed(transformed, key, kind)
            }
            Op::GroupBy { r#fn, value_fn } => {
                let (f, map) = (r#fn.clone(), value_fn.clone());
                let kind = map.as_ref().map_or(value, |map| map.kind(value));
                let select = move |k: &K, v: V| {
                    let (inner, value) = (k.inner(), v.cell());
                    let key = f.apply(inner, &value);
                    Ok((key, map.as_ref().map_or(Ok(value.clone()), |map| map.apply(inner, value.clone()))?))
                };
                let grouped = table.try_group_by(select, cx.grouped(Kind::Text, kind));
                return Ok(Made::GroupedTable(grouped, Kind::Text, kind));
            }
            Op::Suppress { until, limit_ms, max_records, when_full } => {
                let strict = max_records.map_or_else(BufferConfig::unbounded, BufferConfig::max_records);
                let name = cx.name.take();
                match (until, when_full) {
                    (Until::TimeLimit, when_full) => {
                        let limit = Duration::from_millis(limit_ms.unwrap_or_default());
                        let suppressed = match when_full {
                            Some(WhenFull::ShutDown) => {
                                Suppressed::until_time_limit(limit, strict.shut_down_when_full())
                            }
                            None => Suppressed::until_time_limit(limit, strict.emit_early_when_full()),
                        };
                        let suppressed = name.iter().fold(suppressed, |s, name| s.named(name));
                        Tabled::boxed(table.suppress(suppressed), key, value)
                    }
                    (Until::WindowClose, None) if limit_ms.is_none() => {
                        let suppressed = Suppressed::until_window_closes(strict);
                        let suppressed = name.iter().fold(suppressed, |s, name| s.named(name));
                        match K::final_results(table, suppressed) {
                            Some(table) => Tabled::boxed(table, key, value),
                            None => return broken("final results of what has no windows"),
                        }
                    }
                    _ => return broken("final results are not let out early"),
                }
            }
            _ => return broken("a table has no such op"),
        }))
    }

    fn to_stream(self: Box<Self>, name: Option<String>) -> Made {
        let Self { table, key, value } = *self;
        let table = match name {
            Some(name) => table.named(name),
            None => table,
        };
        D::made::<K, V>(table.to_stream(), key, value)
    }

    fn store(&self) -> Option<(String, (KeyKind, Kind))> {
        Some((self.table.store_name()?.to_owned(), (self.key, self.value)))
    }
}

/// The marks of tables.
pub(super) trait Mark: TableKind {
    fn made<K: TableKey, V: TableValue>(updates: Stream<K, Self::Streamed<V>>, key: KeyKind, value: Kind) -> Made;
}

impl Mark for Upserts {
    fn made<K: TableKey, V: TableValue>(updates: Stream<K, V>, key: KeyKind, value: Kind) -> Made {
        made(updates, key, value)
    }
}

impl Mark for Deletes {
    fn made<K: TableKey, V: TableValue>(updates: Stream<K, Option<V>>, key: KeyKind, value: Kind) -> Made {
        made(updates, key, value)
    }
}

/// A table's updates as a stream.
pub(super) trait Updates {
    fn again(&self) -> Box<dyn Updates>;

    fn op(self: Box<Self>, cx: &mut Cx<'_>, op: &Op) -> Result<Made>;

    /// Writes them; answers how they are to be read.
    fn to(self: Box<Self>, topic: &str) -> (KeyKind, Kind);
}

struct Updated<K, V> {
    stream: Stream<K, V>,
    key: KeyKind,
    value: Kind,
}

/// If the types are those that other streams have, it is one.
fn made<K: TableKey, V: TableValue>(stream: Stream<K, V>, key: KeyKind, value: Kind) -> Made {
    let mut stream = Some(stream);
    let any: &mut dyn Any = &mut stream;
    match (any.downcast_mut::<Option<Stream<Cell, Cell>>>().and_then(Option::take), stream) {
        (Some(stream), _) => Made::Stream(stream, key.inner(), value),
        (None, Some(stream)) => Made::Updates(Box::new(Updated { stream, key, value })),
        (None, None) => Made::Nothing,
    }
}

impl<K: TableKey, V: TableValue> Updates for Updated<K, V> {
    fn again(&self) -> Box<dyn Updates> {
        Box::new(Self { stream: self.stream.clone(), key: self.key, value: self.value })
    }

    fn op(self: Box<Self>, _: &mut Cx<'_>, op: &Op) -> Result<Made> {
        let Self { stream, key, value } = *self;
        Ok(match op {
            Op::Filter { r#fn } | Op::FilterNot { r#fn } => {
                let (f, keep) = (r#fn.clone(), matches!(op, Op::Filter { .. }));
                let holds = move |k: &K, v: &V| Ok(f.holds(k.inner(), &v.cell())? == keep);
                made(stream.try_filter(holds), key, value)
            }
            Op::MapValues { r#fn: ValueFn::WithKey } => {
                return broken("`map_values` of a stream does not know the key");
            }
            Op::MapValues { r#fn } => {
                let f = r#fn.clone();
                made(stream.try_map_values(move |v| f.apply(&None, v.cell())), key, r#fn.kind(value))
            }
            _ => return broken("a table's updates have no such op"),
        })
    }

    fn to(self: Box<Self>, topic: &str) -> (KeyKind, Kind) {
        let Self { stream, key, value } = *self;
        stream.to(topic, Produced::with(K::serde(key), V::serde(value)));
        (key, value)
    }
}
