//! The versioned store beside a model that forgets nothing.

use std::collections::BTreeMap;
use std::rc::Rc;

use millpond_store_api::Direction;
use millpond_store_api::VersionPut::{self, Latest, TooOld, ValidTo};

use super::{Draw, Twin};
use crate::Subject;
use crate::tools::BOTH;
use crate::versioned::{Store, Version};

/// All versions of all keys that were ever put, tombstones as `None`.
#[derive(Clone, Default)]
struct Model(BTreeMap<String, BTreeMap<i64, Option<String>>>);

impl Model {
    /// All values with the times at which they were valid.
    fn versions(&self, key: &str) -> Vec<Version> {
        let versions: Vec<_> = self.0.get(key).into_iter().flatten().collect();
        let ends = versions.iter().skip(1).map(|(at, _)| Some(**at)).chain([None]);
        let whole = versions.iter().zip(ends).map(|((at, value), end)| Some((value.as_ref()?.clone(), **at, end)));
        whole.flatten().collect()
    }

    fn latest(&self, key: &str) -> Option<Version> {
        self.versions(key).pop().filter(|version| version.2.is_none())
    }

    fn as_of(&self, key: &str, as_of: i64, oldest: i64) -> Option<Version> {
        let valid = |(_, from, to): &Version| match to {
            Some(to) => as_of >= oldest && *from <= as_of && as_of < *to,
            None => *from <= as_of,
        };
        self.versions(key).into_iter().find(valid)
    }

    fn range(&self, key: &str, from: i64, to: i64, oldest: i64) -> Vec<Version> {
        let valid = |(_, begin, end): &Version| match end {
            Some(end) => from.max(oldest) <= to && *begin <= to && *end > from.max(oldest),
            None => from <= to && *begin <= to,
        };
        self.versions(key).into_iter().filter(valid).collect()
    }

    fn put(&mut self, key: &str, value: Option<String>, timestamp: i64) -> VersionPut {
        let versions = self.0.entry(key.to_owned()).or_default();
        versions.insert(timestamp, value);
        let later = timestamp.checked_add(1).and_then(|later| versions.range(later..).next());
        later.map_or(Latest, |(next, _)| ValidTo(*next))
    }
}

#[derive(Clone)]
pub(crate) struct VersionedTwin {
    number: u16,
    history: i64,
    now: i64,
    model: Model,
}

impl VersionedTwin {
    pub(crate) fn new(number: u16, history: i64) -> Self {
        Self { number, history, now: i64::MIN, model: Model::default() }
    }

    /// Runs the body on the store as it was left.
    fn store<T>(&mut self, at: &mut dyn Subject, body: impl FnOnce(&mut Store<'_>) -> T) -> T {
        let mut store = Store { subject: at, number: self.number, history: self.history, now: self.now };
        let answer = body(&mut store);
        self.now = store.now;
        answer
    }

    /// The earliest time that can be put and asked for.
    fn oldest(&self) -> i64 {
        self.now.saturating_sub(self.history)
    }

    fn put(&mut self, at: &mut dyn Subject, key: &str, value: Option<String>, time: i64) {
        let done = self.store(at, |store| store.put(key, value.as_deref(), time));
        // A put that is too old does not move the time, any other one cannot be too old for the time that it sets.
        let want = if time < self.oldest() { TooOld } else { self.model.put(key, value, time) };
        assert_eq!(done, want, "put");
    }

    fn compare(&mut self, at: &mut dyn Subject, key: &str, (from, to): (i64, i64), direction: Direction) {
        let mut want = self.model.range(key, from, to, self.oldest());
        if direction == Direction::Reverse {
            want.reverse();
        }
        let got = self.store(at, |store| store.versions(key, from, to, direction));
        assert_eq!(got, want, "{key:?} {from}..={to}, {direction:?}");
    }
}

impl Twin for VersionedTwin {
    fn step(&mut self, at: &mut dyn Subject, draw: &mut Draw) {
        let (key, time) = (draw.name(), draw.time());
        match draw.random.u8(..10) {
            0..5 => {
                let value = draw.value();
                let value = (draw.random.u8(..4) > 0).then(|| String::from_utf8(value).expect("values are text"));
                draw.say(|| format!("put {key:?} = {value:?} at {time}"));
                self.put(at, key, value, time);
            }
            5 | 6 => {
                draw.say(|| format!("get {key:?}"));
                let want = self.model.latest(key);
                assert_eq!(self.store(at, |store| store.get(key)), want, "get");
            }
            7 => {
                draw.say(|| format!("get {key:?} as of {time}"));
                let want = self.model.as_of(key, time, self.oldest());
                assert_eq!(self.store(at, |store| store.as_of(key, time)), want, "as of {time}");
            }
            _ => {
                let (to, direction) = (draw.time(), draw.direction());
                draw.say(|| format!("versions of {key:?} {time}..={to}, {direction:?}"));
                self.compare(at, key, (time, to), direction);
            }
        }
    }

    fn check(&mut self, at: &mut dyn Subject) {
        let keys: Vec<_> = self.model.0.keys().cloned().collect();
        for key in keys {
            for direction in BOTH {
                self.compare(at, &key, (i64::MIN, i64::MAX), direction);
            }
        }
    }

    fn observe(&mut self, time: i64) {
        self.now = self.now.max(time);
    }

    fn expired(&self) -> i64 {
        self.now
    }

    fn copy(&self) -> Rc<dyn Twin> {
        Rc::new(self.clone())
    }
}
