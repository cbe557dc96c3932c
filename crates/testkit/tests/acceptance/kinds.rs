//! Stores of every kind under real tasks: what they hold after a restart, a crash and a restore, what their changelogs get,
//! and what expires when.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millpond_broker_api::Broker;
use millpond_runtime::{Counter, Guarantee};
use millpond_testkit::{Driver, DriverBuilder, RawRecord, TestRecord};
use millpond_topology::{
    AggregationWithHeaders, Consumed, Context, Error, Headers, I64, ListValue, Produced, Record, Result, Session,
    SessionWithHeaders, StoreKind, StoreRef, StoreSpec, TimestampedKeyValueWithHeaders, TimestampedWindow,
    TimestampedWindowWithHeaders, TtlKeyValue, Utf8, ValueAndTimestamp, ValueTimestampHeaders, Versioned, Window,
    Windowed,
};

use crate::support::{BOTH, Closure, assert_names, builder, closure, pipe};

/// The context of a body over a store.
type Cx<'a, T> = Context<'a, Closure<StoreRef<T>>>;

/// Runs one step of a script.
type Write<T> = fn(&StoreRef<T>, &mut Cx<'_, T>, Record<String, i64>) -> Result;

/// What a body is asked to do: a step of its script, or to say all it knows.
const TELL: i64 = -1;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn over<T: StoreKind>(
    spec: StoreSpec<T>,
    body: impl FnMut(&StoreRef<T>, &mut Cx<'_, T>, Record<String, i64>) -> Result + Clone + Send + Sync + 'static,
) -> DriverBuilder
where
    StoreRef<T>: Send + Sync,
{
    builder(|b| {
        let store = b.add_store(spec);
        b.stream("in", Consumed::with(Utf8, I64)).process(&store, closure(body)).to("out", Produced::with(Utf8, I64));
    })
}

/// Runs a script of steps with a store, then lets it tell what it knows: now, and after every way to come back. It must be the
/// same always, whatever is cached and whenever is committed. Answers with it.
fn comes_back<T: StoreKind>(
    spec: impl Fn() -> StoreSpec<T>,
    caches: bool,
    steps: i64,
    write: Write<T>,
    tell: fn(&StoreRef<T>, &mut Cx<'_, T>) -> Result<String>,
) -> String
where
    StoreRef<T>: Send + Sync,
{
    type Way = fn(&Driver) -> millpond_runtime::Result;
    const WAYS: [Way; 5] = [|_| Ok(()), Driver::commit, Driver::restart, Driver::crash, Driver::restart_without_state];
    let mut first = None;
    for guarantee in BOTH {
        for cached in [false, true].into_iter().filter(|cached| caches || !cached) {
            for commits in [false, true] {
                let told: Arc<Mutex<Vec<String>>> = Arc::default();
                let telling = told.clone();
                let spec = if cached { spec().caching_enabled() } else { spec() };
                let driver = over(spec, move |store, cx, record| {
                    if record.value != TELL {
                        return write(store, cx, record);
                    }
                    let all = tell(store, cx)?;
                    telling.lock().unwrap().push(all);
                    Ok(())
                });
                let driver = driver.guarantee(guarantee).manual_commit().caching(1 << 20).build().unwrap();
                for step in 0..steps {
                    pipe(&driver, &[("k", step, step)]);
                    if commits {
                        driver.commit().unwrap();
                    }
                }
                for way in WAYS {
                    driver.commit().unwrap();
                    way(&driver).unwrap();
                    pipe(&driver, &[("k", TELL, steps - 1)]);
                }
                for told in told.lock().unwrap().iter() {
                    assert_eq!(told, first.get_or_insert_with(|| told.clone()), "{guarantee:?} {cached} {commits}");
                }
            }
        }
    }
    first.unwrap()
}

fn text(windows: &mut String, row: &Windowed<String>, value: impl Debug) {
    windows.push_str(&format!("{}[{},{}]={value:?} ", row.key, row.start, row.end));
}

/// The rows of a window or session store, forward, then backward.
macro_rules! rows {
    ($cx:expr, $store:expr, $value:expr) => {{
        let mut text_of_all = String::new();
        let mut rows = $cx.store($store)?.all()?;
        while let Some((row, value)) = rows.next($cx)? {
            text(&mut text_of_all, &row, $value(value));
        }
        text_of_all.push_str("| ");
        let mut rows = $cx.store($store)?.backward_all()?;
        while let Some((row, value)) = rows.next($cx)? {
            text(&mut text_of_all, &row, $value(value));
        }
        Ok(text_of_all)
    }};
}

const HOUR: u64 = 3_600_000;

#[test]
fn windows_come_back() {
    let told = comes_back(
        || StoreSpec::window("w", ms(HOUR), ms(10), Utf8, I64),
        true,
        8,
        |store, cx, record| {
            let mut windows = cx.store(store)?;
            windows.put(&"a".to_owned(), record.value / 3 * 10, &record.value)?;
            windows.put(&"b\0".to_owned(), record.value * 10, &-record.value)?;
            if record.value == 7 {
                windows.delete(&"b\0".to_owned(), 30)?;
            }
            Ok(())
        },
        |store, cx| rows!(cx, store, |value: i64| value),
    );
    let forward = "a[0,10]=2 a[10,20]=5 a[20,30]=7 b\0[0,10]=0 b\0[10,20]=-1 b\0[20,30]=-2 b\0[40,50]=-4 b\0[50,60]=-5 \
                   b\0[60,70]=-6 b\0[70,80]=-7 ";
    let backward: String = forward.trim_end().rsplit(' ').map(|row| format!("{row} ")).collect();
    assert_eq!(told, format!("{forward}| {backward}"));
}

#[test]
fn duplicates_come_back_in_the_order_they_were_put_in() {
    let told = comes_back(
        || StoreSpec::window("w", ms(HOUR), ms(10), Utf8, I64).retain_duplicates(),
        false,
        5,
        |store, cx, record| cx.store(store)?.put(&record.key, record.value % 2, &record.value).map(drop),
        |store, cx| rows!(cx, store, |value: i64| value),
    );
    let forward = "k[0,10]=0 k[0,10]=2 k[0,10]=4 k[1,11]=1 k[1,11]=3 ";
    let backward = "k[1,11]=3 k[1,11]=1 k[0,10]=4 k[0,10]=2 k[0,10]=0 ";
    assert_eq!(told, format!("{forward}| {backward}"));
}

/// The seqnums of the changelog are Kafka Streams', but that none is used for a second row of one key and start.
#[test]
fn duplicates_have_the_numbers_of_their_puts_and_are_not_overwritten_after_a_restart() {
    let spec = StoreSpec::window("w", ms(HOUR), ms(10), Utf8, I64).retain_duplicates();
    let body = |store: &StoreRef<Window<String, i64>>, cx: &mut Cx<'_, _>, record: Record<String, i64>| {
        let mut windows = cx.store(store)?;
        windows.put(&record.key, 0, &record.value)?;
        if record.value == 2 {
            windows.delete(&record.key, 0)?;
        }
        if record.value < 0 { Err(Error::other("the put is taken back")) } else { Ok(()) }
    };
    let driver = over(spec, body).setting("processing.exception.handler", "continue").build().unwrap();
    let numbers = || {
        let number = |record: &RawRecord| record.key.as_ref().and_then(|key| key.last()).copied();
        driver.records("test-w-changelog").iter().filter_map(number).collect::<Vec<_>>()
    };
    pipe(&driver, &[("a", 1, 0), ("b", 2, 0), ("a", -1, 0), ("a", 3, 0)]);
    assert_eq!(numbers(), [1, 2, 4], "a delete has a number, what failed has none");
    driver.restart_without_state().unwrap();
    pipe(&driver, &[("c", 4, 0), ("b", 5, 0), ("a", 6, 0)]);
    assert_eq!(numbers(), [1, 2, 4, 1, 3, 5], "behind what is there");
    let values = driver.window_store("w", Utf8, I64).all().into_iter().map(|(.., value)| value);
    assert_eq!(values.collect::<Vec<_>>(), [1, 3, 6, 2, 5, 4]);
}

#[test]
fn windows_with_times_and_headers_come_back() {
    let told = comes_back(
        || StoreSpec::<TimestampedWindow<String, i64>>::timestamped_window("w", ms(HOUR), ms(10), Utf8, I64),
        true,
        3,
        |store, cx, record| {
            let value = ValueAndTimestamp { value: record.value, timestamp: 100 + record.value };
            cx.store(store)?.put(&record.key, record.value, &value).map(drop)
        },
        |store, cx| rows!(cx, store, |row: ValueAndTimestamp<i64>| (row.value, row.timestamp)),
    );
    assert!(told.starts_with("k[0,10]=(0, 100) k[1,11]=(1, 101) k[2,12]=(2, 102) | "), "{told}");
    let told = comes_back(
        || {
            StoreSpec::<TimestampedWindowWithHeaders<String, i64>>::timestamped_window_with_headers(
                "w",
                ms(HOUR),
                ms(10),
                Utf8,
                I64,
            )
        },
        true,
        2,
        |store, cx, record| {
            let mut headers = Headers::new();
            headers.add("h", record.value.to_string());
            let value = ValueTimestampHeaders { value: record.value, timestamp: 9, headers };
            cx.store(store)?.put(&record.key, record.value, &value).map(drop)
        },
        |store, cx| {
            rows!(cx, store, |row: ValueTimestampHeaders<i64>| (row.value, row.timestamp, header(&row.headers)))
        },
    );
    assert!(told.starts_with("k[0,10]=(0, 9, \"h=0\") k[1,11]=(1, 9, \"h=1\") | "), "{told}");
}

fn header(headers: &Headers) -> String {
    let header = |h: &millpond_topology::Header| {
        format!("{}={}", h.name, String::from_utf8_lossy(h.value.as_deref().unwrap_or_default()))
    };
    headers.iter().map(header).collect()
}

#[test]
fn sessions_come_back() {
    let told = comes_back(
        || StoreSpec::<Session<String, i64>>::session("s", ms(HOUR), Utf8, I64),
        true,
        4,
        |store, cx, record| {
            // A session that grows: its former row goes.
            let mut sessions = cx.store(store)?;
            let of = |end| Windowed { key: "a".to_owned(), start: 0, end };
            if record.value > 0 {
                sessions.remove(&of(record.value - 1))?;
            }
            sessions.put(&of(record.value), &record.value)?;
            sessions.put(&Windowed { key: record.key, start: record.value, end: 9 }, &0).map(drop)
        },
        |store, cx| rows!(cx, store, |value: i64| value),
    );
    assert!(told.starts_with("a[0,3]=3 k[0,9]=0 k[1,9]=0 k[2,9]=0 k[3,9]=0 | "), "{told}");
    let told = comes_back(
        || StoreSpec::<SessionWithHeaders<String, i64>>::session_with_headers("s", ms(HOUR), Utf8, I64),
        true,
        2,
        |store, cx, record| {
            let mut headers = Headers::new();
            headers.add("h", "1");
            let value = AggregationWithHeaders { aggregation: record.value, headers };
            cx.store(store)?.put(&Windowed { key: record.key, start: 0, end: record.value }, &value).map(drop)
        },
        |store, cx| rows!(cx, store, |row: AggregationWithHeaders<i64>| (row.aggregation, header(&row.headers))),
    );
    assert!(told.starts_with("k[0,0]=(0, \"h=1\") k[0,1]=(1, \"h=1\") | "), "{told}");
}

#[test]
fn b139_versions_come_back_whatever_the_order_they_were_put_in() {
    let told = comes_back(
        || StoreSpec::<Versioned<String, i64>>::versioned("v", ms(1000), Utf8, I64),
        false,
        6,
        |store, cx, record| {
            let (value, timestamp) =
                [(Some(1), 10), (Some(2), 30), (None, 20), (Some(4), 5), (Some(5), 30), (None, 40)]
                    [record.value as usize];
            cx.store(store)?.put(&record.key, value.as_ref(), timestamp).map(drop)
        },
        |store, cx| {
            let mut versions = cx.store(store)?;
            let key = "k".to_owned();
            let all = versions.versions(&key, ..)?.into_iter().map(|v| (v.value, v.timestamp, v.valid_to));
            let at = [4, 5, 10, 19, 20, 29, 30, 39, 40];
            let all: Vec<_> = all.collect();
            let mut as_of = Vec::new();
            for time in at {
                as_of.push(versions.get_as_of(&key, time)?.map(|v| v.value));
            }
            Ok(format!("{all:?} {as_of:?} {:?}", versions.get(&key)?.map(|v| v.value)))
        },
    );
    assert_eq!(
        told,
        "[(4, 5, Some(10)), (1, 10, Some(20)), (5, 30, Some(40))] \
         [None, Some(4), Some(1), Some(1), None, None, Some(5), Some(5), None] None"
    );
}

#[test]
fn rows_with_a_time_to_live_headers_and_lists_come_back() {
    let told = comes_back(
        || StoreSpec::<TtlKeyValue<String, i64>>::ttl_key_value("t", ms(100), Utf8, I64),
        true,
        4,
        |store, cx, record| {
            let row = |timestamp| ValueAndTimestamp { value: record.value, timestamp };
            let mut rows = cx.store(store)?;
            rows.put(&format!("k{}", record.value), &row(record.value))?;
            // In its time all but the last one have expired.
            if record.value == 3 { rows.put(&"new".to_owned(), &row(102)).map(drop) } else { Ok(()) }
        },
        |store, cx| {
            let mut rows = cx.store(store)?.all();
            let mut all = Vec::new();
            while let Some((key, row)) = rows.next(cx)? {
                all.push((key, row.value, row.timestamp));
            }
            Ok(format!("{all:?}"))
        },
    );
    assert_eq!(told, r#"[("k3", 3, 3), ("new", 3, 102)]"#);
    let told = comes_back(
        || StoreSpec::<TimestampedKeyValueWithHeaders<String, i64>>::timestamped_key_value_with_headers("h", Utf8, I64),
        true,
        2,
        |store, cx, record| {
            let mut headers = Headers::new();
            headers.add("h", record.value.to_string());
            let value = ValueTimestampHeaders { value: record.value, timestamp: 7, headers };
            cx.store(store)?.put(&record.key, &value)
        },
        |store, cx| {
            let row = cx.store(store)?.get(&"k".to_owned())?;
            Ok(format!("{:?}", row.map(|row| (row.value, row.timestamp, header(&row.headers)))))
        },
    );
    assert_eq!(told, r#"Some((1, 7, "h=1"))"#);
    let told = comes_back(
        || StoreSpec::<ListValue<String, i64>>::list_value("l", Utf8, I64),
        true,
        3,
        |store, cx, record| cx.store(store)?.append(&record.key, &record.value),
        |store, cx| Ok(format!("{:?}", cx.store(store)?.get(&"k".to_owned())?)),
    );
    assert_eq!(told, "Some([0, 1, 2])");
}

/// Each record puts its value under its key, for the window that begins at its time.
fn windows_by_record(spec: StoreSpec<Window<String, i64>>) -> DriverBuilder {
    over(spec, |store, cx, record| cx.store(store)?.put(&record.key, record.timestamp, &record.value).map(drop))
}

#[test]
fn the_changelog_of_windows_is_what_the_store_holds() {
    for caching in [0, 1 << 20] {
        let spec = StoreSpec::window("w", ms(100), ms(10), Utf8, I64).caching_enabled();
        let driver = windows_by_record(spec).manual_commit().caching(caching).build().unwrap();
        pipe(&driver, &[("a", 1, 0), ("a", 2, 0), ("b", 3, 10), ("a", 4, 0)]);
        driver.commit().unwrap();
        let store = driver.window_store("w", Utf8, I64);
        assert_eq!(store.all(), [("a".to_owned(), 0, 4), ("b".to_owned(), 10, 3)]);
        assert_eq!(store.changelog(), store.all());
        assert_eq!(driver.records("test-w-changelog").len(), if caching > 0 { 2 } else { 4 });
    }
}

#[test]
fn b004_an_expired_put_is_counted_and_not_logged() {
    for caching in [0, 1 << 20] {
        let spec = StoreSpec::window("w", ms(100), ms(10), Utf8, I64).caching_enabled();
        let driver = windows_by_record(spec).manual_commit().caching(caching).build().unwrap();
        pipe(&driver, &[("a", 1, 0), ("b", 2, 50), ("c", 3, 155), ("late", 4, 40), ("d", 5, 56), ("b", 6, 55)]);
        driver.commit().unwrap();
        let store = driver.window_store("w", Utf8, I64);
        let alive: Vec<_> = store.all().into_iter().map(|(key, _, value)| (key, value)).collect();
        assert_eq!(alive, [("c".to_owned(), 3), ("d".to_owned(), 5)]);
        assert_eq!(driver.count(Counter::DroppedRecordsTotal), 2);
        let logged = driver.records("test-w-changelog");
        assert!(logged.iter().all(|r| !r.key.as_ref().unwrap().starts_with(b"late")), "{logged:?}");
    }
}

#[test]
fn the_tasks_time_expires_what_the_store_itself_saw_nothing_of() {
    let driver = over(StoreSpec::<Session<String, i64>>::session("s", ms(100), Utf8, I64), |store, cx, record| {
        if record.value == 0 {
            return Ok(());
        }
        let session = Windowed { key: record.key, start: record.timestamp, end: record.timestamp };
        cx.store(store)?.put(&session, &record.value).map(drop)
    });
    let driver = driver.build().unwrap();
    let store = driver.session_store("s", Utf8, I64);
    pipe(&driver, &[("a", 1, 5), ("other", 0, 104)]);
    assert_eq!(store.all().len(), 1);
    pipe(&driver, &[("other", 0, 105)]);
    assert_eq!(store.all(), []);
    for way in [Driver::restart, Driver::crash, Driver::restart_without_state] {
        way(&driver).unwrap();
        assert_eq!(store.all(), []);
    }
}

#[test]
fn a_record_that_fails_does_not_move_the_stores_time() {
    for guarantee in BOTH {
        let spec = StoreSpec::window("w", ms(100), ms(10), Utf8, I64);
        let driver = over(spec, |store, cx, record| {
            let ahead = if record.value < 0 { 1_000_000 } else { record.timestamp };
            cx.store(store)?.put(&record.key, ahead, &record.value)?;
            if record.value < 0 { Err(millpond_topology::Error::other("no")) } else { Ok(()) }
        });
        let driver = driver.setting("processing.exception.handler", "continue").guarantee(guarantee).build().unwrap();
        pipe(&driver, &[("a", 1, 5), ("bad", -1, 2_000_000), ("b", 2, 6)]);
        let store = driver.window_store("w", Utf8, I64);
        assert_eq!(store.all().len(), 2);
        driver.crash().unwrap();
        assert_eq!(store.all().len(), 2);
        assert_eq!(driver.count(Counter::DroppedRecordsTotal), 1);
    }
}

#[test]
fn a_versioned_store_logs_each_put_with_its_own_time() {
    let driver = over(StoreSpec::<Versioned<String, i64>>::versioned("v", ms(100), Utf8, I64), |store, cx, record| {
        let mut versions = cx.store(store)?;
        match record.value {
            0 => versions.put(&record.key, None, record.timestamp).map(drop),
            // Two in one record, the first of them long before it.
            9 => {
                versions.put(&record.key, Some(&9), record.timestamp - 50)?;
                versions.put(&record.key, Some(&10), record.timestamp + 1).map(drop)
            }
            value => versions.put(&record.key, Some(&value), record.timestamp).map(drop),
        }
    });
    let driver = driver.build().unwrap();
    pipe(&driver, &[("a", 1, 100), ("a", 2, 90), ("a", 0, 110), ("b", 9, 120), ("a", 3, 20), ("a", 4, 21)]);
    let logged: Vec<_> = driver
        .records("test-v-changelog")
        .into_iter()
        .map(|r| (r.key.unwrap()[0] as char, r.value.map(|v| v[7]), r.timestamp))
        .collect();
    assert_eq!(
        logged,
        [
            ('a', Some(1), 100),
            ('a', Some(2), 90),
            ('a', None, 110),
            ('b', Some(9), 70),
            ('b', Some(10), 121),
            ('a', Some(4), 21)
        ]
    );
    assert_eq!(driver.count(Counter::DroppedRecordsTotal), 1, "older than the history");
}

const DAY: i64 = 86_400_000;

#[test]
fn changelogs_have_the_configs_of_their_kind() {
    let configs = |driver: &Driver| {
        let infos = driver.broker().admin().unwrap().describe(&["test-s-changelog"]).unwrap();
        let mut configs = infos.into_iter().next().flatten().unwrap().configs;
        configs.retain(|(key, _)| matches!(key.as_str(), "cleanup.policy" | "retention.ms" | "min.compaction.lag.ms"));
        configs.sort();
        configs.into_iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    };
    fn started<T: StoreKind>(spec: StoreSpec<T>) -> Driver
    where
        StoreRef<T>: Send + Sync,
    {
        over(spec, |_, _, _| Ok(())).setting("windowstore.changelog.additional.retention.ms", "5").build().unwrap()
    }
    let window = || StoreSpec::window("s", ms(100), ms(10), Utf8, I64);
    assert_eq!(configs(&started(window())), "cleanup.policy=compact,delete retention.ms=105");
    assert_eq!(configs(&started(window().retain_duplicates())), "cleanup.policy=delete retention.ms=105");
    let own = window().logging([("retention.ms", "7")]);
    assert_eq!(configs(&started(own)), "cleanup.policy=compact,delete retention.ms=7", "the store's own configs win");
    let session = StoreSpec::<Session<String, i64>>::session("s", ms(100), Utf8, I64);
    assert_eq!(configs(&started(session)), "cleanup.policy=compact,delete retention.ms=105");
    let versioned = StoreSpec::<Versioned<String, i64>>::versioned("s", ms(100), Utf8, I64);
    assert_eq!(configs(&started(versioned)), format!("cleanup.policy=compact min.compaction.lag.ms={}", DAY + 100));
    let ttl = StoreSpec::<TtlKeyValue<String, i64>>::ttl_key_value("s", ms(100), Utf8, I64);
    assert_eq!(configs(&started(ttl)), "cleanup.policy=compact");
}

/// By its own clock a broker deletes what is older than a changelog keeps: a replay of old events is not kept at all.
#[test]
fn records_that_their_changelog_does_not_keep_are_counted() {
    let window = || StoreSpec::window("s", ms(100), ms(10), Utf8, I64);
    let not_kept = |spec: StoreSpec<Window<String, i64>>, wall, times: &[i64]| {
        let body = |store: &StoreRef<Window<String, i64>>, cx: &mut Cx<'_, _>, r: Record<String, i64>| {
            cx.store(store)?.put(&r.key, r.timestamp, &r.value).map(drop)
        };
        let driver = over(spec, body).start_time(wall);
        let driver = driver.setting("windowstore.changelog.additional.retention.ms", "50").build().unwrap();
        times.iter().for_each(|time| pipe(&driver, &[("k", 1, *time)]));
        driver.count(Counter::ChangelogNotKeptTotal)
    };
    assert_eq!(not_kept(window(), 1_000, &[849, 850, 900, 851]), 1, "the store's retention, and as much as was added");
    assert_eq!(not_kept(window(), 1_000, &[10, 20, 30]), 3);
    assert_eq!(not_kept(window().logging([("cleanup.policy", "compact")]), 1_000, &[10, 20, 30]), 0);
    assert_eq!(not_kept(window().logging([("retention.ms", "-1")]), 1_000, &[10, 20, 30]), 0);
    assert_eq!(not_kept(window().logging_disabled(), 1_000, &[10, 20, 30]), 0);
}

#[test]
fn b105_expired_rows_get_tombstones_and_never_come_back() {
    for (guarantee, caching) in BOTH.into_iter().flat_map(|g| [(g, 0), (g, 1 << 20)]) {
        let spec = StoreSpec::<TtlKeyValue<String, i64>>::ttl_key_value("t", ms(DAY as u64), Utf8, I64);
        let driver = over(spec.caching_enabled(), |store, cx, record| {
            let row = ValueAndTimestamp { value: record.value, timestamp: record.timestamp };
            if record.value == 0 { Ok(()) } else { cx.store(store)?.put(&record.key, &row).map(drop) }
        });
        let driver = driver.guarantee(guarantee).caching(caching).build().unwrap();
        for n in 1..=2500 {
            pipe(&driver, &[(&format!("k{n}"), n, n)]);
        }
        pipe(&driver, &[("k7", 7000, DAY / 2)]);
        let rows = driver.store("t", Utf8, I64);
        let tombstones = || driver.records("test-t-changelog").iter().filter(|r| r.value.is_none()).count();
        assert_eq!((rows.all().len(), tombstones()), (2500, 0));
        // A millisecond after the first one's time it is invisible, while it still lies there.
        pipe(&driver, &[("time", 0, DAY + 1)]);
        assert_eq!((rows.all().len(), tombstones()), (2499, 0));
        for way in [Driver::restart, Driver::crash, Driver::restart_without_state] {
            way(&driver).unwrap();
            assert_eq!(rows.all().len(), 2499);
        }
        // When the bucket has passed they are deleted, all but the one that was put again.
        pipe(&driver, &[("time", 0, DAY + DAY / 4)]);
        driver.run().unwrap();
        driver.commit().unwrap();
        assert_eq!((rows.all(), tombstones()), (vec![("k7".to_owned(), 7000)], 2499));
        assert_eq!(rows.changelog(), rows.all());
        for way in [Driver::restart, Driver::crash, Driver::restart_without_state] {
            way(&driver).unwrap();
            assert_eq!(rows.all().len(), 1);
        }
        assert_eq!(tombstones(), 2499, "once each");
    }
}

#[test]
fn a_given_up_interval_takes_deletions_back() {
    let spec = StoreSpec::<TtlKeyValue<String, i64>>::ttl_key_value("t", ms(100), Utf8, I64);
    let driver = over(spec, |store, cx, record| {
        let row = ValueAndTimestamp { value: record.value, timestamp: record.timestamp };
        if record.value == 0 { Ok(()) } else { cx.store(store)?.put(&record.key, &row).map(drop) }
    });
    let driver = driver.guarantee(Guarantee::ExactlyOnce).manual_commit().build().unwrap();
    pipe(&driver, &[("a", 1, 5)]);
    driver.commit().unwrap();
    pipe(&driver, &[("time", 0, DAY)]);
    driver.crash().unwrap();
    driver.commit().unwrap();
    let rows = driver.store("t", Utf8, I64);
    assert_eq!(rows.changelog(), []);
    let tombstones = driver.records("test-t-changelog").iter().filter(|r| r.value.is_none()).count();
    assert_eq!((tombstones, rows.all()), (1, vec![]));
}

#[test]
fn a_foreign_record_in_a_changelog_stops_the_application_and_is_named() {
    let spec = StoreSpec::window("w", ms(100), ms(10), Utf8, I64);
    let driver = windows_by_record(spec).build().unwrap();
    pipe(&driver, &[("a", 1, 0)]);
    driver.stop().unwrap();
    driver.input("test-w-changelog", Utf8, I64).send("short", 1, 0).unwrap();
    let error = driver.restart().unwrap_err();
    assert_names(&error, &["task=`0_0`", "topic=`test-w-changelog`", "partition=`0`", "offset=`1`", "another name"]);
}

#[test]
fn a_deletion_that_was_marked_with_the_wall_clock_expires_nothing_in_a_restore() {
    let spec = StoreSpec::<TtlKeyValue<String, i64>>::ttl_key_value("t", ms(HOUR), Utf8, I64);
    let driver = over(spec, |store, cx, record| {
        let row = ValueAndTimestamp { value: record.value, timestamp: record.timestamp };
        cx.store(store)?.put(&record.key, &row)
    });
    let driver = driver.build().unwrap();
    pipe(&driver, &[("a", 1, 5), ("b", 2, 6)]);
    driver.stop().unwrap();
    // As a punctuation of the wall clock logs it.
    let deletion = TestRecord { key: Some(b"b".to_vec()), ..RawRecord::new(None, None, 1_700_000_000_000) };
    driver.send("test-t-changelog", Some(0), &deletion).unwrap();
    driver.restart_without_state().unwrap();
    let rows = driver.store("t", Utf8, I64);
    assert_eq!(rows.all(), [("a".to_owned(), 1)]);
    pipe(&driver, &[("c", 3, 7)]);
    assert_eq!(rows.all().len(), 2);
    assert_eq!(driver.count(Counter::DroppedRecordsTotal), 0);
}
