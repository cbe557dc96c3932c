//! Rows that the next batch will write, over those that a shard has: what a put that reads needs before it is applied.

use millpond_store_api::{Cursor, Direction, Range, Read, Result, ShardSpace, Space, SpaceId, SpaceMut, Write};

use super::merged::{Merged, Rows, RowsAbove};

/// What the next batch writes beside the rows that records are turned into one by one.
#[derive(Debug, Default)]
pub(super) struct Staging {
    stores: Vec<Store>,
}

/// The staged rows of one store.
struct Store {
    own: (SpaceId, Rows),
    windowed: (SpaceId, Rows),
}

impl Staging {
    pub(super) fn clear(&mut self) {
        self.stores.clear();
    }

    /// The two spaces of a store, as they will be.
    pub(super) fn spaces<'a>(
        &'a mut self,
        shard: &'a dyn Read,
        own: SpaceId,
        windowed: SpaceId,
    ) -> (Staged<'a>, Staged<'a>) {
        let i = self.stores.iter().position(|store| store.own.0 == own).unwrap_or_else(|| {
            self.stores.push(Store { own: (own, Rows::new()), windowed: (windowed, Rows::new()) });
            self.stores.len() - 1
        });
        let store = self.stores.get_mut(i).expect("found or pushed at this place");
        (Staged::new(shard, &mut store.own), Staged::new(shard, &mut store.windowed))
    }

    /// The space of a store that has no other, as it will be.
    pub(super) fn space<'a>(&'a mut self, shard: &'a dyn Read, own: SpaceId) -> Staged<'a> {
        self.spaces(shard, own, own).0
    }

    pub(super) fn writes(&self) -> impl Iterator<Item = Write<'_>> {
        self.stores.iter().flat_map(|store| [&store.own, &store.windowed]).flat_map(|(space, rows)| {
            rows.iter().map(|(key, value)| Write { space: *space, key, value: value.as_deref() })
        })
    }
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("own", &self.own.1.len()).field("windowed", &self.windowed.1.len()).finish()
    }
}

/// One space of a shard, as it will be.
pub(super) struct Staged<'a> {
    base: ShardSpace<'a>,
    rows: &'a mut Rows,
    /// Bytes of keys and values that were put through this view.
    pub(super) written: usize,
}

impl<'a> Staged<'a> {
    fn new(shard: &'a dyn Read, (space, rows): &'a mut (SpaceId, Rows)) -> Self {
        Self { base: ShardSpace::new(shard, *space), rows, written: 0 }
    }
}

impl Space for Staged<'_> {
    fn get(&mut self, key: &[u8]) -> Result<Option<&[u8]>> {
        match self.rows.get(key) {
            Some(value) => Ok(value.as_deref()),
            None => self.base.get(key),
        }
    }

    fn scan(&self, range: Range<'_>, direction: Direction) -> Result<Box<dyn Cursor + '_>> {
        let base = self.base.scan(range, direction)?;
        Ok(if self.rows.is_empty() {
            base
        } else {
            Box::new(Merged::new(base, RowsAbove(self.rows), range, direction))
        })
    }

    fn touch(&mut self, _: &[&[u8]]) -> Result<()> {
        Ok(())
    }
}

impl SpaceMut for Staged<'_> {
    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.written += key.len() + value.map_or(0, <[u8]>::len);
        self.rows.insert(key.to_vec(), value.map(<[u8]>::to_vec));
        Ok(())
    }
}
