//! The source key's bytes: reused where they are the key's, and never where they are not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millpond_topology::*;

use crate::support::driver::Driver;

/// Text that counts how often it is encoded; `same` as all others like it, or as none.
#[derive(Clone)]
struct Counting {
    encodes: Arc<AtomicUsize>,
    same: bool,
}

impl Counting {
    fn new(same: bool) -> Self {
        Self { encodes: Arc::default(), same }
    }

    fn take(&self) -> usize {
        self.encodes.swap(0, Ordering::Relaxed)
    }
}

impl Serde<String> for Counting {
    fn encode(&self, value: &String, out: &mut Vec<u8>) -> Result {
        self.encodes.fetch_add(1, Ordering::Relaxed);
        Utf8.encode(value, out)
    }

    fn decode(&self, bytes: &[u8]) -> Result<String> {
        Utf8.decode(bytes)
    }

    fn identity(&self) -> SerdeId {
        if self.same { SerdeId::of::<Self>() } else { SerdeId::UNKNOWN }
    }
}

/// Writes text backwards: bytes of another serde are wrong bytes.
#[derive(Clone, Copy)]
struct Backwards;

impl Serde<String> for Backwards {
    fn encode(&self, value: &String, out: &mut Vec<u8>) -> Result {
        out.extend(value.bytes().rev());
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<String> {
        Ok(String::from_utf8(bytes.iter().rev().copied().collect())?)
    }

    fn identity(&self) -> SerdeId {
        SerdeId::of::<Self>()
    }
}

fn pipe(driver: &mut Driver, topic: &str, key: &str) {
    driver.pipe(topic, Some(key.as_bytes()), Some(b"v"), 0).unwrap();
}

fn out_keys(driver: &mut Driver) -> Vec<String> {
    driver.take().into_iter().map(|(_, key, ..)| String::from_utf8(key.unwrap()).unwrap()).collect()
}

/// Encodes of a key per record, for one way through the DSL.
fn encodes(same: bool, way: fn(Stream<String, String>, Counting)) -> usize {
    let serde = Counting::new(same);
    let mut b = Topology::builder();
    way(b.stream("in", Consumed::with(serde.clone(), Utf8)), serde.clone());
    let mut driver = Driver::new(&b.build().unwrap());
    pipe(&mut driver, "in", "key");
    assert_eq!(out_keys(&mut driver).len(), 1);
    serde.take()
}

#[test]
fn a_key_that_no_operator_can_change_is_never_encoded() {
    let keeps: fn(Stream<String, String>, Counting) = |s, serde| {
        s.filter(|_, _| true)
            .map_values(|v| v)
            .peek(|_, _| ())
            .flat_map_values(|v| [v])
            .group_by_key()
            .count(Materialized::named("c"))
            .filter(|_, _| true)
            .map_values(|n| n)
            .to_stream()
            .to("out", Produced::with(serde, Nullable(I64)));
    };
    assert_eq!(encodes(true, keeps), 0);
    // One for the store, one for the sink.
    assert_eq!(encodes(false, keeps), 2);
}

#[test]
fn a_key_that_an_operator_may_have_changed_is_encoded() {
    assert_eq!(encodes(true, |s, k| s.select_key(|k, _| k.clone()).to("out", Produced::with(k, Utf8))), 1);
    assert_eq!(encodes(true, |s, k| s.map(|k, v| (k, v)).to("out", Produced::with(k, Utf8))), 1);
    assert_eq!(encodes(true, |s, k| s.flat_map(|k, v| [(k, v)]).to("out", Produced::with(k, Utf8))), 1);
    assert_eq!(encodes(true, |s, k| s.process((), |_, ()| Ok(Swap)).to("out", Produced::with(k, Utf8))), 1);
    assert_eq!(
        encodes(true, |s, k| s.process_values((), |_, ()| Ok(Late::default())).to("out", Produced::with(k, Utf8))),
        1
    );
    // Behind a repartition topic the key is a source's again: one encode, at the topic.
    let cut: fn(Stream<String, String>, Counting) = |s, k| {
        s.select_key(|k, _| k.clone()).repartition(Repartitioned::named("r").key(k)).to("out", Produced::default())
    };
    assert_eq!(encodes(true, cut), 1);
}

struct Swap;

impl Processor for Swap {
    type In = Record<String, String>;
    type Out = Record<String, String>;

    fn process(&mut self, cx: &mut Context<'_, Self>, r: Self::In) -> Result {
        cx.forward(r.map(|k, v| (v, k)))
    }
}

/// Forwards each record twice: at once, and again when the next one comes.
#[derive(Default)]
struct Late(Option<FixedKeyRecord<String, String>>);

impl Processor for Late {
    type In = FixedKeyRecord<String, String>;
    type Out = FixedKeyRecord<String, String>;

    fn process(&mut self, cx: &mut Context<'_, Self>, r: Self::In) -> Result {
        if let Some(late) = self.0.replace(r.clone()) {
            cx.forward(late)?;
        }
        cx.forward(r)
    }
}

#[test]
fn a_record_that_a_processor_kept_keeps_its_own_key() {
    let mut b = Topology::builder();
    b.stream("in", Consumed::with(Utf8, Utf8))
        .process_values((), |_, ()| Ok(Late::default()))
        .to("out", Produced::with(Utf8, Utf8));
    let mut driver = Driver::new(&b.build().unwrap());
    pipe(&mut driver, "in", "one");
    pipe(&mut driver, "in", "two");
    assert_eq!(out_keys(&mut driver), ["one", "one", "two"]);
}

#[test]
fn another_serde_gets_other_bytes() {
    let mut b = Topology::builder();
    let stream = b.stream("in", Consumed::with(Utf8, Utf8));
    stream.clone().to("out", Produced::with(Backwards, Utf8));
    stream
        .group_by_key()
        .count(Materialized::named("c").key(Backwards))
        .to_stream()
        .to("out2", Produced::with(Utf8, I64));
    let topology = b.build().unwrap();
    let mut driver = Driver::new(&topology);
    pipe(&mut driver, "in", "abc");
    assert_eq!(out_keys(&mut driver), ["cba", "abc"]);
    assert_eq!(driver.logged()[0].key, b"cba");
    assert!(topology.sources()[0].lookups.is_empty());
}

#[test]
fn drained_keys_are_those_of_the_store_and_not_of_the_record_at_hand() {
    for (store, bytes) in [(None, &b"abc"[..]), (Some(Backwards), b"cba")] {
        let mut b = Topology::builder();
        let counts = Materialized::named("c");
        let counts = if let Some(serde) = store { counts.key(serde) } else { counts };
        b.stream("in", Consumed::with(Utf8, Utf8))
            .group_by_key()
            .count(counts)
            .to_stream()
            .to("out", Produced::with(Utf8, I64));
        let mut driver = Driver::with_cache(&b.build().unwrap(), true);
        pipe(&mut driver, "in", "abc");
        assert_eq!(out_keys(&mut driver), ["abc"]);
        assert_eq!(driver.logged()[0].key, bytes);
    }
}

#[test]
fn merged_streams_reuse_bytes_only_if_both_have_the_same() {
    let mut b = Topology::builder();
    let one = b.stream("one", Consumed::with(Utf8, Utf8));
    let two = b.stream("two", Consumed::with(Backwards, Utf8));
    one.merge(two).to("out", Produced::with(Utf8, Utf8));
    let mut driver = Driver::new(&b.build().unwrap());
    pipe(&mut driver, "one", "abc");
    pipe(&mut driver, "two", "abc");
    assert_eq!(out_keys(&mut driver), ["abc", "cba"]);

    let serde = Counting::new(true);
    let mut b = Topology::builder();
    let one = b.stream("one", Consumed::with(serde.clone(), Utf8));
    let two = b.stream("two", Consumed::with(serde.clone(), Utf8));
    one.merge(two).to("out", Produced::with(serde.clone(), Utf8));
    let mut driver = Driver::new(&b.build().unwrap());
    pipe(&mut driver, "one", "a");
    pipe(&mut driver, "two", "b");
    assert_eq!((out_keys(&mut driver), serde.take()), (vec!["a".to_owned(), "b".to_owned()], 0));
}

/// JSON texts of one value are one key.
#[test]
fn keys_that_have_several_texts_are_one_key() {
    let mut b = Topology::builder();
    b.stream("in", Consumed::with(Json::<Vec<i64>>::default(), Utf8))
        .group_by_key()
        .count(Materialized::named("c"))
        .to_stream()
        .to("out", Produced::default());
    let topology = b.build().unwrap();
    let mut driver = Driver::new(&topology);
    pipe(&mut driver, "in", "[1,2]");
    pipe(&mut driver, "in", "[1, 2]");
    let store = driver.store("c");
    assert_eq!(driver.port_of(store).rows(store).len(), 1);
    assert_eq!(out_keys(&mut driver), ["[1,2]", "[1,2]"]);
}

#[test]
fn a_source_knows_the_stores_it_looks_up_with_its_keys() {
    let mut b = Topology::builder();
    let stream = b.stream("in", Consumed::with(Utf8, Utf8));
    let _ = stream.clone().filter(|_, _| true).group_by_key().count(Materialized::named("kept"));
    let _ = stream
        .select_key(|k, _| k.clone())
        .group_by_key_with(Grouped::default().key(Utf8))
        .count(Materialized::named("moved"));
    let _ = b.table_materialized("rows", Consumed::with(Utf8, Utf8), Materialized::named("rows"));
    let topology = b.build().unwrap();
    let lookups: Vec<_> = topology
        .sources()
        .iter()
        .map(|s| {
            let stores = s.lookups.iter().map(|i| topology.stores()[i.0 as usize].name.as_str()).collect::<Vec<_>>();
            (s.topics[0].name.as_str(), stores)
        })
        .collect();
    assert_eq!(lookups, [("in", vec!["kept"]), ("moved-repartition", vec!["moved"]), ("rows", vec!["rows"])]);
}
