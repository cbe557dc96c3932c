//! The ordered map of one space, and the spaces of a shard.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use millpond_store_api::{Error, ErrorKind, Result, SpaceId};

use crate::small::Small;

/// One space's rows in key order.
#[derive(Clone, Default)]
pub(crate) struct Map {
    rows: BTreeMap<Small, Small>,
}

impl Map {
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Small> {
        match Small::inline(key) {
            Some(key) => self.rows.get(&key),
            None => self.rows.get(key),
        }
    }

    pub(crate) fn set(&mut self, key: &[u8], value: Option<&[u8]>) {
        match (Small::inline(key), value) {
            (Some(key), Some(value)) => match self.rows.entry(key) {
                Entry::Occupied(mut row) => row.get_mut().set(value),
                Entry::Vacant(row) => drop(row.insert(Small::new(value))),
            },
            // A long key is copied only if it is new.
            (None, Some(value)) => match self.rows.get_mut(key) {
                Some(old) => old.set(value),
                None => drop(self.rows.insert(Small::new(key), Small::new(value))),
            },
            (Some(key), None) => drop(self.rows.remove(&key)),
            (None, None) => drop(self.rows.remove(key)),
        }
    }

    /// Takes the rows below `key` out.
    pub(crate) fn split_below(&mut self, key: &[u8]) -> Self {
        let kept = self.rows.split_off(key);
        Self { rows: std::mem::replace(&mut self.rows, kept) }
    }

    pub(crate) const fn rows(&self) -> &BTreeMap<Small, Small> {
        &self.rows
    }
}

/// What a shard holds: the rows of its spaces, and the metadata that they agree with.
#[derive(Clone, Default)]
pub(crate) struct Image {
    /// A handful, so a search from the start beats a tree.
    spaces: Vec<(SpaceId, Map)>,
    pub(crate) metadata: Option<Arc<[u8]>>,
}

impl Image {
    pub(crate) fn position(&self, space: SpaceId, op: &'static str) -> Result<usize> {
        let found = self.spaces.iter().position(|(id, _)| *id == space);
        found.ok_or_else(|| Error::new(ErrorKind::Invalid, op).with("unknown space", space.0))
    }

    /// The map at a position that [`Image::position`] has answered: spaces are never removed.
    pub(crate) fn at(&self, position: usize) -> &Map {
        &self.spaces.get(position).expect("spaces are never removed").1
    }

    pub(crate) fn at_mut(&mut self, position: usize) -> &mut Map {
        &mut self.spaces.get_mut(position).expect("spaces are never removed").1
    }

    pub(crate) fn map(&self, space: SpaceId, op: &'static str) -> Result<&Map> {
        Ok(self.at(self.position(space, op)?))
    }

    /// The space's map, made if it is not there.
    pub(crate) fn map_or_new(&mut self, space: SpaceId) -> &mut Map {
        let position = self.spaces.iter().position(|(id, _)| *id == space).unwrap_or_else(|| {
            self.spaces.push((space, Map::default()));
            self.spaces.len() - 1
        });
        self.at_mut(position)
    }

    /// A copy with exactly these spaces.
    pub(crate) fn with_spaces(&self, ids: impl Iterator<Item = SpaceId>) -> Self {
        let copy = |id| {
            let rows = self.spaces.iter().find(|(other, _)| *other == id);
            (id, rows.map(|(_, map)| map.clone()).unwrap_or_default())
        };
        Self { spaces: ids.map(copy).collect(), metadata: self.metadata.clone() }
    }
}
