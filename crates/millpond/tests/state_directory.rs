//! A state directory that this release has left behind, with stores of every kind in RocksDB, is opened by all later ones
//! (`tests/fixtures/README.md`).
#![expect(clippy::unwrap_used, reason = "a panic is how a test reports")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use millpond::store::rocks::{RocksEngine, RocksSettings};
use millpond::topology::*;
use millpond_testkit::Driver;

const HOUR: Duration = Duration::from_secs(3600);

struct Keys {
    plain: StoreRef<KeyValue<String, i64>>,
    timestamped: StoreRef<TimestampedKeyValue<String, i64>>,
    headers: StoreRef<TimestampedKeyValueWithHeaders<String, i64>>,
    list: StoreRef<ListValue<String, i64>>,
}

impl Processor for Keys {
    type In = Record<String, i64>;
    type Out = Record<String, i64>;

    fn process(&mut self, cx: &mut Context<'_, Self>, record: Self::In) -> Result {
        let Record { key, value, timestamp, .. } = record.clone();
        cx.store(&self.plain)?.put(&key, &value)?;
        cx.store(&self.timestamped)?.put(&key, &ValueAndTimestamp { value, timestamp })?;
        cx.store(&self.headers)?.put(&key, &ValueTimestampHeaders { value, timestamp, headers: headers() })?;
        cx.store(&self.list)?.append(&key, &value)?;
        cx.forward(record)
    }
}

struct Times {
    ttl: StoreRef<TtlKeyValue<String, i64>>,
    versioned: StoreRef<Versioned<String, i64>>,
    sessions: StoreRef<Session<String, i64>>,
    headers: StoreRef<SessionWithHeaders<String, i64>>,
}

impl Processor for Times {
    type In = Record<String, i64>;
    type Out = Record<String, i64>;

    fn process(&mut self, cx: &mut Context<'_, Self>, record: Self::In) -> Result {
        let Record { key, value, timestamp, .. } = record.clone();
        cx.store(&self.ttl)?.put(&key, &ValueAndTimestamp { value, timestamp })?;
        cx.store(&self.versioned)?.put(&key, Some(&value), timestamp)?;
        let session = Windowed { key, start: timestamp, end: timestamp + 5 };
        cx.store(&self.sessions)?.put(&session, &value)?;
        cx.store(&self.headers)?.put(&session, &AggregationWithHeaders { aggregation: value, headers: headers() })?;
        cx.forward(record)
    }
}

struct Windows {
    plain: StoreRef<Window<String, i64>>,
    duplicates: StoreRef<Window<String, i64>>,
    timestamped: StoreRef<TimestampedWindow<String, i64>>,
    headers: StoreRef<TimestampedWindowWithHeaders<String, i64>>,
}

impl Processor for Windows {
    type In = Record<String, i64>;
    type Out = Record<String, i64>;

    fn process(&mut self, cx: &mut Context<'_, Self>, record: Self::In) -> Result {
        let Record { key, value, timestamp, .. } = record;
        let start = timestamp / 10 * 10;
        cx.store(&self.plain)?.put(&key, start, &value)?;
        cx.store(&self.duplicates)?.put(&key, start, &value)?;
        cx.store(&self.timestamped)?.put(&key, start, &ValueAndTimestamp { value, timestamp })?;
        let value = ValueTimestampHeaders { value, timestamp, headers: headers() };
        cx.store(&self.headers)?.put(&key, start, &value).map(drop)
    }
}

fn headers() -> Headers {
    let mut headers = Headers::new();
    headers.add("h", "1");
    headers
}

const SIZE: Duration = Duration::from_millis(10);

/// Nothing is logged: the broker of the test knows no changelog of the fixture.
fn topology() -> Topology {
    let mut b = Topology::builder();
    let plain = b.add_store(StoreSpec::key_value("plain", Utf8, I64).logging_disabled());
    let timestamped = b.add_store(StoreSpec::timestamped_key_value("timestamped", Utf8, I64).logging_disabled());
    let headers = StoreSpec::timestamped_key_value_with_headers("headers", Utf8, I64);
    let headers = b.add_store(headers.logging_disabled());
    let list = b.add_store(StoreSpec::list_value("list", Utf8, I64).logging_disabled());
    let ttl = b.add_store(StoreSpec::ttl_key_value("ttl", HOUR, Utf8, I64).logging_disabled());
    let versioned = b.add_store(StoreSpec::versioned("versioned", HOUR, Utf8, I64).logging_disabled());
    let sessions = b.add_store(StoreSpec::session("session", HOUR, Utf8, I64).logging_disabled());
    let session_headers =
        b.add_store(StoreSpec::session_with_headers("session-headers", HOUR, Utf8, I64).logging_disabled());
    let window = b.add_store(StoreSpec::window("window", HOUR, SIZE, Utf8, I64).logging_disabled());
    let duplicates = StoreSpec::window("duplicates", HOUR, SIZE, Utf8, I64).retain_duplicates();
    let duplicates = b.add_store(duplicates.logging_disabled());
    let timed_window =
        b.add_store(StoreSpec::timestamped_window("timed-window", HOUR, SIZE, Utf8, I64).logging_disabled());
    let window_headers = StoreSpec::timestamped_window_with_headers("window-headers", HOUR, SIZE, Utf8, I64);
    let window_headers = b.add_store(window_headers.logging_disabled());

    let _ = b
        .stream("in", Consumed::with(Utf8, I64))
        .process((&plain, &timestamped, &headers, &list), |_, (plain, timestamped, headers, list)| {
            Ok(Keys { plain, timestamped, headers, list })
        })
        .process((&ttl, &versioned, &sessions, &session_headers), |_, (ttl, versioned, sessions, headers)| {
            Ok(Times { ttl, versioned, sessions, headers })
        })
        .process(
            (&window, &duplicates, &timed_window, &window_headers),
            |_, (plain, duplicates, timestamped, headers)| Ok(Windows { plain, duplicates, timestamped, headers }),
        );
    b.build().unwrap()
}

fn driver(state_dir: &Path) -> Driver {
    let settings = RocksSettings { memory_bytes: Some(16 << 20), shards: 1, ..RocksSettings::default() };
    Driver::builder(topology()).engine(RocksEngine::new(settings).unwrap()).state_dir(state_dir).build().unwrap()
}

/// Finds in every store what [`write`] put there.
fn check(driver: &Driver) {
    let keys = |name: &str| driver.store(name, Utf8, I64).all_with_timestamps();
    let row = |key: &str, value: i64, time: i64| (key.to_owned(), value, time);
    assert_eq!(keys("plain"), [row("a", 3, -1), row("b\0", 2, -1)]);
    let latest = [row("a", 3, 21), row("b\0", 2, 12)];
    for store in ["timestamped", "headers", "ttl"] {
        assert_eq!(keys(store), latest, "{store}");
    }
    assert_eq!(driver.versioned_store("versioned", Utf8, I64).all(), latest);
    let lists = driver.store("list", Utf8, List(I64)).all();
    assert_eq!(lists, [("a".to_owned(), vec![1, 3]), ("b\0".to_owned(), vec![2])]);

    let window = |key: &str, start: i64, value: i64, time: i64| (key.to_owned(), start, value, time);
    for (store, has_times) in
        [("window", false), ("duplicates", false), ("timed-window", true), ("window-headers", true)]
    {
        let time = |time: i64| if has_times { time } else { -1 };
        let expected = [window("a", 10, 1, time(11)), window("a", 20, 3, time(21)), window("b\0", 10, 2, time(12))];
        assert_eq!(sorted(driver.window_store(store, Utf8, I64).all_with_timestamps()), expected, "{store}");
    }
    let session = |key: &str, start: i64, value: i64| (Windowed { key: key.to_owned(), start, end: start + 5 }, value);
    for store in ["session", "session-headers"] {
        let found = driver.session_store(store, Utf8, I64).all();
        assert_eq!(sorted(found), [session("a", 11, 1), session("a", 21, 3), session("b\0", 12, 2)], "{store}");
    }
}

fn sorted<T: Ord>(mut rows: Vec<T>) -> Vec<T> {
    rows.sort();
    rows
}

fn write(driver: &Driver) {
    let input = driver.input("in", Utf8, I64);
    for (key, value, time) in [("a", 1, 11), ("b\0", 2, 12), ("a", 3, 21)] {
        input.pipe(key, value, time).unwrap();
    }
}

#[test]
fn what_is_written_now_is_found_again() {
    let dir = tempfile::tempdir().unwrap();
    // How a fixture is made: only for a new format.
    let dir = std::env::var("MILLPOND_FIXTURE").map_or_else(|_| dir.path().to_owned(), Into::into);
    let driver = driver(&dir);
    write(&driver);
    check(&driver);
    driver.crash().unwrap();
    check(&driver);
    driver.restart().unwrap();
    check(&driver);
    driver.stop().unwrap();
}

#[test]
fn state_of_the_first_format_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    copy(&fixture("state-1"), dir.path());
    check(&driver(dir.path()));
}

fn fixture(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
