//! The list-value store beside lists in a map.

use std::collections::BTreeMap;
use std::rc::Rc;

use millpond_store_api::{Direction, Range};

use super::{Draw, Twin};
use crate::Subject;
use crate::list_value::{append, delete, get, walk};
use crate::tools::{BOTH, Rows};

#[derive(Clone, Default)]
pub(crate) struct ListTwin {
    lists: BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
}

impl ListTwin {
    fn compare(&self, at: &mut dyn Subject, range: Range<'_>, direction: Direction) {
        let lists = self.lists.iter().filter(|(key, _)| range.contains(key));
        let mut want: Rows = lists.flat_map(|(key, list)| list.iter().map(|v| (key.clone(), v.clone()))).collect();
        if direction == Direction::Reverse {
            want.reverse();
        }
        assert_eq!(walk(at, range, direction), want, "a walk, {direction:?}");
    }
}

impl Twin for ListTwin {
    fn step(&mut self, at: &mut dyn Subject, draw: &mut Draw) {
        let key = draw.key();
        match draw.random.u8(..10) {
            0..6 => {
                let value = draw.value();
                draw.say(|| format!("append {} to {}", value.escape_ascii(), key.escape_ascii()));
                append(at, &key, &value);
                self.lists.entry(key).or_default().push(value);
            }
            6 => {
                draw.say(|| format!("delete {}", key.escape_ascii()));
                delete(at, &key);
                self.lists.remove(&key);
            }
            7 => {
                draw.say(|| format!("get {}", key.escape_ascii()));
                assert_eq!(get(at, &key).as_ref(), self.lists.get(&key), "get");
            }
            _ => {
                let (asked, direction) = (draw.asked(), draw.direction());
                draw.say(|| format!("walk {asked}, {direction:?}"));
                asked.with_range(|range| self.compare(at, range, direction));
            }
        }
    }

    fn check(&mut self, at: &mut dyn Subject) {
        for direction in BOTH {
            self.compare(at, Range::ALL, direction);
        }
    }

    fn copy(&self) -> Rc<dyn Twin> {
        Rc::new(self.clone())
    }
}
