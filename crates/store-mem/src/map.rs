//! The ordered map of one space, and the spaces of a shard.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use millpond_store_api::{Error, ErrorKind, Result, SpaceId};

use crate::small::Small;

/// What a row takes in a tree whose nodes are two thirds full, its bytes elsewhere aside.
const ROW: usize = 3 * size_of::<Small>();

/// One space's rows in key order.
#[derive(Clone, Default)]
pub(crate) struct Map {
    rows: BTreeMap<Small, Small>,
    /// Of keys and values that do not lie in their places.
    heap: usize,
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
                Entry::Occupied(mut row) => replace(row.get_mut(), value, &mut self.heap),
                Entry::Vacant(row) => self.heap += row.insert(Small::new(value)).heap_bytes(),
            },
            // A long key is copied only if it is new.
            (None, Some(value)) => match self.rows.get_mut(key) {
                Some(old) => replace(old, value, &mut self.heap),
                None => {
                    let row = (Small::new(key), Small::new(value));
                    self.heap += heap_of(&row.0, &row.1);
                    self.rows.insert(row.0, row.1);
                }
            },
            (Some(key), None) => self.heap -= self.rows.remove(&key).map_or(0, |value| value.heap_bytes()),
            (None, None) => self.heap -= self.rows.remove(key).map_or(0, |value| value.heap_bytes() + key.len()),
        }
    }

    /// Takes the rows below `key` out.
    pub(crate) fn split_below(&mut self, key: &[u8]) -> Self {
        let kept = self.rows.split_off(key);
        let rows = std::mem::replace(&mut self.rows, kept);
        let heap = rows.iter().map(|(key, value)| heap_of(key, value)).sum();
        self.heap -= heap;
        Self { rows, heap }
    }

    /// What the rows take, about.
    fn bytes(&self) -> usize {
        self.rows.len() * ROW + self.heap
    }

    pub(crate) const fn rows(&self) -> &BTreeMap<Small, Small> {
        &self.rows
    }
}

fn heap_of(key: &Small, value: &Small) -> usize {
    key.heap_bytes() + value.heap_bytes()
}

fn replace(old: &mut Small, value: &[u8], heap: &mut usize) {
    *heap -= old.heap_bytes();
    old.set(value);
    *heap += old.heap_bytes();
}

/// What a shard holds: the rows of its spaces, and the metadata that they agree with.
#[derive(Clone, Default)]
pub(crate) struct Image {
    /// A handful, so a search from the start beats a tree.
    spaces: Vec<(SpaceId, Map)>,
    pub(crate) metadata: Option<Arc<[u8]>>,
}

impl Image {
    /// What the rows of all spaces take, about.
    pub(crate) fn bytes(&self) -> usize {
        self.spaces.iter().map(|(_, map)| map.bytes()).sum()
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_follow_the_rows_whatever_happens_to_them() {
        let mut map = Map::default();
        let mut random = fastrand::Rng::with_seed(1);
        for step in 0..20_000 {
            // Up to 22 bytes lie in their places.
            let key = vec![random.u8(..8); random.usize(0..44)];
            let value = random.bool().then(|| vec![7; random.usize(0..44)]);
            map.set(&key, value.as_deref());
            if step % 1_000 == 999 {
                let below = map.split_below(&[random.u8(..8)]);
                assert_eq!(below.heap, below.rows.iter().map(|(k, v)| heap_of(k, v)).sum::<usize>());
            }
            if step % 100 == 0 {
                assert_eq!(map.heap, map.rows.iter().map(|(k, v)| heap_of(k, v)).sum::<usize>(), "{step}");
            }
        }
        assert!(map.heap > 0 && map.bytes() > map.heap + 40 * map.rows.len());
        drop(map.split_below(&[255; 44]));
        assert_eq!(map.bytes(), 0);
    }
}
