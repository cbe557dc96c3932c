//! The window store, with and without duplicates, beside a map that is filtered by the rule.

use std::rc::Rc;

use millpond_store_api::Direction;

use super::{Draw, Twin};
use crate::Subject;
use crate::expiring::{Asked, Model};
use crate::tools::BOTH;
use crate::window::store::{Store, WindowRows, text};

#[derive(Clone)]
pub(crate) struct WindowTwin {
    store: Store,
    model: Model,
}

impl WindowTwin {
    pub(crate) fn new(number: u16, retention: i64) -> Self {
        Self { store: Store::new(number, retention), model: Model::new(retention) }
    }

    pub(crate) fn with_duplicates(number: u16, retention: i64) -> Self {
        Self { store: Store::with_duplicates(number, retention), model: Model::new(retention) }
    }

    fn put(&mut self, at: &mut dyn Subject, key: &[u8], start: i64, value: &[u8]) {
        let sequence = if self.store.duplicates { self.model.count(key, start) as i64 } else { 0 };
        let alive = self.model.put(key, start, sequence, Some(value));
        assert_eq!(self.store.put(at, key, start, value), alive, "{start} at {}", self.model.now);
    }

    fn delete(&mut self, at: &mut dyn Subject, key: &[u8], start: i64) {
        let done = self.store.duplicates || self.model.put(key, start, 0, None);
        assert_eq!(self.store.delete(at, key, start), done, "{start} at {}", self.model.now);
    }

    /// Of duplicates the one that was put last.
    fn get(&mut self, at: &mut dyn Subject, key: &[u8], start: i64) {
        let last = self.model.count(key, start).max(1) as i64 - 1;
        assert_eq!(self.store.get(at, key, start), self.model.get(key, start, last), "get");
    }

    fn compare(&mut self, at: &mut dyn Subject, asked: &Asked, times: (i64, i64), direction: Direction) {
        let want = self.model.scan(asked.keys(), times, i64::MAX, direction);
        let want: WindowRows = want.into_iter().map(|(key, start, _, value)| (key, start, value)).collect();
        let got = self.store.scan(at, asked.keys(), times, direction);
        assert!(got == want, "{asked} {times:?} {direction:?}: {} instead of {}", text(&got), text(&want));
    }
}

impl Twin for WindowTwin {
    fn step(&mut self, at: &mut dyn Subject, draw: &mut Draw) {
        let (mut key, mut start) = (draw.key(), draw.time());
        // At times a row that is there, so that it is replaced, deleted and found.
        if draw.random.u8(..3) == 0
            && let Some(row) = self.model.pick(&mut draw.random)
        {
            (key, start, _) = row;
        }
        match draw.random.u8(..10) {
            0..5 => {
                let value = draw.value();
                draw.say(|| format!("put {}@{start} = {}", key.escape_ascii(), value.escape_ascii()));
                self.put(at, &key, start, &value);
            }
            5 => {
                draw.say(|| format!("delete {}@{start}", key.escape_ascii()));
                self.delete(at, &key, start);
            }
            6 => {
                draw.say(|| format!("get {}@{start}", key.escape_ascii()));
                self.get(at, &key, start);
            }
            _ => {
                let (asked, direction) = (draw.asked(), draw.direction());
                let times = if draw.random.bool() { (start, draw.time()) } else { (i64::MIN, i64::MAX) };
                draw.say(|| format!("scan {asked} {times:?}, {direction:?}"));
                self.compare(at, &asked, times, direction);
            }
        }
        assert_eq!(self.store.now, self.model.now, "the observed time");
    }

    fn check(&mut self, at: &mut dyn Subject) {
        for direction in BOTH {
            self.compare(at, &Asked::ALL, (i64::MIN, i64::MAX), direction);
        }
    }

    fn observe(&mut self, time: i64) {
        self.model.observe(time);
        self.store.now = self.model.now;
    }

    fn expired(&self) -> i64 {
        self.store.now
    }

    fn copy(&self) -> Rc<dyn Twin> {
        Rc::new(self.clone())
    }
}
