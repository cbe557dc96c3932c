//! The measurements as lines of JSON: kept for the tables, and written out as they come.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::process::{Fields, number};
use super::workload::{Contender, Group};
use crate::error::{Error, Result};

/// All measurements so far.
#[derive(Debug)]
pub(super) struct Report {
    lines: Vec<Fields>,
    out: Option<(PathBuf, File)>,
}

impl Report {
    /// A report that is also appended to a file; without one its lines go to standard error.
    pub(super) fn new(out: Option<&Path>) -> Result<Self> {
        let open = |path: &Path| {
            let file = File::options().create(true).append(true).open(path);
            file.map(|file| (path.to_owned(), file)).map_err(|error| Error::io("cannot write", path, &error))
        };
        Ok(Self { lines: Vec::new(), out: out.map(open).transpose()? })
    }

    pub(super) fn add(&mut self, group: &Group, contender: &Contender, turn: u64, figures: Fields) -> Result<()> {
        let line = line(group, contender, turn, figures);
        let text = Value::Object(line.clone());
        match &mut self.out {
            None => eprintln!("{text}"),
            Some((path, file)) => writeln!(file, "{text}").map_err(|error| Error::io("cannot write", path, &error))?,
        }
        self.lines.push(line);
        Ok(())
    }

    pub(super) fn lines(&self) -> &[Fields] {
        &self.lines
    }
}

/// What was measured, and the figures.
pub(super) fn line(group: &Group, contender: &Contender, turn: u64, figures: Fields) -> Fields {
    let what = [
        ("workload", group.workload.name().into()),
        ("distribution", group.distribution.into()),
        ("guarantee", group.guarantee.into()),
        ("contender", contender.name.into()),
        ("turn", turn.into()),
    ];
    what.map(|(name, value): (&str, Value)| (name.to_owned(), value)).into_iter().chain(figures).collect()
}

/// Whose figures: one row of a table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Row<'a> {
    pub(super) workload: &'a str,
    pub(super) distribution: &'a str,
    pub(super) guarantee: &'a str,
    pub(super) contender: &'a str,
}

impl<'a> Row<'a> {
    fn of(line: &'a Fields) -> Option<Self> {
        let text = |field| line.get(field).and_then(Value::as_str);
        Some(Self {
            workload: text("workload")?,
            distribution: text("distribution")?,
            guarantee: text("guarantee")?,
            contender: text("contender")?,
        })
    }

    /// A figure in all turns of this row.
    pub(super) fn values(self, lines: &[Fields], field: &str) -> Vec<f64> {
        let turns = lines.iter().filter(|line| Row::of(line) == Some(self));
        turns.filter_map(|line| number(line, field)).collect()
    }
}

/// All rows, in the order in which they came first.
pub(super) fn rows(lines: &[Fields]) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    for row in lines.iter().filter_map(Row::of) {
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    rows
}

/// The middle, with the lowest and the highest, of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) min: f64,
    pub(super) median: f64,
    pub(super) max: f64,
}

impl Spread {
    /// `None` if there is no value.
    pub(super) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let (low, high) = (values.get((values.len() - 1) / 2)?, values.get(values.len() / 2)?);
        Some(Self { min, median: (low + high) / 2.0, max })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::workload::{Workload, groups};
    use super::*;

    /// A measurement of a contender in every group of a workload.
    pub(in super::super) fn lines(workload: Workload, contender: &str, figures: &[(&str, f64)]) -> Vec<Fields> {
        let figures: Fields = figures.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
        let groups = groups(&[workload]);
        let ours = |group: &Group| group.contenders.iter().find(|c| c.name == contender).cloned();
        groups.iter().filter_map(|group| Some(line(group, &ours(group)?, 0, figures.clone()))).collect()
    }

    #[test]
    fn rows_come_once_and_gather_their_turns() {
        let one = lines(Workload::Crash, "Millpond", &[("x", 1.0)]);
        let two = lines(Workload::Crash, "Millpond", &[("x", 2.0), ("y", 3.0)]);
        let all = [one, two].concat();
        let rows = rows(&all);
        assert_eq!(rows.iter().map(|row| row.guarantee).collect::<Vec<_>>(), ["alos", "eos"]);
        let first = rows.first().unwrap();
        assert_eq!((first.values(&all, "x"), first.values(&all, "y")), (vec![1.0, 2.0], vec![3.0]));
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_two_in_the_middle() {
        assert_eq!(Spread::of(vec![4.0, 1.0, 2.0, 9.0]), Some(Spread { min: 1.0, median: 3.0, max: 9.0 }));
        assert_eq!(Spread::of(vec![3.0, 1.0, 2.0]), Some(Spread { min: 1.0, median: 2.0, max: 3.0 }));
        assert_eq!(Spread::of(vec![]), None);
    }
}
