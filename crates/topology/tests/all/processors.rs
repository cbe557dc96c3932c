//! The Processor API: stores, children, timers and errors.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millpond_topology::*;

use crate::support::driver::Driver;
use crate::support::port::{MockPort, NO_HEADERS};

type Text = Record<String, i64>;
type Store = StoreRef<KeyValue<String, i64>>;

fn input(b: &mut Builder) -> Stream<String, i64> {
    b.stream("in", Consumed::with(Utf8, I64))
}

fn pipe(driver: &mut Driver, key: &str, value: i64, timestamp: i64) -> Result {
    driver.pipe("in", Some(key.as_bytes()), Some(&value.to_be_bytes()), timestamp)
}

/// The outputs as (key, value).
fn take(driver: &mut Driver) -> Vec<(String, i64)> {
    let text = |k: Option<Vec<u8>>| String::from_utf8(k.unwrap()).unwrap();
    driver
        .take()
        .into_iter()
        .map(|(_, k, v, _)| (text(k), i64::from_be_bytes(v.unwrap().try_into().unwrap())))
        .collect()
}

/// Sums up per key, and adds what another processor has put into the same store.
struct Add(Store);

impl Processor for Add {
    type In = Text;
    type Out = Text;

    fn process(&mut self, cx: &mut Context<'_, Self>, r: Text) -> Result {
        let sum = cx.store(&self.0)?.update(&r.key, |n| Some(n.unwrap_or(0) + r.value))?;
        cx.forward(r.with_value(sum.unwrap()))
    }
}

#[test]
fn a_node_says_which_event_is_not_for_it() {
    let mut b = Topology::builder();
    let sums = b.key_value_store("sums", Utf8, I64);
    input(&mut b).named("add").process(&sums, |_, s| Ok(Add(s))).named("sink").to("out", Produced::with(Utf8, I64));
    let table = b
        .stream("more", Consumed::with(Utf8, I64))
        .group_by_key()
        .named("sum")
        .reduce(|a, b| a + b, Materialized::named("all"));
    let _ = table.to_stream();
    let topology = b.build().unwrap();
    let mut port = MockPort::new(&topology);
    let mut graphs = [0, 1].map(|sub| topology.task(sub, &mut port).unwrap());
    let mut punctuated =
        |sub: usize, node| graphs[sub].punctuate(&mut port, NodeIndex(node), 0, 5).unwrap_err().to_string();
    for (text, node) in [(punctuated(0, 2), "sink"), (punctuated(1, 4), "sum")] {
        let said = format!("take an event failed: wrong use of the topology event=`a punctuation` node=`{node}`");
        assert_eq!(text, said);
    }
    let drained = graphs[0].all_drained(&mut port, NodeIndex(1)).unwrap_err().to_string();
    assert!(drained.contains("event=`that all caches above are drained` node=`add`"), "{drained}");
}

#[test]
fn two_processors_share_a_store_and_a_sub_topology() {
    let mut b = Topology::builder();
    let sums = b.key_value_store("sums", Utf8, I64);
    input(&mut b).process(&sums, |_, s| Ok(Add(s))).to("a", Produced::with(Utf8, I64));
    b.stream("more", Consumed::with(Utf8, I64)).process(&sums, |_, s| Ok(Add(s))).to("b", Produced::with(Utf8, I64));
    let topology = b.build().unwrap();
    assert_eq!(topology.sub_topologies().len(), 1);

    let mut driver = Driver::new(&topology);
    pipe(&mut driver, "k", 1, 0).unwrap();
    driver.pipe("more", Some(b"k"), Some(&2_i64.to_be_bytes()), 0).unwrap();
    pipe(&mut driver, "k", 4, 0).unwrap();
    assert_eq!(take(&mut driver), [("k".to_owned(), 1), ("k".to_owned(), 3), ("k".to_owned(), 7)]);
}

struct Move(StoreRef<KeyValue<String, i64>>, StoreRef<TimestampedKeyValue<String, i64>>, Store);

impl Processor for Move {
    type In = Text;
    type Out = Text;

    fn process(&mut self, cx: &mut Context<'_, Self>, r: Text) -> Result {
        let (mut a, mut b, mut c) = cx.stores((&self.0, &self.1, &self.2))?;
        c.put(&r.key, &a.get(&r.key)?.unwrap_or(-1))?;
        a.put(&r.key, &r.value)?;
        let stamped = ValueAndTimestamp { value: r.value, timestamp: 5 };
        b.put(&r.key, &stamped)?;
        assert_eq!(b.get(&r.key)?, Some(stamped));
        cx.forward(r)
    }
}

#[test]
fn several_stores_at_once_and_a_timestamped_one_is_logged_with_its_own_time() {
    let mut b = Topology::builder();
    let (x, y) = (b.key_value_store("x", Utf8, I64), b.timestamped_key_value_store("y", Utf8, I64));
    let z = b.key_value_store("z", Utf8, I64);
    let _ = input(&mut b).process((&x, &y, &z), |_, (x, y, z)| Ok(Move(x, y, z)));
    let topology = b.build().unwrap();
    let mut driver = Driver::new(&topology);
    pipe(&mut driver, "k", 1, 9).unwrap();
    pipe(&mut driver, "k", 2, 9).unwrap();
    let log: Vec<_> = driver.logged().iter().map(|l| (l.store.0, l.value.clone().unwrap(), l.timestamp)).collect();
    let (n, stamped) = (|n: i64| n.to_be_bytes().to_vec(), |n: i64| [5_i64.to_be_bytes(), n.to_be_bytes()].concat());
    assert_eq!(log, [(0, n(1), 9), (0, n(2), 9), (1, stamped(1), 5), (1, stamped(2), 5), (2, n(-1), 9), (2, n(1), 9)]);
}

struct Twice(Store);

impl Processor for Twice {
    type In = Text;
    type Out = Text;

    fn process(&mut self, cx: &mut Context<'_, Self>, _: Text) -> Result {
        let same = self.0.clone();
        cx.stores((&self.0, &same)).map(drop)
    }
}

#[test]
fn the_same_store_twice_at_once_is_an_error() {
    let mut b = Topology::builder();
    let x = b.key_value_store("x", Utf8, I64);
    let _ = input(&mut b).named("twice").process(&x, |_, x| Ok(Twice(x)));
    let mut driver = Driver::new(&b.build().unwrap());
    assert_eq!(pipe(&mut driver, "k", 1, 0).unwrap_err().node(), Some("twice"));
}

#[test]
fn a_handle_of_another_topology_is_an_error_and_not_another_store() {
    let mut first = Topology::builder();
    let x = first.key_value_store("x", Utf8, I64);
    let smuggled = Arc::new(std::sync::Mutex::new(None));
    let out = smuggled.clone();
    let _ = input(&mut first).process(&x, move |_, x| {
        *out.lock().unwrap() = Some(x.clone());
        Ok(Add(x))
    });
    let _ = Driver::new(&first.build().unwrap());

    let mut second = Topology::builder();
    let y = second.key_value_store("y", Utf8, I64);
    let _ = input(&mut second).process(&y, move |_, _| Ok(Add(smuggled.lock().unwrap().clone().unwrap())));
    let mut driver = Driver::new(&second.build().unwrap());
    let error = pipe(&mut driver, "k", 1, 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Topology);
    assert!(error.to_string().contains("the handle belongs to another topology"), "{error}");
    assert!(driver.logged().is_empty());
}

/// B031: put-if-absent answers with the value that is there, and a null makes no row.
struct PutIfAbsent(StoreRef<KeyValue<String, Option<i64>>>);

impl Processor for PutIfAbsent {
    type In = Text;
    type Out = Text;

    fn process(&mut self, cx: &mut Context<'_, Self>, r: Text) -> Result {
        let mut store = cx.store(&self.0)?;
        assert_eq!(store.put_if_absent(&r.key, &Some(1))?, None);
        assert_eq!(store.put_if_absent(&r.key, &Some(2))?, Some(Some(1)));
        store.delete(&r.key)?;
        assert_eq!(store.put_if_absent(&r.key, &None)?, None);
        assert_eq!(store.get(&r.key)?, None);
        assert_eq!(store.put_if_absent(&r.key, &Some(3))?, None);
        assert_eq!(store.remove(&r.key)?, Some(Some(3)));
        assert_eq!(store.remove(&r.key)?, None);
        store.put_all([(r.key.clone(), Some(4)), (r.key.clone(), None)])?;
        assert_eq!(store.update(&r.key, |old| old.or(Some(Some(5))))?, Some(Some(5)));
        assert_eq!(store.update(&r.key, |_| None)?, None);
        assert_eq!(store.get(&r.key)?, None);
        Ok(())
    }
}

#[test]
fn writes_of_a_key_value_store() {
    let mut b = Topology::builder();
    let x = b.key_value_store("x", Utf8, Nullable(I64));
    let _ = input(&mut b).process(&x, |_, x| Ok(PutIfAbsent(x)));
    let mut driver = Driver::new(&b.build().unwrap());
    pipe(&mut driver, "k", 0, 0).unwrap();
    let log: Vec<_> =
        driver.logged().into_iter().map(|l| l.value.map(|v| i64::from_be_bytes(v.try_into().unwrap()))).collect();
    assert_eq!(log, [Some(1), None, Some(3), None, Some(4), None, Some(5), None]);
}

struct NullKey(StoreRef<KeyValue<Option<String>, i64>>);

impl Processor for NullKey {
    type In = Text;
    type Out = Text;

    fn process(&mut self, cx: &mut Context<'_, Self>, _: Text) -> Result {
        let mut store = cx.store(&self.0)?;
        assert_eq!(store.get(&None).unwrap_err().kind(), ErrorKind::Serialization);
        store.put(&None, &1)
    }
}

#[test]
fn a_store_has_no_null_key() {
    let mut b = Topology::builder();
    let x = b.key_value_store("x", Nullable(Utf8), I64);
    let _ = input(&mut b).process(&x, |_, x| Ok(NullKey(x)));
    let mut driver = Driver::new(&b.build().unwrap());
    let error = pipe(&mut driver, "k", 0, 0).unwrap_err();
    assert!(error.to_string().contains("a store's key cannot be null"), "{error}");
}

struct Router {
    audit: Child,
    seen: u64,
}

impl Processor for Router {
    type In = Text;
    type Out = Text;

    fn process(&mut self, cx: &mut Context<'_, Self>, r: Text) -> Result {
        self.seen += 1;
        assert_eq!(cx.metadata().map(|m| (m.topic.to_owned(), m.partition)), Some(("in".to_owned(), 0)));
        assert_eq!((cx.timestamp(), cx.stream_time()), (r.timestamp, r.timestamp));
        if r.value < 0 { cx.forward_to(self.audit, r) } else { cx.forward(r) }
    }
}

#[test]
fn one_child_or_all_and_one_processor_per_task() {
    let made = Arc::new(AtomicUsize::new(0));
    let count = made.clone();
    let mut b = Topology::builder();
    let routed = input(&mut b).process((), move |init, ()| {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(Router { audit: init.child("audit")?, seen: 0 })
    });
    routed.clone().to("out", Produced::with(Utf8, I64));
    routed.named("audit").to("audit-topic", Produced::with(Utf8, I64));
    let topology = b.build().unwrap();
    let mut one = Driver::new(&topology);
    pipe(&mut one, "k", 1, 3).unwrap();
    pipe(&mut one, "k", -1, 4).unwrap();
    let topics: Vec<_> = one.take().into_iter().map(|(topic, ..)| topic).collect();
    assert_eq!(topics, ["out", "audit-topic", "audit-topic"]);
    let _ = Driver::new(&topology);
    assert_eq!(made.load(Ordering::Relaxed), 2);
}

#[test]
fn an_unknown_child_is_named_with_those_that_are_there() {
    let mut b = Topology::builder();
    let routed =
        input(&mut b).named("router").process((), |init, ()| Ok(Router { audit: init.child("audit")?, seen: 0 }));
    routed.named("x-sink").to("x", Produced::with(Utf8, I64));
    let topology = b.build().unwrap();
    let error = topology.task(0, &mut MockPort::new(&topology)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "find a child failed: wrong use of the topology child=`audit` children=`x-sink` node=`router`"
    );
}

#[test]
fn errors_name_the_innermost_node_and_siblings_go_on_afterwards() {
    let mut b = Topology::builder();
    let stream = input(&mut b);
    let failing =
        stream.clone().named("fails").try_map_values(|v| if v == 0 { Err(Error::other("zero")) } else { Ok(v) });
    failing
        .clone()
        .merge(stream.named("other").map_values(|v| v))
        .named("end")
        .try_peek(|_, v| if *v == 1 { Err(Error::other("one")) } else { Ok(()) })
        .to("out", Produced::with(Utf8, I64));
    let mut driver = Driver::new(&b.build().unwrap());
    assert_eq!(pipe(&mut driver, "k", 0, 0).unwrap_err().node(), Some("fails"));
    // The shared node has been put back although it failed.
    assert_eq!(pipe(&mut driver, "k", 1, 0).unwrap_err().node(), Some("end"));
    pipe(&mut driver, "k", 2, 0).unwrap();
    assert_eq!(take(&mut driver), [("k".to_owned(), 2), ("k".to_owned(), 2)]);
}

#[test]
fn bytes_that_do_not_deserialize_say_so() {
    let mut b = Topology::builder();
    input(&mut b).to("out", Produced::default());
    let mut driver = Driver::new(&b.build().unwrap());
    let error = driver.pipe("in", Some(b"k"), Some(b"short"), 0).unwrap_err();
    assert_eq!((error.kind(), error.op()), (ErrorKind::Deserialization, "decode the value"));
    let place = "type=`i64` node=`KSTREAM-SOURCE-0000000000`";
    assert_eq!(error.to_string(), format!("decode the value failed: bytes do not deserialize {place}"));
    assert_eq!(error.source().unwrap().to_string(), "8 bytes are an i64, here are 5");
    let error = driver.pipe("in", Some(&[0xFF]), Some(b"short"), 0).unwrap_err();
    assert_eq!((error.kind(), error.op()), (ErrorKind::Deserialization, "decode the key"));
    assert_eq!(error.node(), Some("KSTREAM-SOURCE-0000000000"));
}

/// Whose serde says what it was doing itself; the record's own text is nowhere.
#[test]
fn json_that_does_not_fit_names_the_type_and_the_place() {
    let mut b = Topology::builder();
    let numbers = b.stream("in", Consumed::with(Utf8, Json::<Vec<u8>>::default()).named("numbers"));
    numbers.to("out", Produced::default());
    let mut driver = Driver::new(&b.build().unwrap());
    let error = driver.pipe("in", Some(b"k"), Some(br#"[1,"secret"]"#), 0).unwrap_err();
    assert_eq!(
        format!("{error:?}"),
        "decode the value failed: bytes do not deserialize category=`data` line=`1` column=`11` step=`read JSON` \
         type=`Vec<u8>` node=`numbers`"
    );
}

struct Timed {
    first: Timer,
    calls: Vec<(char, i64)>,
}

impl Timed {
    fn once(&mut self, cx: &mut Context<'_, Self>, now: i64) -> Result {
        self.calls.push(('1', now));
        assert_eq!((cx.timestamp(), cx.metadata()), (now, None));
        cx.cancel(self.first);
        cx.cancel(self.first);
        // The slot is not free before this call is over.
        cx.schedule(Schedule::stream_time_ms(5), Self::again)?;
        cx.forward(Record::new("once".to_owned(), now, now))
    }

    fn again(&mut self, cx: &mut Context<'_, Self>, now: i64) -> Result {
        self.calls.push(('2', now));
        // The handle of the timer that has ended must not end this one.
        cx.cancel(self.first);
        cx.commit();
        cx.forward(Record::new("again".to_owned(), now, now))
    }
}

impl Processor for Timed {
    type In = Text;
    type Out = Text;

    fn process(&mut self, _: &mut Context<'_, Self>, _: Text) -> Result {
        Ok(())
    }
}

#[test]
fn timers_cancel_themselves_and_are_told_apart() {
    let mut b = Topology::builder();
    let timed = input(&mut b).process((), |init, ()| {
        let first = init.schedule(Schedule::stream_time_ms(10), Timed::once)?;
        Ok(Timed { first, calls: vec![] })
    });
    timed.to("out", Produced::with(Utf8, I64));
    let mut driver = Driver::new(&b.build().unwrap());
    for time in [3, 4, 5, 9, 12, 13] {
        pipe(&mut driver, "k", 0, time).unwrap();
    }
    let calls: Vec<_> = take(&mut driver).into_iter().map(|(name, at)| format!("{name}@{at}")).collect();
    assert_eq!(calls, ["once@3", "again@4", "again@5", "again@12"]);
    assert_eq!((driver.port(0).timers.len(), driver.port(0).commits), (1, 3));
}

/// Does to its timer what the key says; a negative value fails behind it.
struct Switch(Vec<Timer>);

impl Processor for Switch {
    type In = Text;
    type Out = Text;

    fn process(&mut self, cx: &mut Context<'_, Self>, record: Text) -> Result {
        match record.key.as_str() {
            "start" => self.0.push(cx.schedule(Schedule::wall_clock_ms(10), tell(record.value.abs()))?),
            "cancel" => cx.cancel(self.0[usize::try_from(record.value.abs()).unwrap()]),
            _ => {}
        }
        cx.forward(record)
    }
}

fn tell(name: i64) -> impl FnMut(&mut Switch, &mut Context<'_, Switch>, i64) -> Result + Send {
    move |_, cx, at| cx.forward(Record::new("timer".to_owned(), name, at))
}

#[test]
fn a_call_that_fails_leaves_the_timers_as_they_were() {
    let mut b = Topology::builder();
    let switch = input(&mut b).process((), |init, ()| {
        let tens = [0, 1].map(|n| init.schedule(Schedule::wall_clock_ms(10), tell(n)));
        Ok(Switch(tens.into_iter().collect::<Result<_>>()?))
    });
    let checked = switch.try_peek(|_, v| if *v < 0 { Err(Error::other("negative")) } else { Ok(()) });
    checked.to("out", Produced::with(Utf8, I64));
    let topology = b.build().unwrap();
    let mut port = MockPort::new(&topology);
    let mut graph = topology.task(0, &mut port).unwrap();
    let mut pipe = |graph: &mut TaskGraph, key: &str, value: i64| {
        let before = port.timers.clone();
        let value = value.to_be_bytes();
        let raw = Raw { key: Some(key.as_bytes()), value: Some(&value), timestamp: 0, headers: NO_HEADERS };
        let done = graph.receive(&mut port, SourceIndex(0), &raw);
        if done.is_err() {
            port.timers = before;
        }
        port.take_sent();
        let mut called = Vec::new();
        for timer in port.timers.clone() {
            graph.punctuate(&mut port, timer.node, timer.slot, 10).unwrap();
            let value = port.take_sent().pop().expect("a timer that the port has is called").value.unwrap();
            called.push((timer.slot, i64::from_be_bytes(value.try_into().unwrap())));
        }
        (done.is_ok(), called)
    };
    let mut pipe = |key, value| pipe(&mut graph, key, value);
    assert_eq!(pipe("cancel", -1), (false, vec![(0, 0), (1, 1)]));
    assert_eq!(pipe("start", -2), (false, vec![(0, 0), (1, 1)]), "and its slot is free");
    assert_eq!(pipe("start", 3), (true, vec![(0, 0), (1, 1), (2, 3)]));
    assert_eq!(pipe("cancel", 2), (true, vec![(0, 0), (1, 1), (2, 3)]), "a handle from a failed call ends nothing");
    assert_eq!(pipe("cancel", 1), (true, vec![(0, 0), (2, 3)]));
    assert_eq!(pipe("start", 4), (true, vec![(0, 0), (2, 3), (1, 4)]), "a slot is used again once it is certain");
}

#[test]
fn an_interval_below_one_millisecond_is_an_error() {
    let mut b = Topology::builder();
    let _ = input(&mut b).named("p").process((), |init, ()| {
        let first = init.schedule(Schedule::wall_clock_ms(0), Timed::once)?;
        Ok(Timed { first, calls: vec![] })
    });
    let topology = b.build().unwrap();
    let error = topology.task(0, &mut MockPort::new(&topology)).unwrap_err();
    assert!(error.to_string().contains("every_ms=`0` node=`p`"), "{error}");
}

#[test]
fn a_timer_of_the_past_is_ignored_and_a_wrong_address_is_an_error() {
    let mut b = Topology::builder();
    let x = b.key_value_store("x", Utf8, I64);
    let _ = input(&mut b).process(&x, |_, x| Ok(Add(x)));
    let topology = b.build().unwrap();
    let mut port = MockPort::new(&topology);
    let mut graph = topology.task(0, &mut port).unwrap();
    graph.punctuate(&mut port, NodeIndex(1), 7, 0).unwrap();
    assert_eq!(graph.punctuate(&mut port, NodeIndex(9), 0, 0).unwrap_err().kind(), ErrorKind::Topology);
    let raw = Raw { key: None, value: None, timestamp: 0, headers: NO_HEADERS };
    assert_eq!(graph.receive(&mut port, SourceIndex(1), &raw).unwrap_err().kind(), ErrorKind::Topology);
    assert_eq!(topology.task(1, &mut port).unwrap_err().kind(), ErrorKind::Topology);
}
