//! Stores that differ in their values only: with headers, with lists.

use millpond_topology::*;

use crate::support::script::{Script, ms};

fn headers(names: &[&str]) -> Headers {
    let mut headers = Headers::new();
    for name in names {
        headers.add(*name, format!("value of {name}"));
    }
    headers.push(Header { name: "null".into(), value: None });
    headers
}

fn k() -> String {
    "k".to_owned()
}

#[test]
fn a_value_comes_back_with_its_time_and_headers() {
    for commits in [false, true] {
        let spec = StoreSpec::timestamped_key_value_with_headers("h", Utf8, Nullable(Utf8));
        let mut script = Script::new(spec).committing(commits);
        for headers in [Headers::new(), headers(&["a", "b", "a"])] {
            let row = ValueTimestampHeaders { value: Some("v".to_owned()), timestamp: 7, headers };
            let put = row.clone();
            script.run(move |store, cx| cx.store(store)?.put(&k(), &put));
            let found = script.run(|store, cx| cx.store(store)?.get(&k()));
            assert_eq!(found.as_ref(), Some(&row));
            let scanned = script.run(|store, cx| {
                let mut rows = cx.store(store)?.range(k()..)?;
                rows.next(cx)
            });
            assert_eq!(scanned, Some((k(), row)));
        }
        assert!(script.driver.logged().iter().all(|change| change.timestamp == 7));
        // No headers are one byte, as in Kafka Streams.
        assert_eq!(script.driver.logged()[0].value.as_deref(), Some(&b"\0\0\0\0\0\0\0\0\x07v"[..]));
        script.run(|store, cx| {
            let null = ValueTimestampHeaders { value: None, timestamp: 8, headers: headers(&["a"]) };
            cx.store(store)?.put(&k(), &null)?;
            assert!(cx.store(store)?.get(&k())?.is_none());
            Ok(())
        });
    }
}

#[test]
fn windows_and_sessions_with_headers() {
    for commits in [false, true] {
        let spec = StoreSpec::timestamped_window_with_headers("w", ms(1000), ms(10), Utf8, Utf8);
        let mut script = Script::new(spec).committing(commits);
        let row = ValueTimestampHeaders { value: "v".to_owned(), timestamp: 64, headers: headers(&["a"]) };
        let put = row.clone();
        script.run(move |store, cx| cx.store(store)?.put(&k(), 60, &put));
        let (found, scanned) = script.run(|store, cx| {
            let found = cx.store(store)?.get(&k(), 60)?;
            let mut rows = cx.store(store)?.all()?;
            Ok((found, rows.next(cx)?.unwrap()))
        });
        assert_eq!(found.as_ref(), Some(&row));
        assert_eq!(scanned, (Windowed { key: k(), start: 60, end: 70 }, row));
        assert_eq!(script.driver.logged()[0].timestamp, 64);

        let mut script = Script::new(StoreSpec::session_with_headers("s", ms(1000), Utf8, Utf8)).committing(commits);
        let session = Windowed { key: k(), start: 60, end: 64 };
        let row = AggregationWithHeaders { aggregation: "v".to_owned(), headers: headers(&["a"]) };
        let put = (session.clone(), row.clone());
        script.run(move |store, cx| cx.store(store)?.put(&put.0, &put.1));
        let (found, scanned) = script.run(|store, cx| {
            let found = cx.store(store)?.fetch_session(&k(), 60, 64)?;
            let mut rows = cx.store(store)?.fetch(&k())?;
            Ok((found, rows.next(cx)?.unwrap()))
        });
        assert_eq!(found.as_ref(), Some(&row));
        assert_eq!(scanned, (session, row));
    }
}

#[test]
fn lists_grow_and_are_deleted_as_a_whole() {
    for commits in [false, true] {
        let mut script = Script::new(StoreSpec::list_value("l", Utf8, Nullable(Utf8))).committing(commits);
        for value in ["a", "", "b"] {
            script.run(move |store, cx| cx.store(store)?.append(&k(), &Some(value.to_owned())));
        }
        script.run(|store, cx| cx.store(store)?.append(&"j".to_owned(), &Some("c".to_owned())));
        let list = |values: &[&str]| values.iter().map(|value| Some((*value).to_owned())).collect::<Vec<_>>();
        let (found, all) = script.run(|store, cx| {
            let found = cx.store(store)?.get(&k())?;
            let mut rows = cx.store(store)?.reverse_all();
            let mut all = Vec::new();
            while let Some(row) = rows.next(cx)? {
                all.push(row);
            }
            Ok((found, all))
        });
        assert_eq!(script.run(|store, cx| cx.store(store)?.approximate_num_entries()), 2);
        assert_eq!(found, Some(list(&["a", "", "b"])));
        assert_eq!(all, [(k(), list(&["a", "", "b"])), ("j".to_owned(), list(&["c"]))]);
        // The whole list is logged, in the bytes of Kafka's list serializer.
        let logged = script.driver.logged();
        assert_eq!(logged[1].value.as_deref(), Some(&b"\x01\0\0\0\x02\0\0\0\x01a\0\0\0\0"[..]));

        let put = list(&["x", "y"]);
        script.run(move |store, cx| cx.store(store)?.put(&k(), &put));
        let removed = script.run(|store, cx| cx.store(store)?.remove(&k()));
        assert_eq!(removed, Some(list(&["x", "y"])));
        script.run(|store, cx| cx.store(store)?.append(&"j".to_owned(), &None));
        script.run(|store, cx| cx.store(store)?.put(&k(), &Vec::new()));
        let left = script.run(|store, cx| {
            let mut rows = cx.store(store)?.all();
            Ok(rows.next(cx)?.is_some())
        });
        assert!(!left);
        let error = script.try_run(|store, cx| cx.store(store)?.put(&k(), &vec![None])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Serialization);
    }
}
