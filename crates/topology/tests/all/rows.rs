//! Scans: keys as they were when the scan began, values as they are now, whatever is written meanwhile.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex};

use millpond_topology::*;

use crate::support::driver::Driver;
use crate::support::script::Lcg;

type Store = StoreRef<KeyValue<String, i64>>;
type Seen = Vec<(String, i64)>;

/// Runs a closure over its store for each record and keeps what it saw.
struct Walker {
    store: Store,
    walk: fn(&Store, &mut Context<'_, Walker>, i64) -> Result<Seen>,
    seen: Arc<Mutex<Vec<Seen>>>,
    kept: Option<Rows<String, Plain<i64>>>,
}

impl Processor for Walker {
    type In = Record<String, i64>;
    type Out = Record<String, i64>;

    fn process(&mut self, cx: &mut Context<'_, Self>, r: Self::In) -> Result {
        if r.key == "keep" {
            self.kept = Some(cx.store(&self.store)?.all());
        }
        if let (Some(rows), "go on") = (&mut self.kept, r.key.as_str()) {
            rows.next(cx)?;
        }
        let seen = (self.walk)(&self.store, cx, r.value)?;
        self.seen.lock().unwrap().push(seen);
        Ok(())
    }
}

/// A driver over one store with these committed rows, and what its walks have seen.
fn driver(
    committed: &[(&str, i64)],
    walk: fn(&Store, &mut Context<'_, Walker>, i64) -> Result<Seen>,
) -> (Driver, Arc<Mutex<Vec<Seen>>>) {
    let mut b = Topology::builder();
    let store = b.key_value_store("s", Utf8, I64);
    let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
    let out = seen.clone();
    let _ = b
        .stream("in", Consumed::with(Utf8, I64))
        .process(&store, move |_, store| Ok(Walker { store, walk, seen: out.clone(), kept: None }));
    let mut driver = Driver::new(&b.build().unwrap());
    let store = driver.store("s");
    committed.iter().for_each(|(k, v)| driver.port(0).seed(store, k.as_bytes(), &v.to_be_bytes()));
    (driver, seen)
}

fn pipe(driver: &mut Driver, key: &str, value: i64) -> Result {
    driver.pipe("in", Some(key.as_bytes()), Some(&value.to_be_bytes()), 0)
}

fn once(committed: &[(&str, i64)], walk: fn(&Store, &mut Context<'_, Walker>, i64) -> Result<Seen>) -> Seen {
    let (mut driver, seen) = driver(committed, walk);
    pipe(&mut driver, "k", 0).unwrap();
    seen.lock().unwrap().remove(0)
}

fn collect(mut rows: Rows<String, Plain<i64>>, cx: &mut Context<'_, Walker>) -> Result<Seen> {
    let mut seen = Vec::new();
    while let Some(row) = rows.next(cx)? {
        seen.push(row);
    }
    assert!(rows.next(cx)?.is_none());
    Ok(seen)
}

fn keys(seen: &Seen) -> String {
    seen.iter().map(|(k, _)| k.as_str()).collect::<Vec<_>>().join(",")
}

/// B027, and its opposite: what is deleted, written and changed during the walk.
#[test]
fn deleted_keys_are_skipped_new_ones_not_seen_values_are_current() {
    let seen = once(&[("1", 1), ("2", 2), ("3", 3), ("4", 4)], |store, cx, _| {
        let mut view = cx.store(store)?;
        view.put(&"25".to_owned(), &25)?;
        view.delete(&"4".to_owned())?;
        let mut rows = view.all();
        let mut seen = vec![rows.next(cx)?.unwrap()];
        let mut view = cx.store(store)?;
        view.delete(&"2".to_owned())?;
        view.put(&"26".to_owned(), &26)?;
        view.put(&"25".to_owned(), &250)?;
        view.put(&"3".to_owned(), &30)?;
        // It had no value when the walk began.
        view.put(&"4".to_owned(), &40)?;
        assert_eq!(view.get(&"2".to_owned())?, None);
        seen.extend(collect(rows, cx)?);
        Ok(seen)
    });
    let expected: Seen = [("1", 1), ("25", 250), ("3", 30)].map(|(k, v)| (k.to_owned(), v)).into();
    assert_eq!(seen, expected);
}

#[test]
fn rows_are_forwarded_and_deleted_one_by_one() {
    let seen = once(&[("a", 1), ("b", 2)], |store, cx, _| {
        cx.store(store)?.put(&"c".to_owned(), &3)?;
        let mut rows = cx.store(store)?.all();
        let mut seen = Vec::new();
        while let Some((key, value)) = rows.next(cx)? {
            cx.store(store)?.delete(&key)?;
            assert_eq!(cx.store(store)?.get(&key)?, None);
            cx.forward(Record::new(key.clone(), value, 0))?;
            seen.push((key, value));
        }
        assert!(cx.store(store)?.all().next(cx)?.is_none());
        Ok(seen)
    });
    assert_eq!(keys(&seen), "a,b,c");
}

/// B026: bounds in every form, over committed and fresh rows, both ways.
#[test]
fn ranges() {
    fn s(text: &str) -> String {
        text.to_owned()
    }
    let committed = [("a", 1), ("c", 3)];
    let seen = once(&committed, |store, cx, _| {
        let mut view = cx.store(store)?;
        view.put(&s("b"), &2)?;
        view.put(&s("d"), &4)?;
        let mut seen = Vec::new();
        let mut walk = |cx: &mut Context<'_, Walker>, (lower, upper): (Bound<&str>, Bound<&str>)| {
            let range = (lower.map(s), upper.map(s));
            let forward = cx.store(store)?.range(range.clone())?;
            let forward = keys(&collect(forward, cx)?);
            let reverse = cx.store(store)?.reverse_range(range)?;
            let reverse = keys(&collect(reverse, cx)?);
            assert_eq!(forward.chars().rev().collect::<String>(), reverse);
            seen.push((forward, 0));
            Result::Ok(())
        };
        use Bound::{Excluded as X, Included as I, Unbounded as U};
        for range in [
            (I("b"), I("c")),
            (U, I("b")),
            (I("c"), U),
            (U, U),
            (I("c"), I("b")),
            (I("b"), I("b")),
            (I("aa"), I("bb")),
            (X("a"), X("d")),
            (X("b"), X("b")),
        ] {
            walk(cx, range)?;
        }
        let mut reverse = cx.store(store)?.reverse_all();
        assert_eq!(reverse.next(cx)?, Some((s("d"), 4)));
        Ok(seen)
    });
    let found: Vec<_> = seen.iter().map(|(keys, _)| keys.as_str()).collect();
    assert_eq!(found, ["b,c", "a,b", "c,d", "a,b,c,d", "", "b", "b", "b,c", ""]);
}

#[test]
fn prefixes_are_of_bytes() {
    let seen = once(&[("a", 1), ("a|b", 2), ("ab", 3), ("b", 4)], |store, cx, _| {
        let rows = cx.store(store)?.prefix(&"a".to_owned(), &Utf8)?;
        collect(rows, cx)
    });
    assert_eq!(keys(&seen), "a,ab,a|b");
}

/// B028.
#[test]
fn a_range_over_a_serde_without_order_is_refused() {
    struct Numbers(StoreRef<KeyValue<i64, i64>>, StoreRef<KeyValue<u64, i64>>);
    impl Processor for Numbers {
        type In = Record<String, i64>;
        type Out = Record<String, i64>;

        fn process(&mut self, cx: &mut Context<'_, Self>, r: Self::In) -> Result {
            for n in [3, 1, 2] {
                cx.store(&self.1)?.put(&n, &0)?;
            }
            let mut rows = cx.store(&self.1)?.range(2..)?;
            assert_eq!(rows.next(cx)?.map(|row| row.0), Some(2));
            cx.store(&self.0)?.put(&-1, &r.value)?;
            assert!(cx.store(&self.0)?.all().next(cx)?.is_some());
            cx.store(&self.0)?.range(-2..2).map(drop)
        }
    }
    let mut b = Topology::builder();
    let (signed, unsigned) = (b.key_value_store("signed", I64, I64), b.key_value_store("unsigned", U64, I64));
    let _ = b.stream("in", Consumed::with(Utf8, I64)).process((&signed, &unsigned), |_, (s, u)| Ok(Numbers(s, u)));
    let error = pipe(&mut Driver::new(&b.build().unwrap()), "k", 1).unwrap_err();
    assert!(error.to_string().contains("do not sort as the keys do"), "{error}");
}

#[test]
fn a_walk_ends_with_its_call() {
    let (mut driver, _) = driver(&[("a", 1)], |_, _, _| Ok(vec![]));
    pipe(&mut driver, "keep", 0).unwrap();
    let error = pipe(&mut driver, "go on", 0).unwrap_err();
    assert!(error.to_string().contains("the scan began in another call"), "{error}");
}

const KEYS: u64 = 400;

fn random_write(
    random: &mut Lcg,
    store: &Store,
    cx: &mut Context<'_, Walker>,
    model: &mut BTreeMap<String, i64>,
) -> Result {
    let key = format!("{:03}", random.below(KEYS));
    if random.below(2) == 0 {
        model.remove(&key);
        return cx.store(store)?.delete(&key);
    }
    let value = i64::try_from(random.below(1000)).unwrap();
    model.insert(key.clone(), value);
    cx.store(store)?.put(&key, &value)
}

/// Several chunks of committed rows under random writes before and during the walk, against a map.
#[test]
fn walks_agree_with_a_model() {
    let committed: Vec<(String, i64)> = (0..KEYS).filter(|k| k % 3 != 0).map(|k| (format!("{k:03}"), 7)).collect();
    let committed: Vec<(&str, i64)> = committed.iter().map(|(k, v)| (k.as_str(), *v)).collect();
    for seed in 0..40 {
        let (mut driver, _) = driver(&committed, |store, cx, seed| {
            let mut random = Lcg(u64::try_from(seed).unwrap());
            let mut model: BTreeMap<String, i64> =
                (0..KEYS).filter(|k| k % 3 != 0).map(|k| (format!("{k:03}"), 7)).collect();
            for _ in 0..random.below(100) {
                random_write(&mut random, store, cx, &mut model)?;
            }
            let forward = random.below(2) == 0;
            let at_start: Vec<String> =
                if forward { model.keys().cloned().collect() } else { model.keys().rev().cloned().collect() };
            let mut rows = if forward { cx.store(store)?.all() } else { cx.store(store)?.reverse_all() };
            let mut left = at_start.iter();
            loop {
                for _ in 0..random.below(4) {
                    random_write(&mut random, store, cx, &mut model)?;
                }
                let row = rows.next(cx)?;
                let expected = left.find(|key| model.contains_key(*key)).map(|key| (key.clone(), model[key]));
                assert_eq!(row, expected, "seed {seed}");
                if row.is_none() {
                    return Ok(vec![]);
                }
            }
        });
        pipe(&mut driver, "k", seed).unwrap();
    }
}
