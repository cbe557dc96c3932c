//! Stores of every kind that are written through their views, and the logs of what was written.

use millpond_broker_api as broker;
use millpond_broker_api::Source;
use millpond_changelog::{Change, Changelog, RowLayout, RowScratch, ShardMetadata, ValueFormat};
use millpond_store_api::schema::{Buckets, ExpiringKey, SuffixKind};
use millpond_store_api::{
    Cursor, DirectSpace, Direction, Range, Read, Result, Session, ShardSpace, Space, SpaceId, SpaceMut, TtlKeyValue,
    ValueAndTimestamp, Versioned, Window,
};

use crate::fakes::{FakeShard, Log, Rows};

/// The space that windowed stores share.
pub(crate) const WINDOWED: SpaceId = SpaceId(100);

pub(crate) const MINUTE: i64 = 60_000;

/// Keys that are awkward inside longer keys.
pub(crate) const KEYS: &[&[u8]] =
    &[b"", b"\0", b"\0\0", b"\0\xFF", b"\0\x01", b"\xFF", b"\xFF\xFF", b"a", b"a\0", b"ab", b"a\0\x01b"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Timestamped,
    Ttl,
    Versioned,
    Window,
    Duplicates,
    WindowWithHeaders,
    Session,
    SessionWithHeaders,
}

impl Kind {
    pub(crate) const ALL: [Self; 8] = [
        Self::Timestamped,
        Self::Ttl,
        Self::Versioned,
        Self::Window,
        Self::Duplicates,
        Self::WindowWithHeaders,
        Self::Session,
        Self::SessionWithHeaders,
    ];
}

/// A store with this number, of these rows.
pub(crate) fn layout(kind: Kind, store: u16, retention: i64) -> RowLayout {
    let (space, windowed) = (SpaceId(store), WINDOWED);
    match kind {
        Kind::Timestamped => RowLayout::KeyValue { space },
        Kind::Ttl => RowLayout::Ttl { space, windowed, store, time_to_live: retention },
        Kind::Versioned => RowLayout::Versioned { space, windowed, store, history: retention },
        Kind::Window | Kind::WindowWithHeaders => RowLayout::Window { windowed, store, retention, duplicates: false },
        Kind::Duplicates => RowLayout::Window { windowed, store, retention, duplicates: true },
        Kind::Session | Kind::SessionWithHeaders => RowLayout::Session { windowed, store, retention },
    }
}

pub(crate) fn format(kind: Kind) -> ValueFormat {
    match kind {
        Kind::Timestamped | Kind::Ttl => ValueFormat::Timestamped,
        Kind::Versioned | Kind::Window | Kind::Duplicates | Kind::Session => ValueFormat::Plain,
        Kind::WindowWithHeaders => ValueFormat::TimestampedWithHeaders,
        Kind::SessionWithHeaders => ValueFormat::AggregationWithHeaders,
    }
}

/// What is put: a kind looks at what it has.
#[derive(Clone, Debug)]
pub(crate) struct Put {
    pub(crate) key: &'static [u8],
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) timestamp: i64,
}

impl Put {
    /// A value for a window or session of one moment.
    pub(crate) fn at(key: &'static [u8], time: i64, value: &str) -> Self {
        Self { key, start: time, end: time, value: Some(value.as_bytes().to_vec()), timestamp: time }
    }

    pub(crate) fn delete(key: &'static [u8], time: i64) -> Self {
        Self { value: None, ..Self::at(key, time, "") }
    }
}

/// A store as the task has it that writes it, and its log.
pub(crate) struct Live {
    pub(crate) kind: Kind,
    number: u16,
    retention: i64,
    own: FakeShard,
    windowed: FakeShard,
    pub(crate) observed: i64,
    pub(crate) log: Log,
}

/// A visible row: key, two times and value.
pub(crate) type Seen = (Vec<u8>, i64, i64, Vec<u8>);

impl Live {
    pub(crate) fn new(kind: Kind, number: u16, retention: i64) -> Self {
        let (own, windowed, log) = (FakeShard::default(), FakeShard::default(), Log::starting_at(0));
        Self { kind, number, retention, own, windowed, observed: i64::MIN, log }
    }

    pub(crate) fn changelog(&self) -> Changelog {
        let name = self.number.to_string();
        Changelog {
            source: Source(self.number.into()),
            topic: name.as_str().into(),
            partition: 0,
            store: name.into(),
            rows: layout(self.kind, self.number, self.retention),
            format: format(self.kind),
            held: false,
            accepts: None,
        }
    }

    pub(crate) fn puts(mut self, puts: impl IntoIterator<Item = Put>) -> Self {
        puts.into_iter().for_each(|put| self.put(&put));
        self
    }

    pub(crate) fn put(&mut self, put: &Put) {
        let Self { kind, number, retention, .. } = *self;
        let mut scratch = RowScratch::default();
        let header = broker::Header { name: "h", value: put.value.as_deref() };
        let row = format(kind).to_store(put.value.as_deref(), put.timestamp, [header], &mut scratch);
        let mut own = Recorded::new(&mut self.own, SpaceId(number));
        let mut windowed = Recorded::new(&mut self.windowed, WINDOWED);
        let now = self.observed;
        self.observed = match kind {
            Kind::Timestamped => own.put(put.key, row).map(|()| now.max(put.timestamp)),
            Kind::Ttl => {
                let mut view = TtlKeyValue::new(&mut own, &mut windowed, number, retention, now);
                let done = match &put.value {
                    Some(value) => view.put(put.key, ValueAndTimestamp { timestamp: put.timestamp, value }).map(drop),
                    None => view.delete(put.key),
                };
                done.map(|()| view.observed())
            }
            Kind::Versioned => {
                let mut view = Versioned::new(&mut own, &mut windowed, number, retention, now);
                view.put(put.key, put.value.as_deref(), put.timestamp).map(|_| view.observed())
            }
            Kind::Window | Kind::WindowWithHeaders | Kind::Duplicates => {
                let mut view = Window::new(&mut windowed, number, retention, kind == Kind::Duplicates, now);
                view.put(put.key, put.start, row).map(|_| view.observed())
            }
            Kind::Session | Kind::SessionWithHeaders => {
                let mut view = Session::new(&mut windowed, number, retention, now);
                view.put(put.key, put.start, put.end, row).map(|_| view.observed())
            }
        }
        .unwrap();
        let writes = match kind {
            // What is logged is the put, even one that came too late.
            Kind::Versioned => vec![(put.key.to_vec(), put.value.clone())],
            Kind::Timestamped | Kind::Ttl => own.writes,
            _ => windowed.writes,
        };
        writes.iter().for_each(|(key, value)| self.log(key, value.as_deref(), put.timestamp));
    }

    /// Deletes what has expired of a store with a time to live.
    pub(crate) fn expire(&mut self, limit: usize) {
        let mut own = Recorded::new(&mut self.own, SpaceId(self.number));
        let mut windowed = Recorded::new(&mut self.windowed, WINDOWED);
        let mut view = TtlKeyValue::new(&mut own, &mut windowed, self.number, self.retention, self.observed);
        view.expire(limit).unwrap();
        for (key, value) in own.writes {
            self.log(&key, value.as_deref(), self.observed);
        }
    }

    fn log(&mut self, key: &[u8], value: Option<&[u8]>, timestamp: i64) {
        let mut scratch = Vec::new();
        let key = self.changelog().rows.key_to_log(key, &mut scratch).unwrap();
        let logged = format(self.kind).to_log(Change { key, value, timestamp }).unwrap();
        let headers = logged.headers.iter().map(|header| header.unwrap());
        let headers = headers.map(|h| (h.key.to_owned(), h.value.map(<[u8]>::to_vec))).collect();
        self.log.push(Some(logged.key), logged.value, logged.timestamp);
        self.log.entries.last_mut().unwrap().headers = headers;
    }

    /// What is seen of the store.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen_in(&self.own, &self.windowed, self.observed)
    }

    /// What is seen of the store in a shard that has observed this.
    pub(crate) fn seen_in(&self, own: &dyn Read, windowed: &dyn Read, now: i64) -> Vec<Seen> {
        let Self { kind, number, retention, .. } = *self;
        let (mut own, mut windowed) = (ShardSpace::new(own, SpaceId(number)), ShardSpace::new(windowed, WINDOWED));
        let mut seen = Vec::new();
        match kind {
            Kind::Timestamped => {
                let mut rows = own.scan(Range::ALL, Direction::Forward).unwrap();
                while let Some(row) = rows.next().unwrap() {
                    seen.push((row.key.to_vec(), 0, 0, row.value.to_vec()));
                }
            }
            Kind::Ttl => TtlKeyValue::new(&mut own, &mut windowed, number, retention, now)
                .for_each(Range::ALL, Direction::Forward, &mut |row| {
                    seen.push((row.raw.key.to_vec(), row.value.timestamp, 0, row.value.value.to_vec()));
                    Ok(true)
                })
                .unwrap(),
            Kind::Versioned => {
                let mut view = Versioned::new(&mut own, &mut windowed, number, retention, now);
                for key in KEYS {
                    view.versions(key, i64::MIN, i64::MAX, Direction::Forward, &mut |row| {
                        let valid_to = row.valid_to.unwrap_or(i64::MAX);
                        seen.push((key.to_vec(), row.timestamp, valid_to, row.value.to_vec()));
                        Ok(true)
                    })
                    .unwrap();
                }
            }
            Kind::Window | Kind::WindowWithHeaders | Kind::Duplicates => {
                let view = Window::new(&mut windowed, number, retention, kind == Kind::Duplicates, now);
                let mut rows = view.all(Direction::Forward).unwrap();
                while let Some(row) = rows.next().unwrap() {
                    seen.push((row.key.to_vec(), row.start, 0, row.value.to_vec()));
                }
            }
            Kind::Session | Kind::SessionWithHeaders => {
                let view = Session::new(&mut windowed, number, retention, now);
                let sessions = millpond_store_api::Sessions::of(millpond_store_api::Keys::ALL);
                let mut rows = view.scan(sessions, Direction::Forward).unwrap();
                while let Some(row) = rows.next().unwrap() {
                    seen.push((row.key.to_vec(), row.start, row.end, row.value.to_vec()));
                }
            }
        }
        seen
    }

    /// Compares the store with what a restore has made of its log.
    pub(crate) fn compare(&self, shard: &FakeShard) {
        let Self { kind, number, .. } = *self;
        let name = number.to_string();
        let metadata: ShardMetadata = shard.metadata();
        let observed = metadata.stream_time(&name).unwrap_or(i64::MIN);
        assert_eq!(observed, self.observed, "{kind:?}: what was observed");
        assert_eq!(self.seen_in(shard, shard, observed), self.seen(), "{kind:?}: what is seen");
        if matches!(kind, Kind::Timestamped | Kind::Ttl) {
            assert_eq!(shard.rows(SpaceId(number)), self.own.rows(SpaceId(number)), "{kind:?}: rows");
        }
        if kind == Kind::Ttl {
            let index = rows_of(shard, number);
            let mut key_of = Vec::new();
            for (key, value) in shard.rows(SpaceId(number)) {
                let timestamp = ValueAndTimestamp::decode(&value).unwrap().timestamp;
                TtlKeyValue::<dyn SpaceMut>::index_key(number, self.retention, &key, timestamp, &mut key_of);
                assert_eq!(index.get(&key_of), Some(&Vec::new()), "{kind:?}: every row is found when it expires");
            }
        } else {
            for key in rows_of(shard, number).keys() {
                let mut scratch = Vec::new();
                let key = ExpiringKey::decode(suffix_kind(kind), key, &mut scratch).unwrap();
                let bucket = Buckets::new(self.retention).of(key.suffix.time());
                assert_eq!(key.bucket, bucket, "{kind:?}: what has expired lies where it is dropped");
            }
        }
    }
}

fn suffix_kind(kind: Kind) -> SuffixKind {
    match kind {
        Kind::Window | Kind::WindowWithHeaders => SuffixKind::Time,
        Kind::Duplicates => SuffixKind::Sequence,
        _ => SuffixKind::Times,
    }
}

/// The rows of a store in the windowed space.
pub(crate) fn rows_of(shard: &FakeShard, store: u16) -> Rows {
    let mut rows = shard.rows(WINDOWED);
    rows.retain(|key, _| key.starts_with(&ExpiringKey::head(ExpiringKey::bucket_of(key).unwrap(), store)));
    rows
}

/// A space that is written at once, and what was written.
struct Recorded<'a> {
    space: DirectSpace<'a>,
    writes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl<'a> Recorded<'a> {
    fn new(shard: &'a mut FakeShard, space: SpaceId) -> Self {
        Self { space: DirectSpace::new(shard, space), writes: Vec::new() }
    }
}

impl Space for Recorded<'_> {
    fn get(&mut self, key: &[u8]) -> Result<Option<&[u8]>> {
        self.space.get(key)
    }

    fn scan(&self, range: Range<'_>, direction: Direction) -> Result<Box<dyn Cursor + '_>> {
        self.space.scan(range, direction)
    }

    fn touch(&mut self, keys: &[&[u8]]) -> Result<()> {
        self.space.touch(keys)
    }
}

impl SpaceMut for Recorded<'_> {
    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.writes.push((key.to_vec(), value.map(<[u8]>::to_vec)));
        self.space.put(key, value)
    }
}
