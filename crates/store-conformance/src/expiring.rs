//! What rows that expire are compared with: a map that is filtered by the rule, in numbers that cannot overflow; and random
//! keys, times and spans to compare by.

use std::collections::BTreeMap;
use std::ops::Bound::{self, Excluded, Included, Unbounded};

use fastrand::Rng;
use millpond_store_api::{Direction, Keys, Prefix, Range};

pub(crate) const MINUTE: i64 = 60_000;

/// A row: key, the time by which it expires, what sorts behind it (a number, a session's start), value.
pub(crate) type TimedRow = (Vec<u8>, i64, i64, Vec<u8>);

/// The rows of one store.
#[derive(Clone)]
pub(crate) struct Model {
    rows: BTreeMap<(Vec<u8>, i64, i64), Vec<u8>>,
    retention: i64,
    pub(crate) now: i64,
}

impl Model {
    pub(crate) fn new(retention: i64) -> Self {
        Self { rows: BTreeMap::new(), retention, now: i64::MIN }
    }

    /// The greatest time from which on a row has expired.
    fn limit(&self) -> i128 {
        i128::from(self.now) - i128::from(self.retention)
    }

    /// Moves the time on, never back.
    pub(crate) fn observe(&mut self, time: i64) {
        self.now = self.now.max(time);
        let limit = self.limit();
        self.rows.retain(|(_, time, _), _| i128::from(*time) > limit);
    }

    /// How many rows are alive.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Puts or deletes; answers whether the row is alive.
    pub(crate) fn put(&mut self, key: &[u8], time: i64, second: i64, value: Option<&[u8]>) -> bool {
        self.observe(time);
        let alive = i128::from(time) > self.limit();
        match value {
            Some(value) if alive => drop(self.rows.insert((key.to_vec(), time, second), value.to_vec())),
            _ => drop(self.rows.remove(&(key.to_vec(), time, second))),
        }
        alive
    }

    pub(crate) fn get(&self, key: &[u8], time: i64, second: i64) -> Option<Vec<u8>> {
        self.rows.get(&(key.to_vec(), time, second)).cloned()
    }

    /// One of the rows: key, time, and what sorts behind it.
    pub(crate) fn pick(&self, random: &mut Rng) -> Option<(Vec<u8>, i64, i64)> {
        let at = random.usize(..self.rows.len().max(1));
        self.rows.keys().nth(at).cloned()
    }

    /// How many rows have a key and a time.
    pub(crate) fn count(&self, key: &[u8], time: i64) -> usize {
        self.rows.keys().filter(|(k, t, _)| k == key && *t == time).count()
    }

    pub(crate) fn scan(
        &self,
        keys: Keys<'_>,
        (from, to): (i64, i64),
        second_to: i64,
        direction: Direction,
    ) -> Vec<TimedRow> {
        let wanted = |key: &[u8]| match keys {
            Keys::One(one) => key == one,
            Keys::Prefix(prefix) => key.starts_with(prefix),
            Keys::Between(lower, upper) => Range::new(lower, upper).contains(key),
        };
        let rows = self.rows.iter().map(|((key, time, second), value)| (key.clone(), *time, *second, value.clone()));
        let mut rows: Vec<_> = rows
            .filter(|(key, time, second, _)| from <= *time && *time <= to && *second <= second_to && wanted(key))
            .collect();
        if direction == Direction::Reverse {
            rows.reverse();
        }
        rows
    }
}

/// Which keys a scan is asked for, owned.
pub(crate) enum Asked {
    One(Vec<u8>),
    Between(Bound<Vec<u8>>, Bound<Vec<u8>>),
    Prefix(Vec<u8>),
}

impl Asked {
    pub(crate) const ALL: Self = Self::Between(Unbounded, Unbounded);

    pub(crate) fn draw(random: &mut Rng) -> Self {
        let bound = |random: &mut Rng| match random.u8(..3) {
            0 => Unbounded,
            1 => Excluded(key(random)),
            _ => Included(key(random)),
        };
        match random.u8(..5) {
            0 => Self::Prefix(key(random)),
            1 | 2 => Self::Between(bound(random), bound(random)),
            _ => Self::One(key(random)),
        }
    }

    pub(crate) fn keys(&self) -> Keys<'_> {
        let lend = crate::tools::lend;
        match self {
            Self::One(key) => Keys::One(key),
            Self::Between(lower, upper) => Keys::Between(lend(lower), lend(upper)),
            Self::Prefix(prefix) => Keys::Prefix(prefix),
        }
    }

    /// The same keys as a range of a space.
    pub(crate) fn with_range<T>(&self, body: impl FnOnce(Range<'_>) -> T) -> T {
        let lend = crate::tools::lend;
        match self {
            Self::One(key) => body(Range::new(Included(key), Included(key))),
            Self::Between(lower, upper) => body(Range::new(lend(lower), lend(upper))),
            Self::Prefix(prefix) => body(Prefix::new(prefix).range()),
        }
    }
}

impl std::fmt::Display for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = |bound: &Bound<Vec<u8>>, included, excluded| match bound {
            Unbounded => "..".to_owned(),
            Included(key) => format!("{included}{}", key.escape_ascii()),
            Excluded(key) => format!("{excluded}{}", key.escape_ascii()),
        };
        match self {
            Self::One(key) => write!(f, "`{}`", key.escape_ascii()),
            Self::Between(lower, upper) => write!(f, "`{}` `{}`", text(lower, ">=", ">"), text(upper, "<=", "<")),
            Self::Prefix(prefix) => write!(f, "`{}*`", prefix.escape_ascii()),
        }
    }
}

/// Up to two bytes that the escape is about: few enough to meet each other.
pub(crate) fn key(random: &mut Rng) -> Vec<u8> {
    (0..random.usize(..3)).map(|_| [0, 1, b'a', 0xFF][random.usize(..4)]).collect()
}

/// Which times a run is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Times {
    /// Around a moment that goes on: from 15 units before it to one after it.
    Flowing {
        /// The moment.
        now: i64,
        /// Milliseconds.
        unit: i64,
    },
    /// The ends of `i64`, the beginning of 1970, and what is next to the borders of buckets.
    Edges,
}

impl Times {
    /// In minutes.
    pub(crate) const fn flowing(now: i64) -> Self {
        Self::Flowing { now, unit: MINUTE }
    }

    pub(crate) fn draw(self, random: &mut Rng) -> i64 {
        match self {
            // Few enough to meet each other, on the borders of units and off them.
            Self::Flowing { now, unit } => {
                (now + random.i64(-30..=2) * unit / 2) + [0, 0, 1, -1, unit / 779][random.usize(..5)]
            }
            Self::Edges => {
                let near = [i64::MIN, -1_000_000_000_000, -10 * MINUTE, 0, 10 * MINUTE, 1 << 48, i64::MAX];
                near[random.usize(..near.len())].saturating_add(random.i64(-2..=2))
            }
        }
    }

    /// Goes on, sometimes by a leap.
    pub(crate) fn pass(&mut self, random: &mut Rng) {
        if let Self::Flowing { now, unit } = self {
            *now += if random.u8(..) == 0 { 20 * *unit } else { random.i64(0..=*unit / 30) };
        }
    }

    /// Leaps so far that much of what was alive is dead.
    pub(crate) fn leap(&mut self, random: &mut Rng) {
        if let Self::Flowing { now, unit } = self {
            *now += random.i64(0..15) * *unit;
        }
    }
}
