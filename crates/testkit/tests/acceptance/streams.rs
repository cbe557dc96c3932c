//! Every operator of streams, one by one.

use std::io::Write;
use std::sync::{Arc, Mutex};

use millpond_broker_api::{Broker, ErrorKind, NewTopic};
use millpond_broker_mem::{OpKind, Verdict};
use millpond_runtime::Counter;
use millpond_testkit::{Driver, TestRecord};
use millpond_topology::{
    Consumed, Context, Error, FixedKeyRecord, Grouped, I64, KeyValue, Materialized, Processor, Produced, Record,
    Repartitioned, Result, StoreRef, Stream, Utf8,
};

use crate::support::{BOTH, assert_names, builder, closure, driver, kvs, out, pipe, send};

/// What comes out of an operator between a source and a sink.
fn through(op: impl FnOnce(Stream<String, i64>) -> Stream<String, i64>) -> Vec<(String, i64)> {
    let driver = driver(|b| {
        let stream = b.stream("in", Consumed::with(Utf8, I64));
        op(stream).to("out", Produced::with(Utf8, I64));
    });
    pipe(&driver, &[("a", 1, 0), ("b", 2, 1), ("a", 3, 2)]);
    out(&driver)
}

/// What an operator that ends a stream writes down of each record.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn push(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

#[test]
fn filter_keeps_what_the_predicate_holds_for() {
    assert_eq!(through(|s| s.filter(|_, v| *v > 1)), kvs(&[("b", 2), ("a", 3)]));
    assert_eq!(through(|s| s.try_filter(|k, _| Ok(k == "b"))), kvs(&[("b", 2)]));
}

#[test]
fn filter_not_drops_it() {
    assert_eq!(through(|s| s.filter_not(|_, v| *v > 1)), kvs(&[("a", 1)]));
}

#[test]
fn map_changes_key_and_value() {
    let mapped = through(|s| s.map(|k, v| (format!("{k}{k}"), v * 10)));
    assert_eq!(mapped, kvs(&[("aa", 10), ("bb", 20), ("aa", 30)]));
    assert_eq!(through(|s| s.try_map(|k, v| Ok((k, v + 1)))), kvs(&[("a", 2), ("b", 3), ("a", 4)]));
}

#[test]
fn map_values_changes_the_value() {
    assert_eq!(through(|s| s.map_values(|v| -v)), kvs(&[("a", -1), ("b", -2), ("a", -3)]));
    assert_eq!(through(|s| s.try_map_values(|v| Ok(v + 1))), kvs(&[("a", 2), ("b", 3), ("a", 4)]));
    let with_key = through(|s| s.map_values_with_key(|k, v| if k == "a" { v } else { 10 * v }));
    assert_eq!(with_key, kvs(&[("a", 1), ("b", 20), ("a", 3)]));
}

#[test]
fn flat_map_gives_none_or_many_in_order() {
    let odd = through(|s| s.flat_map(|k, v| (0..v).map(move |n| (format!("{k}{n}"), n)).filter(|(_, n)| n % 2 == 1)));
    assert_eq!(odd, kvs(&[("b1", 1), ("a1", 1)]));
}

#[test]
fn flat_map_values_gives_none_or_many_under_the_same_key() {
    assert_eq!(through(|s| s.flat_map_values(|v| vec![v; (v - 1) as usize])), kvs(&[("b", 2), ("a", 3), ("a", 3)]));
    let with_key = through(|s| s.flat_map_values_with_key(|k, v| vec![v; usize::from(k == "a") * 2]));
    assert_eq!(with_key, kvs(&[("a", 1), ("a", 1), ("a", 3), ("a", 3)]));
}

#[test]
fn select_key_gives_another_key_and_keeps_the_value() {
    assert_eq!(through(|s| s.select_key(|k, v| format!("{k}-{v}"))), kvs(&[("a-1", 1), ("b-2", 2), ("a-3", 3)]));
}

#[test]
fn peek_sees_every_record_and_hands_it_on() {
    let seen = Seen::default();
    let (peeked, tried) = (seen.clone(), seen.clone());
    let passed = through(|s| {
        s.peek(move |k, v| peeked.push(format!("{k}{v}"))).try_peek(move |_, v| {
            tried.push(format!("tried {v}"));
            Ok(())
        })
    });
    assert_eq!(passed, kvs(&[("a", 1), ("b", 2), ("a", 3)]));
    assert_eq!(seen.take(), ["a1", "tried 1", "b2", "tried 2", "a3", "tried 3"]);
}

#[test]
fn foreach_sees_every_record_and_hands_none_on() {
    let seen = Seen::default();
    let done = seen.clone();
    let driver =
        driver(|b| b.stream("in", Consumed::with(Utf8, I64)).foreach(move |k, v| done.push(format!("{k}{v}"))));
    pipe(&driver, &[("a", 1, 0), ("b", 2, 1)]);
    assert_eq!(seen.take(), ["a1", "b2"]);
}

fn checked(v: i64) -> Result<i64> {
    if v == 2 { Err(Error::other("two")) } else { Ok(v) }
}

fn skipping(define: impl FnOnce(Stream<String, i64>)) -> Driver {
    builder(|b| define(b.stream("in", Consumed::with(Utf8, I64))))
        .topic("out", 1)
        .setting("processing.exception.handler", "continue")
        .build()
        .unwrap()
}

#[test]
fn an_operator_that_can_fail_fails_its_record_alone() {
    type Operator = Box<dyn FnOnce(Stream<String, i64>) -> Stream<String, i64>>;
    let operators: [(&str, Operator); 5] = [
        ("map values", Box::new(|s| s.try_map_values_with_key(|_, v| checked(v)))),
        ("flat map", Box::new(|s| s.try_flat_map(|k, v| Ok([(k, checked(v)?)])))),
        ("flat map values", Box::new(|s| s.try_flat_map_values(|v| Ok([checked(v)?])))),
        ("with key", Box::new(|s| s.try_flat_map_values_with_key(|_, v| Ok([checked(v)?])))),
        ("select key", Box::new(|s| s.try_select_key(|k, v| checked(*v).map(|_| k.clone())))),
    ];
    for (name, operator) in operators {
        let driver = skipping(|s| operator(s).to("out", Produced::with(Utf8, I64)));
        pipe(&driver, &[("a", 1, 0), ("b", 2, 1), ("a", 3, 2)]);
        assert_eq!(out(&driver), kvs(&[("a", 1), ("a", 3)]), "{name}");
        assert_eq!(driver.count(Counter::ProcessingSkippedTotal), 1, "{name}");
    }
}

#[test]
fn a_grouping_that_can_fail_fails_its_record_alone() {
    let driver = skipping(|s| {
        let grouped = Grouped::named("by-parity").key(Utf8).value(I64);
        s.try_group_by(|_, v| checked(*v).map(|v| (v % 2).to_string()), grouped)
            .count(Materialized::named("counts"))
            .to_stream()
            .to("out", Produced::with(Utf8, I64));
    });
    pipe(&driver, &[("a", 1, 0), ("b", 2, 1), ("c", 4, 2), ("a", 3, 3)]);
    assert_eq!(driver.store("counts", Utf8, I64).all(), kvs(&[("0", 1), ("1", 2)]));
    assert_eq!(driver.records("by-parity-repartition").len(), 3);
    assert_eq!(driver.count(Counter::ProcessingSkippedTotal), 1);
}

#[test]
fn an_end_that_can_fail_fails_its_record_alone() {
    let seen = Seen::default();
    let done = seen.clone();
    let driver = skipping(|s| {
        s.clone().try_to_topic_of(|_, v, _| checked(*v).map(|_| "out"), Produced::default());
        s.try_foreach(move |k, v| checked(*v).map(|v| done.push(format!("{k}{v}"))));
    });
    pipe(&driver, &[("a", 1, 0), ("b", 2, 1), ("a", 3, 2)]);
    assert_eq!((out(&driver), seen.take()), (kvs(&[("a", 1), ("a", 3)]), vec!["a1".to_owned(), "a3".to_owned()]));
    assert_eq!(driver.count(Counter::ProcessingSkippedTotal), 1);
}

/// A writer that keeps what is written, or is full from the start.
struct Paper(Arc<Mutex<Vec<u8>>>, bool);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.1 { Ok(0) } else { self.0.lock().unwrap().write(bytes) }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn print_writes_label_key_and_value() {
    let paper = Arc::new(Mutex::new(Vec::new()));
    let to = Paper(paper.clone(), false);
    let driver = builder(|b| {
        let stream = b.stream("in", Consumed::with(Utf8, I64));
        stream.clone().print("to the test's own output");
        stream.print_to("orders", to);
    })
    .partitions(2)
    .build()
    .unwrap();
    pipe(&driver, &[("a", 1, 0), ("b", 2, 1)]);
    assert_eq!(String::from_utf8(paper.lock().unwrap().clone()).unwrap(), "[orders]: \"a\", 1\n[orders]: \"b\", 2\n");
}

#[test]
fn a_print_that_cannot_be_written_is_an_error_of_the_record() {
    let to = Paper(Arc::default(), true);
    let driver = driver(|b| b.stream("in", Consumed::with(Utf8, I64)).print_to("orders", to));
    let error = driver.input("in", Utf8, I64).pipe("a", 1, 0).unwrap_err();
    assert_names(&error, &["node=`KSTREAM-PRINTER-0000000001`", "topic=`in`", "offset=`0`"]);
}

#[test]
fn merge_takes_the_records_of_both() {
    let merged = through(|s| s.clone().filter(|_, v| *v == 1).merge(s.filter(|_, v| *v == 3)));
    assert_eq!(merged, kvs(&[("a", 1), ("a", 3)]));
}

#[test]
fn split_gives_each_record_to_the_first_branch_that_takes_it() {
    let driver = driver(|b| {
        let mut split = b.stream("in", Consumed::with(Utf8, I64)).named("by-size").split();
        split.named("-large").branch(|_, v| *v >= 100).to("large", Produced::default());
        split.branch(|_, v| *v >= 10).to("medium", Produced::default());
        split.rest().to("out", Produced::default());
    });
    pipe(&driver, &[("a", 1, 0), ("b", 10, 1), ("c", 100, 2), ("d", 1000, 3)]);
    assert_eq!(driver.output("large", Utf8, I64).read_key_values(), kvs(&[("c", 100), ("d", 1000)]));
    assert_eq!(driver.output("medium", Utf8, I64).read_key_values(), kvs(&[("b", 10)]));
    assert_eq!(out(&driver), kvs(&[("a", 1)]));
}

#[test]
fn what_no_branch_takes_goes_nowhere_without_a_rest() {
    let driver = driver(|b| {
        let mut split = b.stream("in", Consumed::with(Utf8, I64)).split();
        split.branch(|_, v| *v >= 10).to("out", Produced::default());
    });
    pipe(&driver, &[("a", 1, 0), ("b", 10, 1)]);
    assert_eq!(out(&driver), kvs(&[("b", 10)]));
}

#[test]
fn a_stream_of_several_topics_has_all_their_records() {
    let driver = driver(|b| b.stream_of(&["in", "in2"], Consumed::with(Utf8, I64)).to("out", Produced::default()));
    pipe(&driver, &[("a", 1, 0)]);
    driver.input("in2", Utf8, I64).pipe("b", 2, 1).unwrap();
    assert_eq!(out(&driver), kvs(&[("a", 1), ("b", 2)]));
}

#[test]
fn repartition_spreads_records_anew() {
    let driver = builder(|b| {
        b.stream("in", Consumed::with(Utf8, I64))
            .select_key(|_, v| v.to_string())
            .repartition(Repartitioned::named("spread").key(Utf8).partitions(5))
            .to("out", Produced::default());
    })
    .build()
    .unwrap();
    assert_eq!(driver.tasks().len(), 6, "one before, five behind");
    for n in 0..20 {
        pipe(&driver, &[("k", n, n)]);
    }
    let used: std::collections::BTreeSet<i32> =
        driver.records("spread-repartition").iter().map(|r| r.partition).collect();
    assert!(used.len() > 2, "{used:?}");
    let mut values: Vec<i64> = out(&driver).into_iter().map(|(_, v)| v).collect();
    values.sort_unstable();
    assert_eq!(values, (0..20).collect::<Vec<_>>());
}

#[test]
fn to_chooses_partitions_by_key_or_as_it_is_told() {
    let driver = builder(|b| {
        let stream = b.stream("in", Consumed::with(Utf8, I64));
        stream.clone().to("out", Produced::default());
        stream.to("chosen", Produced::with(Utf8, I64).partitioner(|_, v, n| (*v >= 0).then_some(*v as i32 % n)));
    })
    .topic("out", 8)
    .topic("chosen", 3)
    .build()
    .unwrap();
    pipe(&driver, &[("a", 0, 0), ("b", 1, 1), ("c", 5, 2)]);
    for record in driver.records("out") {
        let key = record.key.unwrap();
        assert_eq!(record.partition, millpond_changelog::partition_for_key(&key, 8));
    }
    let chosen: Vec<(i64, i32)> =
        driver.output("chosen", Utf8, I64).read_all().iter().map(|r| (r.value, r.partition)).collect();
    assert_eq!(chosen, [(0, 0), (1, 1), (5, 2)]);
}

#[test]
fn a_partitioner_that_names_no_partition_is_an_error_of_the_record() {
    let driver = driver(|b| {
        b.stream("in", Consumed::with(Utf8, I64)).to("out", Produced::with(Utf8, I64).partitioner(|_, _, n| Some(n)));
    });
    let error = driver.input("in", Utf8, I64).pipe("a", 1, 0).unwrap_err();
    assert_names(&error, &["topic=`in`", "partition=`1`", "partitions=`1`", "offset=`0`"]);
}

/// Sends each record to the topic that is called after its key.
fn by_key(produced: Produced<String, i64>) -> impl FnOnce(&mut millpond_topology::Builder) {
    |b| b.stream("in", Consumed::with(Utf8, I64)).to_topic_of(|k, _, _| k.clone(), produced)
}

#[test]
fn to_topic_of_writes_each_record_to_the_topic_it_chooses() {
    for guarantee in BOTH {
        let driver = builder(by_key(Produced::default()))
            .topic("in", 1)
            .topic("even", 3)
            .topic("odd", 1)
            .guarantee(guarantee)
            .build()
            .unwrap();
        pipe(&driver, &[("even", 2, 7), ("odd", 1, 8), ("even", 4, 9)]);
        let read = |topic: &str| driver.output(topic, Utf8, I64).read_all();
        let times =
            |records: &[TestRecord<String, i64>]| records.iter().map(|r| (r.value, r.timestamp)).collect::<Vec<_>>();
        assert_eq!(times(&read("even")), [(2, 7), (4, 9)]);
        assert_eq!(times(&read("odd")), [(1, 8)]);
        let partition = millpond_changelog::partition_for_key(b"even", 3);
        assert!(driver.records("even").iter().all(|r| r.partition == partition));
        driver.restart().unwrap();
        pipe(&driver, &[("odd", 3, 10)]);
        assert_eq!(driver.output("odd", Utf8, I64).read_all().len(), 2);
    }
}

#[test]
fn to_topic_of_knows_the_context_and_the_partitions_of_what_was_chosen() {
    let driver = builder(|b| {
        b.stream("in", Consumed::with(Utf8, I64)).to_topic_of(
            |_, _, cx| {
                let from = cx.metadata.unwrap();
                format!("{}-{}-{}-{}", from.topic, from.partition, from.offset, cx.timestamp)
            },
            Produced::with(Utf8, I64).partitioner(|_, _, n| Some(n - 1)),
        );
    })
    .topic("in", 1)
    .topic("in-0-0-70", 4)
    .topic("in-0-1-80", 2)
    .build()
    .unwrap();
    pipe(&driver, &[("a", 1, 70), ("b", 2, 80)]);
    assert_eq!(driver.records("in-0-0-70")[0].partition, 3);
    assert_eq!(driver.records("in-0-1-80")[0].partition, 1);
}

#[test]
fn a_chosen_topic_that_is_not_there_is_an_error_of_the_record_until_it_is() {
    let driver = builder(by_key(Produced::default())).topic("in", 1).topic("here", 1).build().unwrap();
    pipe(&driver, &[("here", 1, 0)]);
    let error = driver.input("in", Utf8, I64).pipe("there", 2, 1).unwrap_err();
    assert_names(
        &error,
        &["unknown topic=`there`", "create the topic", "topic=`in`", "offset=`1`", "KSTREAM-SINK-0000000001"],
    );
    // Without its causes it says what is wrong and what to do, once.
    assert_eq!(
        error.to_string(),
        "process a record failed task=`0_0` unknown topic=`there` topic=`in` partition=`0` offset=`1`; create the topic, or \
         choose another one, or let `processing.exception.handler` be `continue` or `dead-letter`"
    );
    assert_eq!(error.chain().matches("create the topic").count(), 1);
    let topic = NewTopic { name: "there", partitions: 1, replication: None, configs: &[] };
    driver.broker().admin().unwrap().create_topics(&[topic]).unwrap().remove(0).unwrap();
    driver.restart().unwrap();
    driver.run().unwrap();
    driver.commit().unwrap();
    assert_eq!(driver.output("there", Utf8, I64).read_key_values(), kvs(&[("there", 2)]));
    assert_eq!(driver.output("here", Utf8, I64).read_key_values(), kvs(&[("here", 1)]));
}

#[test]
fn a_chosen_topic_that_cannot_be_is_skipped_as_the_handler_says() {
    let driver = builder(by_key(Produced::default()))
        .topic("in", 1)
        .topic("here", 1)
        .setting("processing.exception.handler", "continue")
        .build()
        .unwrap();
    pipe(&driver, &[("no such", 1, 0), ("nor-this", 2, 1), ("here", 3, 2)]);
    assert_eq!(driver.output("here", Utf8, I64).read_key_values(), kvs(&[("here", 3)]));
    assert_eq!(driver.count(Counter::DroppedRecordsTotal), 2);
}

/// A broker that cannot say whether there is a topic says nothing of the record: it is no reason to skip it.
#[test]
fn a_record_whose_topic_cannot_be_asked_for_is_not_skipped() {
    let driver = builder(by_key(Produced::default()))
        .topic("in", 1)
        .topic("here", 1)
        .setting("processing.exception.handler", "continue")
        .build()
        .unwrap();
    send(&driver, &[("here", 3, 2)]);
    driver.broker().plan(OpKind::Admin, Verdict::Fail(ErrorKind::Retriable));
    driver.run().unwrap();
    driver.commit().unwrap();
    assert_eq!(driver.output("here", Utf8, I64).read_key_values(), kvs(&[("here", 3)]));
    assert_eq!(driver.count(Counter::RollbackTotal), 1);
}

#[test]
fn the_description_of_a_chosen_topic_names_who_chooses() {
    let described = crate::support::topology(by_key(Produced::default().named("by-key"))).describe();
    let text = described.to_string();
    assert!(text.contains("    Sink: by-key (extractor class: "), "{text}");
    assert!(text.contains("streams::by_key"), "{text}");
    assert!(described.mermaid().contains("by-key") && described.json().contains("\"extractor\""));
}

#[test]
fn to_table_keeps_the_last_value() {
    let driver = driver(|b| {
        b.stream("in", Consumed::with(Utf8, I64))
            .to_table(Materialized::named("last"))
            .map_values(|v| v * 2)
            .to_stream()
            .to("out", Produced::with(Utf8, I64));
    });
    pipe(&driver, &[("a", 1, 0), ("a", 2, 1), ("b", 3, 2)]);
    assert_eq!(driver.store("last", Utf8, I64).all(), kvs(&[("a", 2), ("b", 3)]));
    assert_eq!(out(&driver), kvs(&[("a", 2), ("a", 4), ("b", 6)]));
}

#[test]
fn process_may_change_keys_and_keeps_what_it_likes() {
    let driver = driver(|b| {
        let sums = b.key_value_store("sums", Utf8, I64);
        b.stream("in", Consumed::with(Utf8, I64))
            .process(
                &sums,
                closure(|sums: &StoreRef<KeyValue<String, i64>>, cx, r: Record<String, i64>| {
                    let mut store = cx.store(sums)?;
                    let sum = store.get(&r.key)?.unwrap_or(0) + r.value;
                    store.put(&r.key, &sum)?;
                    cx.forward(Record::new(format!("sum of {}", r.key), sum, r.timestamp))
                }),
            )
            .group_by_key_with(Grouped::named("by-name").key(Utf8).value(I64))
            .count(Materialized::named("updates"))
            .to_stream()
            .to("out", Produced::with(Utf8, I64));
    });
    pipe(&driver, &[("a", 1, 0), ("b", 2, 1), ("a", 3, 2)]);
    assert_eq!(driver.store("sums", Utf8, I64).all(), kvs(&[("a", 4), ("b", 2)]));
    assert_eq!(driver.records("by-name-repartition").len(), 3, "the key may be another one");
    assert_eq!(out(&driver), kvs(&[("sum of a", 1), ("sum of b", 1), ("sum of a", 2)]));
}

/// Gives the difference to the value of the key before.
struct Difference(StoreRef<KeyValue<String, i64>>);

impl Processor for Difference {
    type In = FixedKeyRecord<String, i64>;
    type Out = FixedKeyRecord<String, i64>;

    fn process(&mut self, cx: &mut Context<'_, Self>, r: Self::In) -> Result {
        let mut last = cx.store(&self.0)?;
        let before = last.get(r.key())?.unwrap_or(0);
        last.put(r.key(), r.value())?;
        cx.forward(r.map_value(|v| v - before))
    }
}

#[test]
fn process_values_keeps_the_key_so_that_nothing_is_repartitioned() {
    let driver = driver(|b| {
        let last = b.key_value_store("last", Utf8, I64);
        b.stream("in", Consumed::with(Utf8, I64))
            .process_values(&last, |_, last| Ok(Difference(last)))
            .group_by_key_with(Grouped::with(Utf8, I64))
            .reduce(|_, new| new, Materialized::named("differences"))
            .to_stream()
            .to("out", Produced::default());
    });
    assert_eq!(driver.tasks().len(), 1);
    pipe(&driver, &[("a", 1, 0), ("b", 2, 1), ("a", 7, 2)]);
    assert_eq!(out(&driver), kvs(&[("a", 1), ("b", 2), ("a", 6)]));
}
