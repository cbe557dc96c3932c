//! Stores of another form: whatever cuts it short, their rows and positions go, and nothing else does.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use millpond_store_api::schema::ExpiringKey;
use millpond_store_api::{
    Capabilities, Cursor, Direction, EngineMemory, Error as StoreError, ErrorKind as StoreErrorKind, Flush, Range,
    Shard, ShardReader, Writes,
};
use millpond_store_mem::{MemEngine, SimulatedDisk};
use millpond_topology::Retention;

use super::*;

const AT: Moment = Moment { timestamp: 0, stream_time: 0 };

fn plan(name: &str, index: u32, kind: StoreType, retention: Option<i64>) -> StorePlan {
    StorePlan {
        index: StoreIndex(index),
        name: name.to_owned(),
        kind,
        retention: retention.map(Retention::of_millis),
        hold: None,
        engine: None,
        format: ValueFormat::Plain,
        changelog: Some(format!("{name}-changelog")),
        reuses_source: false,
        changelog_keeps: None,
        former_changelog: None,
        caching: false,
        forwards: false,
    }
}

/// Fails at its first write or flush after some, and at all that follow: where a process was killed.
struct Dying {
    inner: MemEngine,
    left: Arc<AtomicUsize>,
}

struct DyingShard {
    inner: Box<dyn Shard>,
    left: Arc<AtomicUsize>,
}

impl DyingShard {
    fn step(&self) -> millpond_store_api::Result<()> {
        let step = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        step.map(drop).map_err(|_| StoreError::new(StoreErrorKind::Io, "live on"))
    }
}

#[deny(clippy::missing_trait_methods)]
impl Engine for Dying {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn persistent(&self) -> bool {
        self.inner.persistent()
    }

    fn open(&self, spec: &ShardSpec<'_>) -> millpond_store_api::Result<Box<dyn Shard>> {
        Ok(Box::new(DyingShard { inner: self.inner.open(spec)?, left: self.left.clone() }))
    }

    fn set_memory(&self, bytes: u64) {
        self.inner.set_memory(bytes);
    }

    fn memory(&self) -> EngineMemory {
        self.inner.memory()
    }
}

impl Read for DyingShard {
    fn get(&self, space: SpaceId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> millpond_store_api::Result<bool> {
        self.inner.get(space, key, found)
    }

    fn scan(&self, space: SpaceId, range: Range<'_>, d: Direction) -> millpond_store_api::Result<Box<dyn Cursor + '_>> {
        self.inner.scan(space, range, d)
    }
}

impl Shard for DyingShard {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn apply(&mut self, writes: &mut dyn Writes, metadata: &[u8]) -> millpond_store_api::Result<()> {
        self.step()?;
        self.inner.apply(writes, metadata)
    }

    fn committed(&self) -> Option<&[u8]> {
        self.inner.committed()
    }

    fn durable(&mut self) -> millpond_store_api::Result<Option<&[u8]>> {
        self.inner.durable()
    }

    fn flush(&mut self, how: Flush) -> millpond_store_api::Result<()> {
        self.step()?;
        self.inner.flush(how)
    }

    fn drop_below(&mut self, space: SpaceId, key: &[u8]) -> millpond_store_api::Result<()> {
        self.inner.drop_below(space, key)
    }

    fn reader(&self) -> Arc<dyn ShardReader> {
        self.inner.reader()
    }

    fn close(self: Box<Self>) -> millpond_store_api::Result<()> {
        self.inner.close()
    }

    fn destroy(self: Box<Self>) -> millpond_store_api::Result<()> {
        self.inner.destroy()
    }
}

/// A task's directory on a disk.
struct Place {
    dir: tempfile::TempDir,
    disk: SimulatedDisk,
}

impl Place {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), disk: SimulatedDisk::default() }
    }

    fn open_with(&self, engine: impl Engine + 'static, plans: &[StorePlan]) -> Result<TaskStores> {
        let place = ShardPlace {
            engine: Arc::new(engine),
            dir: Some(self.dir.path().to_owned()),
            stores: (0..plans.len()).collect(),
        };
        TaskStores::open(plans, vec![place], 0, false, &Arc::new(Budget::new(1 << 20, 1 << 20)))
    }

    fn open(&self, plans: &[StorePlan]) -> TaskStores {
        self.open_with(MemEngine::with_simulated_disk(&self.disk), plans).unwrap()
    }

    /// Opens, and lives for so many writes and flushes. Answers whether that was enough.
    fn live_for(&self, steps: usize, plans: &[StorePlan]) -> bool {
        let (inner, left) = (MemEngine::with_simulated_disk(&self.disk), Arc::new(AtomicUsize::new(steps)));
        self.open_with(Dying { inner, left }, plans).is_ok()
    }

    fn spaces(&self) -> String {
        fs::read_to_string(self.dir.path().join("SPACES")).unwrap()
    }
}

/// Writes a row into every space that a store has rows in.
fn put(stores: &mut TaskStores, store: u32) {
    let mut access = stores.access(StoreIndex(store), AT).unwrap();
    let number = access.expiry.as_ref().map_or(0, |e| e.store);
    let base = access.base;
    let windowed = access.expiry.as_mut().and_then(|e| e.windowed.as_mut());
    for layer in std::iter::once(&mut access.layer).chain(windowed) {
        let mut key = if layer.space() == WINDOWED { ExpiringKey::head(7, number).to_vec() } else { Vec::new() };
        key.extend_from_slice(b"row");
        assert!(layer.get(base, &key).unwrap().is_none());
        layer.put(&key, Some(b"value"), 0).unwrap();
    }
}

/// Commits what was written, as if all changelogs had come to an offset.
fn commit(stores: &mut TaskStores, next: i64) {
    stores.record_done(&mut |_, _, _| ());
    let (all, shards) = stores.parts_mut();
    for store in all {
        let metadata = &mut shards[store.shard].metadata;
        metadata.observe(&store.plan.name, 5);
        if let Some(topic) = &store.plan.changelog {
            metadata.set_changelog(topic, 0, 0, next);
        }
    }
    stores.apply(0, Duration::ZERO).unwrap();
}

/// Rows on disk: of a store by its number there, in its own space and in the windowed one.
fn rows(stores: &TaskStores, number: u16) -> usize {
    let reader = stores.shards()[0].shard.reader();
    let count = |space, of: &dyn Fn(&[u8]) -> bool| {
        let mut rows = reader.scan(space, Range::ALL, Direction::Forward)?;
        let mut counted = 0;
        while let Some(row) = rows.next()? {
            counted += usize::from(of(row.key));
        }
        Ok::<_, StoreError>(counted)
    };
    let head = ExpiringKey::head(7, number);
    // A space that no store asks for is not there.
    count(SpaceId(number), &|_| true).unwrap_or(0) + count(WINDOWED, &|key| key.starts_with(&head)).unwrap_or(0)
}

fn position(stores: &TaskStores, store: &str) -> Option<i64> {
    stores.shards()[0].metadata.changelog(&format!("{store}-changelog"), 0).map(|p| p.next)
}

/// A store that changes from one form into another between neighbours that stay.
fn changes(from: &StorePlan, to: &StorePlan, expected_steps: usize) {
    let neighbours = [plan("a", 0, StoreType::VersionedKeyValue, Some(9)), plan("z", 2, StoreType::Session, Some(9))];
    let with = |store: &StorePlan| [neighbours[0].clone(), store.clone(), neighbours[1].clone()];
    // The last round ends before the list of spaces is written.
    for steps in 0..=expected_steps {
        let place = Place::new();
        let mut stores = place.open(&with(from));
        (0..3).for_each(|store| put(&mut stores, store));
        commit(&mut stores, 10);
        assert!((0..3).all(|number| rows(&stores, number) > 0));
        stores.close().unwrap();
        let before = place.spaces();

        assert_eq!(place.live_for(steps, &with(to)), steps == expected_steps, "{steps} steps");
        fs::write(place.dir.path().join("SPACES"), &before).unwrap();

        let mut stores = place.open(&with(to));
        assert_eq!((rows(&stores, 0), rows(&stores, 1), rows(&stores, 2)), (2, 0, 1), "{steps} steps");
        let positions = ["a", &to.name, "z"].map(|name| position(&stores, name));
        assert_eq!(positions, [Some(10), None, Some(10)], "{steps} steps");
        assert_eq!(stores.shards()[0].metadata.stream_time(&to.name), None);
        put(&mut stores, 1);
        commit(&mut stores, 20);
        stores.close().unwrap();

        let stores = place.open(&with(to));
        assert!(rows(&stores, 1) > 0, "it is cleared once");
        assert_eq!(position(&stores, &to.name), to.changelog.as_ref().map(|_| 20));
    }
}

#[test]
fn a_store_of_another_form_begins_anew_wherever_that_is_cut_short() {
    let (window, versioned) = (StoreType::Window, StoreType::VersionedKeyValue);
    let store = |kind, retention| plan("s", 1, kind, retention);
    // A chunk of each space that has rows, the metadata, the flush.
    changes(&store(window, Some(5)), &store(window, Some(6)), 3);
    changes(&store(versioned, Some(5)), &store(StoreType::KeyValue, None), 4);
    changes(&store(StoreType::TtlKeyValue, Some(5)), &store(window, Some(5)), 4);
    changes(&store(StoreType::KeyValue, None), &store(versioned, Some(5)), 3);
}

#[test]
fn a_store_of_another_form_without_a_changelog_begins_empty() {
    let store = |retention| StorePlan { changelog: None, ..plan("s", 1, StoreType::Window, Some(retention)) };
    changes(&store(5), &store(6), 3);
}

#[test]
fn a_time_to_live_may_change_and_rows_stay() {
    let place = Place::new();
    let store = |time_to_live| [plan("s", 0, StoreType::TtlKeyValue, Some(time_to_live))];
    let mut stores = place.open(&store(5));
    put(&mut stores, 0);
    commit(&mut stores, 10);
    stores.close().unwrap();
    let stores = place.open(&store(6));
    assert_eq!((rows(&stores, 0), position(&stores, "s")), (2, Some(10)));
}

#[test]
fn a_store_that_was_not_logged_for_a_while_reads_its_log_from_the_start() {
    let place = Place::new();
    let logged = [plan("s", 0, StoreType::KeyValue, None)];
    let changelog = logged[0].changelog.clone();
    let unlogged = [StorePlan { changelog: None, former_changelog: changelog, ..logged[0].clone() }];
    let mut stores = place.open(&logged);
    commit(&mut stores, 10);
    stores.close().unwrap();
    // It is opened and nothing happens: the rows are still those of the log.
    place.open(&unlogged).close().unwrap();
    assert_eq!(position(&place.open(&logged), "s"), Some(10));
    let mut stores = place.open(&unlogged);
    put(&mut stores, 0);
    commit(&mut stores, 20);
    stores.close().unwrap();
    let stores = place.open(&logged);
    assert_eq!((position(&stores, "s"), rows(&stores, 0)), (None, 1));
}
