//! Kinds with one value for each key, beside an ordered map.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::rc::Rc;

use millpond_store_api::{Direction, Header, Range};

use super::{Draw, Twin};
use crate::kind::with;
use crate::tools::{BOTH, next_key};
use crate::{Subject, headers, key_value, timestamped};

/// A kind with one value for each key.
pub(crate) trait Rows: Default + Clone + 'static {
    type Value: Clone + PartialEq + Debug;

    fn draw(draw: &mut Draw) -> Self::Value;
    fn put(at: &mut dyn Subject, key: &[u8], value: &Self::Value);
    fn put_if_absent(at: &mut dyn Subject, key: &[u8], value: &Self::Value) -> bool;
    fn delete(at: &mut dyn Subject, key: &[u8]);
    fn get(at: &mut dyn Subject, key: &[u8]) -> Option<Self::Value>;
    fn scan(at: &mut dyn Subject, range: Range<'_>, direction: Direction) -> Vec<(Vec<u8>, Self::Value)>;
}

/// The plain key-value store.
#[derive(Clone, Default)]
pub(crate) struct Plain;

impl Rows for Plain {
    type Value = Vec<u8>;

    fn draw(draw: &mut Draw) -> Vec<u8> {
        draw.value()
    }

    fn put(at: &mut dyn Subject, key: &[u8], value: &Vec<u8>) {
        key_value::put(at, key, value);
    }

    fn put_if_absent(at: &mut dyn Subject, key: &[u8], value: &Vec<u8>) -> bool {
        key_value::view(at, |store| store.put_if_absent(key, value)).expect("the row is put")
    }

    fn delete(at: &mut dyn Subject, key: &[u8]) {
        key_value::delete(at, key);
    }

    fn get(at: &mut dyn Subject, key: &[u8]) -> Option<Vec<u8>> {
        key_value::get(at, key)
    }

    fn scan(at: &mut dyn Subject, range: Range<'_>, direction: Direction) -> Vec<(Vec<u8>, Vec<u8>)> {
        key_value::range(at, range.lower, range.upper, direction)
    }
}

/// The timestamped key-value store.
#[derive(Clone, Default)]
pub(crate) struct Timestamped;

impl Rows for Timestamped {
    type Value = (i64, Vec<u8>);

    fn draw(draw: &mut Draw) -> (i64, Vec<u8>) {
        (draw.time(), draw.value())
    }

    fn put(at: &mut dyn Subject, key: &[u8], (timestamp, value): &(i64, Vec<u8>)) {
        timestamped::put(at, key, *timestamp, value);
    }

    fn put_if_absent(at: &mut dyn Subject, key: &[u8], (timestamp, value): &(i64, Vec<u8>)) -> bool {
        timestamped::try_put(at, key, *timestamp, value)
    }

    fn delete(at: &mut dyn Subject, key: &[u8]) {
        timestamped::view(at, |store| store.delete(key)).expect("the row is deleted");
    }

    fn get(at: &mut dyn Subject, key: &[u8]) -> Option<(i64, Vec<u8>)> {
        timestamped::get(at, key)
    }

    fn scan(at: &mut dyn Subject, range: Range<'_>, direction: Direction) -> Vec<(Vec<u8>, (i64, Vec<u8>))> {
        let rows = timestamped::rows(at, range, direction);
        rows.into_iter().map(|(key, timestamp, value)| (key, (timestamp, value))).collect()
    }
}

/// The timestamped key-value store with headers.
#[derive(Clone, Default)]
pub(crate) struct WithHeaders;

/// A value's headers, lent.
fn lend(headers: &[(String, Option<Vec<u8>>)]) -> Vec<Header<'_>> {
    headers.iter().map(|(key, value)| Header { key, value: value.as_deref() }).collect()
}

impl Rows for WithHeaders {
    type Value = headers::Stored;

    fn draw(draw: &mut Draw) -> headers::Stored {
        let count = draw.random.usize(..3);
        let headers = (0..count).map(|_| (draw.name().to_owned(), draw.random.bool().then(|| draw.value()))).collect();
        (headers, draw.time(), draw.value())
    }

    fn put(at: &mut dyn Subject, key: &[u8], (headers, timestamp, value): &headers::Stored) {
        headers::put(at, key, &lend(headers), *timestamp, value);
    }

    fn put_if_absent(at: &mut dyn Subject, key: &[u8], (headers, timestamp, value): &headers::Stored) -> bool {
        headers::try_put(at, key, &lend(headers), *timestamp, value)
    }

    fn delete(at: &mut dyn Subject, key: &[u8]) {
        headers::view(at, |store| store.delete(key)).expect("the row is deleted");
    }

    fn get(at: &mut dyn Subject, key: &[u8]) -> Option<headers::Stored> {
        headers::get(at, key)
    }

    fn scan(at: &mut dyn Subject, range: Range<'_>, direction: Direction) -> Vec<(Vec<u8>, headers::Stored)> {
        headers::rows(at, range, direction)
    }
}

/// A store of such a kind, and its rows.
#[derive(Clone, Default)]
pub(crate) struct RowsTwin<R: Rows> {
    rows: BTreeMap<Vec<u8>, R::Value>,
}

impl<R: Rows> RowsTwin<R> {
    fn put(&mut self, at: &mut dyn Subject, key: Vec<u8>, value: R::Value, draw: &mut Draw) {
        draw.say(|| format!("put {} = {value:?}", key.escape_ascii()));
        R::put(at, &key, &value);
        self.rows.insert(key, value);
    }

    fn put_if_absent(&mut self, at: &mut dyn Subject, key: Vec<u8>, value: R::Value, draw: &mut Draw) {
        draw.say(|| format!("put {} = {value:?} if absent", key.escape_ascii()));
        assert_eq!(R::put_if_absent(at, &key, &value), !self.rows.contains_key(&key), "put_if_absent");
        self.rows.entry(key).or_insert(value);
    }

    fn delete(&mut self, at: &mut dyn Subject, key: &[u8], draw: &mut Draw) {
        draw.say(|| format!("delete {}", key.escape_ascii()));
        R::delete(at, key);
        self.rows.remove(key);
    }

    fn get(&self, at: &mut dyn Subject, key: &[u8], draw: &mut Draw) {
        draw.say(|| format!("get {}", key.escape_ascii()));
        assert_eq!(R::get(at, key).as_ref(), self.rows.get(key), "get");
    }

    fn touch(&self, at: &mut dyn Subject, draw: &mut Draw) {
        let keys: Vec<_> = (0..draw.random.usize(..4)).map(|_| draw.key()).collect();
        draw.say(|| format!("touch {} keys", keys.len()));
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        with(at, |space| space.touch(&keys)).expect("a hint is no error");
    }

    /// The rows of a range, in the order of a direction.
    fn expected(&self, range: Range<'_>, direction: Direction) -> Vec<(Vec<u8>, R::Value)> {
        let rows = self.rows.iter().filter(|(key, _)| range.contains(key)).map(|(k, v)| (k.clone(), v.clone()));
        let mut rows: Vec<_> = rows.collect();
        if direction == Direction::Reverse {
            rows.reverse();
        }
        rows
    }

    fn scan(&self, at: &mut dyn Subject, draw: &mut Draw) {
        let (asked, direction) = (draw.asked(), draw.direction());
        draw.say(|| format!("scan {asked}, {direction:?}"));
        asked.with_range(|range| {
            assert_eq!(R::scan(at, range, direction), self.expected(range, direction), "scan {asked}, {direction:?}");
        });
    }

    /// A walk of the space itself with a seek before the first row and after each second one: which keys it has.
    fn seek(&self, at: &mut dyn Subject, draw: &mut Draw) {
        let (asked, direction) = (draw.asked(), draw.direction());
        let targets: Vec<_> = (0..3).map(|_| draw.key()).collect();
        draw.say(|| format!("walk {asked}, {direction:?}, with seeks"));
        asked.with_range(|range| {
            let rows = self.expected(range, direction);
            let mut left = rows.iter().map(|(key, _)| key.as_slice()).peekable();
            with(at, |space| {
                let mut cursor = space.scan(range, direction).expect("the walk opens");
                for target in &targets {
                    cursor.seek(target).expect("the cursor moves");
                    let passed = |key: &&[u8]| match direction {
                        Direction::Forward => *key < target.as_slice(),
                        Direction::Reverse => *key > target.as_slice(),
                    };
                    while left.next_if(passed).is_some() {}
                    for _ in 0..2 {
                        assert_eq!(
                            next_key(&mut *cursor).as_deref(),
                            left.next(),
                            "{asked}, {direction:?}, {targets:?}"
                        );
                    }
                }
            });
        });
    }
}

impl<R: Rows> Twin for RowsTwin<R> {
    fn step(&mut self, at: &mut dyn Subject, draw: &mut Draw) {
        let key = draw.key();
        match draw.random.u8(..20) {
            0..8 => {
                let value = R::draw(draw);
                self.put(at, key, value, draw);
            }
            8..11 => self.delete(at, &key, draw),
            11..13 => {
                let value = R::draw(draw);
                self.put_if_absent(at, key, value, draw);
            }
            13..15 => self.get(at, &key, draw),
            15 => self.touch(at, draw),
            16 => self.seek(at, draw),
            _ => self.scan(at, draw),
        }
    }

    fn check(&mut self, at: &mut dyn Subject) {
        for direction in BOTH {
            assert_eq!(R::scan(at, Range::ALL, direction), self.expected(Range::ALL, direction), "all, {direction:?}");
        }
        for (key, value) in &self.rows {
            assert_eq!(R::get(at, key).as_ref(), Some(value), "get {}", key.escape_ascii());
        }
    }

    fn copy(&self) -> Rc<dyn Twin> {
        Rc::new(self.clone())
    }
}
