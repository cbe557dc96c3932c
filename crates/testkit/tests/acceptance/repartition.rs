//! Records between sub-topologies: their tag, markers, times, purge.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use millpond_broker_api::Broker;
use millpond_changelog::{CUT_HEADER, Cut, CutClass, CutKind};
use millpond_runtime::Counter;
use millpond_testkit::{Driver, DriverBuilder, RawRecord, TestRecord};
use millpond_topology::{
    Consumed, Context, Grouped, I64, Materialized, Processor, Produced, Record, Repartitioned, Result, TimeWindowed,
    TimeWindows, Utf8,
};

use crate::support::{BOTH, builder, kvs, out, pipe};

/// Forwards the number of headers it sees.
struct CountHeaders;

impl Processor for CountHeaders {
    type In = Record<String, i64>;
    type Out = Record<String, i64>;

    fn process(&mut self, cx: &mut Context<'_, Self>, mut record: Self::In) -> Result {
        assert!(record.headers.get(CUT_HEADER).is_none(), "the library's header reaches no processor");
        let seen = record.headers.len().to_string();
        record.headers.add("seen", seen);
        cx.forward(record)
    }
}

fn spread() -> DriverBuilder {
    builder(|b| {
        b.stream("in", Consumed::with(Utf8, I64))
            .select_key(|k, _| format!("new-{k}"))
            .repartition(Repartitioned::named("spread").key(Utf8))
            .process((), |_, ()| Ok(CountHeaders))
            .to("out", Produced::with(Utf8, I64));
    })
}

#[test]
fn records_carry_the_cut_tag_between_sub_topologies_and_nowhere_else() {
    for guarantee in BOTH {
        let driver = spread().topic("in", 3).guarantee(guarantee).build().unwrap();
        let record = TestRecord::new("a".to_owned(), 1, 5).header("mine", "x");
        driver.input("in", Utf8, I64).partition(2).pipe_record(&record).unwrap();
        let between = driver.records("spread-repartition");
        let tag = between[0].headers.get(CUT_HEADER).unwrap().value.clone().unwrap();
        let CutClass::Tag(cut) = CutClass::decode(&tag) else { panic!("not a tag: {tag:?}") };
        assert_eq!(cut, Cut { timeline: 0, generation: 0, sub_topology: 0, partition: 2 });
        let output = driver.output("out", Utf8, I64).read().unwrap();
        let names: Vec<_> = output.headers.iter().map(|h| (&*h.name, h.value.as_deref().unwrap())).collect();
        assert_eq!(names, [("mine", &b"x"[..]), ("seen", &b"1"[..])]);
    }
}

/// A record of another writer in the repartition topic.
fn foreign(header: Option<&[u8]>, value: i64, timestamp: i64) -> RawRecord {
    let record = RawRecord::bytes("k", value.to_be_bytes(), timestamp);
    match header {
        Some(header) => record.header(CUT_HEADER, header.to_vec()),
        None => record,
    }
}

#[test]
fn markers_and_unknown_kinds_are_dropped_and_counted_before_anybody_sees_them() {
    for guarantee in BOTH {
        let driver = spread().guarantee(guarantee).build().unwrap();
        let marker = Cut { generation: 7, ..Cut::default() }.encode(CutKind::Marker);
        let tag = Cut::default().encode(CutKind::Tag);
        let topic = "test-spread-repartition";
        for record in [
            foreign(Some(tag.as_slice()), 1, 10),
            foreign(Some(marker.as_slice()), 2, 99_999),
            foreign(Some(&[1, 9, 0, 0, 0, 0, 0, 0, 0]), 3, 99_999),
            foreign(Some(&[2]), 4, 99_999),
            foreign(Some(&[]), 5, 99_999),
            foreign(None, 6, 20),
        ] {
            driver.send(topic, Some(0), &record).unwrap();
        }
        driver.commit().unwrap();
        assert_eq!(out(&driver), kvs(&[("k", 1), ("k", 6)]), "a tag and an untagged record are data");
        assert_eq!(driver.count(Counter::DroppedMarkersTotal), 4);
        assert_eq!(driver.count(Counter::DroppedRecordsTotal), 0);
        assert_eq!(driver.committed(topic, 0), Some(6));
        driver.pipe(topic, Some(0), &foreign(Some(marker.as_slice()), 2, 0)).unwrap();
        assert_eq!(driver.committed(topic, 0), Some(7), "a marker at the end is done with, too");
    }
}

#[test]
fn the_header_means_nothing_in_a_topic_of_the_user() {
    let driver = spread().build().unwrap();
    let marker = Cut::default().encode(CutKind::Marker);
    driver.pipe("in", None, &foreign(Some(marker.as_slice()), 3, 1)).unwrap();
    assert_eq!(out(&driver), kvs(&[("new-k", 3)]));
    assert_eq!(driver.count(Counter::DroppedMarkersTotal), 0);
}

#[test]
fn b085_times_across_repartition_topics() {
    for guarantee in BOTH {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let driver = builder(|b| {
            let consumed = Consumed::with(Utf8, I64).timestamp_extractor(move |_, value, _, _| {
                count.fetch_add(1, Ordering::Relaxed);
                *value
            });
            b.stream("in", consumed)
                .map(|k, v| (format!("{k}{}", v % 3), v))
                .repartition(Repartitioned::named("spread").key(Utf8).value(I64))
                .to("out", Produced::default());
        })
        .guarantee(guarantee)
        .start_time(1_767_225_600_000)
        .manual_commit()
        .build()
        .unwrap();
        let year_2001 = 986_000_000_000_i64;
        let input = driver.input("in", Utf8, I64);
        for n in 0..1_000 {
            // The record's own time is nonsense; the event time is in the value.
            input.send("k", year_2001 + n, 5).unwrap();
        }
        driver.run().unwrap();
        let topic = "test-spread-repartition";
        driver.advance(Duration::from_secs(3_600)).unwrap();
        driver.broker().expire(topic).unwrap();
        driver.commit().unwrap();
        let records = driver.output("out", Utf8, I64).read_all();
        assert_eq!(records.len(), 1_000, "nothing was deleted before it was read");
        assert!(records.iter().all(|r| r.timestamp == r.value), "event times are kept");
        assert_eq!(asked.load(Ordering::Relaxed), 1_000, "the extractor is asked about the user's records only");
        let info = driver.broker().admin().unwrap().describe(&[topic]).unwrap().remove(0).unwrap();
        for (config, value) in
            [("retention.ms", "-1"), ("message.timestamp.type", "CreateTime"), ("cleanup.policy", "delete")]
        {
            assert!(info.configs.contains(&(config.to_owned(), value.to_owned())), "{config}: {:?}", info.configs);
        }
    }
}

/// The windows behind a repartition topic are those of the event times, however old, after a clean-up of the broker's.
#[test]
fn b085_windows_are_those_of_the_year_of_the_events() {
    for guarantee in BOTH {
        let driver = builder(|b| {
            let consumed = Consumed::with(Utf8, I64).timestamp_extractor(|_, value, _, _| *value);
            b.stream("in", consumed)
                .map(|k, v| (format!("{k}{}", v % 2), v))
                .group_by_key_with(Grouped::named("spread").key(Utf8).value(I64))
                .windowed_by(TimeWindows::of_size_with_no_grace(Duration::from_secs(3_600)))
                .count(Materialized::named("counts"))
                .to_stream()
                .to("out", Produced::with(TimeWindowed::new(Utf8, 3_600_000), I64));
        })
        .guarantee(guarantee)
        .start_time(1_767_225_600_000)
        .manual_commit()
        .build()
        .unwrap();
        let hour = 986_000_400_000_i64;
        assert_eq!(hour % 3_600_000, 0, "it is the beginning of one");
        let input = driver.input("in", Utf8, I64);
        for n in 0..1_000 {
            input.send("k", hour + n, 5).unwrap();
        }
        driver.run().unwrap();
        driver.advance(Duration::from_secs(8 * 86_400)).unwrap();
        driver.broker().expire("test-spread-repartition").unwrap();
        driver.commit().unwrap();
        let all = driver.output("out", TimeWindowed::new(Utf8, 3_600_000), I64).read_all();
        assert!(all.iter().all(|r| r.key.start == hour));
        for key in ["k0", "k1"] {
            assert_eq!(all.iter().rfind(|r| r.key.key == key).map(|r| r.value), Some(500), "{guarantee:?}");
        }
    }
}

#[test]
fn processed_records_are_purged_and_not_others() {
    let driver = spread().manual_commit().build().unwrap();
    pipe(&driver, &[("a", 1, 0), ("b", 2, 1)]);
    driver.commit().unwrap();
    driver.advance(Duration::from_secs(31)).unwrap();
    pipe(&driver, &[("c", 3, 2)]);
    driver.commit().unwrap();
    let left = driver.records("spread-repartition").len();
    assert!(left <= 1, "{left} records are left of three that are committed");
    assert_eq!(out(&driver).len(), 3);
}

#[test]
fn a_repartition_topic_is_read_from_its_start_whatever_the_reset_policy_says() {
    let driver = spread().setting("auto.offset.reset", "latest").manual_commit().build().unwrap();
    // A former member has written there and died before anything was committed for the topic.
    driver.send("spread-repartition", Some(0), &foreign(None, 6, 20)).unwrap();
    assert_eq!(driver.committed("test-spread-repartition", 0), None);
    driver.crash().unwrap();
    driver.commit().unwrap();
    assert_eq!(out(&driver), kvs(&[("k", 6)]));
}

#[test]
fn a_source_begins_where_it_was_told_to() {
    let driver = builder(|b| {
        let latest = Consumed::with(Utf8, I64).offset_reset(millpond_topology::OffsetReset::Latest);
        b.stream("in", latest).to("out", Produced::default());
        b.stream("early", Consumed::with(Utf8, I64)).to("out-early", Produced::default());
    })
    .manual_commit()
    .build()
    .unwrap();
    for topic in ["in", "early"] {
        driver.input(topic, Utf8, I64).send("before", 1, 0).unwrap();
    }
    // Nothing is committed: the next start begins where the reset policy says.
    driver.crash().unwrap();
    for topic in ["in", "early"] {
        driver.input(topic, Utf8, I64).send("after", 2, 0).unwrap();
    }
    driver.commit().unwrap();
    assert_eq!(out(&driver), kvs(&[("after", 2)]));
    assert_eq!(driver.output("out-early", Utf8, I64).read_key_values(), kvs(&[("before", 1), ("after", 2)]));
}

#[test]
fn b151_no_record_is_lost_when_the_next_sub_topology_lags() {
    let driver: Driver = spread().topic("in", 2).manual_commit().build().unwrap();
    for round in 0..5 {
        pipe(&driver, &[("a", round, round), ("b", round, round)]);
        driver.crash().unwrap();
        driver.advance(Duration::from_secs(31)).unwrap();
    }
    driver.commit().unwrap();
    let seen: std::collections::BTreeSet<(String, i64)> = out(&driver).into_iter().collect();
    assert_eq!(seen.len(), 10);
}
