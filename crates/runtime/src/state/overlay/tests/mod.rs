//! Tests of the overlay: a naive base and walk, an audit of the byte count, and the cases in the files beside this one.

mod behaviour;
mod model;
mod walks;

use std::cell::Cell;
use std::collections::BTreeMap;

use millpond_store_api::{Cursor, Direction, Error, ErrorKind, Range, Read, Result, Row, SpaceId, Write, Writes};
use millpond_topology::Layer as _;

use super::slab::{Slot, State};
use super::{DrainedEntry, Entry, Overlay, OverlayOptions, Pending};

/// A map of bytes.
type Map = BTreeMap<Vec<u8>, Vec<u8>>;

const SPACE: SpaceId = SpaceId(7);

/// A naive shard of one space, which counts its reads and can be told to fail.
#[derive(Default)]
struct Base {
    map: Map,
    fail: Cell<bool>,
    reads: Cell<usize>,
}

impl Base {
    fn of(rows: &[(&str, &str)]) -> Self {
        let own = |(key, value): &(&str, &str)| (key.as_bytes().to_vec(), value.as_bytes().to_vec());
        Self { map: rows.iter().map(own).collect(), ..Self::default() }
    }

    fn check(&self, space: SpaceId) -> Result<()> {
        assert_eq!(space, SPACE);
        if self.fail.get() { Err(Error::new(ErrorKind::Retry, "read")) } else { Ok(()) }
    }

    /// What a commit does: applies the writes, which must come in strict key order.
    fn apply(&mut self, writes: &mut dyn Writes) {
        let mut last: Option<Vec<u8>> = None;
        while let Some(Write { space, key, value }) = writes.next() {
            assert_eq!(space, SPACE);
            assert!(last.as_deref().is_none_or(|last| last < key), "a batch is sorted by key");
            last = Some(key.to_vec());
            match value {
                Some(value) => self.map.insert(key.to_vec(), value.to_vec()),
                None => self.map.remove(key),
            };
        }
    }
}

impl Read for Base {
    fn get(&self, space: SpaceId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.check(space)?;
        self.reads.set(self.reads.get() + 1);
        Ok(self.map.get(key).map(|value| found(value)).is_some())
    }

    fn scan(&self, space: SpaceId, range: Range<'_>, direction: Direction) -> Result<Box<dyn Cursor + '_>> {
        self.check(space)?;
        assert!(!range.is_empty(), "engines see no empty range");
        Ok(Box::new(Walk::new(&self.map, range, direction)))
    }
}

/// The plainest cursor that keeps the contract: all rows in a vector.
struct Walk<'a> {
    rows: Vec<(&'a [u8], &'a [u8])>,
    direction: Direction,
    /// How many rows were lent or passed.
    at: usize,
    target: Option<Vec<u8>>,
    lent: bool,
}

impl<'a> Walk<'a> {
    fn new(map: &'a Map, range: Range<'_>, direction: Direction) -> Self {
        let mut rows: Vec<_> = map.iter().map(|(k, v)| (&k[..], &v[..])).filter(|(k, _)| range.contains(k)).collect();
        if direction == Direction::Reverse {
            rows.reverse();
        }
        Self { rows, direction, at: 0, target: None, lent: false }
    }
}

impl Cursor for Walk<'_> {
    fn next(&mut self) -> Result<Option<Row<'_>>> {
        if let Some(target) = self.target.take() {
            let before = |key: &[u8]| match self.direction {
                Direction::Forward => key < &target[..],
                Direction::Reverse => key > &target[..],
            };
            while self.rows.get(self.at).is_some_and(|(key, _)| before(key)) {
                self.at += 1;
            }
        }
        self.lent = self.at < self.rows.len();
        self.at += usize::from(self.lent);
        Ok(self.row())
    }

    fn row(&self) -> Option<Row<'_>> {
        self.lent.then(|| self.rows[self.at - 1]).map(|(key, value)| Row { key, value })
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.target = Some(key.to_vec());
        Ok(())
    }
}

fn overlay(caching: bool, keep_old: bool) -> Overlay {
    Overlay::new(OverlayOptions { space: SPACE, caching, keep_old })
}

fn get(overlay: &mut Overlay, base: &Base, key: &str) -> Option<String> {
    overlay.get(base, key.as_bytes()).unwrap().map(|value| String::from_utf8(value.to_vec()).unwrap())
}

fn put(overlay: &mut Overlay, key: &str, value: Option<&str>) {
    overlay.put(key.as_bytes(), value.map(str::as_bytes), 1).unwrap();
}

/// One record that writes one key.
fn write(overlay: &mut Overlay, key: &str, value: Option<&str>) {
    put(overlay, key, value);
    done(overlay);
}

/// Closes a record; answers the keys that were logged.
fn done(overlay: &mut Overlay) -> Vec<String> {
    let mut logged = Vec::new();
    overlay.record_done(&mut |entry| logged.push(text(entry.key)));
    logged
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A change as it is forwarded: key, new, old.
type Change = (String, Option<String>, Option<String>);

fn drain_one(overlay: &mut Overlay, base: &Base) -> Option<Change> {
    let mut out = DrainedEntry::default();
    overlay.next_pending(base, &mut out).unwrap().then(|| {
        let change = out.drained();
        (text(change.key), change.new.map(text), change.old.map(text))
    })
}

fn drain(overlay: &mut Overlay, base: &Base) -> Vec<Change> {
    std::iter::from_fn(|| drain_one(overlay, base)).collect()
}

fn commit(overlay: &mut Overlay, base: &mut Base) {
    base.apply(&mut overlay.writes());
    overlay.applied();
}

fn scan(overlay: &Overlay, base: &Base, range: Range<'_>, direction: Direction) -> Vec<(String, String)> {
    let mut cursor = overlay.scan(base, range, direction).unwrap();
    let mut rows = Vec::new();
    while let Some(row) = cursor.next().unwrap() {
        rows.push((text(row.key), text(row.value)));
    }
    assert!(cursor.next().unwrap().is_none() && cursor.row().is_none(), "an ended walk stays ended");
    rows
}

/// Counts all bytes anew and compares.
fn audit(overlay: &Overlay) {
    let slots = || (0..u32::try_from(overlay.slots.len()).unwrap()).map(|number| overlay.slots.at(number));
    let bytes = |states: &[State]| slots().filter(|slot| states.contains(&slot.state)).map(Slot::bytes).sum::<usize>();
    let beside = overlay.pending.iter().map(Pending::bytes).sum::<usize>();
    assert_eq!(overlay.clean, bytes(&[State::Unknown, State::Clean]));
    assert_eq!(overlay.pending_bytes, bytes(&[State::Pending]) + beside);
    assert_eq!(overlay.uncommitted, bytes(&[State::Logged]));
    assert_eq!(overlay.table.len() + overlay.slots.free(), overlay.slots.len());
    assert!(slots().all(|slot| slot.state != State::Unknown || slot.value.is_none()));
}
