//! The overlay against a naive model of it, by random steps.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use millpond_store_api::Chunk;

use super::*;
use crate::state::Budget;

/// What the overlay should be, as plainly as it can be said.
#[derive(Clone, Default)]
struct Model {
    /// What reads see.
    view: Map,
    /// What downstream has seen.
    forwarded: Map,
    /// Keys held back, in the order of first writes.
    pending: Vec<Vec<u8>>,
    /// Keys that the log has and the shard does not.
    logged: BTreeSet<Vec<u8>>,
    /// Keys of the record at hand, in the order of first writes.
    record: Vec<Vec<u8>>,
    /// What the record at hand wrote and wrote over: key, value, time.
    superseded: Vec<(Vec<u8>, Option<Vec<u8>>, i64)>,
    times: std::collections::BTreeMap<Vec<u8>, i64>,
}

impl Model {
    fn put(&mut self, key: &[u8], value: Option<&[u8]>, timestamp: i64) {
        if self.record.iter().any(|k| k == key) {
            self.superseded.push((key.to_vec(), self.view.get(key).cloned(), self.times[key]));
        }
        match value {
            Some(value) => self.view.insert(key.to_vec(), value.to_vec()),
            None => self.view.remove(key),
        };
        self.times.insert(key.to_vec(), timestamp);
        if !self.record.iter().any(|k| k == key) {
            self.record.push(key.to_vec());
        }
    }

    fn unapplied(&self) -> BTreeSet<Vec<u8>> {
        self.logged.iter().chain(&self.pending).chain(&self.record).cloned().collect()
    }
}

/// A run: the overlay, its base, the model, and the model as it was at the last border.
struct Run {
    rng: fastrand::Rng,
    options: OverlayOptions,
    overlay: Overlay,
    base: Base,
    budget: Arc<Budget>,
    model: Model,
    border: Model,
    drained: DrainedEntry,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let options = OverlayOptions { space: SPACE, caching: rng.bool(), keep_old: rng.bool() };
        let budget = Arc::new(Budget::new(1000, 1000));
        let mut run = Self {
            overlay: Overlay::new(options).with_budget(&budget),
            options,
            base: Base::default(),
            budget,
            model: Model::default(),
            border: Model::default(),
            drained: DrainedEntry::default(),
            rng,
        };
        for _ in 0..run.rng.usize(..8) {
            let (key, value) = (run.key(), run.value().unwrap_or_default());
            run.base.map.insert(key, value);
        }
        run.model.view = run.base.map.clone();
        run.model.forwarded = run.base.map.clone();
        run.border = run.model.clone();
        run
    }

    /// One of some twenty keys: short, long, with common beginnings, and the empty one.
    fn key(&mut self) -> Vec<u8> {
        let mut key = b"abcdefghijklmnopqrstuvwxyz"[..[0, 1, 2, 7, 8, 9, 22, 23, 26][self.rng.usize(..9)]].to_vec();
        if let Some(last) = key.last_mut() {
            *last = [0, b'x', 0xFF][self.rng.usize(..3)];
        }
        key
    }

    fn value(&mut self) -> Option<Vec<u8>> {
        let len = [0, 1, 8, 22, 23, 40][self.rng.usize(..6)];
        let byte = self.rng.u8(..);
        (self.rng.u8(..4) > 0).then(|| vec![byte; len])
    }

    fn put(&mut self) {
        let (key, value, timestamp) = (self.key(), self.value(), self.rng.i64(..));
        self.overlay.put(&key, value.as_deref(), timestamp).unwrap();
        self.model.put(&key, value.as_deref(), timestamp);
    }

    fn get(&mut self) {
        let key = self.key();
        self.base.fail.set(self.rng.u8(..10) == 0);
        let known = self.overlay.peek(&key).is_some();
        match self.overlay.get(&self.base, &key) {
            Ok(value) => assert_eq!(value, self.model.view.get(&key).map(Vec::as_slice)),
            Err(_) => assert!(self.base.fail.get() && !known),
        }
        self.base.fail.set(false);
    }

    fn touch(&mut self) {
        let keys: Vec<_> = (0..self.rng.usize(..6)).map(|_| self.key()).collect();
        self.base.fail.set(self.rng.u8(..10) == 0);
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        match self.overlay.touch(&self.base, &keys) {
            Ok(()) => assert!(keys.iter().all(|key| self.overlay.peek(key).is_some())),
            Err(_) => assert!(self.base.fail.get()),
        }
        self.base.fail.set(false);
    }

    fn done(&mut self) {
        let mut logged = Vec::new();
        self.overlay.record_done(&mut |entry| {
            logged.push((entry.key.to_vec(), entry.value.map(<[u8]>::to_vec), entry.timestamp));
        });
        let superseded = std::mem::take(&mut self.model.superseded);
        let mut expected = if self.options.caching { Vec::new() } else { superseded };
        for key in std::mem::take(&mut self.model.record) {
            if !self.options.caching {
                let value = self.model.view.get(&key).cloned();
                expected.push((key.clone(), value, self.model.times[&key]));
                self.model.logged.insert(key);
            } else if !self.model.pending.contains(&key) {
                self.model.pending.push(key);
            }
        }
        assert_eq!(logged, expected);
        self.border = self.model.clone();
    }

    fn failed(&mut self) {
        self.overlay.record_failed();
        self.model = self.border.clone();
    }

    /// Ends the record at hand in one of the two ways.
    fn border(&mut self) {
        if self.rng.u8(..4) == 0 { self.failed() } else { self.done() }
    }

    /// Takes one entry out, at a border; false if there is none.
    fn drain_one(&mut self) -> bool {
        let expected = loop {
            if self.model.pending.is_empty() {
                break None;
            }
            let key = self.model.pending.remove(0);
            let (new, old) = (self.model.view.get(&key).cloned(), self.model.forwarded.get(&key).cloned());
            if new.is_some() || old.is_some() || !self.options.keep_old {
                match &new {
                    Some(new) => self.model.forwarded.insert(key.clone(), new.clone()),
                    None => self.model.forwarded.remove(&key),
                };
                self.model.logged.insert(key.clone());
                break Some((self.model.times[&key], key, new, old.filter(|_| self.options.keep_old)));
            }
        };
        if self.rng.u8(..10) == 0 {
            self.base.fail.set(true);
            let before = self.overlay.pending();
            if self.overlay.next_pending(&self.base, &mut self.drained).is_ok() {
                // Nothing had to be read, so the entry is out.
                self.base.fail.set(false);
                return self.check_drained(expected);
            }
            assert!(self.overlay.pending() <= before && self.overlay.pending() > 0);
            self.base.fail.set(false);
        }
        let more = self.overlay.next_pending(&self.base, &mut self.drained).unwrap();
        assert_eq!(more, expected.is_some());
        if more { self.check_drained(expected) } else { self.at_border(false) }
    }

    #[expect(clippy::type_complexity, reason = "time, key, new and old, in one test")]
    fn check_drained(&mut self, expected: Option<(i64, Vec<u8>, Option<Vec<u8>>, Option<Vec<u8>>)>) -> bool {
        if let Some((timestamp, key, new, old)) = expected {
            let change = self.drained.drained();
            assert_eq!((change.timestamp, change.key), (timestamp, &key[..]));
            assert_eq!((change.new, change.old), (new.as_deref(), old.as_deref()));
            assert_eq!(self.drained.entry().value, new.as_deref());
            return self.at_border(true);
        }
        self.at_border(false)
    }

    fn at_border(&mut self, answer: bool) -> bool {
        self.border = self.model.clone();
        answer
    }

    /// Drains with writes of what is downstream to the same store, some of which fail, and commits.
    fn commit(&mut self) {
        self.done();
        let mut writes_left = 6;
        while self.drain_one() {
            if writes_left > 0 && self.rng.bool() {
                writes_left -= 1;
                self.put();
                self.border();
            }
        }
        assert_eq!(self.overlay.pending(), 0);
        let logged: Vec<_> = self.model.logged.iter().cloned().collect();
        let mut writes = self.overlay.writes();
        let mut keys = Vec::new();
        for _ in 0..2 {
            writes.rewind();
            keys.clear();
            while let Some(write) = writes.next() {
                keys.push(write.key.to_vec());
            }
        }
        assert_eq!(keys, logged);
        writes.rewind();
        self.base.apply(&mut writes);
        self.overlay.applied();
        assert_eq!(self.base.map, self.model.view);
        assert!(!self.overlay.is_dirty());
        self.model.logged.clear();
        self.model.forwarded = self.base.map.clone();
        self.border = self.model.clone();
    }

    fn abort(&mut self) {
        self.overlay.abort();
        assert!(!self.overlay.is_dirty());
        self.model = Model { view: self.base.map.clone(), forwarded: self.base.map.clone(), ..Model::default() };
        self.border = self.model.clone();
    }

    fn evict(&mut self) {
        let before = self.overlay.cache_bytes();
        let want = self.rng.usize(..1000);
        let freed = self.overlay.evict(want);
        assert_eq!(before - freed, self.overlay.cache_bytes());
    }

    fn bound<'k>(&mut self, key: &'k [u8]) -> Bound<&'k [u8]> {
        [Bound::Unbounded, Bound::Included(key), Bound::Excluded(key)][self.rng.usize(..3)]
    }

    fn scan(&mut self) {
        let (lower, upper) = (self.key(), self.key());
        let range = Range::new(self.bound(&lower), self.bound(&upper));
        let direction = if self.rng.bool() { Direction::Forward } else { Direction::Reverse };
        let mut keys = Chunk::default();
        self.overlay.written(range, direction, &mut keys);
        let mut expected: Vec<_> = self.model.unapplied().into_iter().filter(|key| range.contains(key)).collect();
        if direction == Direction::Reverse {
            expected.reverse();
        }
        let written: Vec<_> = (0..keys.len()).map(|i| keys.get(i).unwrap().key.to_vec()).collect();
        assert_eq!(written, expected);
        if range.is_empty() {
            return;
        }
        let seeks: Vec<_> = (0..16).map(|_| (self.rng.u8(..4) == 0).then(|| self.key())).collect();
        let mut naive = Walk::new(&self.model.view, range, direction);
        let mut cursor = self.overlay.scan(&self.base, range, direction).unwrap();
        for seek in seeks.iter().chain(&[const { None }; 24]) {
            match seek {
                Some(key) => {
                    naive.seek(key).unwrap();
                    cursor.seek(key).unwrap();
                }
                None => {
                    let expected = naive.next().unwrap();
                    assert_eq!(cursor.next().unwrap(), expected);
                    assert_eq!(cursor.row(), expected);
                }
            }
        }
        assert_eq!(cursor.next().unwrap(), None);
    }

    fn peek(&mut self) {
        let key = self.key();
        match self.overlay.peek(&key) {
            Some(value) => assert_eq!(value, self.model.view.get(&key).map(Vec::as_slice)),
            None => assert!(!self.model.unapplied().contains(&key)),
        }
    }

    fn step(&mut self) {
        match self.rng.u8(..40) {
            0..10 => self.put(),
            10..18 => self.get(),
            18..26 => self.border(),
            26..29 => self.scan(),
            29..31 => self.touch(),
            31..33 => self.peek(),
            33..35 => self.evict(),
            35..38 => {
                self.border();
                self.drain_one();
            }
            38 => self.commit(),
            _ => self.abort(),
        }
        audit(&self.overlay);
    }
}

#[test]
fn any_steps_agree_with_the_model() {
    for seed in 0..4000 {
        let mut run = Run::new(seed);
        for _ in 0..80 {
            run.step();
        }
        run.commit();
        assert_eq!(run.budget.cache(), run.overlay.cache_bytes(), "seed {seed}");
        assert_eq!(run.budget.uncommitted(), 0);
        for (key, value) in run.base.map.clone() {
            assert_eq!(run.overlay.get(&run.base, &key).unwrap(), Some(&value[..]), "seed {seed}");
        }
        drop(run.overlay);
        assert_eq!((run.budget.cache(), run.budget.uncommitted()), (0, 0));
    }
}
