//! Windowed stores over a shard that drops what has expired.

use fastrand::Rng;
use millpond_store_api::schema::Buckets;
use millpond_store_api::{DirectSpace, Direction, Flush, Keys, Shard, Window};

use crate::expiring::{MINUTE, Model, TimedRow, Times, key};
use crate::tools::{BOTH, scan};
use crate::window::store::rows;
use crate::{B, Harness, Rig};

/// Two stores in the space from which rows expire, which see the same time pass.
struct Stores {
    random: Rng,
    times: Times,
    models: [Model; 2],
}

const RETENTIONS: [i64; 2] = [10 * MINUTE, 25 * MINUTE];

impl Stores {
    fn new(seed: u64) -> Self {
        let times = Times::flowing(60 * MINUTE);
        Self { random: Rng::with_seed(seed), times, models: RETENTIONS.map(Model::new) }
    }

    fn now(&self) -> i64 {
        self.models.iter().map(|model| model.now).max().unwrap_or(i64::MIN)
    }

    fn put_some(&mut self, shard: &mut dyn Shard) {
        for _ in 0..40 {
            self.times.pass(&mut self.random);
            let (i, key) = (self.random.usize(..2), key(&mut self.random));
            let (start, value) = (self.times.draw(&mut self.random), self.random.u16(..).to_be_bytes());
            let now = self.now().max(start);
            self.models.iter_mut().for_each(|model| model.observe(now));
            let mut space = DirectSpace::new(shard, B);
            let alive = Window::new(&mut space, i as u16, RETENTIONS[i], false, now).put(&key, start, Some(&value));
            assert_eq!(alive.expect("the row is put"), self.models[i].put(&key, start, 0, Some(&value)));
        }
    }

    fn drop_dead(&self, shard: &mut dyn Shard) {
        shard.drop_below(B, &Buckets::dead_below(self.now())).expect("dead rows are dropped");
    }

    /// Compares all rows and those of some keys, both ways.
    fn compare(&mut self, shard: &mut dyn Shard) {
        let now = self.now();
        for (i, model) in self.models.iter().enumerate() {
            let key = key(&mut self.random);
            let mut space = DirectSpace::new(shard, B);
            let store = Window::new(&mut space, i as u16, RETENTIONS[i], false, now);
            for (keys, direction) in [Keys::ALL, Keys::One(&key)].into_iter().zip(BOTH) {
                let want = model.scan(keys, (i64::MIN, i64::MAX), i64::MAX, direction);
                let want: Vec<_> =
                    want.into_iter().map(|(key, start, _, value): TimedRow| (key, start, value)).collect();
                let got = rows(store.scan(keys, i64::MIN, i64::MAX, direction).expect("the scan opens"));
                assert!(got == want, "store {i}: {} rows instead of {}", got.len(), want.len());
            }
        }
    }
}

/// A shard that drops all buckets that are dead answers like one that drops nothing, and none of what it drops is seen.
pub fn dropping_dead_buckets_changes_no_read(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let (mut shard, mut stores) = (rig.open(), Stores::new(31));
    for round in 0..60 {
        stores.put_some(&mut *shard);
        if round % 3 == 0 {
            shard.flush(Flush::Wait).expect("the shard is flushed");
        }
        stores.compare(&mut *shard);
        stores.drop_dead(&mut *shard);
        stores.compare(&mut *shard);
    }
    assert!(stores.models.iter().all(|model| model.len() > 0), "nothing was compared");
    // What is left to read from the bound on is what is alive, but for a bucket of each store at most.
    let bound = Buckets::dead_below(stores.now());
    let from = millpond_store_api::Range::new(std::ops::Bound::Included(&bound), std::ops::Bound::Unbounded);
    let kept = scan(&*shard, B, from, Direction::Forward).len();
    let alive: usize = stores.models.iter().map(Model::len).sum();
    assert!((alive..alive * 2).contains(&kept), "{kept} rows for {alive} that are alive");
}

/// The same over clean restarts and crashes: rows that come back after a crash stay unseen.
pub(crate) fn over_restarts(harness: &dyn Harness) {
    let mut rig = Rig::new(harness);
    let (mut shard, mut stores) = (rig.open(), Stores::new(32));
    for round in 0..20 {
        stores.put_some(&mut *shard);
        shard.flush(Flush::Wait).expect("the shard is flushed");
        stores.drop_dead(&mut *shard);
        stores.compare(&mut *shard);
        if round % 2 == 0 {
            shard.close().expect("the shard closes");
        } else {
            drop(shard);
        }
        rig.restart();
        shard = rig.open();
        stores.compare(&mut *shard);
    }
}
