//! Random operations against a plain ordered map. A failing case prints its seed.

use std::collections::BTreeMap;
use std::ops::Bound::{self, Excluded, Included, Unbounded};

use fastrand::Rng;
use millpond_store_api::{Direction, Flush, Range, Read, Shard, SpaceId, Write};

use crate::tools::{BOTH, Rows, all, apply, assert_bytes, assert_rows, expected, get, lend, scan};
use crate::{A, B, Harness, Rig};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// A batch that owns its bytes: space, key, value.
type Batch = Vec<(SpaceId, Vec<u8>, Option<Vec<u8>>)>;

/// Which keys a run uses: few enough to meet each other.
#[derive(Clone, Copy, Debug)]
enum Keys {
    /// Up to three bytes out of an alphabet with the extremes.
    Short,
    /// Around the sizes at which engines change their representation.
    Long,
    /// Eight bytes, as numbers are.
    Numbers,
}

impl Keys {
    fn draw(self, random: &mut Rng) -> Vec<u8> {
        let alphabet = [0, 0, 1, b'a', 0xFF];
        let mut bytes = |n: usize| -> Vec<u8> { (0..n).map(|_| alphabet[random.usize(..alphabet.len())]).collect() };
        match self {
            Self::Short => {
                let key = bytes(4);
                key[..usize::from(key[3] != 0) + usize::from(key[2] != 0) + usize::from(key[1] != 0)].to_vec()
            }
            Self::Long => {
                let mut key = vec![b'x'; random.usize(18..26)];
                let at = random.usize(..key.len());
                key[at] = alphabet[random.usize(..alphabet.len())];
                key
            }
            Self::Numbers => random.i64(-60..60).to_be_bytes().to_vec(),
        }
    }
}

/// Says which seed failed, if the run panics.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the model's seed was {}", self.0);
        }
    }
}

/// A random batch over both spaces, applied to the models too.
fn batch(random: &mut Rng, keys: Keys, models: &mut [Map; 2]) -> Batch {
    (0..random.usize(..30))
        .map(|_| {
            let (which, key) = (random.usize(..2), keys.draw(random));
            let value = (random.u8(..3) > 0).then(|| {
                let len = if random.u8(..20) == 0 { 5_000 } else { random.usize(..40) };
                vec![random.u8(..); len]
            });
            match &value {
                Some(value) => models[which].insert(key.clone(), value.clone()),
                None => models[which].remove(&key),
            };
            ([A, B][which], key, value)
        })
        .collect()
}

fn write(shard: &mut dyn Shard, batch: &Batch, metadata: &[u8]) {
    let writes: Vec<_> =
        batch.iter().map(|(space, key, value)| Write { space: *space, key, value: value.as_deref() }).collect();
    apply(shard, &writes, metadata);
}

fn rows_of(model: &Map) -> Rows {
    model.iter().map(|(k, v)| (k.clone(), v.clone())).collect()
}

fn bound(random: &mut Rng, keys: Keys) -> Bound<Vec<u8>> {
    match random.u8(..4) {
        0 => Unbounded,
        1 => Excluded(keys.draw(random)),
        _ => Included(keys.draw(random)),
    }
}

/// A few reads: a get, a `multi_get`, a range in each direction, and a walk with seeks.
fn check(read: &dyn Read, models: &[Map; 2], keys: Keys, random: &mut Rng) {
    let which = random.usize(..2);
    let (space, model) = ([A, B][which], &models[which]);
    let key = keys.draw(random);
    assert_bytes(get(read, space, &key).as_deref(), model.get(&key).map(Vec::as_slice), "get");
    let asked: Vec<_> = (0..random.usize(..12)).map(|_| keys.draw(random)).collect();
    let mut found = BTreeMap::new();
    let slices: Vec<&[u8]> = asked.iter().map(Vec::as_slice).collect();
    read.multi_get(space, &slices, &mut |i, value| assert!(found.insert(i, value.to_vec()).is_none())).unwrap();
    for (i, key) in asked.iter().enumerate() {
        assert_bytes(found.get(&i).map(Vec::as_slice), model.get(key).map(Vec::as_slice), "multi_get");
    }
    let (lower, upper) = (bound(random, keys), bound(random, keys));
    let range = Range::new(lend(&lower), lend(&upper));
    let rows = rows_of(model);
    for direction in BOTH {
        assert_rows(
            &scan(read, space, range, direction),
            &expected(&rows, range, direction),
            &format!("{direction:?}"),
        );
        if !range.is_empty() {
            walk_with_seeks(read, space, range, direction, &expected(&rows, range, direction), keys, random);
        }
    }
}

fn walk_with_seeks(
    read: &dyn Read,
    space: SpaceId,
    range: Range<'_>,
    direction: Direction,
    rows: &[(Vec<u8>, Vec<u8>)],
    keys: Keys,
    random: &mut Rng,
) {
    let mut cursor = read.scan(space, range, direction).unwrap();
    let mut at = 0;
    loop {
        if random.u8(..3) == 0 {
            let target = keys.draw(random);
            cursor.seek(&target).unwrap();
            let passed = |key: &Vec<u8>| match direction {
                Direction::Forward => *key < target,
                Direction::Reverse => *key > target,
            };
            at += rows[at..].iter().take_while(|(key, _)| passed(key)).count();
        }
        let lent = cursor.next().unwrap().map(|row| (row.key.to_vec(), row.value.to_vec()));
        assert_eq!(lent.as_ref(), rows.get(at), "row {at} of a walk with seeks, {direction:?}");
        assert_eq!(cursor.row().map(|row| row.key), lent.as_ref().map(|(key, _)| key.as_slice()));
        if lent.is_none() {
            assert!(cursor.next().unwrap().is_none());
            return;
        }
        at += 1;
    }
}

/// Batches, flushes, clean restarts of a persistent engine; the writer and a reader are compared with the model.
fn run(harness: &dyn Harness, keys: Keys, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let told = Seed(seed);
        let mut random = Rng::with_seed(seed);
        let mut rig = Rig::new(harness);
        let mut shard = rig.open();
        let mut models = [Map::new(), Map::new()];
        for step in 0..120_u32 {
            match random.u8(..12) {
                0..5 => {
                    let batch = batch(&mut random, keys, &mut models);
                    write(&mut *shard, &batch, &step.to_be_bytes());
                    assert_eq!(shard.committed(), Some(&step.to_be_bytes()[..]));
                }
                5 => shard.flush(if random.bool() { Flush::Wait } else { Flush::Start }).unwrap(),
                6 => check(&*shard.reader(), &models, keys, &mut random),
                7 if rig.engine().persistent() => {
                    let committed = shard.committed().map(<[u8]>::to_vec);
                    shard.close().unwrap();
                    rig.restart();
                    shard = rig.open();
                    assert_eq!(shard.committed(), committed.as_deref());
                }
                _ => check(&*shard, &models, keys, &mut random),
            }
        }
        assert_rows(&all(&*shard, A), &rows_of(&models[0]), "the first space");
        assert_rows(&all(&*shard, B), &rows_of(&models[1]), "the second space");
        drop(told);
    }
}

/// Short keys with extreme bytes: many are prefixes of each other.
pub fn short_keys(harness: &dyn Harness) {
    run(harness, Keys::Short, 0..8);
}

/// Keys of 18 to 25 bytes that differ in one byte.
pub fn long_keys(harness: &dyn Harness) {
    run(harness, Keys::Long, 100..106);
}

/// Numbers as keys, big endian, negative ones too: bytes are compared unsigned.
pub fn numbers_as_keys(harness: &dyn Harness) {
    run(harness, Keys::Numbers, 200..206);
}

/// Random batches, flushes, clean restarts and crashes of a persistent engine.
pub(crate) struct Crashes<'a> {
    told: Seed,
    random: Rng,
    rig: Rig<'a>,
    /// The state after each batch; the batch's number is its metadata. The first one is of no batch.
    states: Vec<[Map; 2]>,
    /// The batch that is durable at least.
    durable: usize,
    /// Openings are unlogged or not, at random.
    changing: bool,
    /// The last one is.
    unlogged: bool,
}

impl<'a> Crashes<'a> {
    pub(crate) fn new(harness: &'a dyn Harness, seed: u64) -> Self {
        let states = vec![[Map::new(), Map::new()]];
        let (random, rig) = (Rng::with_seed(seed), Rig::new(harness));
        Self { told: Seed(seed), random, rig, states, durable: 0, changing: false, unlogged: false }
    }

    pub(crate) fn sometimes_unlogged(mut self) -> Self {
        self.changing = true;
        self
    }

    pub(crate) fn run(&mut self) {
        let mut shard = self.open();
        for _ in 0..100 {
            match self.random.u8(..10) {
                0..5 => {
                    let mut models = self.states.last().expect("there is the first one").clone();
                    let batch = batch(&mut self.random, Keys::Short, &mut models);
                    write(&mut *shard, &batch, &self.states.len().to_be_bytes());
                    self.states.push(models);
                    if self.unlogged {
                        self.durable = self.states.len() - 1;
                    }
                }
                5 => {
                    shard.flush(Flush::Wait).unwrap();
                    self.durable = self.states.len() - 1;
                }
                6 => shard.flush(Flush::Start).unwrap(),
                7 => self.durable = self.durable.max(position(shard.durable().unwrap())),
                8 => {
                    shard.close().unwrap();
                    self.durable = self.states.len() - 1;
                    shard = self.reopen();
                }
                _ => {
                    drop(shard);
                    shard = self.reopen();
                }
            }
        }
        assert!(self.states.len() > 1, "seed {} applies nothing", self.told.0);
    }

    fn open(&mut self) -> Box<dyn Shard> {
        self.unlogged = self.changing && self.random.bool();
        self.rig.open_as(self.unlogged)
    }

    /// The next process: what it finds is a state since the durable one, and everything goes on from there.
    fn reopen(&mut self) -> Box<dyn Shard> {
        self.rig.restart();
        let shard = self.open();
        let at = position(shard.committed());
        assert!(
            (self.durable..self.states.len()).contains(&at),
            "reopened at batch {at}, durable were {}, applied {}",
            self.durable,
            self.states.len() - 1
        );
        assert_rows(&all(&*shard, A), &rows_of(&self.states[at][0]), "the first space after a crash");
        assert_rows(&all(&*shard, B), &rows_of(&self.states[at][1]), "the second space after a crash");
        self.states.truncate(at + 1);
        self.durable = at;
        shard
    }
}

/// The number of the batch that metadata stands for.
fn position(metadata: Option<&[u8]>) -> usize {
    metadata.map_or(0, |bytes| usize::from_be_bytes(bytes.try_into().expect("the metadata is a batch's number")))
}
