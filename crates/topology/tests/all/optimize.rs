//! Topologies that do without some topics: what they look like, and that they say the same.

use millpond_topology::*;

use crate::support::driver::Driver;

type Words = Stream<String, String>;

fn words(b: &mut Builder) -> Words {
    b.stream("words", Consumed::with(Utf8, Utf8))
}

fn count(stream: Words, name: &str) {
    let grouped = stream.group_by_key_with(Grouped::with(Utf8, Utf8));
    grouped.count(Materialized::named(name)).to_stream().to(&format!("{name}-out"), Produced::with(Utf8, I64));
}

fn by_length(stream: Words) -> Words {
    stream.named("by-length").select_key(|_, v| v.len().to_string())
}

/// The repartition topics of a topology, and all counts that come out, with the optimisations and without.
fn both(define: impl Fn(Words)) -> (Vec<String>, Vec<String>) {
    let run = |optimization| {
        let mut b = Topology::builder();
        b.optimize(optimization);
        define(words(&mut b));
        let topology = b.build().unwrap();
        let repartitions = topology.internal_topics().iter().filter(|t| t.kind == InternalTopicKind::Repartition);
        let repartitions: Vec<String> = repartitions.map(|t| t.topic.name.clone()).collect();
        let mut driver = Driver::new(&topology);
        for (at, word) in ["a", "bb", "cc", "d", "eee", "", "bb"].iter().enumerate() {
            driver.pipe("words", Some(b"k"), Some(word.as_bytes()), i64::try_from(at).unwrap()).unwrap();
        }
        let mut out = driver.take();
        out.sort();
        (repartitions, out)
    };
    let (plain, expected) = run(Optimization::NONE);
    let (merged, out) = run(Optimization::MERGE_REPARTITION_TOPICS);
    assert!(!out.is_empty());
    assert_eq!(out, expected, "the same comes out");
    (plain, merged)
}

#[test]
fn what_stands_between_comes_behind_the_topic() {
    let (plain, merged) = both(|s| {
        let s = by_length(s);
        count(s.clone().named("long").filter(|_, v| v.len() > 1), "long-words");
        count(s.named("seen").peek(|_, _| ()).named("short").filter(|_, v| v.len() < 3), "short-words");
    });
    assert_eq!(plain, ["long-words-repartition", "short-words-repartition"]);
    assert_eq!(merged, ["long-words-repartition"]);
}

#[test]
fn groupings_behind_one_filter_share_its_topic() {
    let (_, merged) = both(|s| {
        let s = by_length(s).named("long").filter(|_, v| v.len() > 1);
        count(s.clone(), "one");
        count(s.clone(), "two");
        count(s, "three");
    });
    assert_eq!(merged, ["one-repartition"]);
}

#[test]
fn a_single_grouping_moves_up_to_the_change_of_the_key() {
    let define = |optimization| {
        let mut b = Topology::builder();
        b.optimize(optimization);
        count(by_length(words(&mut b)).named("long").filter(|_, v| v.len() > 1), "counts");
        b.build().unwrap().describe()
    };
    let described = define(Optimization::MERGE_REPARTITION_TOPICS);
    let names = |sub: usize| described.sub_topologies[sub].nodes.iter().map(|n| n.name.as_str()).collect::<Vec<_>>();
    assert_eq!(
        names(0),
        ["KSTREAM-SOURCE-0000000000", "by-length", "counts-repartition-filter", "counts-repartition-sink"]
    );
    assert_eq!(names(1)[..3], ["counts-repartition-source", "long", "KSTREAM-AGGREGATE-0000000003"]);
    assert_eq!(define(Optimization::REUSE_KTABLE_SOURCE_TOPICS), define(Optimization::NONE));
}

#[test]
fn behind_a_change_of_values_each_has_its_own_topic() {
    let (plain, merged) = both(|s| {
        let s = by_length(s);
        count(s.clone().map_values(|v| v + "!"), "loud");
        count(s.clone().map_values(|v| v + "."), "calm");
        count(s, "plain");
    });
    assert_eq!(plain.len(), 3);
    assert_eq!(merged, ["loud-repartition", "calm-repartition", "plain-repartition"]);
}

#[test]
fn streams_that_were_merged_share_a_topic_behind_the_merge() {
    let (plain, merged) = both(|s| {
        let other = s.clone().select_key(|_, v| v.to_uppercase());
        let s = by_length(s).merge(other);
        count(s.clone(), "one");
        count(s, "two");
    });
    assert_eq!((plain.len(), merged), (2, vec!["one-repartition".to_owned()]));
}

#[test]
fn what_leads_elsewhere_too_stays_before_the_topic() {
    let (plain, merged) = both(|s| {
        let long = by_length(s).filter(|_, v| v.len() > 1);
        long.clone().to("long", Produced::with(Utf8, Utf8));
        count(long.clone(), "one");
        count(long, "two");
    });
    assert_eq!(merged, plain);
}

#[test]
fn a_repartition_that_was_asked_for_stays() {
    let (plain, merged) = both(|s| {
        let s = by_length(s);
        count(s.clone().repartition(Repartitioned::named("asked").key(Utf8)), "one");
        count(s.clone(), "two");
        count(s, "three");
    });
    assert_eq!(plain, ["asked-repartition", "two-repartition", "three-repartition"]);
    assert_eq!(merged, ["asked-repartition", "two-repartition"]);
}

/// The name of the topic that is the changelog of the table `t` as well.
fn reused(consumed: Consumed<String, i64>, materialized: Materialized<String, i64>) -> Option<String> {
    let mut b = Topology::builder();
    b.optimize(Optimization::REUSE_KTABLE_SOURCE_TOPICS);
    let table = b.table_materialized("prices", consumed, materialized);
    table.to_stream().to("out", Produced::default());
    let topology = b.build().unwrap();
    let reused = topology.reused_topic(topology.store_index("t").unwrap()).map(|reused| reused.topic.name.clone());
    assert_eq!(
        topology.internal_topics().is_empty(),
        reused.is_some() || topology.stores()[0].logging == Logging::Disabled
    );
    reused
}

/// A serde that may write other bytes than it has read.
struct Loose;

impl Serde<String> for Loose {
    fn encode(&self, value: &String, out: &mut Vec<u8>) -> Result {
        Utf8.encode(value, out)
    }

    fn decode(&self, bytes: &[u8]) -> Result<String> {
        Utf8.decode(bytes)
    }
}

#[test]
fn a_table_has_no_changelog_if_its_topic_has_the_bytes_of_the_store() {
    let plain = || Consumed::with(Utf8, I64);
    let prices = Some("prices".to_owned());
    assert_eq!(reused(plain(), Materialized::named("t")), prices);
    assert_eq!(reused(plain(), Materialized::named("t").serdes(Utf8, I64)), prices);
    assert_eq!(reused(plain().skip_invalid_timestamps(), Materialized::named("t")), prices);

    assert_eq!(reused(plain(), Materialized::named("t").logging_disabled()), None, "nothing restores it");
    assert_eq!(reused(plain(), Materialized::named("t").value(Text)), None, "other bytes");
    assert_eq!(reused(Consumed::with(Loose, I64), Materialized::named("t")), None, "other keys");
    assert_eq!(reused(plain().timestamp_extractor(|_, _, t, _| t + 1), Materialized::named("t")), None, "other times");
    assert_eq!(reused(plain().partition_time_on_invalid_timestamps(), Materialized::named("t")), None, "other times");
}

/// Another form of the same number.
struct Text;

impl Serde<i64> for Text {
    fn encode(&self, value: &i64, out: &mut Vec<u8>) -> Result {
        Utf8.encode(&value.to_string(), out)
    }

    fn decode(&self, bytes: &[u8]) -> Result<i64> {
        Ok(Utf8.decode(bytes)?.parse()?)
    }
}

#[test]
fn what_the_source_would_drop_is_no_row() {
    let mut b = Topology::builder();
    b.optimize(Optimization::ALL);
    let _ = b.table_materialized("prices", Consumed::with(Utf8, I64), Materialized::named("t"));
    let topology = b.build().unwrap();
    let reused = topology.reused_topic(StoreIndex(0)).unwrap();
    let number = 7_i64.to_be_bytes();
    assert!(reused.accepts(b"k", Some(&number), 0));
    assert!(reused.accepts(b"k", None, 0), "a delete");
    assert!(!reused.accepts(b"k", Some(&number), -1));
    assert!(!reused.accepts(b"\xFF", Some(&number), 0));
    assert!(!reused.accepts(b"k", Some(b"seven"), 0));
}

/// Chooses among its children.
struct ByLength {
    long: Child,
    short: Child,
}

impl Processor for ByLength {
    type In = Record<String, String>;
    type Out = Record<String, String>;

    fn process(&mut self, cx: &mut Context<'_, Self>, word: Self::In) -> Result {
        let child = if word.value.len() > 1 { self.long } else { self.short };
        cx.forward_to(child, word.map(|_, v| (v.len().to_string(), v)))
    }
}

#[test]
fn children_that_a_processor_names_stay_its_children() {
    let (plain, merged) = both(|s| {
        let s = s.process((), |init, ()| Ok(ByLength { long: init.child("long")?, short: init.child("short")? }));
        count(s.clone().named("long").filter(|_, v| v != "cc"), "long-words");
        count(s.named("short").peek(|_, _| ()), "short-words");
    });
    assert_eq!((plain.len(), merged), (2, plain));
}

#[test]
fn groupings_right_behind_a_processor_share_its_topic() {
    struct Pass;
    impl Processor for Pass {
        type In = Record<String, String>;
        type Out = Record<String, String>;

        fn process(&mut self, cx: &mut Context<'_, Self>, word: Self::In) -> Result {
            cx.forward(word)
        }
    }
    let (plain, merged) = both(|s| {
        let s = s.process((), |_, ()| Ok(Pass));
        count(s.clone(), "one");
        count(s, "two");
    });
    assert_eq!((plain.len(), merged.len()), (2, 1));
}

#[test]
fn what_is_cogrouped_behind_a_merged_topic_has_one_count_of_partitions() {
    let define = |optimization| {
        let mut b = Topology::builder();
        b.optimize(optimization);
        let by_length = by_length(words(&mut b));
        count(by_length.clone(), "alone");
        let more = b.stream("more", Consumed::with(Utf8, Utf8)).group_by_key();
        let add = |sum: i64, _: &String, value: &String| sum + i64::try_from(value.len()).unwrap();
        let _ = by_length
            .group_by_key_with(Grouped::named("both").key(Utf8).value(Utf8))
            .cogroup(add)
            .cogroup(more, add)
            .aggregate(|| 0, Materialized::named("sums").serdes(Utf8, I64));
        b.build().unwrap()
    };
    for optimization in [Optimization::NONE, Optimization::MERGE_REPARTITION_TOPICS] {
        let topology = define(optimization);
        let partitions = topology.partitions(|topic| Some(if topic == "more" { 4 } else { 1 })).unwrap();
        let counts = topology.internal_topics().iter().zip(&partitions.internal);
        let of = |name: &str| counts.clone().find(|(t, _)| t.topic.name == name).map(|(_, count)| *count);
        let shared = if optimization == Optimization::NONE { "both-repartition" } else { "alone-repartition" };
        assert_eq!((of(shared), of("sums-changelog")), (Some(4), Some(4)), "{optimization:?}");
    }
}
