//! The key-value store with a time to live beside a map that is filtered by the rule.

use std::collections::BTreeMap;
use std::rc::Rc;

use millpond_store_api::{Direction, Range};

use super::{Draw, Twin};
use crate::Subject;
use crate::expiring::Times;
use crate::tools::BOTH;
use crate::ttl::{Store, Timed};

#[derive(Clone)]
pub(crate) struct TtlTwin {
    number: u16,
    ttl: i64,
    pub(crate) now: i64,
    /// The observed time at which no index row was due any more.
    swept: i64,
    rows: BTreeMap<String, (i64, String)>,
}

impl TtlTwin {
    pub(crate) fn new(number: u16, ttl: i64) -> Self {
        Self { number, ttl, now: i64::MIN, swept: i64::MIN, rows: BTreeMap::new() }
    }

    /// Runs the body on the store as it was left.
    fn store<T>(&mut self, at: &mut dyn Subject, body: impl FnOnce(&mut Store<'_>) -> T) -> T {
        let mut store = Store { subject: at, number: self.number, ttl: self.ttl, now: self.now };
        let answer = body(&mut store);
        self.now = store.now;
        answer
    }

    fn is_alive(&self, time: i64, now: i64) -> bool {
        i128::from(time) > i128::from(now) - i128::from(self.ttl)
    }

    fn put(&mut self, at: &mut dyn Subject, key: &str, time: i64, value: String, only_if_absent: bool) {
        let now = self.now.max(time);
        let there = self.rows.get(key).is_some_and(|row| self.is_alive(row.0, now));
        let put = self.is_alive(time, now) && !(only_if_absent && there);
        let done = self.store(at, |store| {
            if only_if_absent { store.put_if_absent(key, time, &value) } else { store.put(key, time, &value) }
        });
        assert_eq!((done, self.now), (put, now), "whether it was put, and the observed time");
        if put {
            self.rows.insert(key.to_owned(), (time, value));
        }
    }

    /// Answers whether there may be more to do.
    fn expire(&mut self, at: &mut dyn Subject, limit: usize) -> bool {
        let more = self.store(at, |store| store.expire(limit)).more;
        if !more {
            self.swept = self.now;
        }
        more
    }

    fn get(&mut self, at: &mut dyn Subject, key: &str) {
        let want = self.rows.get(key).filter(|row| self.is_alive(row.0, self.now)).cloned();
        assert_eq!(self.store(at, |store| store.get(key)), want, "get");
    }

    fn compare(&mut self, at: &mut dyn Subject, range: Range<'_>, direction: Direction) {
        let rows =
            self.rows.iter().filter(|(key, row)| range.contains(key.as_bytes()) && self.is_alive(row.0, self.now));
        let mut want: Vec<Timed> = rows.map(|(k, (t, v))| (k.clone(), *t, v.clone())).collect();
        if direction == Direction::Reverse {
            want.reverse();
        }
        assert_eq!(self.store(at, |store| store.scan(range, direction)), want, "a scan, {direction:?}");
    }
}

impl Twin for TtlTwin {
    fn step(&mut self, at: &mut dyn Subject, draw: &mut Draw) {
        let (key, time) = (draw.name(), draw.time());
        match draw.random.u8(..12) {
            0..5 => {
                let value = String::from_utf8(draw.value()).expect("values are text");
                let only_if_absent = draw.random.u8(..4) == 0;
                let when = if only_if_absent { " if absent" } else { "" };
                draw.say(|| format!("put {key:?} = {value} at {time}{when}"));
                self.put(at, key, time, value, only_if_absent);
            }
            5 => {
                draw.say(|| format!("delete {key:?}"));
                self.store(at, |store| store.delete(key));
                self.rows.remove(key);
            }
            6 => {
                if let Times::Flowing { now, .. } = draw.times {
                    draw.say(|| format!("observe {now}"));
                    self.observe(now);
                }
            }
            7 | 8 => {
                let limit = draw.random.usize(..9);
                draw.say(|| format!("expire {limit} at {}", self.now));
                self.expire(at, limit);
            }
            9 => {
                draw.say(|| format!("get {key:?}"));
                self.get(at, key);
            }
            _ => {
                let (asked, direction) = (draw.asked(), draw.direction());
                draw.say(|| format!("scan {asked}, {direction:?}"));
                asked.with_range(|range| self.compare(at, range, direction));
            }
        }
    }

    fn check(&mut self, at: &mut dyn Subject) {
        for direction in BOTH {
            self.compare(at, Range::ALL, direction);
        }
    }

    fn observe(&mut self, time: i64) {
        self.now = self.now.max(time);
    }

    fn sweep(&mut self, at: &mut dyn Subject) {
        while self.expire(at, 3) {}
    }

    fn expired(&self) -> i64 {
        self.swept
    }

    fn copy(&self) -> Rc<dyn Twin> {
        Rc::new(self.clone())
    }
}
