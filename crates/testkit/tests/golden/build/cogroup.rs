//! Cogroups: one aggregate of several grouped streams.

use millpond_topology::{SessionWindows, SlidingWindows, TimeWindows};

use super::table::Tabled;
use super::{Cx, Made, Result, broken, ms};
use crate::op::{Fold, Input, Window};
use crate::value::{Cell, KeyKind};

impl Cx<'_> {
    /// The aggregate begins, and sessions are merged, as the first input says.
    pub(super) fn cogroup(&mut self, inputs: &[Input], window: Option<&Window>, grouped: Vec<Made>) -> Result<Made> {
        let mut streams = grouped.into_iter().zip(inputs);
        let Some((Made::Grouped(first, k, _), Input { r#fn: fold, .. })) = streams.next() else {
            return broken("a cogroup begins with a grouped stream");
        };
        let mut cogroup = first.try_cogroup(adder(fold));
        for (made, input) in streams {
            let Made::Grouped(grouped, ..) = made else { return broken("a cogroup is of grouped streams") };
            cogroup = cogroup.try_cogroup::<Cell>(grouped, adder(&input.r#fn));
        }
        let cogroup = self.name.take().into_iter().fold(cogroup, |cogroup, name| cogroup.named(name));
        let (initial, kind) = (fold.initial(), fold.kind());
        let init = move || initial.clone();
        let Some(window) = window else {
            let key = KeyKind::Plain(k);
            let table = cogroup.aggregate(init, self.materialized(key, kind)?);
            return Ok(Made::Table(Tabled::boxed(table, key, kind)));
        };
        let key = window.keys(k);
        let m = self.windows(key, kind)?;
        Ok(Made::Table(match *window {
            Window::Time { size_ms, advance_ms, grace_ms, emit: None } => {
                let windows = TimeWindows::of_size_and_grace(ms(size_ms), ms(grace_ms));
                let windows = advance_ms.map_or(windows, |advance| windows.advance_by(ms(advance)));
                Tabled::boxed(cogroup.windowed_by(windows).aggregate(init, m), key, kind)
            }
            Window::Sliding { size_ms, grace_ms, emit: None } => {
                let windows = SlidingWindows::of_time_difference_and_grace(ms(size_ms), ms(grace_ms));
                Tabled::boxed(cogroup.windowed_by(windows).aggregate(init, m), key, kind)
            }
            Window::Session { gap_ms, grace_ms, emit: None } => {
                let windows = SessionWindows::of_inactivity_gap_and_grace(ms(gap_ms), ms(grace_ms));
                let f = fold.clone();
                let merge = move |_: &Cell, a: Cell, b: Cell| f.merge(a, b).unwrap_or(None);
                Tabled::boxed(cogroup.windowed_by(windows).aggregate(init, merge, m), key, kind)
            }
            _ => return broken("a cogroup has no final results"),
        }))
    }
}

fn adder(fold: &Fold) -> impl Fn(Cell, &Cell, &Cell) -> millpond_topology::Result<Cell> + Send + Sync + 'static {
    let fold = fold.clone();
    move |aggregate, _, value| fold.add(aggregate, value)
}
