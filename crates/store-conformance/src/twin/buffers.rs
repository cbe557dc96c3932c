//! The time-ordered buffers beside a sorted list and a map.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::{Draw, Twin};
use crate::{Subject, arrival_buffer as arrival, key_buffer as by_key};

/// A row: time, key, value.
type Timed = (i64, Vec<u8>, Vec<u8>);

/// The buffer that keeps every row; the rows lie in the order in which they come out.
#[derive(Clone, Default)]
pub(crate) struct ArrivalTwin {
    rows: Vec<Timed>,
}

impl ArrivalTwin {
    /// Takes the first rows out of both.
    fn evict(&mut self, at: &mut dyn Subject, count: usize, due: &mut arrival::Due<'_>) {
        assert_eq!(arrival::evict(at, due), self.rows[..count], "the rows that came out");
        self.rows.drain(..count);
    }
}

impl Twin for ArrivalTwin {
    fn step(&mut self, at: &mut dyn Subject, draw: &mut Draw) {
        match draw.random.u8(..10) {
            0..6 => {
                let (time, key, value) = (draw.time(), draw.name(), draw.value());
                draw.say(|| format!("put {key:?} = {} at {time}", value.escape_ascii()));
                arrival::put(at, time, key, std::str::from_utf8(&value).expect("values are text"));
                let place = self.rows.partition_point(|row| row.0 <= time);
                self.rows.insert(place, (time, key.into(), value));
            }
            6 => {
                let bound = draw.time();
                draw.say(|| format!("evict up to {bound}"));
                let due = self.rows.partition_point(|row| row.0 <= bound);
                self.evict(at, due, &mut arrival::up_to(bound));
            }
            7 => {
                let most = draw.random.usize(..6);
                draw.say(|| format!("evict down to {most} rows"));
                let due = self.rows.len().saturating_sub(most);
                self.evict(at, due, &mut |_, held| held.rows > most as u64);
            }
            _ => {
                draw.say(|| "totals".into());
                self.check(at);
            }
        }
    }

    fn check(&mut self, at: &mut dyn Subject) {
        let bytes: usize = self.rows.iter().map(|row| row.1.len() + row.2.len()).sum();
        let want = (self.rows.len() as u64, bytes as u64, self.rows.first().map(|row| row.0));
        assert_eq!(arrival::state(at), want, "rows, bytes, earliest time");
    }

    fn copy(&self) -> Rc<dyn Twin> {
        Rc::new(self.clone())
    }
}

/// The buffer that keeps the last value of each key.
#[derive(Clone, Default)]
pub(crate) struct KeyTwin {
    rows: BTreeMap<&'static str, (i64, String)>,
}

impl Twin for KeyTwin {
    fn step(&mut self, at: &mut dyn Subject, draw: &mut Draw) {
        let key = draw.name();
        match draw.random.u8(..10) {
            0..5 => {
                let (time, value) = (draw.time(), draw.value());
                let value = String::from_utf8(value).expect("values are text");
                draw.say(|| format!("put {key:?} = {value} at {time}"));
                let waiting = self.rows.entry(key).or_insert((time, String::new()));
                assert_eq!(by_key::put(at, time, key, &value), waiting.0, "since when the key waits");
                waiting.1 = value;
            }
            5 => {
                draw.say(|| format!("remove {key:?}"));
                assert_eq!(by_key::remove_row(at, key), self.rows.remove(key).is_some(), "remove");
            }
            6 => {
                let bound = draw.time();
                draw.say(|| format!("evict up to {bound}"));
                let due = self.rows.extract_if(.., |_, row| row.0 <= bound);
                let mut due: Vec<Timed> = due.map(|(key, (time, value))| (time, key.into(), value.into())).collect();
                due.sort();
                assert_eq!(by_key::evict(at, &mut by_key::up_to(bound)), due, "the rows that came out");
            }
            7 => {
                draw.say(|| format!("get {key:?}"));
                assert_eq!(by_key::get(at, key), self.rows.get(key).cloned(), "get");
            }
            _ => {
                draw.say(|| "totals".into());
                self.check(at);
            }
        }
    }

    fn check(&mut self, at: &mut dyn Subject) {
        let bytes: usize = self.rows.iter().map(|(key, row)| key.len() + row.1.len()).sum();
        let want = (self.rows.len() as u64, bytes as u64, self.rows.values().map(|row| row.0).min());
        assert_eq!(by_key::state(at), want, "rows, bytes, earliest time");
        for (key, row) in &self.rows {
            assert_eq!(by_key::get(at, key).as_ref(), Some(row), "get {key:?}");
        }
    }

    fn copy(&self) -> Rc<dyn Twin> {
        Rc::new(self.clone())
    }
}
