//! A window store under test: makes a view for each access and keeps between them what is observed and numbered.

use std::cell::Cell;

use millpond_store_api::{Direction, Keys, SpaceMut, Window, WindowScan};

use crate::Subject;
use crate::counting::Counting;

/// A row: key, start, value.
pub(crate) type WindowRows = Vec<(Vec<u8>, i64, Vec<u8>)>;

/// What makes the views.
#[derive(Clone, Copy)]
pub(crate) struct Store {
    pub(crate) number: u16,
    pub(crate) retention: i64,
    pub(crate) duplicates: bool,
    pub(crate) now: i64,
    pub(crate) numbered: u32,
}

impl Store {
    pub(crate) fn new(number: u16, retention: i64) -> Self {
        Self { number, retention, duplicates: false, now: i64::MIN, numbered: 0 }
    }

    pub(crate) fn with_duplicates(number: u16, retention: i64) -> Self {
        Self { duplicates: true, ..Self::new(number, retention) }
    }

    /// Makes a view; what it observes is kept.
    pub(crate) fn view<T>(
        &mut self,
        subject: &mut dyn Subject,
        body: impl FnOnce(&mut Window<'_, dyn SpaceMut + '_>) -> T,
    ) -> T {
        let (mut body, mut answer) = (Some(body), None);
        subject.with(&mut |space| {
            let view = Window::new(space, self.number, self.retention, self.duplicates, self.now);
            let mut view = view.numbered_after(self.numbered);
            let body = body.take().expect("`with` calls once");
            answer = Some(body(&mut view));
            (self.now, self.numbered) = (view.observed(), view.numbered());
        });
        answer.expect("`with` calls once")
    }

    /// Puts; answers whether the row is alive.
    #[track_caller]
    pub(crate) fn put(&mut self, subject: &mut dyn Subject, key: &[u8], start: i64, value: &[u8]) -> bool {
        self.view(subject, |store| store.put(key, start, Some(value))).expect("the row is put")
    }

    #[track_caller]
    pub(crate) fn delete(&mut self, subject: &mut dyn Subject, key: &[u8], start: i64) -> bool {
        self.view(subject, |store| store.put(key, start, None)).expect("the row is deleted")
    }

    #[track_caller]
    pub(crate) fn get(&mut self, subject: &mut dyn Subject, key: &[u8], start: i64) -> Option<Vec<u8>> {
        self.view(subject, |store| store.get(key, start).map(|value| value.map(<[u8]>::to_vec))).expect("a key is read")
    }

    #[track_caller]
    pub(crate) fn scan(
        &mut self,
        subject: &mut dyn Subject,
        keys: Keys<'_>,
        (from, to): (i64, i64),
        direction: Direction,
    ) -> WindowRows {
        self.view(subject, |store| rows(store.scan(keys, from, to, direction).expect("the scan opens")))
    }

    /// All rows, which must be the same both ways.
    #[track_caller]
    pub(crate) fn all(&mut self, subject: &mut dyn Subject) -> WindowRows {
        let forward = self.view(subject, |store| rows(store.all(Direction::Forward).expect("the scan opens")));
        let mut reverse = self.view(subject, |store| rows(store.all(Direction::Reverse).expect("the scan opens")));
        reverse.reverse();
        assert_eq!(forward, reverse, "reverse is not the mirror of forward");
        forward
    }

    /// A scan, and how often a cursor was placed for it.
    #[track_caller]
    pub(crate) fn placed(
        &mut self,
        subject: &mut dyn Subject,
        keys: Keys<'_>,
        (from, to): (i64, i64),
        direction: Direction,
    ) -> (WindowRows, usize) {
        let placed = Cell::new(0);
        let mut found = WindowRows::new();
        subject.with(&mut |space| {
            let mut space = Counting::new(space, &placed);
            let store = Window::new(&mut space, self.number, self.retention, self.duplicates, self.now);
            found = rows(store.scan(keys, from, to, direction).expect("the scan opens"));
        });
        (found, placed.get())
    }

    /// A scan in chunks of some rows, each by a view of its own: how many rows there were, and how often a cursor was placed
    /// for the chunk that needed most.
    #[track_caller]
    pub(crate) fn placed_in_chunks(
        &mut self,
        subject: &mut dyn Subject,
        keys: Keys<'_>,
        direction: Direction,
        rows: usize,
    ) -> (usize, usize) {
        let (mut found, mut most, mut place) = (0, 0, None::<Vec<u8>>);
        loop {
            let (placed, before) = (Cell::new(0), found);
            subject.with(&mut |space| {
                let mut space = Counting::new(space, &placed);
                let store = Window::new(&mut space, self.number, self.retention, self.duplicates, self.now);
                let scan = match &place {
                    Some(place) => store.resume(keys, i64::MIN, i64::MAX, direction, place),
                    None => store.scan(keys, i64::MIN, i64::MAX, direction),
                };
                let mut scan = scan.expect("the scan opens");
                while found - before < rows && scan.next().expect("the scan moves").is_some() {
                    found += 1;
                    place = scan.place().map(<[u8]>::to_vec);
                }
            });
            most = most.max(placed.get());
            if found == before {
                return (found, most);
            }
        }
    }
}

/// What is left of a scan; it goes on having ended.
#[track_caller]
pub(crate) fn rows(mut scan: WindowScan<'_>) -> WindowRows {
    let mut rows = WindowRows::new();
    assert!(scan.place().is_none(), "a place before the first row");
    while let Some(row) = scan.next().expect("the scan moves") {
        rows.push((row.key.to_vec(), row.start, row.value.to_vec()));
        assert!(scan.place().is_some(), "a row without a place");
    }
    assert!(scan.next().expect("the scan moves").is_none() && scan.place().is_none(), "a row after the end");
    rows
}

/// Rows as text: `key@start=value`.
pub(crate) fn text(rows: &[(Vec<u8>, i64, Vec<u8>)]) -> String {
    let show = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let rows: Vec<_> =
        rows.iter().map(|(key, start, value)| format!("{}@{start}={}", show(key), show(value))).collect();
    rows.join(" ")
}
