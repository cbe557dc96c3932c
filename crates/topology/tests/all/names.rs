//! Names: those that clash or are illegal (B149), generated ones where they are refused (KIP-1111), and what a topology looks
//! like with them.

use millpond_topology::*;

fn problems(builder: Builder) -> Vec<(ProblemKind, String)> {
    let error = builder.build().unwrap_err();
    error.problems().iter().map(|p| (p.kind, p.message.clone())).collect()
}

fn only(builder: Builder) -> (ProblemKind, String) {
    let mut all = problems(builder);
    assert_eq!(all.len(), 1, "{all:#?}");
    all.remove(0)
}

fn words(b: &mut Builder) -> Stream<String, String> {
    b.stream("words", Consumed::with(Utf8, Utf8))
}

#[test]
fn b149_a_store_of_the_dsl_and_one_of_the_builder() {
    let mut b = Topology::builder();
    let _ = b.key_value_store("s", Utf8, I64);
    let _ = words(&mut b).group_by_key().count(Materialized::named("s"));
    let clash = problems(b).into_iter().find(|p| p.0 == ProblemKind::Clash).unwrap();
    assert_eq!(
        clash.1,
        "the store `s` is defined twice: by the builder, as a key-value store and by `KSTREAM-AGGREGATE-0000000001`"
    );
}

#[test]
fn b149_a_topic_that_two_sources_read() {
    let mut b = Topology::builder();
    let _ = words(&mut b);
    let _ = b.table("words", Consumed::with(Utf8, Utf8));
    assert_eq!(
        only(b),
        (
            ProblemKind::Clash,
            "the topic `words` is read by two sources, `KSTREAM-SOURCE-0000000000` is the first; read it once and clone the \
             stream"
                .to_owned()
        )
    );
}

#[test]
fn b149_two_repartition_topics_of_one_name_with_different_counts() {
    let mut b = Topology::builder();
    let stream = words(&mut b);
    let _ = stream.clone().repartition(Repartitioned::named("r").partitions(3));
    let _ = stream.named("p").peek(|_, _| ()).repartition(Repartitioned::named("r").partitions(4));
    assert_eq!(
        only(b),
        (
            ProblemKind::Clash,
            "the repartition topic `r-repartition` is made twice: behind `KSTREAM-SOURCE-0000000000` with 3 partitions and \
             behind `p` with 4 partitions; name them differently"
                .to_owned()
        )
    );
}

#[test]
fn b149_a_grouping_with_the_name_of_another() {
    let mut b = Topology::builder();
    let stream = words(&mut b);
    let by = |stream: Stream<String, String>, operator: &str| {
        stream.named(operator).select_key(|_, v| v.clone()).group_by_key_with(Grouped::named("g").key(Utf8))
    };
    let _ = by(stream.clone(), "one").count(Materialized::named("a"));
    let _ = by(stream, "two").count(Materialized::named("b"));
    let (kind, message) = only(b);
    assert_eq!(kind, ProblemKind::Clash);
    assert!(message.contains("`g-repartition` is made twice: behind `one` and behind `two`"), "{message}");

    let mut b = Topology::builder();
    let keyed = words(&mut b).named("keyed").select_key(|_, v| v.clone());
    for store in ["a", "b"] {
        let _ = keyed.clone().group_by_key_with(Grouped::named("g").key(Utf8)).count(Materialized::named(store));
    }
    let (_, message) = only(b);
    assert_eq!(message, "the repartition topic `g-repartition` is made twice: behind `keyed`; name them differently");
}

/// None of them would be a topic of Kafka, and some would leave the state directory.
#[test]
fn b149_illegal_names_of_stores_topics_operators_and_groupings() {
    for bad in ["a/b", "../up", "a b", ".", "..", "", "tab\t", "ü", &"x".repeat(250)] {
        let mut b = Topology::builder();
        let stream = words(&mut b);
        let _ = stream.clone().group_by_key().count(Materialized::named(bad));
        let _ = stream.clone().named(bad).filter(|_, _| true);
        let _ = stream.clone().repartition(Repartitioned::named(bad));
        stream.to(bad, Produced::default());
        let all: Vec<_> = problems(b).into_iter().filter(|p| p.0 == ProblemKind::IllegalName).map(|p| p.1).collect();
        for what in ["a store", "a node", "a topic"] {
            let start = format!("{what} cannot be called `{bad}");
            assert!(all.iter().any(|message| message.starts_with(&start)), "{start}: {all:#?}");
        }
    }
}

/// What state can be called after, each once with a name and once without.
fn stateful(b: &mut Builder, named: bool) {
    fn store<V: 'static>(name: &str, named: bool) -> Materialized<String, V> {
        if named { Materialized::named(name) } else { Materialized::default() }
    }
    let stream = words(b);
    let grouped = if named { Grouped::named("by-word") } else { Grouped::default() };
    let table = stream.clone().group_by(|_, v| v.clone(), grouped.key(Utf8)).count(store("counts", named));
    table.to_stream().to("counts", Produced::default());
    let options = if named { Repartitioned::named("again") } else { Repartitioned::default() };
    let _ = stream.repartition(options).group_by_key().reduce(|a, _| a, store("firsts", named));
}

#[test]
fn generated_names_of_state_are_refused_where_that_is_asked_for() {
    let mut b = Topology::builder();
    stateful(&mut b, false);
    assert!(b.build().is_ok());

    let mut b = Topology::builder();
    stateful(&mut b, true);
    b.ensure_explicit_names();
    assert!(b.build().is_ok(), "operators may have generated names");

    let mut b = Topology::builder();
    b.ensure_explicit_names();
    stateful(&mut b, false);
    let all = problems(b);
    assert!(all.iter().all(|p| p.0 == ProblemKind::GeneratedName), "{all:#?}");
    let starts = [
        "the store `KSTREAM-AGGREGATE-STATE-STORE-0000000003` of `KSTREAM-AGGREGATE-0000000004` has a generated name",
        "the store `KSTREAM-REDUCE-STATE-STORE-0000000014` of `KSTREAM-REDUCE-0000000015` has a generated name",
        "the repartition topic `KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition` behind `KSTREAM-KEY-SELECT-0000000001`",
        "the repartition topic `KSTREAM-REPARTITION-0000000010-repartition` behind `KSTREAM-SOURCE-0000000000`",
    ];
    assert_eq!(all.len(), starts.len(), "{all:#?}");
    for ((_, message), start) in all.iter().zip(starts) {
        assert!(message.starts_with(start), "{message}");
        assert!(message.contains("; name "), "{message}");
    }
}

fn described() -> Description {
    let mut b = Topology::builder();
    let mut split = words(&mut b).split();
    let long = split.branch(|_, v| v.len() > 5);
    long.group_by(|_, v| v.clone(), Grouped::named("by-word").key(Utf8))
        .count(Materialized::named("counts"))
        .to_stream()
        .to("out", Produced::default());
    b.build().unwrap().describe()
}

#[test]
fn a_chart_shows_nodes_stores_and_topics_once_and_all_edges() {
    assert_eq!(described().mermaid(), include_str!("../golden/describe.mmd"));
}

#[test]
fn json_is_what_the_description_holds() {
    let description = described();
    let json: serde_json::Value = serde_json::from_str(&description.json()).unwrap();
    assert_eq!(json, serde_json::to_value(&description).unwrap());
    let subs = json["sub_topologies"].as_array().unwrap();
    assert_eq!(subs.len(), 2);
    assert_eq!(
        subs[1]["nodes"],
        serde_json::json!([
            {"name": "by-word-repartition-source", "type": "source", "topics": ["by-word-repartition"],
             "predecessors": [], "successors": ["KSTREAM-AGGREGATE-0000000004"]},
            {"name": "KSTREAM-AGGREGATE-0000000004", "type": "processor", "stores": ["counts"],
             "predecessors": ["by-word-repartition-source"], "successors": ["KTABLE-TOSTREAM-0000000008"]},
            {"name": "KTABLE-TOSTREAM-0000000008", "type": "processor", "stores": [],
             "predecessors": ["KSTREAM-AGGREGATE-0000000004"], "successors": ["KSTREAM-SINK-0000000009"]},
            {"name": "KSTREAM-SINK-0000000009", "type": "sink", "topic": "out",
             "predecessors": ["KTABLE-TOSTREAM-0000000008"], "successors": []},
        ])
    );
}

/// The names under which the times of nodes are committed.
fn time_names(define: impl Fn(&mut Builder)) -> Vec<String> {
    let mut builder = Topology::builder();
    define(&mut builder);
    let topology = builder.build().unwrap();
    let nodes = topology.sub_topologies().iter().flat_map(|sub| &sub.nodes);
    nodes.filter_map(|node| topology.time_name(*node)).collect()
}

/// An operator that is added shifts the generated names of nodes, and must not move a time to another one.
#[test]
fn times_of_nodes_are_committed_under_the_names_of_their_stores() {
    let minutes = || TimeWindows::of_size_with_no_grace(std::time::Duration::from_secs(60));
    let until_closed = || Suppressed::until_window_closes(BufferConfig::unbounded()).named("final");
    for is_grown in [false, true] {
        let names = time_names(|b| {
            let input = words(b);
            let input = if is_grown { input.filter(|_, _| true) } else { input };
            let table = input.clone().group_by_key().windowed_by(minutes()).count(Materialized::named("minutes"));
            table.suppress(until_closed()).to_stream().to("out", Produced::default());
            let other = input.clone().group_by_key();
            let cogroup = input.group_by_key().cogroup(|n: i64, _, _| n + 1).cogroup(other, |n, _, _| n + 1);
            let _ = cogroup.windowed_by(minutes()).aggregate(|| 0, Materialized::named("both").value(I64));
        });
        assert_eq!(names, ["time:minutes", "time:final-store", "time:both", "time:both:1"], "{is_grown}");
    }
}
