//! Windowed aggregations of grouped streams.

use millpond_topology::{
    EmitStrategy, GroupedStream, Materialized, SessionWindowedStream, SessionWindows, SlidingWindows, TimeWindows,
    WindowedStream,
};

use super::table::Tabled;
use super::{Cx, Made, Result, broken, ms};
use crate::op::{Emit, Fold, Op, Window};
use crate::value::{Cell, KeyKind, Kind, TableValue, nullable};

impl Window {
    /// What the keys of its tables look like.
    pub(super) fn keys(&self, of: Kind) -> KeyKind {
        match self {
            Self::Time { size_ms, .. } | Self::Sliding { size_ms, .. } => KeyKind::Time(of, *size_ms as i64),
            Self::Session { .. } => KeyKind::Session(of),
        }
    }
}

impl Cx<'_> {
    pub(super) fn windowed_op(
        &mut self,
        op: &Op,
        window: &Window,
        grouped: GroupedStream<Cell, Cell>,
        (k, v): (Kind, Kind),
    ) -> Result<Made> {
        let key = window.keys(k);
        match *window {
            Window::Time { size_ms, advance_ms, grace_ms, emit } => {
                let windows = TimeWindows::of_size_and_grace(ms(size_ms), ms(grace_ms));
                let windows = advance_ms.map_or(windows, |advance| windows.advance_by(ms(advance)));
                let stream = grouped.windowed_by(windows).emit_strategy(self.emission(emit));
                self.windows_op(op, stream, key, v)
            }
            Window::Sliding { size_ms, grace_ms, emit } => {
                let windows = SlidingWindows::of_time_difference_and_grace(ms(size_ms), ms(grace_ms));
                let stream = grouped.windowed_by(windows).emit_strategy(self.emission(emit));
                self.windows_op(op, stream, key, v)
            }
            Window::Session { gap_ms, grace_ms, emit } => {
                let windows = SessionWindows::of_inactivity_gap_and_grace(ms(gap_ms), ms(grace_ms));
                let stream = grouped.windowed_by(windows).emit_strategy(self.emission(emit));
                self.sessions_op(op, stream, key, v)
            }
        }
    }

    pub(super) fn emission(&self, emit: Option<Emit>) -> EmitStrategy {
        match emit {
            Some(Emit::Close) => EmitStrategy::on_window_close().at_most_every(ms(self.config.close_emit_interval_ms)),
            None => EmitStrategy::on_window_update(),
        }
    }

    /// The options of a windowed store: its keys are without their windows.
    pub(super) fn windows<V: TableValue>(&mut self, key: KeyKind, value: Kind) -> Result<Materialized<Cell, V>> {
        let kept = self.kept.take().unwrap_or_default();
        if kept.history_ms.is_some() {
            return broken("windows with a history");
        }
        let retention = kept.retention_ms;
        let m = self.store(kept).serdes(nullable(key.inner()), V::serde(value));
        Ok(match retention {
            Some(retention) => m.retention(ms(retention)),
            None => m,
        })
    }

    fn windows_op(&mut self, op: &Op, s: WindowedStream<Cell, Cell>, key: KeyKind, v: Kind) -> Result<Made> {
        Ok(Made::Table(match op {
            Op::Count { .. } => Tabled::boxed(s.count(self.windows(key, Kind::Long)?), key, Kind::Long),
            Op::Reduce { r#fn, .. } => Tabled::boxed(s.reduce(reducer(r#fn, v), self.windows(key, v)?), key, v),
            Op::Aggregate { r#fn, .. } => {
                let (f, initial, kind) = (r#fn.clone(), r#fn.initial(), r#fn.kind());
                let add = move |a: Cell, _: &Cell, v: &Cell| f.add(a, v);
                let table = s.try_aggregate(move || initial.clone(), add, self.windows(key, kind)?);
                Tabled::boxed(table, key, kind)
            }
            _ => return broken("windows have no such op"),
        }))
    }

    fn sessions_op(&mut self, op: &Op, s: SessionWindowedStream<Cell, Cell>, key: KeyKind, v: Kind) -> Result<Made> {
        Ok(Made::Table(match op {
            Op::Count { .. } => Tabled::boxed(s.count(self.windows(key, Kind::Long)?), key, Kind::Long),
            Op::Reduce { r#fn, .. } => Tabled::boxed(s.reduce(reducer(r#fn, v), self.windows(key, v)?), key, v),
            Op::Aggregate { r#fn, .. } => {
                let (f, g, initial, kind) = (r#fn.clone(), r#fn.clone(), r#fn.initial(), r#fn.kind());
                let add = move |a: Cell, _: &Cell, v: &Cell| f.add(a, v);
                let merge = move |_: &Cell, a: Cell, b: Cell| g.merge(a, b);
                let table = s.try_aggregate(move || initial.clone(), add, merge, self.windows(key, kind)?);
                Tabled::boxed(table, key, kind)
            }
            _ => return broken("sessions have no such op"),
        }))
    }
}

fn reducer(f: &Fold, kind: Kind) -> impl Fn(Cell, Cell) -> Cell + Send + Sync + 'static {
    let f = f.clone();
    move |a, b| f.reduce(kind, a, b).unwrap_or(None)
}
