//! Aggregations of grouped streams.

use millpond_topology::{GroupedStream, GroupedTable};

use super::table::Tabled;
use super::{Cx, Made, Result, broken};
use crate::op::Op;
use crate::value::{Cell, KeyKind, Kind};

impl Cx<'_> {
    pub(super) fn grouped_op(
        &mut self,
        op: &Op,
        grouped: GroupedStream<Cell, Cell>,
        (k, v): (Kind, Kind),
    ) -> Result<Made> {
        let key = KeyKind::Plain(k);
        if let Op::Count { window: Some(window) }
        | Op::Reduce { window: Some(window), .. }
        | Op::Aggregate { window: Some(window), .. } = op
        {
            return self.windowed_op(op, window, grouped, (k, v));
        }
        Ok(Made::Table(match op {
            Op::Count { window: None } => {
                Tabled::boxed(grouped.count(self.materialized(key, Kind::Long)?), key, Kind::Long)
            }
            Op::Reduce { r#fn, window: None } => {
                let f = r#fn.clone();
                let reduce = move |a: Cell, b: Cell| f.reduce(v, a, b).unwrap_or(None);
                Tabled::boxed(grouped.reduce(reduce, self.materialized(key, v)?), key, v)
            }
            Op::Aggregate { r#fn, window: None } => {
                let (f, initial, kind) = (r#fn.clone(), r#fn.initial(), r#fn.kind());
                let add = move |a: Cell, _: &Cell, v: &Cell| f.add(a, v);
                let table = grouped.try_aggregate(move || initial.clone(), add, self.materialized(key, kind)?);
                Tabled::boxed(table, key, kind)
            }
            _ => return broken("a grouped stream has no such op"),
        }))
    }

    pub(super) fn grouped_table_op(
        &mut self,
        op: &Op,
        grouped: GroupedTable<Cell, Cell>,
        (k, v): (Kind, Kind),
    ) -> Result<Made> {
        let key = KeyKind::Plain(k);
        Ok(Made::Table(match op {
            Op::Count { window: None } => {
                Tabled::boxed(grouped.count(self.materialized(key, Kind::Long)?), key, Kind::Long)
            }
            Op::Reduce { r#fn, window: None } => {
                let (f, g) = (r#fn.clone(), r#fn.clone());
                let add = move |a: Cell, b: Cell| f.reduce(v, a, b).unwrap_or(None);
                let subtract = move |a: Cell, b: Cell| g.reduce_back(v, a, b).unwrap_or(None);
                Tabled::boxed(grouped.reduce(add, subtract, self.materialized(key, v)?), key, v)
            }
            Op::Aggregate { r#fn, window: None } => {
                let (f, g, initial, kind) = (r#fn.clone(), r#fn.clone(), r#fn.initial(), r#fn.kind());
                let add = move |a: Cell, _: &Cell, v: &Cell| f.add(a, v);
                let subtract = move |a: Cell, _: &Cell, v: &Cell| g.subtract(a, v);
                let m = self.materialized(key, kind)?;
                Tabled::boxed(grouped.try_aggregate(move || initial.clone(), add, subtract, m), key, kind)
            }
            _ => return broken("a grouped table has no such op"),
        }))
    }
}
