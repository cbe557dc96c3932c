//! Duplicates: which records `dedup_by` lets through, beside a model that remembers everything; and that a restart forgets
//! nothing.

use std::time::Duration;

use millpond_runtime::{Counter, Guarantee};
use millpond_testkit::{Driver, DriverBuilder, TestRecord};
use millpond_topology::{
    Consumed, I64, Materialized, Nullable, ProblemKind, Produced, Repartitioned, Stream, Topology, Utf8,
};

use crate::support::{BOTH, builder, driver, kvs, out, pipe, send};

const WITHIN: i64 = 10;

fn ms(millis: i64) -> Duration {
    Duration::from_millis(millis.unsigned_abs())
}

/// Lets the first of each value go through; the value is the id.
fn dedup(retention: Option<i64>) -> DriverBuilder {
    let seen = Materialized::named("seen").key(I64);
    let seen = match retention {
        Some(retention) => seen.retention(ms(retention)),
        None => seen,
    };
    builder(|b| {
        b.stream("in", Consumed::with(Utf8, I64)).dedup_by(|_, v| *v, ms(WITHIN), seen).to("out", Produced::default());
    })
}

/// Time and id of what came out for a key.
fn times(driver: &Driver) -> Vec<(i64, i64)> {
    let records = driver.output("out", Utf8, I64).read_all();
    records.iter().map(|r: &TestRecord<String, i64>| (r.value, r.timestamp)).collect()
}

#[test]
fn the_first_goes_through_and_those_within_reach_of_it_do_not() {
    let driver = dedup(None).build().unwrap();
    pipe(&driver, &[("a", 1, 100), ("a", 1, 110), ("a", 1, 111), ("a", 1, 121), ("a", 1, 122)]);
    assert_eq!(times(&driver), [(1, 100), (1, 111), (1, 122)], "a dropped one makes no other a duplicate");
}

#[test]
fn an_earlier_event_that_comes_later_is_a_duplicate_too() {
    let driver = dedup(Some(1_000)).build().unwrap();
    pipe(&driver, &[("a", 1, 100), ("a", 1, 95), ("a", 1, 90), ("a", 1, 89), ("a", 1, 79), ("a", 1, 78)]);
    assert_eq!(times(&driver), [(1, 100), (1, 89), (1, 78)]);
}

#[test]
fn within_zero_only_the_very_same_time_is_a_duplicate() {
    let define = |b: &mut millpond_topology::Builder| {
        let seen = Materialized::named("seen").key(I64);
        b.stream("in", Consumed::with(Utf8, I64)).dedup_by(|_, v| *v, ms(0), seen).to("out", Produced::default());
    };
    let driver = builder(define).build().unwrap();
    pipe(&driver, &[("a", 1, 100), ("a", 1, 100), ("a", 1, 101), ("a", 1, 101)]);
    assert_eq!(times(&driver), [(1, 100), (1, 101)]);
}

#[test]
fn another_id_and_another_key_are_no_duplicates() {
    let driver = dedup(None).build().unwrap();
    pipe(&driver, &[("a", 1, 100), ("a", 2, 100), ("b", 1, 100), ("a", 1, 100), ("b", 1, 101)]);
    assert_eq!(out(&driver), kvs(&[("a", 1), ("a", 2), ("b", 1)]));
}

#[test]
fn what_is_too_late_to_be_judged_is_dropped_and_counted() {
    let driver = dedup(None).build().unwrap();
    pipe(&driver, &[("a", 1, 100), ("a", 2, 90), ("a", 3, 89)]);
    assert_eq!(times(&driver), [(1, 100), (2, 90)], "by default a record may be as late as duplicates reach");
    assert_eq!(driver.count(Counter::DroppedRecordsTotal), 1);

    let longer = dedup(Some(WITHIN + 31)).build().unwrap();
    pipe(&longer, &[("a", 1, 100), ("a", 2, 70), ("a", 3, 69)]);
    assert_eq!(times(&longer), [(1, 100), (2, 70)]);
}

#[test]
fn null_keys_and_null_ids_are_dropped() {
    let driver = driver(|b| {
        b.stream("in", Consumed::with(Nullable(Utf8), I64))
            .dedup_by(
                |_, v| (*v != 0).then_some(*v),
                ms(WITHIN),
                Materialized::<Option<i64>, ()>::named("seen").key(Nullable(I64)),
            )
            .to("out", Produced::default());
    });
    let input = driver.input("in", Nullable(Utf8), I64);
    let text = |key: &str| Some(key.to_owned());
    input.pipe(None, 1, 0).unwrap();
    input.pipe(text("a"), 0, 0).unwrap();
    input.pipe(text("a"), 1, 0).unwrap();
    assert_eq!(out(&driver), kvs(&[("a", 1)]));
    assert_eq!(driver.count(Counter::DroppedRecordsTotal), 2);
}

/// What is let through, by the sentence in the docs: everything is remembered.
#[derive(Default)]
struct Model {
    through: Vec<(String, i64, i64)>,
    observed: i64,
}

impl Model {
    /// `None`: too late.
    fn takes(&mut self, key: &str, id: i64, time: i64, retention: i64) -> Option<bool> {
        self.observed = self.observed.max(time);
        if self.observed - time >= retention - WITHIN {
            return None;
        }
        let near = |(k, i, t): &(String, i64, i64)| k == key && *i == id && (t - time).abs() <= WITHIN;
        if self.through.iter().any(near) {
            return Some(false);
        }
        self.through.push((key.to_owned(), id, time));
        Some(true)
    }
}

/// Out of order, with restarts, crashes and lost state in between: the same records as the model lets through.
#[test]
fn random_records_are_judged_as_by_a_model_that_remembers_all() {
    const RETENTION: i64 = 40;
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let driver = dedup(Some(RETENTION)).guarantee(Guarantee::ExactlyOnce).build().unwrap();
        let (mut model, mut expected, mut late) = (Model::default(), Vec::new(), 0);
        for step in 0..200_i64 {
            let (key, id) = (["a", "b"][random.usize(..2)], random.i64(0..4));
            let time = (step + random.i64(-45..10)).max(0);
            pipe(&driver, &[(key, id, time)]);
            match model.takes(key, id, time, RETENTION) {
                Some(true) => expected.push((key.to_owned(), id, time)),
                Some(false) => {}
                None => late += 1,
            }
            match random.u32(..40) {
                0 => driver.restart().unwrap(),
                1 => driver.crash().unwrap(),
                2 => driver.restart_without_state().unwrap(),
                _ => {}
            }
        }
        let ours: Vec<_> =
            driver.output("out", Utf8, I64).read_all().into_iter().map(|r| (r.key, r.value, r.timestamp)).collect();
        assert_eq!(ours, expected, "seed {seed}");
        assert_eq!(driver.count(Counter::DroppedRecordsTotal), late, "seed {seed}");
        assert!(late > 0 && expected.len() < 180, "the seed says something: {late}, {}", expected.len());
    }
}

#[test]
fn a_restart_without_state_knows_what_went_through() {
    for guarantee in BOTH {
        let driver = dedup(None).guarantee(guarantee).build().unwrap();
        pipe(&driver, &[("a", 1, 100)]);
        driver.restart_without_state().unwrap();
        pipe(&driver, &[("a", 1, 105), ("a", 2, 105)]);
        assert_eq!(out(&driver), kvs(&[("a", 1), ("a", 2)]), "{guarantee:?}");
    }
}

/// At-least-once: the log has the store's rows, but the offsets are not committed. What is processed again is no duplicate of
/// itself, or it would be lost if its output was.
#[test]
fn a_record_that_is_processed_again_is_no_duplicate_of_itself() {
    let driver = builder(|b| {
        b.stream("in", Consumed::with(Utf8, I64))
            .flat_map_values(|v| [v, v, v + 1])
            .dedup_by(|_, v| *v, ms(WITHIN), Materialized::named("seen").key(I64))
            .to("out", Produced::with(Utf8, I64));
    })
    .manual_commit()
    .build()
    .unwrap();
    send(&driver, &[("a", 1, 100), ("a", 1, 101)]);
    driver.run().unwrap();
    assert_eq!(out(&driver), kvs(&[("a", 1), ("a", 2)]));
    assert_eq!(driver.records("seen-changelog").len(), 2, "the rows are in the log");
    driver.crash().unwrap();
    driver.run().unwrap();
    driver.commit().unwrap();
    assert_eq!(driver.output("out", Utf8, I64).read_all().len(), 4, "each again, and no duplicate of another");
    pipe(&driver, &[("a", 1, 102)]);
    assert_eq!(driver.output("out", Utf8, I64).read_all().len(), 4);
}

fn rekeyed(stream: Stream<String, i64>) -> Stream<String, i64> {
    stream.clone().merge(stream.select_key(|_, v| v.to_string()).filter(|_, v| *v < 0))
}

#[test]
fn a_stream_that_may_have_another_key_is_repartitioned_first() {
    let driver = builder(|b| {
        let stream = rekeyed(b.stream("in", Consumed::with(Utf8, I64)));
        stream.dedup_by(|_, v| *v, ms(WITHIN), Materialized::named("seen").key(I64)).to("out", Produced::default());
    })
    .topic("in", 3)
    .build()
    .unwrap();
    pipe(&driver, &[("a", 1, 100), ("a", 1, 101), ("b", 1, 102)]);
    assert_eq!(driver.records("seen-repartition").len(), 3);
    assert_eq!(driver.tasks().len(), 6);
    let mut through = out(&driver);
    through.sort();
    assert_eq!(through, kvs(&[("a", 1), ("b", 1)]));
}

fn problems(define: impl FnOnce(Stream<String, i64>)) -> Vec<(ProblemKind, String)> {
    let mut builder = Topology::builder();
    define(builder.stream("in", Consumed::with(Utf8, I64)));
    let error = builder.build().unwrap_err();
    error.problems().iter().map(|p| (p.kind, p.message.clone())).collect()
}

#[test]
fn what_is_missing_or_cannot_be_is_told_at_build_time() {
    let missing = problems(|s| {
        let _ = s.select_key(|_, v| *v).dedup_by(|_, v| *v, ms(9), Materialized::named("seen").key(I64));
    });
    assert_eq!(missing[0].0, ProblemKind::MissingSerde);
    assert!(missing[0].1.contains("give it by `repartition(Repartitioned::with(..))` before"), "{missing:?}");
    let fine = |s: Stream<String, i64>| {
        let s = s.select_key(|_, v| *v).repartition(Repartitioned::named("by-value").key(I64));
        s.dedup_by(|_, v| *v, ms(9), Materialized::named("seen").key(I64)).to("out", Produced::default());
    };
    let mut b = Topology::builder();
    fine(b.stream("in", Consumed::with(Utf8, I64)));
    assert_eq!(b.build().unwrap().sub_topologies().len(), 2);

    let short = problems(|s| {
        let _ = s.dedup_by(|_, v| *v, ms(9), Materialized::named("seen").key(I64).retention(ms(9)));
    });
    assert_eq!(short.len(), 1);
    assert!(
        short[0].1.starts_with("the store `seen` has a retention of 9ms, but duplicates are looked for within 9ms")
    );
    let wrong = problems(|s| {
        let _ = s.dedup_by(|_, v| *v, ms(9), Materialized::named("seen").key(I64).time_to_live(ms(99)));
    });
    assert!(wrong[0].1.contains("give it a `retention`"), "{wrong:?}");
}
