//! Which number a store has in its shard, and what its rows look like: written down beside the shard, so that a store keeps
//! its rows when others come and go, and rows of another form are never taken for its own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use millpond_store_api::SpaceId;
use millpond_topology::StoreType;

use crate::error::{Error, ErrorKind, Result};
use crate::plan::StorePlan;
use crate::state::{StateError, StateErrorKind, read_file, replace_file};

const FILE: &str = "SPACES";

/// The space that all windowed stores of a shard share. No store has this number.
pub(crate) const WINDOWED: SpaceId = SpaceId(u16::MAX);

/// A store's place in its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    /// Its own space, and its number in the windowed one.
    pub(super) number: u16,
    /// Its rows were written in another form: they have to go.
    pub(super) is_outdated: bool,
    /// The files did not know it.
    pub(super) is_new: bool,
}

/// What is known of the stores of a shard's files.
#[derive(Debug)]
pub(super) struct Spaces<'a> {
    dir: Option<&'a Path>,
    /// By store.
    known: BTreeMap<String, Known>,
}

#[derive(Debug)]
struct Known {
    number: u16,
    /// `None`: written by a release that knew key-value stores only.
    form: Option<String>,
}

impl<'a> Spaces<'a> {
    /// Places the stores. In a directory the file `SPACES` (a line `<number> <store> <form>` each) is read, and written anew
    /// if there are new names; without one, numbers follow the order.
    pub(super) fn assign(dir: Option<&'a Path>, stores: &[&StorePlan]) -> Result<(Self, Vec<Placed>)> {
        let mut spaces = Self { dir, known: dir.map_or(Ok(BTreeMap::new()), read)? };
        let mut placed = Vec::with_capacity(stores.len());
        let mut has_changed = false;
        for plan in stores {
            let is_new = !spaces.known.contains_key(&plan.name);
            if is_new {
                let known = Known { number: spaces.next_number()?, form: None };
                spaces.known.insert(plan.name.clone(), known);
            }
            let Some(known) = spaces.known.get_mut(&plan.name) else { continue };
            // What an earlier release wrote are rows without a retention, in whatever form the plan says.
            if known.form.is_none() && (is_new || plan.retention.is_none()) {
                (known.form, has_changed) = (Some(form(plan)), true);
            }
            let is_outdated = known.form.as_ref() != Some(&form(plan));
            placed.push(Placed { number: known.number, is_outdated, is_new });
        }
        if has_changed {
            spaces.write()?;
        }
        Ok((spaces, placed))
    }

    fn next_number(&self) -> Result<u16> {
        let last = self.known.values().map(|k| k.number).max();
        let next = last.map_or(Some(0), |n| n.checked_add(1)).filter(|n| SpaceId(*n) != WINDOWED);
        next.ok_or_else(|| {
            Error::new(ErrorKind::Config, "give a store its number")
                .with("stores that the files know", self.known.len())
                .remedy("remove the task's directory: its files have known more stores than can be told apart")
        })
    }

    /// The rows of outdated stores are gone: all have the form of these plans now.
    pub(super) fn renew(mut self, stores: &[&StorePlan]) -> Result {
        for plan in stores {
            if let Some(known) = self.known.get_mut(&plan.name) {
                known.form = Some(form(plan));
            }
        }
        self.write()
    }

    fn write(&self) -> Result {
        let Some(dir) = self.dir else { return Ok(()) };
        let line = |(store, Known { number, form }): (&String, &Known)| match form {
            Some(form) => format!("{number} {store} {form}\n"),
            None => format!("{number} {store}\n"),
        };
        let lines: String = self.known.iter().map(line).collect();
        Ok(replace_file("write the list of spaces", dir, FILE, &lines)?)
    }
}

/// What tells rows that can be read by a plan from those that cannot. A time to live may change: its rows do not depend on it.
fn form(plan: &StorePlan) -> String {
    let kind = plan.kind.id();
    match plan.retention {
        Some(retention) if plan.kind != StoreType::TtlKeyValue => {
            let duplicates = if retention.duplicates { "/duplicates" } else { "" };
            format!("{kind}/{}{duplicates}", retention.gone_after())
        }
        _ => kind.to_owned(),
    }
}

fn read(dir: &Path) -> Result<BTreeMap<String, Known>> {
    const OP: &str = "read the list of spaces";
    let path = dir.join(FILE);
    let Some(text) = read_file(OP, &path)? else { return Ok(BTreeMap::new()) };
    let mut numbers = BTreeSet::new();
    let mut line = |line: &str| {
        let mut parts = line.splitn(3, ' ');
        let (number, store) = (parts.next()?.parse().ok()?, parts.next()?);
        let is_free = SpaceId(number) != WINDOWED && numbers.insert(number);
        is_free.then(|| (store.to_owned(), Known { number, form: parts.next().map(str::to_owned) }))
    };
    let damaged = || {
        StateError::new(StateErrorKind::Damaged, OP)
            .with("path", path.display())
            .with("remedy", "set the shard aside and restore it from its changelogs")
    };
    let lines: std::result::Result<_, _> = text.lines().map(|l| line(l).ok_or_else(damaged)).collect();
    Ok(lines?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use millpond_changelog::ValueFormat;
    use millpond_topology::{Retention, StoreIndex};

    use super::*;

    fn plan(name: &str, kind: StoreType, retention: Option<i64>) -> StorePlan {
        StorePlan {
            index: StoreIndex(0),
            name: name.into(),
            kind,
            retention: retention.map(Retention::of_millis),
            hold: None,
            engine: None,
            format: ValueFormat::Plain,
            changelog: None,
            reuses_source: false,
            changelog_keeps: None,
            former_changelog: None,
            caching: false,
            forwards: false,
        }
    }

    fn outdated(dir: &Path, plan: &StorePlan) -> bool {
        let (spaces, placed) = Spaces::assign(Some(dir), &[plan]).unwrap();
        let outdated = placed[0].is_outdated;
        if outdated {
            assert!(Spaces::assign(Some(dir), &[plan]).unwrap().1[0].is_outdated, "until it is renewed");
            spaces.renew(&[plan]).unwrap();
        }
        outdated
    }

    #[test]
    fn a_store_keeps_its_number_when_others_come_and_go() {
        let dir = tempfile::tempdir().unwrap();
        let ids = |stores: &[&str]| {
            let plans: Vec<_> = stores.iter().map(|name| plan(name, StoreType::KeyValue, None)).collect();
            let (_, placed) = Spaces::assign(Some(dir.path()), &plans.iter().collect::<Vec<_>>()).unwrap();
            placed.iter().map(|p| p.number).collect::<Vec<_>>()
        };
        assert_eq!(ids(&["b", "c"]), [0, 1]);
        assert_eq!(ids(&["a", "c"]), [2, 1]);
        assert_eq!(ids(&["c", "b", "a"]), [1, 0, 2]);
    }

    #[test]
    fn another_kind_or_retention_outdates_the_rows_once() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        assert!(!outdated(dir, &plan("s", StoreType::Window, Some(5))));
        assert!(!outdated(dir, &plan("s", StoreType::Window, Some(5))));
        assert!(outdated(dir, &plan("s", StoreType::Window, Some(6))));
        assert!(!outdated(dir, &plan("s", StoreType::Window, Some(6))));
        assert!(outdated(dir, &plan("s", StoreType::Session, Some(6))));
        assert!(outdated(dir, &plan("s", StoreType::TtlKeyValue, Some(6))));
        assert!(!outdated(dir, &plan("s", StoreType::TtlKeyValue, Some(7))), "a time to live may change");
    }

    #[test]
    fn a_list_of_an_earlier_release_holds_key_value_stores() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), "0 a\n1 b\n").unwrap();
        assert!(!outdated(dir.path(), &plan("a", StoreType::TimestampedKeyValue, None)));
        assert!(outdated(dir.path(), &plan("b", StoreType::VersionedKeyValue, Some(1))));
        assert!(outdated(dir.path(), &plan("a", StoreType::KeyValue, None)), "its form was noted");
    }

    #[test]
    fn a_damaged_list_is_named() {
        let dir = tempfile::tempdir().unwrap();
        for damaged in ["what is this", "65535 a", "7 a\n7 b"] {
            fs::write(dir.path().join(FILE), damaged).unwrap();
            let text = Spaces::assign(Some(dir.path()), &[&plan("a", StoreType::KeyValue, None)]).unwrap_err().chain();
            assert!(text.contains("SPACES") && text.contains("remedy="), "{text}");
        }
        fs::write(dir.path().join(FILE), "65534 b").unwrap();
        let text = Spaces::assign(Some(dir.path()), &[&plan("a", StoreType::KeyValue, None)]).unwrap_err().chain();
        assert!(text.contains("remove the task's directory"), "{text}");
    }
}
