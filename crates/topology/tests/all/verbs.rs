//! What the golden cases leave open: nulls, headers, timestamps, partitioners, caches and the topology's data.

use millpond_topology::*;

use crate::support::driver::Driver;
use crate::support::port::MockPort;

fn n(n: i64) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

#[test]
fn a_plain_serde_drops_nulls_and_counts_them() {
    let mut b = Topology::builder();
    b.stream("in", Consumed::with(Utf8, Utf8)).to("out", Produced::default());
    let mut driver = Driver::new(&b.build().unwrap());
    driver.pipe("in", None, Some(b"v"), 0).unwrap();
    driver.pipe("in", Some(b"k"), None, 0).unwrap();
    driver.pipe("in", Some(b""), Some(b""), 0).unwrap();
    assert_eq!(driver.port(0).dropped, [Dropped::NullKey, Dropped::NullValue]);
    assert_eq!(driver.take(), [("out".to_owned(), Some(vec![]), Some(vec![]), 0)]);
}

/// B049: what becomes of a null key.
#[test]
fn null_keys_are_dropped_where_a_key_is_needed() {
    let mut b = Topology::builder();
    let stream = b.stream("in", Consumed::with(Nullable(Utf8), Utf8));
    let _ = stream.clone().group_by_key().count(Materialized::named("by-key"));
    stream
        .map(|_, v| (v, 1))
        .group_by_key_with(Grouped::with(Utf8, I64))
        .count(Materialized::named("by-value"))
        .to_stream()
        .to("out", Produced::default());
    let _ = b.table_materialized("rows", Consumed::with(Nullable(Utf8), Utf8), Materialized::named("rows"));
    let mut driver = Driver::new(&b.build().unwrap());
    driver.pipe("in", None, Some(b"1"), 0).unwrap();
    driver.pipe("rows", None, Some(b"1"), 0).unwrap();
    assert_eq!(driver.take(), [("out".to_owned(), Some(b"1".to_vec()), Some(n(1)), 0)]);
    let dropped: Vec<_> = (0..3).flat_map(|sub| driver.port(sub).dropped.clone()).collect();
    assert_eq!(dropped, [Dropped::NullKey, Dropped::NullKey]);
}

#[test]
fn a_null_key_before_a_repartition_is_counted() {
    let mut b = Topology::builder();
    let _ = b
        .stream("in", Consumed::with(Utf8, Utf8))
        .select_key(|_, v| (v != "-").then(|| v.clone()))
        .repartition(Repartitioned::named("r").key(Nullable(Utf8)));
    let mut driver = Driver::new(&b.build().unwrap());
    driver.pipe("in", Some(b"k"), Some(b"-"), 0).unwrap();
    assert_eq!(driver.port(0).dropped, [Dropped::NullKey]);
}

#[test]
fn a_table_as_a_stream_tells_of_deletes() {
    let mut b = Topology::builder();
    b.table("in", Consumed::with(Utf8, Utf8))
        .map_values(|v| v.len() as u64)
        .to_stream()
        .map_values(|v| v.map(|n| n + 1))
        .to("out", Produced::with(Utf8, Nullable(U64)));
    let mut driver = Driver::new(&b.build().unwrap());
    driver.pipe("in", Some(b"k"), Some(b"abc"), 1).unwrap();
    driver.pipe("in", Some(b"k"), None, 2).unwrap();
    let k = || Some(b"k".to_vec());
    assert_eq!(driver.take(), [("out".to_owned(), k(), Some(n(4)), 1), ("out".to_owned(), k(), None, 2)]);
}

/// B045: 1, 5, 12, 13, 3, 2, null through a filter for at least 10 behind a cached aggregation.
#[test]
fn one_tombstone_when_a_row_leaves_a_filter() {
    for cache in [false, true] {
        let mut b = Topology::builder();
        b.stream("in", Consumed::with(Utf8, Nullable(U64)))
            .group_by_key()
            .reduce(|_, new| new, Materialized::named("last"))
            .filter(|_, v| v.is_some_and(|v| v >= 10))
            .to_stream()
            .to("out", Produced::with(Utf8, Nullable(Nullable(U64))));
        let mut driver = Driver::with_cache(&b.build().unwrap(), cache);
        for (time, value) in [1, 5, 12, 13, 3, 2].into_iter().enumerate() {
            driver.pipe("in", Some(b"k"), Some(&n(value)), time as i64).unwrap();
        }
        let out: Vec<_> = driver.take().into_iter().map(|(.., value, time)| (value, time)).collect();
        assert_eq!(out, [(Some(n(12)), 2), (Some(n(13)), 3), (None, 4)], "cache {cache}");
    }
}

/// Between two drains only the last update goes on, with the value that went on before as the old one.
#[test]
fn a_cached_aggregation_forwards_when_it_is_drained() {
    let mut b = Topology::builder();
    b.stream("in", Consumed::with(Utf8, Utf8))
        .flat_map_values(|v| v.chars().map(String::from).collect::<Vec<_>>())
        .group_by_key()
        .count(Materialized::named("c"))
        .filter(|_, n| *n != 4)
        .to_stream()
        .to("out", Produced::default());
    let topology = b.build().unwrap();
    let mut driver = Driver::with_cache(&topology, true);
    for (text, time) in [("abc", 5), ("d", 3), ("e", 9)] {
        driver.pipe("in", Some(b"k"), Some(text.as_bytes()), time).unwrap();
    }
    let out: Vec<_> = driver.take().into_iter().map(|(.., value, time)| (value, time)).collect();
    assert_eq!(out, [(Some(n(3)), 5), (None, 5), (Some(n(5)), 9)]);
    let caching_off = Materialized::<String, i64>::named("c").caching_disabled();
    let mut b = Topology::builder();
    let _ = b.stream("in", Consumed::with(Utf8, Utf8)).group_by_key().count(caching_off);
    assert!(topology.stores()[0].caching && !b.build().unwrap().stores()[0].caching);
}

#[test]
fn headers_go_along_and_branches_do_not_see_each_others() {
    let mut b = Topology::builder();
    let stream = b.stream("in", Consumed::with(Utf8, Utf8));
    struct AddHeader;
    impl Processor for AddHeader {
        type In = FixedKeyRecord<String, String>;
        type Out = FixedKeyRecord<String, String>;

        fn process(&mut self, cx: &mut Context<'_, Self>, mut r: Self::In) -> Result {
            r.headers_mut().add("added", "x");
            let time = r.timestamp() + 1;
            cx.forward(r.map_value(|v| v + "!").with_timestamp(time))
        }
    }
    stream.clone().process_values((), |_, ()| Ok(AddHeader)).to("one", Produced::with(Utf8, Utf8));
    stream.map_values(|v| v).to("two", Produced::with(Utf8, Utf8));
    let mut driver = Driver::new(&b.build().unwrap());
    let mut headers = Headers::new();
    headers.add("first", "1");
    driver.pipe_with("in", Some(b"k"), Some(b"v"), 4, &headers).unwrap();
    let names: Vec<Vec<_>> =
        driver.outputs.iter().map(|o| o.headers.iter().map(|h| h.name.to_string()).collect()).collect();
    assert_eq!(names, [vec!["first", "added"], vec!["first"]]);
    assert_eq!(driver.take()[0], ("one".to_owned(), Some(b"k".to_vec()), Some(b"v!".to_vec()), 5));
}

#[test]
fn timestamps_come_from_where_the_source_says() {
    let consumed = || Consumed::with(Utf8, U64);
    let of = |consumed: Consumed<String, u64>, timestamp: i64, value: Option<&[u8]>| {
        let mut b = Topology::builder();
        let _ = b.stream("in", consumed);
        let topology = b.build().unwrap();
        let graph = topology.task(0, &mut MockPort::new(&topology)).unwrap();
        let raw = Raw { key: Some(b"k"), value, timestamp, headers: &Headers::new() };
        (topology.sources()[0].timestamp_extractor, graph.timestamp(SourceIndex(0), &raw, 50))
    };
    let value = 7_u64.to_be_bytes();
    let (extractor, time) = of(consumed(), 3, Some(&value));
    assert_eq!((extractor, time.unwrap()), (false, 3));
    let error = of(consumed(), -1, Some(&value)).1.unwrap_err();
    assert!(error.to_string().contains("timestamp=`-1`"), "{error}");
    assert_eq!(of(consumed().skip_invalid_timestamps(), -1, Some(&value)).1.unwrap(), -1);
    let partition_time = || consumed().partition_time_on_invalid_timestamps();
    assert_eq!(of(partition_time(), -1, Some(&value)).1.unwrap(), 50);
    assert_eq!(of(partition_time(), 9, Some(&value)).1.unwrap(), 9);
    let custom = || consumed().timestamp_extractor(|k, v, own, partition| k.len() as i64 + *v as i64 + own + partition);
    let (extractor, time) = of(custom(), 100, Some(&value));
    assert_eq!((extractor, time.unwrap()), (true, 158));
    assert_eq!(of(custom(), 100, None).1.unwrap(), 100);
    assert_eq!(of(custom(), 100, Some(b"short")).1.unwrap_err().kind(), ErrorKind::Deserialization);
}

#[test]
fn a_partitioner_chooses_or_leaves_it() {
    let mut b = Topology::builder();
    let by_value = Produced::with(Utf8, I64)
        .partitioner(|_, v, count| (*v >= 0).then_some(i32::try_from(*v).unwrap() + count - 4));
    b.stream("in", Consumed::with(Utf8, I64)).named("sink").to("out", by_value);
    let topology = b.build().unwrap();
    assert!(topology.sinks()[0].partitioner);
    let mut driver = Driver::new(&topology);
    driver.port(0).partitions = 4;
    driver.pipe("in", Some(b"k"), Some(&n(3)), 0).unwrap();
    driver.pipe("in", Some(b"k"), Some(&n(-3)), 0).unwrap();
    assert_eq!(driver.outputs.iter().map(|o| o.partition).collect::<Vec<_>>(), [Some(3), None]);
    let error = driver.pipe("in", Some(b"k"), Some(&n(4)), 0).unwrap_err();
    assert!(error.to_string().contains("partition=`4` partitions=`4` node=`sink`"), "{error}");
}

#[test]
fn clones_of_a_named_grouping_share_its_repartition_topic() {
    let mut b = Topology::builder();
    let grouped = b.stream("in", Consumed::with(Utf8, Utf8)).group_by(|_, v| v.clone(), Grouped::named("g").key(Utf8));
    let _ = grouped.clone().count(Materialized::named("c"));
    grouped.reduce(|a, b| a + &b, Materialized::named("r")).to_stream().to("out", Produced::default());
    let topology = b.build().unwrap();
    let names: Vec<_> = topology.internal_topics().iter().map(|t| t.topic.name.as_str()).collect();
    assert_eq!(names, ["g-repartition", "c-changelog", "r-changelog"]);
    let mut driver = Driver::new(&topology);
    driver.pipe("in", Some(b"k"), Some(b"v"), 0).unwrap();
    driver.pipe("in", Some(b"k"), Some(b"v"), 0).unwrap();
    let store = driver.store("c");
    assert_eq!(driver.port_of(store).rows(store)[&b"v"[..]], [n(0), n(2)].concat());
    assert_eq!(driver.take().len(), 2);
}

#[test]
fn a_store_whose_updates_nobody_takes_has_no_owner() {
    let mut b = Topology::builder();
    let grouped = b.stream("in", Consumed::with(Utf8, I64)).group_by_key();
    let _ = grouped.count(Materialized::named("only-asked"));
    let topology = b.build().unwrap();
    assert_eq!(topology.stores()[0].owner, None);
}

#[test]
fn stores_come_in_the_order_to_drain_them_and_know_their_owner() {
    let mut b = Topology::builder();
    let late = b.key_value_store("late", Utf8, I64);
    let table = b.table_materialized("in", Consumed::with(Utf8, I64), Materialized::named("rows"));
    let filtered =
        table.filter_materialized(|_, _| true, Materialized::named("kept").engine("rocks").logging_disabled());
    struct Count(StoreRef<KeyValue<String, i64>>);
    impl Processor for Count {
        type In = Record<String, Option<i64>>;
        type Out = Record<String, i64>;

        fn process(&mut self, cx: &mut Context<'_, Self>, r: Self::In) -> Result {
            cx.store(&self.0)?.put(&r.key, &r.value.unwrap_or_default())
        }
    }
    let _ = filtered.to_stream().process(&late, |_, s| Ok(Count(s)));
    let topology = b.build().unwrap();
    let name = |s: &StoreIndex| topology.stores()[s.0 as usize].name.as_str();
    let sub = &topology.sub_topologies()[0];
    assert_eq!(sub.stores.iter().map(name).collect::<Vec<_>>(), ["rows", "kept", "late"]);
    let owner = |name: &str| {
        let store = &topology.stores()[topology.store_index(name).unwrap().0 as usize];
        store.owner.and_then(|n| topology.node_name(n))
    };
    assert_eq!(owner("kept"), Some("KTABLE-FILTER-0000000002"));
    assert_eq!(owner("late"), None);
    let kept = &topology.stores()[topology.store_index("kept").unwrap().0 as usize];
    assert_eq!((kept.kind, kept.engine.as_deref()), (StoreType::TimestampedKeyValue, Some("rocks")));
    assert_eq!(kept.logging, Logging::Disabled);
    assert_eq!((sub.sources.len(), sub.sinks.len(), sub.nodes.len()), (1, 0, 5));
}

#[test]
fn a_definition_is_shared_by_threads_and_an_instance_can_move() {
    fn shared<T: Send + Sync + Clone>(_: &T) {}
    fn moves<T: Send>(_: &T) {}
    let mut b = Topology::builder();
    b.stream("in", Consumed::with(Utf8, Utf8)).to("out", Produced::default());
    let topology = b.build().unwrap();
    shared(&topology);
    moves(&topology.task(0, &mut MockPort::new(&topology)).unwrap());
}

/// The deepest graph that is allowed, with fat records, on a test thread's stack.
#[test]
fn the_deepest_graph_fits_the_stack() {
    let mut b = Topology::builder();
    let mut stream = b.stream("in", Consumed::with(Utf8, Utf8)).map_values(|_| [7_u64; 32]);
    for _ in 0..496 {
        stream = stream.map_values(|v| v);
    }
    stream.map_values(|v| v[31].to_string()).to("out", Produced::with(Utf8, Utf8));
    let mut driver = Driver::new(&b.build().unwrap_or_else(|e| panic!("{e}")));
    driver.pipe("in", Some(b"k"), Some(b"v"), 0).unwrap();
    assert_eq!(driver.take()[0].2.as_deref(), Some(&b"7"[..]));
}

#[test]
fn foreach_sees_everything_and_ends_the_stream() {
    let seen = std::sync::Arc::new(std::sync::atomic::AtomicI64::new(0));
    let sum = seen.clone();
    let mut b = Topology::builder();
    b.stream_of(&["a", "b"], Consumed::with(Utf8, I64)).filter_not(|_, v| *v < 0).foreach(move |_, v| {
        sum.fetch_add(*v, std::sync::atomic::Ordering::Relaxed);
    });
    let mut driver = Driver::new(&b.build().unwrap());
    for (topic, value) in [("a", 1), ("b", 2), ("a", -5)] {
        driver.pipe(topic, Some(b"k"), Some(&n(value)), 0).unwrap();
    }
    assert_eq!(seen.load(std::sync::atomic::Ordering::Relaxed), 3);
}
