//! Stores of tables, windows and sessions in the formats with headers.

use millpond_testkit::{Driver, RawRecord};
use millpond_topology::{
    Consumed, EmitStrategy, Headers, I64, Materialized, Nullable, Produced, SessionWindowed, SessionWindows,
    SessionWithHeaders, SlidingWindows, StoreFormat, TimeWindowed, TimeWindows, TimestampedKeyValue,
    TimestampedKeyValueWithHeaders, TimestampedWindow, TimestampedWindowWithHeaders, Utf8,
};

use crate::support::builder;
use crate::versioned_tables::count_by_value;
use crate::windows::ms;

/// With one header.
fn header(value: &'static str) -> Headers {
    let mut headers = Headers::new();
    headers.add("h", value);
    headers
}

#[test]
fn tables_keep_headers_if_the_format_says_so() {
    for (format, cache) in FORMATS_AND_CACHES {
        let keeps = format == StoreFormat::LastHeaders;
        let driver = builder(|b| {
            b.store_format(format);
            let rows = b.table_materialized("in", Consumed::with(Utf8, Utf8), Materialized::named("rows"));
            assert!(rows.store::<TimestampedKeyValueWithHeaders<String, String>>().is_some());
            assert!(rows.store::<TimestampedKeyValue<String, String>>().is_none());
            rows.clone().to_stream().to("out", Produced::default());
            count_by_value(rows);
        })
        .caching(cache)
        .build()
        .unwrap();
        let kinds =
            |name: &str| driver.store(name, Utf8, Utf8).raw().into_iter().map(|(_, k, v)| (k, v)).collect::<Vec<_>>();
        let input = driver.input("in", Utf8, Utf8);
        input.pipe_with("k", "a", 1, header("1")).unwrap();
        input.pipe_with("k", "b", 2, header("2")).unwrap();
        let stored = kinds("rows");
        let headers: &[u8] = if keeps { b"\x0a\x02\x02h\x022" } else { b"\0" };
        assert_eq!(stored, [(b"k".to_vec(), [headers, b"\0\0\0\0\0\0\0\x02b"].concat())]);
        assert_eq!(driver.store("rows", Utf8, Utf8).get_with_timestamp("k"), Some(("b".to_owned(), 2)));
        let kept = |kept: bool, all: &[&'static str]| {
            all.iter().map(|value| if kept { header(value) } else { Headers::new() }).collect::<Vec<_>>()
        };
        let of = |topic| driver.records(topic).into_iter().map(|r| without_cut(r.headers)).collect::<Vec<_>>();
        assert_eq!(of("rows-changelog"), kept(keeps, &["1", "2"]), "{format:?}, cache {cache}");
        // What a cache has held back comes with what the store knows.
        assert_eq!(of("out"), kept(keeps || cache == 0, &["1", "2"]), "{format:?}, cache {cache}");
        assert_eq!(of("counts"), kept(keeps || cache == 0, &["1", "2", "2"]), "{format:?}, cache {cache}");
        driver.restart_without_state().unwrap();
        assert_eq!(kinds("rows"), stored);
        input.delete("k", 3).unwrap();
        assert!(driver.store("rows", Utf8, Utf8).all().is_empty());
    }
}

/// Both formats with headers, with and without a cache.
const FORMATS_AND_CACHES: [(StoreFormat, u64); 4] = [
    (StoreFormat::LastHeaders, 0),
    (StoreFormat::LastHeaders, 1 << 20),
    (StoreFormat::Headers, 0),
    (StoreFormat::Headers, 1 << 20),
];

fn without_cut(headers: Headers) -> Headers {
    headers.iter().filter(|h| &*h.name != "__cut").cloned().collect()
}

/// The headers of a topic's records that are no deletes.
fn headers_in(driver: &Driver, topic: &str) -> Vec<Headers> {
    let updates = driver.records(topic).into_iter().filter(|record: &RawRecord| record.value.is_some());
    updates.map(|record| without_cut(record.headers)).collect()
}

#[test]
fn windows_and_sessions_keep_headers_if_the_format_says_so() {
    for (format, cache) in FORMATS_AND_CACHES {
        let keeps = format == StoreFormat::LastHeaders;
        let driver = builder(|b| {
            b.store_format(format);
            let grouped = b.stream("in", Consumed::with(Utf8, Utf8)).group_by_key();
            let tumbling = || TimeWindows::of_size_with_no_grace(ms(10));
            let windows = grouped.clone().windowed_by(tumbling()).count(Materialized::named("w"));
            assert!(windows.store::<TimestampedWindowWithHeaders<String, i64>>().is_some());
            assert!(windows.store::<TimestampedWindow<String, i64>>().is_none());
            windows.to_stream().to("w-out", Produced::with(TimeWindowed::new(Utf8, 10), I64));
            let sliding = SlidingWindows::of_time_difference_with_no_grace(ms(5));
            let sliding = grouped.clone().windowed_by(sliding).count(Materialized::named("l"));
            sliding.to_stream().to("l-out", Produced::with(TimeWindowed::new(Utf8, 5), I64));
            let sessions = SessionWindows::of_inactivity_gap_with_no_grace(ms(5));
            let sessions = grouped.clone().windowed_by(sessions).count(Materialized::named("s"));
            assert!(sessions.store::<SessionWithHeaders<String, i64>>().is_some());
            sessions.to_stream().to("s-out", Produced::with(SessionWindowed(Utf8), Nullable(I64)));
            let on_close = EmitStrategy::on_window_close().at_most_every(ms(0));
            let finals = grouped.windowed_by(tumbling()).emit_strategy(on_close).count(Materialized::named("f"));
            finals.to_stream().to("f-out", Produced::with(TimeWindowed::new(Utf8, 10), I64));
        })
        .caching(cache)
        .build()
        .unwrap();
        let input = driver.input("in", Utf8, Utf8);
        input.pipe_with("k", "a", 1, header("1")).unwrap();
        input.pipe_with("k", "b", 2, header("2")).unwrap();

        let head: &[u8] = if keeps { b"\x0a\x02\x02h\x022" } else { b"\0" };
        let two = [0, 0, 0, 0, 0, 0, 0, 2];
        let values = |name| driver.raw_store(name).into_iter().map(|(.., value)| value).collect::<Vec<_>>();
        assert_eq!(values("w"), [[head, &two, &two].concat()], "the headers, the time, the count");
        assert_eq!(values("s"), [[head, &two].concat()]);
        for store in ["w", "l", "s", "f"] {
            let kept = |kept: bool, value| if kept { header(value) } else { Headers::new() };
            let place = format!("`{store}`, {format:?}, cache {cache}");
            let logged = headers_in(&driver, &format!("{store}-changelog"));
            assert_eq!(logged[0], kept(keeps, "1"), "{place}");
            assert!(logged.len() > 1 && logged[1..].iter().all(|headers| *headers == kept(keeps, "2")), "{place}");
            let told = headers_in(&driver, &format!("{store}-out"));
            if store == "f" {
                assert_eq!(told, [], "nothing is final");
                continue;
            }
            assert_eq!(told[0], kept(keeps || cache == 0, "1"), "{place}");
            assert!(told[1..].iter().all(|headers| *headers == kept(keeps || cache == 0, "2")), "{place}");
        }
        let before = ["w", "l", "s", "f"].map(values);
        driver.restart_without_state().unwrap();
        assert_eq!(["w", "l", "s", "f"].map(values), before);
        input.pipe_with("k", "c", 10, header("3")).unwrap();
        let last = driver.records("f-out").pop().unwrap();
        assert_eq!(last.value.as_deref(), Some(&two[..]), "the count of the window that has closed");
        assert_eq!(without_cut(last.headers), Headers::new(), "what is final is nobody's in particular");
    }
}
