//! Any log, read in any pieces, with crashes in between: the shard is the fold of the log.

use proptest::prelude::*;

use super::*;
use crate::fakes::Entry;

/// What is in a log: a record without a value or without a key, or offsets that nobody sees.
#[derive(Clone, Debug)]
enum Item {
    Record { key: Option<u8>, value: Option<u8>, timestamp: i64 },
    Hole(i64),
}

fn item() -> impl Strategy<Value = Item> {
    prop_oneof![
        8 => (prop::option::weighted(0.9, 0..6u8), prop::option::weighted(0.7, any::<u8>()), 0..1000i64)
            .prop_map(|(key, value, timestamp)| Item::Record { key, value, timestamp }),
        1 => (1..4i64).prop_map(Item::Hole),
    ]
}

fn append(log: &mut Log, items: &[Item]) {
    for item in items {
        match item {
            Item::Record { key, value, timestamp } => {
                let (key, value) = (key.map(|k| [k]), value.map(|v| [v]));
                log.push(key.as_ref().map(|k| &k[..]), value.as_ref().map(|v| &v[..]), *timestamp);
            }
            Item::Hole(n) => drop(log.hole(*n)),
        }
    }
}

/// The fold of a log with values as a timestamped store holds them.
fn timestamped(log: &Log) -> Rows {
    let mut log = log.clone();
    for Entry { timestamp, value, .. } in &mut log.entries {
        *value = value.take().map(|value| [&timestamp.to_be_bytes()[..], &value].concat());
    }
    log.fold()
}

fn items() -> impl Strategy<Value = Vec<Item>> {
    prop::collection::vec(item(), 0..40)
}

/// What happens between the parts of a log: how many polls are made before the process is killed.
fn parts() -> impl Strategy<Value = Vec<(Vec<Item>, Vec<Item>, usize)>> {
    prop::collection::vec((items(), items(), 0..6usize), 1..5)
}

proptest! {
    #[test]
    fn a_restore_in_any_pieces_is_the_fold(parts in parts(), max in 1..20usize, records in 1..10usize, bytes in 1..40usize) {
        let stores = [plain("a", A), changelog("b", B, ValueFormat::Timestamped)];
        let mut consumer = FakeConsumer::new(max, &[("a", &Log::starting_at(3)), ("b", &Log::starting_at(0))]);
        let mut shard = FakeShard::default();
        let limits = ApplyLimits { records, bytes };
        for (to_a, to_b, polls) in parts {
            append(consumer.log("a"), &to_a);
            append(consumer.log("b"), &to_b);
            let mut run = Run::plan(&mut consumer, &mut shard, &stores).limits(limits);
            run.begin().unwrap();
            for _ in 0..polls {
                run.step().unwrap();
            }
            // At every moment rows and positions agree.
            let at = |topic: &str| shard.metadata().changelog(topic, 0).map_or(0, |position| position.next);
            let upto = |log: &Log, at| {
                let mut log = log.clone();
                log.entries.retain(|entry| entry.offset < at);
                log
            };
            let (a, b) = (upto(consumer.log("a"), at("a")), upto(consumer.log("b"), at("b")));
            prop_assert_eq!(shard.rows(A), a.fold());
            prop_assert_eq!(shard.rows(B), timestamped(&b));
        }
        let run = Run::plan(&mut consumer, &mut shard, &stores).limits(limits).complete();
        prop_assert!(run.shard.batches.iter().all(|writes| *writes <= records));
        let (a, b) = (consumer.log("a").clone(), consumer.log("b").clone());
        prop_assert_eq!(shard.rows(A), a.fold());
        prop_assert_eq!(shard.rows(B), timestamped(&b));
        prop_assert_eq!(shard.metadata().changelog("a", 0).map(|p| p.next), Some(a.end));
        prop_assert_eq!(shard.metadata().changelog("b", 0).map(|p| p.next), Some(b.end));
    }
}
