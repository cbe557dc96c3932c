//! The session store, over whatever space. Cases with a number in front are failures that other systems have had.

use std::cell::Cell;
use std::ops::Bound::{Excluded, Included, Unbounded};

use millpond_store_api::schema::Buckets;
use millpond_store_api::{Direction, ErrorKind, Keys, Session, SessionScan, Sessions, SpaceMut};

use crate::counting::Counting;
use crate::expiring::{MINUTE, TimedRow, Times};
use crate::keys::adversarial;
use crate::tools::{BOTH, kind};
use crate::twin::SessionTwin;
use crate::window::store::Store as WindowStore;
use crate::{Subject, twin};

/// Makes a view for each access and keeps the observed time between them.
#[derive(Clone, Copy)]
pub(crate) struct Store {
    number: u16,
    retention: i64,
    pub(crate) now: i64,
}

impl Store {
    pub(crate) fn new(number: u16, retention: i64) -> Self {
        Self { number, retention, now: i64::MIN }
    }

    fn view<T>(&mut self, subject: &mut dyn Subject, body: impl FnOnce(&mut Session<'_, dyn SpaceMut + '_>) -> T) -> T {
        let (mut body, mut answer) = (Some(body), None);
        subject.with(&mut |space| {
            let mut view = Session::new(space, self.number, self.retention, self.now);
            let body = body.take().expect("`with` calls once");
            answer = Some(body(&mut view));
            self.now = view.observed();
        });
        answer.expect("`with` calls once")
    }

    #[track_caller]
    pub(crate) fn put(&mut self, subject: &mut dyn Subject, key: &[u8], start: i64, end: i64, value: &[u8]) -> bool {
        self.view(subject, |store| store.put(key, start, end, Some(value))).expect("the row is put")
    }

    #[track_caller]
    pub(crate) fn remove(&mut self, subject: &mut dyn Subject, key: &[u8], start: i64, end: i64) -> bool {
        self.view(subject, |store| store.remove(key, start, end)).expect("the row is removed")
    }

    #[track_caller]
    pub(crate) fn get(&mut self, subject: &mut dyn Subject, key: &[u8], start: i64, end: i64) -> Option<Vec<u8>> {
        self.view(subject, |store| store.fetch_session(key, start, end).map(|value| value.map(<[u8]>::to_vec)))
            .expect("the row is read")
    }

    #[track_caller]
    pub(crate) fn scan(&mut self, subject: &mut dyn Subject, of: Sessions<'_>, direction: Direction) -> Vec<TimedRow> {
        self.view(subject, |store| rows(store.scan(of, direction).expect("the scan opens")))
    }

    /// All rows, which must be the same both ways.
    #[track_caller]
    fn all(&mut self, subject: &mut dyn Subject) -> Vec<TimedRow> {
        let forward = self.scan(subject, Sessions::of(Keys::ALL), Direction::Forward);
        let mut reverse = self.scan(subject, Sessions::of(Keys::ALL), Direction::Reverse);
        reverse.reverse();
        assert_eq!(forward, reverse, "reverse is not the mirror of forward");
        forward
    }
}

/// What is left of a scan: key, end, start, value. It goes on having ended.
#[track_caller]
fn rows(mut scan: SessionScan<'_>) -> Vec<TimedRow> {
    let mut rows = Vec::new();
    assert!(scan.place().is_none(), "a place before the first row");
    while let Some(row) = scan.next().expect("the scan moves") {
        rows.push((row.key.to_vec(), row.end, row.start, row.value.to_vec()));
        assert!(scan.place().is_some(), "a row without a place");
    }
    assert!(scan.next().expect("the scan moves").is_none() && scan.place().is_none(), "a row after the end");
    rows
}

/// Rows as text: `key[start,end]=value`.
pub(crate) fn text(rows: &[TimedRow]) -> String {
    let show = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let rows: Vec<_> =
        rows.iter().map(|(key, end, start, value)| format!("{}[{start},{end}]={}", show(key), show(value))).collect();
    rows.join(" ")
}

/// The sessions of some keys that overlap with a time.
fn overlapping(keys: Keys<'_>, earliest_end: i64, latest_start: i64) -> Sessions<'_> {
    Sessions { earliest_end, latest_start, ..Sessions::of(keys) }
}

/// A session is read by its exact times, replaced, and removed; a put without a value removes as well.
pub fn put_fetch_remove(subject: &mut dyn Subject) {
    let mut store = Store::new(1, 1_000);
    assert_eq!(store.get(subject, b"k", 0, 5), None);
    assert!(store.put(subject, b"k", 0, 5, b"1"));
    assert!(store.put(subject, b"k", 10, 20, b""));
    assert!(store.put(subject, b"k", 11, 20, b"3"));
    assert_eq!(store.get(subject, b"k", 0, 5).as_deref(), Some(&b"1"[..]));
    assert_eq!(store.get(subject, b"k", 10, 20).as_deref(), Some(&b""[..]));
    assert_eq!((store.get(subject, b"k", 0, 6), store.get(subject, b"k", 1, 5)), (None, None));
    assert!(store.put(subject, b"k", 0, 5, b"2"));
    assert_eq!(text(&store.all(subject)), "k[0,5]=2 k[10,20]= k[11,20]=3");
    assert!(store.remove(subject, b"k", 10, 20));
    assert!(store.view(subject, |store| store.put(b"k", 11, 20, None)).unwrap());
    assert!(store.remove(subject, b"k", 99, 99), "removing what is not there is fine");
    assert_eq!(text(&store.all(subject)), "k[0,5]=2");
}

/// A session that ends before it starts is refused by name.
pub fn a_session_ends_after_its_start(subject: &mut dyn Subject) {
    let mut store = Store::new(1, 1_000);
    let refused = store.view(subject, |store| store.put(b"k", 6, 5, Some(b"v")));
    assert_eq!(kind(refused, "an inverted session"), ErrorKind::Invalid);
    assert_eq!(store.now, i64::MIN, "it is not observed");
    assert!(store.put(subject, b"k", 5, 5, b"v"));
    assert_eq!(text(&store.all(subject)), "k[5,5]=v");
}

/// `find` has the sessions that end at or after one time and start at or before another.
pub fn find_is_an_overlap(subject: &mut dyn Subject) {
    let mut store = Store::new(2, 60 * MINUTE);
    for (key, start, end) in
        [("a", 0, 5), ("a", 10, 20), ("b", 3, 8), ("c", 0, 0), ("a", 30, 30), ("a", 2, 40 * MINUTE)]
    {
        assert!(store.put(subject, key.as_bytes(), start, end, b""));
    }
    let mut check = |keys, earliest_end, latest_start, want: &str| {
        let asked = overlapping(keys, earliest_end, latest_start);
        assert_eq!(text(&store.scan(subject, asked, Direction::Forward)), want);
        let mut mirror = store.scan(subject, asked, Direction::Reverse);
        mirror.reverse();
        assert_eq!(text(&mirror), want, "backward");
    };
    let a = Keys::One(b"a");
    check(a, 0, i64::MAX, "a[0,5]= a[10,20]= a[30,30]= a[2,2400000]=");
    check(a, 6, 100, "a[10,20]= a[30,30]= a[2,2400000]=");
    check(a, 5, 9, "a[0,5]= a[2,2400000]=");
    check(a, 21, 29, "a[2,2400000]=");
    check(a, 21, 1, "");
    check(a, 40 * MINUTE, 2, "a[2,2400000]=");
    check(a, 40 * MINUTE + 1, i64::MAX, "");
    check(Keys::Between(Included(b"a"), Included(b"c")), 4, 4, "a[0,5]= a[2,2400000]= b[3,8]=");
    check(Keys::Between(Excluded(b"a"), Unbounded), 0, i64::MAX, "b[3,8]= c[0,0]=");
    check(Keys::Between(Included(b"c"), Included(b"a")), 0, i64::MAX, "");
    check(Keys::Prefix(b"b"), i64::MIN, i64::MAX, "b[3,8]=");
    let ended = Sessions { earliest_end: 5, latest_end: 20, ..Sessions::of(Keys::ALL) };
    assert_eq!(text(&store.scan(subject, ended, Direction::Forward)), "a[0,5]= a[10,20]= b[3,8]=");
    // The short forms ask for the same.
    store.view(subject, |store| {
        assert_eq!(rows(store.find(b"a", 5, 9, Direction::Forward).unwrap()).len(), 2);
        assert_eq!(rows(store.find_range(Included(b"a"), Excluded(b"c"), 4, 4, Direction::Reverse).unwrap()).len(), 3);
        assert_eq!(rows(store.fetch(b"a", Direction::Reverse).unwrap()).len(), 4);
        assert_eq!(rows(store.fetch_range(Unbounded, Included(b"b"), Direction::Forward).unwrap()).len(), 5);
    });
}

/// The sessions of a key come by end, then by start, over all buckets; keys come first.
pub fn sessions_come_by_end_then_start(subject: &mut dyn Subject) {
    let mut store = Store::new(2, 60 * MINUTE);
    for (key, start, end) in [("b", 9, 30 * MINUTE), ("b", 7, 50), ("b", 3, 50), ("a", 1, 59 * MINUTE), ("b", 50, 50)] {
        store.put(subject, key.as_bytes(), start, end, b"");
    }
    assert_eq!(text(&store.all(subject)), "a[1,3540000]= b[3,50]= b[7,50]= b[50,50]= b[9,1800000]=");
    let one = store.scan(subject, Sessions::of(Keys::One(b"b")), Direction::Reverse);
    assert_eq!(text(&one), "b[9,1800000]= b[50,50]= b[7,50]= b[3,50]=");
}

/// Merging sessions as the aggregation does: find what overlaps, remove it, put the union.
pub fn sessions_are_merged(subject: &mut dyn Subject) {
    let mut store = Store::new(3, 60 * MINUTE);
    for (start, end) in [(0, 5), (20, 25), (100, 110)] {
        store.put(subject, b"k", start, end, b"1");
    }
    let gap = 10;
    let found = store.scan(subject, overlapping(Keys::One(b"k"), 12 - gap, 12 + gap), Direction::Forward);
    assert_eq!(text(&found), "k[0,5]=1 k[20,25]=1");
    for (key, end, start, _) in &found {
        store.remove(subject, key, *start, *end);
    }
    store.put(subject, b"k", 0, 25, b"3");
    assert_eq!(text(&store.all(subject)), "k[0,25]=3 k[100,110]=1");
}

/// Each of many adversarial keys has its sessions and nobody else's.
pub fn adversarial_keys_are_kept_apart(subject: &mut dyn Subject) {
    let mut store = Store::new(0x0100, 60 * MINUTE);
    let keys: Vec<Vec<u8>> = adversarial().into_iter().map(|(key, _)| key).filter(|key| key.len() < 20).collect();
    let mut want = Vec::new();
    for (i, key) in keys.iter().enumerate() {
        for end in [9, 20 * MINUTE] {
            let value = format!("{i}/{end}").into_bytes();
            store.put(subject, key, 1, end, &value);
            want.push((key.clone(), end, 1, value));
        }
    }
    assert!(store.all(subject) == want, "the sessions of all keys");
    for (key, rows) in keys.iter().zip(want.chunks(2)) {
        assert_eq!(store.scan(subject, Sessions::of(Keys::One(key)), Direction::Forward), rows);
        assert_eq!(store.get(subject, key, 1, 9).as_deref(), Some(&rows[0].3[..]));
    }
}

/// A session is there while its end is above the greatest end minus the retention, whenever it began.
pub fn b003_retention_is_exact_and_by_the_end(subject: &mut dyn Subject) {
    let mut store = Store::new(4, 100);
    assert!(store.put(subject, b"a", 0, 50, b"1"));
    assert!(store.put(subject, b"b", -500, 51, b"2"));
    assert!(store.put(subject, b"c", 149, 149, b"3"));
    assert_eq!(text(&store.all(subject)), "a[0,50]=1 b[-500,51]=2 c[149,149]=3");
    assert!(store.put(subject, b"c", 150, 150, b"4"));
    assert_eq!(text(&store.all(subject)), "b[-500,51]=2 c[149,149]=3 c[150,150]=4");
    assert_eq!(store.get(subject, b"a", 0, 50), None);
    assert!(store.scan(subject, Sessions::of(Keys::One(b"a")), Direction::Forward).is_empty());
}

/// What has expired is refused, put or removed, and nothing is written.
pub fn b004_an_expired_session_is_refused(subject: &mut dyn Subject) {
    let mut store = Store::new(4, 100);
    assert!(store.put(subject, b"z", 140, 150, b"1"));
    assert!(!store.put(subject, b"y", 40, 50, b"2"));
    assert!(store.put(subject, b"y", 40, 51, b"3"));
    assert!(!store.remove(subject, b"y", 0, 50));
    assert_eq!(text(&store.all(subject)), "y[40,51]=3 z[140,150]=1");
    store.now = 60;
    assert_eq!(text(&store.all(subject)), "y[40,51]=3");
}

/// Ends and starts at the ends of `i64`, with retentions of any size.
pub fn b017_the_edges_of_time(subject: &mut dyn Subject) {
    for (number, retention) in (0..).zip([1_000, 60 * MINUTE, i64::MAX]) {
        let mut store = Store::new(number, retention);
        assert!(store.put(subject, b"k", i64::MIN, i64::MIN, b"a"));
        assert!(store.put(subject, b"k", i64::MIN, 0, b"b"));
        assert!(store.put(subject, b"k", i64::MIN, i64::MAX, b"c"));
        assert!(store.put(subject, b"k", i64::MAX, i64::MAX, b"d"));
        let values = |rows: Vec<TimedRow>| rows.into_iter().flat_map(|(.., value)| value).collect::<Vec<u8>>();
        for keys in [Keys::One(b"k"), Keys::ALL] {
            for direction in BOTH {
                let mut got = values(store.scan(subject, Sessions::of(keys), direction));
                if direction == Direction::Reverse {
                    got.reverse();
                }
                assert_eq!(got, b"cd", "{retention}");
                assert_eq!(values(store.scan(subject, overlapping(keys, 1, i64::MAX - 1), direction)), b"c");
                assert_eq!(values(store.scan(subject, overlapping(keys, i64::MAX, i64::MIN), direction)), b"c");
            }
        }
        assert!(!store.put(subject, b"k", i64::MIN, -1, b""));
    }
}

/// Backward is the exact mirror of forward, within one end time too.
pub fn b020_backward_is_the_mirror_of_forward(subject: &mut dyn Subject) {
    let mut store = Store::new(5, 1_000);
    for key in ["P", "Q", "R"] {
        store.put(subject, key.as_bytes(), 7, 7, b"");
    }
    store.put(subject, b"T", 90, 95, b"");
    let keys = |rows: Vec<TimedRow>| rows.into_iter().flat_map(|(key, ..)| key).collect::<Vec<u8>>();
    for (of, want) in [
        (Keys::ALL, "PQRT"),
        (Keys::Between(Included(b"Q"), Unbounded), "QRT"),
        (Keys::Between(Unbounded, Included(b"R")), "PQR"),
        (Keys::Between(Included(b"P"), Included(b"T")), "PQRT"),
    ] {
        assert_eq!(keys(store.scan(subject, Sessions::of(of), Direction::Forward)), want.as_bytes());
        let mirror: Vec<u8> = want.bytes().rev().collect();
        assert_eq!(keys(store.scan(subject, Sessions::of(of), Direction::Reverse)), mirror);
    }
}

/// A cursor is placed once at most for each bucket: 9 times in all.
pub fn one_seek_at_most_for_each_bucket(subject: &mut dyn Subject) {
    let mut store = Store::new(6, 8 * 60 * MINUTE);
    for hour in 0..8 {
        for key in ["j", "k", "l"] {
            let end = (hour * 60 + 30) * MINUTE;
            store.put(subject, key.as_bytes(), end - 5, end, b"");
        }
    }
    for direction in BOTH {
        for (of, count) in [
            (Sessions::of(Keys::One(b"k")), 8),
            (Sessions::of(Keys::ALL), 24),
            (overlapping(Keys::One(b"k"), 450 * MINUTE, 450 * MINUTE), 1),
        ] {
            let placed = Cell::new(0);
            subject.with(&mut |space| {
                let mut space = Counting::new(space, &placed);
                let view = Session::new(&mut space, store.number, store.retention, store.now);
                assert_eq!(rows(view.scan(of, direction).expect("the scan opens")).len(), count);
            });
            let limit = if count == 1 { 1 } else { Buckets::MAX_ALIVE };
            assert!(placed.get() <= limit, "{} seeks for {count} rows", placed.get());
        }
    }
}

/// A scan in chunks, which goes on over writes, places a cursor once at most for each bucket and chunk: for one key in those
/// buckets only that the chunk's sessions are in.
pub fn one_seek_at_most_for_each_bucket_and_chunk(subject: &mut dyn Subject) {
    let mut store = Store::new(8, 8 * 60 * MINUTE);
    for hour in 0..8 {
        for (key, minute) in [("j", 1), ("k", 1), ("k", 59), ("l", 1)] {
            let end = (hour * 60 + minute) * MINUTE;
            store.put(subject, key.as_bytes(), end - 5, end, b"");
        }
    }
    for direction in BOTH {
        for (of, count, most) in
            [(Sessions::of(Keys::One(b"k")), 16, 3), (Sessions::of(Keys::ALL), 32, Buckets::MAX_ALIVE)]
        {
            let (mut found, mut place) = (0, None::<Vec<u8>>);
            loop {
                let (placed, before) = (Cell::new(0), found);
                subject.with(&mut |space| {
                    let mut space = Counting::new(space, &placed);
                    let view = Session::new(&mut space, store.number, store.retention, store.now);
                    let scan = match &place {
                        Some(place) => view.resume(of, direction, place),
                        None => view.scan(of, direction),
                    };
                    let mut scan = scan.expect("the scan opens");
                    while found - before < 4 && scan.next().expect("the scan moves").is_some() {
                        found += 1;
                        place = scan.place().map(<[u8]>::to_vec);
                    }
                });
                assert!(placed.get() <= most, "{} seeks for 4 of {count} sessions, {direction:?}", placed.get());
                if found == before {
                    break;
                }
            }
            assert_eq!(found, count);
        }
    }
}

/// A scan goes on behind its place; rows put or removed meanwhile where it has been are not seen again.
pub fn a_scan_is_resumed_behind_its_place(subject: &mut dyn Subject) {
    let mut store = Store::new(7, 60 * MINUTE);
    for key in [&b"a"[..], b"b", b"b\0"] {
        for i in 0..30 {
            store.put(subject, key, i % 3, i * 2 * MINUTE, &[i as u8]);
            store.put(subject, key, 5, i * 2 * MINUTE + 5, &[i as u8]);
        }
    }
    for direction in BOTH {
        for keys in [Keys::One(b"b"), Keys::ALL, Keys::Prefix(b"b")] {
            let of = overlapping(keys, 10 * MINUTE, 4);
            let want = store.scan(subject, of, direction);
            let (mut got, mut place) = (Vec::new(), None::<Vec<u8>>);
            loop {
                let row = store.view(subject, |store| {
                    let mut scan = match &place {
                        Some(place) => store.resume(of, direction, place).expect("the scan opens"),
                        None => store.scan(of, direction).expect("the scan opens"),
                    };
                    let row = scan.next().expect("the scan moves");
                    let row = row.map(|row| (row.key.to_vec(), row.end, row.start, row.value.to_vec()));
                    place = scan.place().map(<[u8]>::to_vec);
                    row
                });
                let Some(row) = row else { break };
                store.remove(subject, &row.0, row.2, row.1);
                store.put(subject, &row.0, row.2, row.1, &row.3);
                got.push(row);
                assert!(got.len() <= want.len(), "the scan does not go on: {direction:?} {keys:?}");
            }
            assert!(!want.is_empty() && got == want, "{direction:?} {keys:?}: {} {}", text(&got), text(&want));
        }
    }
}

/// A session store and window stores share the space, and do not see each other.
pub fn sessions_beside_windows(subject: &mut dyn Subject) {
    let (mut before, mut store, mut after) =
        (WindowStore::new(7, 60 * MINUTE), Store::new(8, 60 * MINUTE), WindowStore::with_duplicates(9, 60 * MINUTE));
    for time in [0, 20 * MINUTE, 59 * MINUTE] {
        before.put(subject, b"k", time, b"before");
        store.put(subject, b"k", time, time, b"session");
        after.put(subject, b"k", time, b"after");
    }
    assert!(store.all(subject).iter().map(|(.., value)| value).eq([b"session"; 3]));
    assert_eq!(store.scan(subject, Sessions::of(Keys::One(b"k")), Direction::Forward).len(), 3);
    assert!(before.all(subject).iter().all(|(.., value)| value == b"before"));
    assert!(after.all(subject).iter().all(|(.., value)| value == b"after"));
}

/// Ten thousand puts, removals, gets and scans, over hours of event time with late sessions.
pub fn against_a_model(subject: &mut dyn Subject) {
    let mut twins = [(0, 90), (1, 5 * MINUTE), (2, 12 * MINUTE)].map(|(n, retention)| SessionTwin::new(n, retention));
    twin::steps(subject, &mut twins, 21, Times::flowing(-60 * MINUTE), 10_000);
}

/// Times at the ends of `i64` and at the borders of buckets, with retentions of every size.
pub fn times_at_the_edges_against_a_model(subject: &mut dyn Subject) {
    for round in 0..60_u16 {
        let retention = [1, MINUTE, 8 * MINUTE + 1, 1 << 47, i64::MAX][usize::from(round) % 5];
        twin::steps(subject, &mut [SessionTwin::new(round, retention)], 22 + u64::from(round), Times::Edges, 50);
    }
}
