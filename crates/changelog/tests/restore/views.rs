//! Any puts to stores of every kind, logged and read in any pieces, with failures and crashes in between: what is restored is
//! what their views have made of the same puts.

use proptest::prelude::*;

use super::*;
use crate::stores::{KEYS, Kind, Live, MINUTE, Put};

const RETENTION: i64 = 16 * MINUTE;

/// What is done to the store with this number.
#[derive(Clone, Debug)]
enum Op {
    Put(usize, Put),
    /// Of a store with a time to live: so many index rows.
    Expire(usize, usize),
    /// Offsets that nobody sees.
    Hole(usize, i64),
}

/// Times that follow each other slowly, from far behind to a little ahead, on the borders of buckets and beside them.
fn time() -> impl Strategy<Value = i64> {
    (0..40i64, -1..=1i64).prop_map(|(minute, beside)| minute * MINUTE + beside).prop_map(|time| time.max(0))
}

fn put() -> impl Strategy<Value = Put> {
    let value = prop::option::weighted(0.75, prop::collection::vec(any::<u8>(), 0..4));
    (0..KEYS.len(), time(), time(), value, time()).prop_map(|(key, a, b, value, timestamp)| Put {
        key: KEYS[key],
        start: a.min(b),
        end: a.max(b),
        value,
        timestamp,
    })
}

fn op() -> impl Strategy<Value = Op> {
    let store = 0..Kind::ALL.len();
    prop_oneof![
        20 => (store.clone(), put()).prop_map(|(store, put)| Op::Put(store, put)),
        1 => (1..5usize).prop_map(|limit| Op::Expire(1, limit)),
        1 => (store, 1..4i64).prop_map(|(store, n)| Op::Hole(store, n)),
    ]
}

fn apply(stores: &mut [Live], op: &Op) {
    match op {
        Op::Put(store, put) => stores[*store].put(put),
        Op::Expire(store, limit) => stores[*store].expire(*limit),
        Op::Hole(store, n) => drop(stores[*store].log.hole(*n)),
    }
}

/// What happens between the parts of the logs: how many polls are made, and what the shard answers meanwhile.
type Part = (Vec<Op>, usize, Vec<Option<ErrorKind>>);

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let answer = prop_oneof![4 => Just(None), 1 => Just(Some(ErrorKind::Io)), 1 => Just(Some(ErrorKind::Retry))];
    let answers = prop::collection::vec(answer, 0..6);
    prop::collection::vec((prop::collection::vec(op(), 0..60), 0..6usize, answers), 1..4)
}

/// Polls until it is enough or the shard has failed; what is to be tried again is tried again.
fn polls(run: &mut Run<'_>, n: usize) {
    if run.begin().is_err() {
        return;
    }
    for _ in 0..n {
        let batch = run.consumer.poll(Duration::ZERO).unwrap();
        let mut polled = run.applier.batch(&batch);
        loop {
            match polled.apply(&mut run.restore, run.shard, &mut run.metadata) {
                Ok(_) => break,
                Err(error) if error.kind() == ErrorKind::Retry => {}
                Err(_) => return,
            }
        }
    }
}

proptest! {
    #[test]
    fn what_is_restored_is_what_the_views_have_made(
        parts in parts(),
        max in 1..40usize,
        records in 1..20usize,
        bytes in 1..200usize,
        earlier in prop::collection::vec(any::<prop::sample::Index>(), Kind::ALL.len()),
    ) {
        let mut stores: Vec<_> = (1..).zip(Kind::ALL).map(|(number, kind)| Live::new(kind, number, RETENTION)).collect();
        let changelogs: Vec<_> = stores.iter().map(Live::changelog).collect();
        let limits = ApplyLimits { records, bytes };
        let mut consumer = FakeConsumer::new(max, &[]);
        let mut shard = FakeShard::default();
        for (ops, n, answers) in &parts {
            ops.iter().for_each(|op| apply(&mut stores, op));
            for (store, changelog) in stores.iter().zip(&changelogs) {
                consumer.logs.insert((changelog.topic.to_string(), 0), store.log.clone());
            }
            shard.answers = answers.iter().copied().collect();
            polls(&mut Run::plan(&mut consumer, &mut shard, &changelogs).limits(limits), *n);
        }
        shard.answers.clear();
        drop(Run::plan(&mut consumer, &mut shard, &changelogs).limits(limits).complete());
        stores.iter().for_each(|store| store.compare(&shard));
        // The same records once more, from any earlier position, change nothing that is seen.
        let mut metadata = shard.metadata();
        for (changelog, earlier) in changelogs.iter().zip(&earlier) {
            let at = metadata.changelog(&changelog.topic, 0).unwrap();
            let next = earlier.index(usize::try_from(at.next).unwrap() + 1);
            metadata.set_changelog(&changelog.topic, 0, 0, next as i64);
        }
        shard.set_metadata(&metadata);
        drop(Run::plan(&mut consumer, &mut shard, &changelogs).limits(limits).complete());
        stores.iter().for_each(|store| store.compare(&shard));
    }
}
