//! Ops on streams.

use millpond_topology::{Grouped, Produced, Repartitioned, Stream};

use super::table::Tabled;
use super::{Cx, Made, Result, broken};
use crate::op::{Op, ValueFn};
use crate::value::{Cell, KeyKind, Kind, Val, nullable};

impl Cx<'_> {
    pub(super) fn to(&mut self, made: Made, topic: &str) -> Result {
        let format = match made {
            Made::Table(table) => return self.to(table.to_stream(None), topic),
            Made::Stream(s, k, v) => {
                s.to(topic, Produced::with(nullable(k), nullable(v)));
                (KeyKind::Plain(k), v)
            }
            Made::Updates(updates) => updates.to(topic),
            _ => return broken("what is written is a stream or a table"),
        };
        self.formats.sinks.insert(topic.to_owned(), format);
        Ok(())
    }

    pub(super) fn stream_op(&mut self, op: &Op, s: Stream<Cell, Cell>, (k, v): (Kind, Kind)) -> Result<Made> {
        Ok(match op {
            Op::Filter { r#fn } => {
                let f = r#fn.clone();
                Made::Stream(s.try_filter(move |k, v| f.holds(k, v)), k, v)
            }
            Op::FilterNot { r#fn } => {
                let f = r#fn.clone();
                Made::Stream(s.filter_not(move |k, v| f.holds(k, v).is_ok_and(|yes| yes)), k, v)
            }
            Op::MapValues { r#fn: ValueFn::WithKey } => {
                let with_key = |k: &Cell, v: Cell| ValueFn::WithKey.apply(k, v).unwrap_or(None);
                Made::Stream(s.map_values_with_key(with_key), k, Kind::Text)
            }
            Op::MapValues { r#fn } => {
                let f = r#fn.clone();
                Made::Stream(s.try_map_values(move |value| f.apply(&None, value)), k, r#fn.kind(v))
            }
            Op::SelectKey { r#fn } => {
                let f = r#fn.clone();
                Made::Stream(s.select_key(move |k, v| f.apply(k, v)), Kind::Text, v)
            }
            Op::Map { r#fn, value_fn } => {
                let (key, value) = (r#fn.clone(), value_fn.clone());
                let s = s.try_map(move |k, v| Ok((key.apply(&k, &v), value.apply(&k, v)?)));
                Made::Stream(s, Kind::Text, value_fn.kind(v))
            }
            Op::SplitWords {} => Made::Stream(s.flat_map_values(words), k, v),
            Op::Repartition { partitions } => {
                let options = self.name.take().map_or_else(Repartitioned::default, Repartitioned::named);
                let mut options = options.key(nullable(k)).value(nullable(v));
                if let Some(partitions) = partitions {
                    options = options.partitions(*partitions);
                }
                Made::Stream(s.repartition(options), k, v)
            }
            Op::GroupByKey {} => Made::Grouped(s.group_by_key_with(self.grouped(k, v)), k, v),
            Op::GroupBy { r#fn, value_fn: None } => {
                let f = r#fn.clone();
                Made::Grouped(s.group_by(move |k, v| f.apply(k, v), self.grouped(Kind::Text, v)), Kind::Text, v)
            }
            Op::ToTable {} => {
                let m = self.materialized(KeyKind::Plain(k), v)?;
                Made::Table(Tabled::boxed(self.named(s).to_table(m), KeyKind::Plain(k), v))
            }
            _ => return broken("a stream has no such op"),
        })
    }

    pub(super) fn grouped(&mut self, key: Kind, value: Kind) -> Grouped<Cell, Cell> {
        let grouped = self.name.take().map_or_else(Grouped::default, Grouped::named);
        grouped.key(nullable(key)).value(nullable(value))
    }
}

fn words(value: Cell) -> Vec<Cell> {
    let Some(Val::Text(text)) = value else { return Vec::new() };
    text.split(' ').map(|word| Some(Val::text(word))).collect()
}
