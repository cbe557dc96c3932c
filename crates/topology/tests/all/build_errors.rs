//! Mistakes in a topology: all of them at once, each naming both sides.

use std::time::Duration;

use millpond_topology::*;

use crate::support::script::ms;

struct Pass;

impl Processor for Pass {
    type In = Record<String, i64>;
    type Out = Record<String, i64>;

    fn process(&mut self, cx: &mut Context<'_, Self>, r: Self::In) -> Result {
        cx.forward(r)
    }
}

fn pass(_: &mut Init<'_, Pass>, (): ()) -> Result<Pass> {
    Ok(Pass)
}

fn problems(builder: Builder) -> Vec<(ProblemKind, String)> {
    let error = builder.build().unwrap_err();
    error.problems().iter().map(|p| (p.kind, p.message.clone())).collect()
}

fn only(builder: Builder) -> (ProblemKind, String) {
    let mut all = problems(builder);
    assert_eq!(all.len(), 1, "{all:#?}");
    all.remove(0)
}

#[test]
fn parents_of_another_type_and_unknown_ones() {
    let mut b = Topology::builder();
    b.source("numbers-source", &["numbers"], Consumed::with(I64, I64)).processor(
        "dedup",
        &["numbers-source", "typo"],
        (),
        pass,
    );
    assert_eq!(
        problems(b),
        [
            (
                ProblemKind::UnknownParent,
                "`dedup` names the parent `typo`, which is not there; add parents before their children".to_owned()
            ),
            (
                ProblemKind::TypeMismatch,
                "processor `dedup` takes `Record<String, i64>`, but its parent `numbers-source` forwards `Record<i64, i64>`"
                    .to_owned()
            ),
        ]
    );
}

#[test]
fn sinks_are_checked_too() {
    let mut b = Topology::builder();
    b.source("in", &["in"], Consumed::with(Utf8, I64)).sink("out", "out", &["in"], Utf8, Utf8);
    let (kind, message) = only(b);
    assert_eq!(kind, ProblemKind::TypeMismatch);
    assert!(message.contains("`out` takes `Record<String, String>`") && message.contains("`in` forwards"), "{message}");
}

#[test]
fn a_node_without_parents_and_one_named_twice() {
    let mut b = Topology::builder();
    b.source("in", &["in"], Consumed::with(Utf8, I64)).processor("a", &[], (), pass).processor(
        "b",
        &["in", "in"],
        (),
        pass,
    );
    let kinds: Vec<_> = problems(b).into_iter().map(|p| p.0).collect();
    assert_eq!(kinds, [ProblemKind::UnknownParent, ProblemKind::Clash]);
}

#[test]
fn names_that_are_taken_name_both_sides() {
    let mut b = Topology::builder();
    b.source("x", &["in"], Consumed::with(Utf8, I64)).processor("x", &["x"], (), pass);
    assert_eq!(
        only(b),
        (
            ProblemKind::Clash,
            "`x` names both the source of `in` and the processor right behind it; name them differently".to_owned()
        )
    );

    let mut b = Topology::builder();
    let stream = b.stream("in", Consumed::with(Utf8, I64));
    let _ = stream.clone().named("x").filter(|_, _| true).named("x").map_values(|n| n);
    let clash = |b| only(b).1;
    let source = "behind `KSTREAM-SOURCE-0000000000` (the source of `in`)";
    assert_eq!(
        clash(b),
        format!("`x` names both the processor {source} and the processor right behind it; name them differently")
    );

    let mut b = Topology::builder();
    let stream = b.stream("in", Consumed::with(Utf8, I64));
    let _ = stream.clone().named("x").filter(|_, _| true);
    let _ = stream.clone().named("x").filter(|_, _| false);
    assert_eq!(
        clash(b),
        format!("`x` is given twice: to the processor {source} and to another one there; name them differently")
    );

    let mut b = Topology::builder();
    let stream = b.stream("in", Consumed::with(Utf8, I64));
    let _ = stream.clone().group_by_key().named("x").count(Materialized::named("c"));
    stream.named("p").filter(|_, _| true).to("out", Produced::default().named("x"));
    assert_eq!(
        clash(b),
        format!(
            "`x` names both the processor with the store `c` {source} and the sink to `out` behind `p`; name them differently"
        )
    );

    let mut b = Topology::builder();
    let stream = b.stream("in", Consumed::with(Utf8, Utf8));
    let _ = stream.clone().group_by_key().count(Materialized::named("s"));
    let _ = stream.group_by_key().reduce(|a, _| a, Materialized::named("s"));
    assert_eq!(
        only(b),
        (
            ProblemKind::Clash,
            "the store `s` is defined twice: by `KSTREAM-AGGREGATE-0000000001` and by `KSTREAM-REDUCE-0000000002`"
                .to_owned()
        )
    );
}

#[test]
fn topics_that_are_read_twice() {
    let mut b = Topology::builder();
    let _ = b.stream("in", Consumed::with(Utf8, Utf8).named("one"));
    let _ = b.stream_of(&["other", "in"], Consumed::with(Utf8, Utf8).named("two"));
    let (kind, message) = only(b);
    assert_eq!(kind, ProblemKind::Clash);
    assert!(message.contains("`in` is read by two sources, `one` is the first"), "{message}");
}

#[test]
fn illegal_names() {
    for bad in ["a/b", "a b", "..", "", &"x".repeat(250)] {
        let mut b = Topology::builder();
        let _ = b.stream("in", Consumed::with(Utf8, Utf8)).group_by_key().count(Materialized::named(bad));
        let (kind, message) = only(b);
        assert_eq!(kind, ProblemKind::IllegalName);
        assert!(message.starts_with(&format!("a store cannot be called `{bad}`")), "{message}");
    }
    let mut b = Topology::builder();
    b.stream("in/", Consumed::with(Utf8, Utf8)).named("a b").to("out?", Produced::default());
    assert!(problems(b).iter().all(|p| p.0 == ProblemKind::IllegalName));
}

#[test]
fn serdes_that_nobody_named() {
    let mut b = Topology::builder();
    b.stream("in", Consumed::with(Utf8, Utf8)).map(|k, v| (v, k)).to("out", Produced::default());
    let all = problems(b);
    assert_eq!(
        all[0],
        (ProblemKind::MissingSerde, "no serde is known for the key at `to` (`out`); name it in `Produced`".to_owned())
    );
    assert_eq!(all.len(), 2);

    let mut b = Topology::builder();
    let _ = b
        .stream("in", Consumed::with(Utf8, Utf8))
        .select_key(|_, v| v.len())
        .group_by_key()
        .count(Materialized::named("c"));
    let all = problems(b);
    assert!(all.iter().all(|p| p.0 == ProblemKind::MissingSerde && p.1.contains("`c`")), "{all:#?}");
}

#[test]
fn suppress_says_where_its_serde_is_named() {
    let calm = || Suppressed::until_time_limit(ms(5), BufferConfig::unbounded()).named("calm");
    let lengths = |b: &mut Builder| b.table("in", Consumed::with(Utf8, Utf8));
    let mut b = Topology::builder();
    let _ = lengths(&mut b).map_values(|v| v.len()).suppress(calm());
    assert_eq!(
        only(b),
        (
            ProblemKind::MissingSerde,
            "no serde is known for the value at `suppress` (`calm`); name it in the operator before: \
             `map_values_materialized(f, Materialized::with(..))`"
                .to_owned()
        )
    );
    // What it says helps.
    let mut b = Topology::builder();
    let table = lengths(&mut b).map_values_materialized(|v| v.len() as i64, Materialized::with(Utf8, I64));
    table.suppress(calm()).to_stream().to("out", Produced::with(Utf8, Nullable(I64)));
    assert!(b.build().is_ok());
}

const HALF: Duration = Duration::from_micros(1_500);

/// A window of 1.5 ms would be one of 1 ms without a word.
#[test]
fn times_are_whole_milliseconds() {
    fn windowed(windows: impl Windowing<Stream<String, i64> = WindowedStream<String, i64>>) -> String {
        let mut b = Topology::builder();
        let stream = b.stream("in", Consumed::with(Utf8, I64)).group_by_key().windowed_by(windows);
        let _ = stream.count(Materialized::named("c"));
        only(b).1
    }
    const SAID: &str = "1.5ms; times are whole milliseconds";
    let time = |size, grace| TimeWindows::of_size_and_grace(size, grace);
    let sliding = |difference, grace| SlidingWindows::of_time_difference_and_grace(difference, grace);
    let sessions = |gap| {
        let mut b = Topology::builder();
        let stream = b.stream("in", Consumed::with(Utf8, I64)).group_by_key();
        let windows = SessionWindows::of_inactivity_gap_with_no_grace(gap);
        let _ = stream.windowed_by(windows).count(Materialized::named("c"));
        only(b).1
    };
    let table = |suppressed: Suppressed<UntilTimeLimit>| {
        let mut b = Topology::builder();
        let _ = b.table("in", Consumed::with(Utf8, I64)).suppress(suppressed.named("calm"));
        only(b).1
    };
    let dedup = |within| {
        let mut b = Topology::builder();
        let stream = b.stream("in", Consumed::with(Utf8, I64)).named("once");
        let _ = stream.dedup_by(|_, n| *n, within, Materialized::named("seen").key(I64));
        only(b).1
    };
    let emit = |strategy| {
        let mut b = Topology::builder();
        let stream = b.stream("in", Consumed::with(Utf8, I64)).group_by_key().windowed_by(time(ms(9), ms(0)));
        let _ = stream.emit_strategy(strategy).count(Materialized::named("c"));
        only(b).1
    };
    let kept = {
        let mut b = Topology::builder();
        let stream = b.stream("in", Consumed::with(Utf8, I64)).group_by_key().windowed_by(time(ms(1), ms(0)));
        let _ = stream.count(Materialized::named("c").retention(HALF));
        only(b).1
    };
    let unbounded = BufferConfig::unbounded;
    let limit = |limit| Suppressed::until_time_limit(limit, unbounded());
    for (message, what) in [
        // What it advances by is its size, so both are told of.
        (windowed(time(ms(9), HALF)), "time windows have a grace of"),
        (windowed(time(ms(9), ms(0)).advance_by(HALF)), "time windows have an advance of"),
        (windowed(time(ms(9), ms(0)).idle_after(HALF)), "time windows have an idle limit of"),
        (windowed(sliding(HALF, ms(0))), "sliding windows have a time difference of"),
        (sessions(HALF), "sessions have a gap of"),
        (table(limit(HALF)), "`calm` has a time limit of"),
        (table(limit(ms(1)).idle_after(HALF)), "`calm` has an idle limit of"),
        (dedup(HALF), "`once` looks for duplicates within"),
        (emit(EmitStrategy::on_window_close().at_most_every(HALF)), "final results come at most once in"),
        (kept, "the store `c` has a retention of"),
        (with_store(StoreSpec::session("x", HALF, Utf8, I64)).remove(0), "the store `x` has a retention of"),
    ] {
        assert_eq!(message, format!("{what} {SAID}"));
    }
    let mut b = Topology::builder();
    let stream = b.stream("in", Consumed::with(Utf8, I64)).group_by_key().windowed_by(time(HALF, ms(0)));
    let _ = stream.count(Materialized::named("c"));
    let said: Vec<_> = problems(b).into_iter().map(|p| p.1).collect();
    assert_eq!(said, ["a size", "an advance"].map(|what| format!("time windows have {what} of {SAID}")));
}

#[test]
fn buffers_without_room_are_refused() {
    for (buffer, what) in [
        (BufferConfig::max_records(0), "records"),
        (BufferConfig::max_bytes(0), "bytes"),
        (BufferConfig::max_records(0).shut_down_when_full(), "records"),
    ] {
        let mut b = Topology::builder();
        let _ =
            b.table("in", Consumed::with(Utf8, I64)).suppress(Suppressed::until_time_limit(ms(0), buffer).named("s"));
        let (kind, message) = only(b);
        assert_eq!(kind, ProblemKind::Shape);
        let said = format!("`s` has a buffer of 0 {what}, in which nothing can wait; at least 1 is needed");
        assert_eq!(message, said);
    }
}

#[test]
fn final_results_are_not_held_back_once_more() {
    let counts = |b: &mut Builder, emit| {
        let windows = TimeWindows::of_size_with_no_grace(ms(10));
        let stream = b.stream("in", Consumed::with(Utf8, I64)).group_by_key().windowed_by(windows);
        stream.emit_strategy(emit).named("per-window").count(Materialized::named("c"))
    };
    let finals = || Suppressed::until_window_closes(BufferConfig::unbounded()).named("finals");
    let (on_close, on_update) = (EmitStrategy::on_window_close(), EmitStrategy::on_window_update());
    let mut b = Topology::builder();
    let _ = counts(&mut b, on_close).filter(|_, n| *n > 1).suppress(finals());
    assert_eq!(
        only(b),
        (
            ProblemKind::Shape,
            "`finals` waits until windows close, but `per-window` tells of windows only when they are closed: its results are \
             final already; leave out the one or the other"
                .to_owned()
        )
    );
    let mut b = Topology::builder();
    let _ = counts(&mut b, on_update).filter(|_, n| *n > 1).suppress(finals());
    assert!(b.build().is_ok());
    // Calming them is another matter.
    let mut b = Topology::builder();
    let calm = Suppressed::until_time_limit(ms(5), BufferConfig::unbounded());
    let _ = counts(&mut b, on_close).suppress(calm);
    assert!(b.build().is_ok());
}

#[test]
fn stores_that_are_not_used_or_belong_elsewhere() {
    let mut b = Topology::builder();
    let _ = b.stream("in", Consumed::with(Utf8, I64));
    let _ = b.key_value_store("idle", Utf8, I64);
    assert_eq!(
        only(b),
        (ProblemKind::Store, "no processor uses the store `idle`; connect one, or leave it out".to_owned())
    );

    // One mistake, not three.
    let mut b = Topology::builder();
    let _ = b.stream("in", Consumed::with(Utf8, I64));
    let _ = b.key_value_store("twice", Utf8, I64);
    let _ = b.key_value_store("twice", Utf8, I64);
    assert!(only(b).1.starts_with("the store `twice` is defined twice"));

    let mut other = Topology::builder();
    let theirs = other.key_value_store("theirs", Utf8, I64);
    let mut b = Topology::builder();
    let stream = b.stream("in", Consumed::with(Utf8, I64));
    let _ = stream.named("p").process(&theirs, |_, _| Ok(Pass));
    assert_eq!(
        only(b),
        (ProblemKind::Store, "`p` uses the store `theirs`, which belongs to another topology".to_owned())
    );
}

fn with_store<T: StoreKind>(spec: StoreSpec<T>) -> Vec<String> {
    let mut b = Topology::builder();
    let store = b.add_store(spec);
    let _ = b.stream("in", Consumed::with(Utf8, I64)).process(&store, |_, _| Ok(Pass));
    match b.build() {
        Ok(_) => Vec::new(),
        Err(error) => {
            assert!(error.problems().iter().all(|problem| problem.kind == ProblemKind::Store));
            error.problems().iter().map(|problem| problem.message.clone()).collect()
        }
    }
}

#[test]
fn retentions_that_cannot_be() {
    let window = |retention, size| with_store(StoreSpec::window("w", retention, size, Utf8, I64));
    assert!(window(ms(10), ms(10)).is_empty());
    assert_eq!(
        window(ms(9), ms(10)),
        ["the store `w` has a retention of 9 ms and windows of 10 ms, which would expire before they end; make the \
             retention at least 10 ms"]
    );
    assert_eq!(window(ms(9), ms(0)), ["the store `w` has a window size of 0 ms; at least 1 ms is needed"]);
    assert_eq!(window(ms(0), ms(9)), ["the store `w` has a retention of 0 ms; at least 1 ms is needed"]);
    let (just, over) = (ms(u64::MAX / 2), ms(u64::MAX / 2 + 1));
    assert!(window(just, just).is_empty());
    assert_eq!(
        window(over, ms(1)),
        ["the store `w` has a retention of 9223372036854775808 ms; 9223372036854775807 ms is the longest that can be \
             counted"]
    );
    assert_eq!(window(just, over).len(), 1);
    let short = Duration::from_micros(999);
    for mistakes in [
        with_store(StoreSpec::timestamped_window("x", ms(0), ms(1), Utf8, I64)),
        with_store(StoreSpec::timestamped_window_with_headers("x", ms(0), ms(1), Utf8, I64)),
        with_store(StoreSpec::session("x", short, Utf8, I64)),
        with_store(StoreSpec::session_with_headers("x", over, Utf8, I64)),
        with_store(StoreSpec::versioned("x", over, Utf8, I64)),
        with_store(StoreSpec::ttl_key_value("x", Duration::MAX, Utf8, I64)),
    ] {
        assert_eq!(mistakes.len(), 1);
        assert!(mistakes[0].starts_with("the store `x` has a "), "{mistakes:?}");
    }
}

/// B022, for the builder.
#[test]
fn b022_caches_that_cannot_be() {
    let duplicates = StoreSpec::window("d", ms(9), ms(9), Utf8, I64).caching_enabled().retain_duplicates();
    let mistakes = with_store(duplicates);
    assert_eq!(mistakes, ["the store `d` retains duplicates, of which a cache would keep the last; leave caching off"]);
    let mistakes = with_store(StoreSpec::versioned("v", ms(9), Utf8, I64).caching_enabled());
    assert_eq!(mistakes, ["the store `v` is a versioned key-value store, whose log has every put; leave caching off"]);
    assert!(with_store(StoreSpec::window("w", ms(9), ms(9), Utf8, I64).caching_enabled()).is_empty());
}

#[test]
fn a_store_says_for_how_long_it_keeps_its_rows() {
    let mut b = Topology::builder();
    let window = b.add_store(StoreSpec::window("w", ms(9), ms(3), Utf8, I64).retain_duplicates());
    let versions = b.add_store(StoreSpec::versioned("v", ms(7), Utf8, I64));
    let plain = b.key_value_store("p", Utf8, I64);
    let _ = b.stream("in", Consumed::with(Utf8, I64)).process((&window, &versions, &plain), |_, _| Ok(Pass));
    let topology = b.build().unwrap();
    let retentions: Vec<_> = topology.stores().iter().map(|store| (store.kind, store.retention)).collect();
    assert_eq!(
        retentions,
        [
            (StoreType::Window, Some(Retention { duplicates: true, ..Retention::of_millis(9) })),
            (StoreType::VersionedKeyValue, Some(Retention::of_millis(7))),
            (StoreType::KeyValue, None),
        ]
    );
}

#[test]
fn a_topology_without_a_source_and_one_that_is_too_deep() {
    assert_eq!(only(Topology::builder()), (ProblemKind::Shape, "the topology reads no topic".to_owned()));

    let chain = |nodes: usize| {
        let mut b = Topology::builder();
        let mut stream = b.stream("in", Consumed::with(Utf8, I64));
        for _ in 0..nodes {
            stream = stream.filter(|_, _| true);
        }
        b
    };
    assert!(chain(499).build().is_ok());
    let (kind, message) = only(chain(500));
    assert_eq!(kind, ProblemKind::Shape);
    assert!(message.contains("KSTREAM-FILTER-0000000500") && message.contains("500 nodes"), "{message}");
}

#[test]
fn partition_counts_out_of_range() {
    let mut b = Topology::builder();
    let _ = b.stream("in", Consumed::with(Utf8, I64)).repartition(Repartitioned::named("r").partitions(0));
    let (kind, message) = only(b);
    assert_eq!(kind, ProblemKind::Shape);
    assert!(message.contains("`r-repartition` is to have 0 partitions"), "{message}");
}

/// A value that cannot be copied.
struct Unique;

struct TakesUnique;

impl Processor for TakesUnique {
    type In = Record<String, Unique>;
    type Out = Record<String, i64>;

    fn process(&mut self, _: &mut Context<'_, Self>, _: Self::In) -> Result {
        Ok(())
    }
}

#[test]
fn several_children_by_name_need_clone() {
    let mut b = Topology::builder();
    let _ = b.stream("in", Consumed::with(Utf8, I64)).named("unique").map_values(|_| Unique);
    b.processor("a", &["unique"], (), |_, ()| Ok(TakesUnique)).processor("b", &["unique"], (), |_, ()| Ok(TakesUnique));
    assert_eq!(
        only(b),
        (
            ProblemKind::TypeMismatch,
            "`unique` has several children, so its output must be `Clone`; fan out by cloning the stream".to_owned()
        )
    );
}

#[test]
fn all_mistakes_are_in_the_text() {
    let mut b = Topology::builder();
    b.stream("in/", Consumed::with(Utf8, Utf8)).map(|k, v| (v, k)).to("out", Produced::default());
    let text = b.build().unwrap_err().to_string();
    assert!(text.starts_with("the topology is wrong in 3 places\n1. a topic cannot be called `in/`"), "{text}");
    assert!(text.contains("\n3. no serde is known for the value at `to`"), "{text}");
}

#[test]
fn a_stream_that_outlives_its_builder_does_no_harm() {
    let mut b = Topology::builder();
    let stream = b.stream("in", Consumed::with(Utf8, Utf8));
    let kept = stream.clone();
    stream.to("out", Produced::default());
    let topology = b.build().unwrap();
    kept.filter(|_, _| true).to("late", Produced::default());
    assert_eq!(topology.sinks().len(), 1);
}
