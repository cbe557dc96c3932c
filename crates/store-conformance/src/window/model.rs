//! Random operations on window stores that share a space, against a model.

use fastrand::Rng;
use millpond_store_api::Direction;

use super::store::{Store, WindowRows, text};
use crate::Subject;
use crate::expiring::{Asked, MINUTE, Model, Times, key};
use crate::tools::BOTH;

/// A store and what it should hold.
struct Pair {
    store: Store,
    model: Model,
}

impl Pair {
    fn new(store: Store) -> Self {
        Self { store, model: Model::new(store.retention) }
    }

    fn step(&mut self, subject: &mut dyn Subject, random: &mut Rng, times: Times) {
        let (key, start) = (key(random), times.draw(random));
        match random.u8(..10) {
            0..5 => self.put(subject, &key, start, &random.u16(..).to_be_bytes()),
            5 if self.store.duplicates => assert!(self.store.delete(subject, &key, start)),
            5 => assert_eq!(self.store.delete(subject, &key, start), self.model.put(&key, start, 0, None)),
            6 if !self.store.duplicates => {
                assert_eq!(self.store.get(subject, &key, start), self.model.get(&key, start, 0));
            }
            _ => self.scan(subject, random, times),
        }
        assert_eq!(self.store.now, self.model.now, "the observed time");
    }

    fn put(&mut self, subject: &mut dyn Subject, key: &[u8], start: i64, value: &[u8]) {
        let sequence = if self.store.duplicates { self.model.count(key, start) as i64 } else { 0 };
        let alive = self.model.put(key, start, sequence, Some(value));
        assert_eq!(self.store.put(subject, key, start, value), alive, "{start} at {}", self.model.now);
    }

    fn scan(&mut self, subject: &mut dyn Subject, random: &mut Rng, times: Times) {
        let asked = Asked::draw(random);
        let times = if random.bool() { (times.draw(random), times.draw(random)) } else { (i64::MIN, i64::MAX) };
        self.compare(subject, &asked, times, BOTH[random.usize(..2)]);
    }

    fn compare(&mut self, subject: &mut dyn Subject, asked: &Asked, times: (i64, i64), direction: Direction) {
        let want = self.model.scan(asked.keys(), times, i64::MAX, direction);
        let want: WindowRows = want.into_iter().map(|(key, start, _, value)| (key, start, value)).collect();
        let got = self.store.scan(subject, asked.keys(), times, direction);
        assert!(got == want, "{direction:?} {times:?}: {} instead of {}", text(&got), text(&want));
    }
}

fn run(subject: &mut dyn Subject, random: &mut Rng, pairs: &mut [Pair], mut times: Times, steps: usize) {
    for _ in 0..steps {
        times.pass(random);
        let pair = random.usize(..pairs.len());
        pairs[pair].step(subject, random, times);
        if random.u8(..50) == 0 {
            subject.settle();
        }
    }
    for pair in pairs {
        for direction in BOTH {
            pair.compare(subject, &Asked::Prefix(Vec::new()), (i64::MIN, i64::MAX), direction);
        }
    }
}

/// Ten thousand puts, deletes, gets and scans of three stores, over hours of event time with late rows.
pub fn against_a_model(subject: &mut dyn Subject) {
    let mut random = Rng::with_seed(11);
    let mut pairs = [Store::new(1, 90), Store::new(2, 5 * MINUTE), Store::new(3, 12 * MINUTE)].map(Pair::new);
    run(subject, &mut random, &mut pairs, Times::Flowing(-60 * MINUTE), 10_000);
}

/// The same with duplicates, beside a store without.
pub fn duplicates_against_a_model(subject: &mut dyn Subject) {
    let mut random = Rng::with_seed(12);
    let mut pairs = [Store::with_duplicates(1, 10 * MINUTE), Store::new(2, 10 * MINUTE)].map(Pair::new);
    run(subject, &mut random, &mut pairs, Times::Flowing(1_700_000_000_000), 3_000);
}

/// Times at the ends of `i64` and at the borders of buckets, with retentions of every size.
pub fn times_at_the_edges_against_a_model(subject: &mut dyn Subject) {
    let mut random = Rng::with_seed(13);
    for round in 0..60_u16 {
        let retention = [1, MINUTE, 8 * MINUTE + 1, 1 << 47, i64::MAX][usize::from(round) % 5];
        let store =
            if round % 2 == 0 { Store::new(round, retention) } else { Store::with_duplicates(round, retention) };
        run(subject, &mut random, &mut [Pair::new(store)], Times::Edges, 50);
    }
}
