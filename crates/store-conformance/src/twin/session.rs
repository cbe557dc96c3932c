//! The session store beside a map that is filtered by the rule.

use std::rc::Rc;

use millpond_store_api::{Direction, Keys, Sessions};

use super::{Draw, Twin};
use crate::Subject;
use crate::expiring::{MINUTE, Model};
use crate::session::{Store, text};
use crate::tools::BOTH;

#[derive(Clone)]
pub(crate) struct SessionTwin {
    store: Store,
    model: Model,
}

impl SessionTwin {
    pub(crate) fn new(number: u16, retention: i64) -> Self {
        Self { store: Store::new(number, retention), model: Model::new(retention) }
    }

    fn compare(&mut self, at: &mut dyn Subject, of: Sessions<'_>, direction: Direction) {
        let want = self.model.scan(of.keys, (of.earliest_end, of.latest_end), of.latest_start, direction);
        let got = self.store.scan(at, of, direction);
        assert!(got == want, "{direction:?} {of:?}: {} instead of {}", text(&got), text(&want));
    }
}

impl Twin for SessionTwin {
    fn step(&mut self, at: &mut dyn Subject, draw: &mut Draw) {
        let (mut key, mut end) = (draw.key(), draw.time());
        let mut start = end.saturating_sub(draw.random.i64(0..4) * [1, MINUTE][draw.random.usize(..2)]);
        // At times a row that is there, so that it is replaced, removed and found.
        if draw.random.u8(..3) == 0
            && let Some(row) = self.model.pick(&mut draw.random)
        {
            (key, end, start) = row;
        }
        match draw.random.u8(..10) {
            0..5 => {
                let value = draw.value();
                draw.say(|| format!("put {}[{start},{end}] = {}", key.escape_ascii(), value.escape_ascii()));
                let alive = self.model.put(&key, end, start, Some(&value));
                assert_eq!(self.store.put(at, &key, start, end, &value), alive, "{end} at {}", self.model.now);
            }
            5 => {
                draw.say(|| format!("remove {}[{start},{end}]", key.escape_ascii()));
                assert_eq!(self.store.remove(at, &key, start, end), self.model.put(&key, end, start, None), "remove");
            }
            6 => {
                draw.say(|| format!("fetch {}[{start},{end}]", key.escape_ascii()));
                assert_eq!(self.store.get(at, &key, start, end), self.model.get(&key, end, start), "fetch");
            }
            _ => {
                let (asked, direction) = (draw.asked(), draw.direction());
                let (earliest_end, latest_start) = (draw.time(), draw.time());
                let latest_end = if draw.random.bool() { i64::MAX } else { draw.time() };
                let of = Sessions { keys: asked.keys(), earliest_end, latest_end, latest_start };
                draw.say(|| {
                    format!("find {asked} {earliest_end}..={latest_end}, start ..={latest_start}, {direction:?}")
                });
                self.compare(at, of, direction);
            }
        }
        assert_eq!(self.store.now, self.model.now, "the observed time");
    }

    fn check(&mut self, at: &mut dyn Subject) {
        for direction in BOTH {
            self.compare(at, Sessions::of(Keys::ALL), direction);
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
