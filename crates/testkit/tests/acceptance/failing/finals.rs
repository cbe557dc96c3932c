//! Final results and suppressed updates that fail on their way: each is forwarded for itself, so it fails alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use millpond_runtime::{Counter, ErrorAnswer, Failed, Guarantee};
use millpond_testkit::{Driver, DriverBuilder, TestRecord};
use millpond_topology::{
    BufferConfig, Builder, Consumed, EmitStrategy, Error, I64, Materialized, Nullable, Produced, Record, StoreRef,
    Suppressed, Table, TimeWindowed, TimeWindows, TimestampedWindow, Upserts, Utf8, Windowed,
};

use crate::support::{BOTH, assert_names, builder, closure, kvs};
use crate::windows::{ms, output, pipe, told};

const SIZE: i64 = 10;

/// How a window's result becomes final.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finals {
    OnClose,
    Suppressed,
    /// And the updates come out of a cache.
    Cached,
}

const ALL: [Finals; 3] = [Finals::OnClose, Finals::Suppressed, Finals::Cached];

/// What goes wrong with a result.
type Fault = Arc<dyn Fn(&str) -> Result<(), Error> + Send + Sync>;

fn finals(b: &mut Builder, finals: Finals) -> Table<Windowed<String>, String, Upserts> {
    let windows = TimeWindows::of_size_with_no_grace(ms(SIZE as u64));
    let grouped = b.stream("in", Consumed::with(Utf8, Utf8)).group_by_key().windowed_by(windows);
    let (emit, caching) = match finals {
        Finals::OnClose => (EmitStrategy::on_window_close().at_most_every(ms(0)), false),
        Finals::Suppressed => (EmitStrategy::on_window_update(), false),
        Finals::Cached => (EmitStrategy::on_window_update(), true),
    };
    let rows = Materialized::named("s").value(Utf8);
    let rows = if caching { rows } else { rows.caching_disabled() };
    grouped.emit_strategy(emit).aggregate(String::new, |so_far, _, v| so_far + v, rows)
}

/// Texts joined by key and window, each told of once, through a function that may fail.
fn telling(how: Finals, fault: Fault) -> DriverBuilder {
    builder(move |b| {
        let table = finals(b, how);
        let produced = Produced::with(TimeWindowed::new(Utf8, SIZE), Utf8);
        let check = move |_: &Windowed<String>, value: &String| fault(value);
        match how {
            Finals::OnClose => table.to_stream().try_peek(check).to("out", produced),
            Finals::Suppressed | Finals::Cached => {
                let once = table.suppress(Suppressed::until_window_closes(BufferConfig::unbounded()));
                once.to_stream().try_peek(check).to("out", produced);
            }
        }
    })
}

fn poison() -> Fault {
    Arc::new(|value| if value.starts_with("poison") { Err(Error::other("it cannot be")) } else { Ok(()) })
}

fn lethal() -> Fault {
    Arc::new(|value| if value.starts_with("poison") { panic!("it cannot be") } else { Ok(()) })
}

/// Three keys in the first window, the one in the middle of which cannot be told of, and what comes then.
fn records(driver: &Driver) {
    pipe(driver, &[("c", "3", 3), ("b", "poison", 2), ("a", "1", 1), ("a", "2", 12), ("a", "4", 25), ("a", "5", 35)]);
}

const OTHERS: [&str; 4] = ["a[0,10)=1@1", "c[0,10)=3@3", "a[10,20)=2@12", "a[20,30)=4@25"];

/// A result that always fails is lost, and nothing else: neither those that are due with it nor any record behind it.
#[test]
fn a_final_result_that_always_fails_is_lost_alone() {
    for how in ALL {
        for fault in [poison(), lethal()] {
            for guarantee in BOTH {
                let driver = telling(how, fault.clone()).guarantee(guarantee);
                let driver = driver.setting("processing.exception.handler", "continue").build().unwrap();
                records(&driver);
                assert_eq!(told(&output(&driver, SIZE)), OTHERS, "{how:?} {guarantee:?}");
                assert_eq!(driver.count(Counter::ProcessingSkippedTotal), 1, "{how:?} {guarantee:?}");
                driver.restart_without_state().unwrap();
                pipe(&driver, &[("a", "6", 45)]);
                assert_eq!(told(&output(&driver, SIZE)), [&OTHERS[..], &["a[30,40)=5@35"]].concat(), "{how:?}");
            }
        }
    }
}

/// It can be found among the dead letters, under the key of its window, with its value and its time.
#[test]
fn a_final_result_that_fails_is_a_dead_letter_of_its_own() {
    for how in ALL {
        let driver = telling(how, poison())
            .setting("processing.exception.handler", "dead-letter")
            .setting("errors.dead.letter.queue.topic.name", "dead")
            .build()
            .unwrap();
        records(&driver);
        assert_eq!(told(&output(&driver, SIZE)), OTHERS, "{how:?}");
        let [letter] = driver.records("dead").try_into().unwrap();
        let key = [&b"b"[..], &0_i64.to_be_bytes()].concat();
        assert_eq!((letter.key.as_deref(), letter.value.as_deref()), (Some(&*key), Some(&b"poison"[..])), "{how:?}");
        assert_eq!(letter.timestamp, 2, "{how:?}");
    }
}

/// What fails once, by an error or a panic, is tried again and told of in its place.
#[test]
fn a_final_result_that_fails_once_is_told_of_in_its_place() {
    for how in ALL {
        for panics in [false, true] {
            let tried = AtomicBool::new(false);
            let once: Fault = Arc::new(move |value| match value == "poison" && !tried.swap(true, Ordering::Relaxed) {
                true if panics => panic!("once"),
                true => Err(Error::other("once")),
                false => Ok(()),
            });
            let retry = |_: &Failed<'_>, _: &millpond_runtime::Error| ErrorAnswer::Retry;
            let driver = telling(how, once).error_handler(retry).build().unwrap();
            records(&driver);
            let mut want = OTHERS.to_vec();
            want.insert(1, "b[0,10)=poison@2");
            assert_eq!(told(&output(&driver, SIZE)), want, "{how:?} {panics}");
        }
    }
}

/// If the application stops with it, it is told of when the function is mended, though nothing more comes in: each once under
/// exactly-once, and none is missing. What had been done before counts once under either guarantee.
#[test]
fn a_final_result_that_stops_the_application_is_told_of_when_it_can_be() {
    for how in ALL {
        for guarantee in BOTH {
            let mended = Arc::new(AtomicBool::new(false));
            let works = mended.clone();
            let fault: Fault = Arc::new(move |value| match value == "poison" && !works.load(Ordering::Relaxed) {
                true => Err(Error::other("not yet")),
                false => Ok(()),
            });
            let caching = if how == Finals::Cached { 1 << 20 } else { 0 };
            let driver = telling(how, fault).guarantee(guarantee).caching(caching).manual_commit().build().unwrap();
            pipe(&driver, &[("c", "3", 3), ("b", "poison", 2), ("a", "1", 1)]);
            let stopped = driver.input("in", Utf8, Utf8).pipe("a", "2", 12).and_then(|()| driver.commit());
            assert_names(&stopped.unwrap_err(), &["forward what was held back", "not yet"]);
            mended.store(true, Ordering::Relaxed);
            driver.restart().unwrap();
            driver.commit().unwrap();
            let mut all = told(&output(&driver, SIZE));
            if guarantee == Guarantee::AtLeastOnce {
                all.sort();
                all.dedup();
            }
            assert_eq!(all, ["a[0,10)=1@1", "b[0,10)=poison@2", "c[0,10)=3@3"], "{how:?} {guarantee:?}");
            pipe(&driver, &[("a", "4", 25)]);
            driver.commit().unwrap();
            assert_eq!(told(&output(&driver, SIZE)).last().unwrap(), "a[10,20)=2@12", "{how:?} {guarantee:?}");
        }
    }
}

/// The same where results are put off and come by the wall clock.
#[test]
fn a_final_result_that_was_put_off_and_stops_the_application_counts_once() {
    for guarantee in BOTH {
        let failed = AtomicBool::new(false);
        let driver = builder(move |b| {
            let windows = TimeWindows::of_size_with_no_grace(ms(SIZE as u64));
            b.stream("in", Consumed::with(Utf8, Utf8))
                .group_by_key()
                .windowed_by(windows)
                .emit_strategy(EmitStrategy::on_window_close())
                .aggregate(String::new, |so_far, _, v| so_far + v, Materialized::named("s").value(Utf8))
                .to_stream()
                .try_peek(move |_, value| match value == "poison" && !failed.swap(true, Ordering::Relaxed) {
                    true => Err(Error::other("once")),
                    false => Ok(()),
                })
                .to("out", Produced::with(TimeWindowed::new(Utf8, SIZE), Utf8));
        });
        let driver = driver.guarantee(guarantee).manual_commit().build().unwrap();
        pipe(&driver, &[("c", "3", 1), ("b", "poison", 2), ("e", "5", 12)]);
        assert_names(&driver.advance(ms(1500)).unwrap_err(), &["once"]);
        driver.restart().unwrap();
        driver.advance(ms(1500)).unwrap();
        driver.commit().unwrap();
        assert_eq!(told(&output(&driver, SIZE)), ["b[0,10)=poison@2", "c[0,10)=3@1"], "{guarantee:?}");
    }
}

/// After a panic it goes on with the row whose turn it was, whatever those before it have done to the store.
#[test]
fn rows_may_be_deleted_by_who_is_told_of_them() {
    for panics in [false, true] {
        let tried = Arc::new(AtomicBool::new(false));
        let driver = builder(move |b| {
            let table = finals(b, Finals::OnClose);
            let rows = table.store::<TimestampedWindow<String, String>>().unwrap();
            let delete = closure(move |rows: &StoreRef<TimestampedWindow<String, String>>, cx, record: Numbered| {
                cx.store(rows)?.delete(&record.key, record.value)?;
                match record.key == "b" && !tried.swap(true, Ordering::Relaxed) {
                    true if panics => panic!("once"),
                    true => Err(Error::other("once")),
                    false => cx.forward(record),
                }
            });
            let starts = table.to_stream().map(|key: Windowed<String>, _: String| (key.key, key.start));
            starts.process(&rows, delete).to("out", Produced::with(Utf8, I64));
        });
        let retry = |_: &Failed<'_>, _: &millpond_runtime::Error| ErrorAnswer::Retry;
        let driver = driver.error_handler(retry).build().unwrap();
        pipe(&driver, &[("a", "1", 1), ("b", "2", 2), ("c", "3", 3), ("d", "4", 4), ("z", "9", 15)]);
        let told = driver.output("out", Utf8, I64).read_key_values();
        assert_eq!(told, kvs(&[("a", 0), ("b", 0), ("c", 0), ("d", 0)]), "{panics}");
    }
}

type Numbered = Record<String, i64>;

/// The letter of a suppressed update has the headers of the row's last update.
#[test]
fn the_dead_letter_of_a_suppressed_update_has_its_headers() {
    let driver = builder(|b| {
        b.table("in", Consumed::with(Utf8, Utf8))
            .suppress(Suppressed::until_time_limit(ms(10), BufferConfig::unbounded()))
            .to_stream()
            .try_peek(|_, _| Err(Error::other("never")))
            .to("out", Produced::with(Utf8, Nullable(Utf8)));
    });
    let driver = driver.setting("processing.exception.handler", "dead-letter");
    let driver = driver.setting("errors.dead.letter.queue.topic.name", "dead").build().unwrap();
    let input = driver.input("in", Utf8, Utf8);
    input.pipe_record(&TestRecord::new("a".to_owned(), "1".to_owned(), 0).header("h", "x")).unwrap();
    input.pipe("b", "2", 20).unwrap();
    let [letter] = driver.records("dead").try_into().unwrap();
    assert_eq!(letter.headers.get("h").unwrap().value.as_deref(), Some(&b"x"[..]));
}

/// What a suppression by time lets through fails alone as well, whatever its place in the buffer.
#[test]
fn a_suppressed_update_that_fails_is_lost_alone() {
    for most in [None, Some(2)] {
        let driver = builder(move |b| {
            let table = b.table("in", Consumed::with(Utf8, Utf8));
            let slow = match most {
                Some(most) => {
                    let early = BufferConfig::max_records(most).emit_early_when_full();
                    table.suppress(Suppressed::until_time_limit(ms(10), early))
                }
                None => table.suppress(Suppressed::until_time_limit(ms(10), BufferConfig::unbounded())),
            };
            let check = |_: &String, value: &Option<String>| match value.as_deref() {
                Some("poison") => Err(Error::other("it cannot be")),
                _ => Ok(()),
            };
            slow.to_stream().try_peek(check).to("out", Produced::with(Utf8, Nullable(Utf8)));
        });
        let driver = driver.setting("processing.exception.handler", "continue").caching(0).build().unwrap();
        let input = driver.input("in", Utf8, Utf8);
        for (key, value, time) in [("a", "1", 0), ("b", "poison", 1), ("c", "3", 2), ("d", "4", 20), ("e", "5", 40)] {
            input.pipe(key, value, time).unwrap();
        }
        let out: Vec<String> = driver.output("out", Utf8, Utf8).read_values();
        assert_eq!(out, ["1", "3", "4"], "{most:?}");
        assert_eq!(driver.count(Counter::ProcessingSkippedTotal), 1, "{most:?}");
    }
}
