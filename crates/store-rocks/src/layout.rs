//! Where a space's rows lie: column families, prefixes of keys, and the reserved keys beside them.

use std::ops::Bound;

use millpond_store_api::{Error, ErrorKind, Range, Result, SpaceId, SpaceSpec};

/// The family of all plain spaces: key = `u16 BE space ‖ key`. RocksDB always has a family of this name.
pub(crate) const PLAIN: &str = "default";

/// The family of the expiring space: the key as it is, so that what expires together is one range of keys.
pub(crate) const EXPIRING: &str = "windowed";

/// The metadata's key in the plain family. Shorter than every space's prefix and before all of them.
pub(crate) const METADATA: &[u8] = &[0];

/// The key of the [catalogue](Spaces::encode) in the plain family.
pub(crate) const CATALOGUE: &[u8] = &[];

/// The place of a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Plain([u8; 2]),
    Expiring,
}

impl Place {
    pub(crate) const fn family(self) -> &'static str {
        match self {
            Self::Plain(_) => PLAIN,
            Self::Expiring => EXPIRING,
        }
    }

    /// What stands in front of each key.
    pub(crate) fn prefix(&self) -> &[u8] {
        match self {
            Self::Plain(id) => id,
            Self::Expiring => &[],
        }
    }

    /// Lends the stored form of a key; keys of usual length cost no allocation.
    pub(crate) fn with_key<T>(&self, key: &[u8], run: impl FnOnce(&[u8]) -> T) -> T {
        let Self::Plain(id) = self else { return run(key) };
        let mut short = [0; 128];
        match short.get_mut(..id.len() + key.len()) {
            Some(stored) => {
                let (head, tail) = stored.split_at_mut(id.len());
                head.copy_from_slice(id);
                tail.copy_from_slice(key);
                run(stored)
            }
            None => run(&[id, key].concat()),
        }
    }

    /// A range of the space's keys as stored keys; the expiring space begins at `low`.
    pub(crate) fn bounds(&self, range: Range<'_>, low: &[u8]) -> Bounds {
        let stored = |key: &[u8], more: &[u8]| [self.prefix(), key, more].concat();
        let lower = match range.lower {
            Bound::Included(key) => stored(key, &[]),
            // Between a key and `key ‖ 00` there is nothing, so all bounds can be "from, including" and "to, excluding".
            Bound::Excluded(key) => stored(key, &[0]),
            Bound::Unbounded => self.prefix().to_vec(),
        };
        let upper = match range.upper {
            Bound::Included(key) => Some(stored(key, &[0])),
            Bound::Excluded(key) => Some(stored(key, &[])),
            Bound::Unbounded => self.end(),
        };
        match self {
            Self::Expiring if lower.as_slice() < low => Bounds { lower: low.to_vec(), upper },
            _ => Bounds { lower, upper },
        }
    }

    /// The first stored key behind the space; none if nothing can be there.
    fn end(&self) -> Option<Vec<u8>> {
        match self {
            Self::Plain(id) => u16::from_be_bytes(*id).checked_add(1).map(|next| next.to_be_bytes().to_vec()),
            Self::Expiring => None,
        }
    }
}

/// Stored keys from, including, and to, excluding.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) lower: Vec<u8>,
    pub(crate) upper: Option<Vec<u8>>,
}

impl Bounds {
    pub(crate) fn is_empty(&self) -> bool {
        self.upper.as_ref().is_some_and(|upper| *upper <= self.lower)
    }
}

/// The spaces that a shard was opened with.
#[derive(Debug)]
pub(crate) struct Spaces {
    /// Sorted.
    plain: Vec<SpaceId>,
    expiring: Option<SpaceId>,
}

impl Spaces {
    /// Checks a specification: no number twice, one expiring space at most.
    pub(crate) fn new(specs: &[SpaceSpec]) -> Result<Self> {
        let invalid = |reason: &str, spec: &SpaceSpec| {
            Error::new(ErrorKind::Invalid, "open shard")
                .with("reason", reason)
                .with("space", &spec.name)
                .with("id", spec.id.0)
        };
        let mut spaces = Self { plain: Vec::new(), expiring: None };
        for spec in specs {
            if spaces.place(spec.id).is_ok() {
                return Err(invalid("a space's id is given twice", spec));
            }
            if !spec.expires {
                let at = spaces.plain.partition_point(|id| *id < spec.id);
                spaces.plain.insert(at, spec.id);
            } else if spaces.expiring.replace(spec.id).is_some() {
                return Err(invalid("a shard has one expiring space, shared by its stores; this is the second", spec));
            }
        }
        Ok(spaces)
    }

    /// Where a space lies; a space that the shard was not opened with is invalid.
    pub(crate) fn place(&self, space: SpaceId) -> Result<Place> {
        if self.expiring == Some(space) {
            return Ok(Place::Expiring);
        }
        match self.plain.binary_search(&space) {
            Ok(_) => Ok(Place::Plain(space.0.to_be_bytes())),
            Err(_) => Err(unknown(space)),
        }
    }

    /// The catalogue: what the files hold, three bytes a space: `u16 BE id ‖ u8 expires`. It keeps a later opening from
    /// taking one space's rows for another's, which the expiring family could not tell.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let plain = self.plain.iter().map(|id| (*id, 0));
        plain
            .chain(self.expiring.map(|id| (id, 1)))
            .flat_map(|(SpaceId(id), kind)| [(id >> 8) as u8, id as u8, kind])
            .collect()
    }

    /// The catalogue to store if it differs from the stored one: what either knows. Fails if they contradict.
    pub(crate) fn merge(&self, stored: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut merged = stored.to_vec();
        for row in self.encode().chunks_exact(3) {
            if stored.chunks(3).any(|s| s == row) {
                continue;
            }
            let clash =
                stored.chunks(3).any(|s| s.get(..2) == row.get(..2) || row.get(2) == Some(&1) && s.get(2) == Some(&1));
            if clash {
                let id = row.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
                return Err(Error::new(ErrorKind::Invalid, "open shard")
                    .with("reason", "the files have this space, or another expiring one, of the other kind")
                    .with("id", id)
                    .with("remedy", "use the settings that the files were written with, or remove them"));
            }
            merged.extend_from_slice(row);
        }
        Ok((merged != stored).then_some(merged))
    }
}

#[cold]
fn unknown(space: SpaceId) -> Error {
    Error::new(ErrorKind::Invalid, "find space").with("reason", "the shard was not opened with it").with("id", space.0)
}

/// What all rows of one key in one bucket of a windowed store have in common: the expiry minute (4 bytes), the store (2),
/// and the key with its end mark `00 01` (a zero byte within is `00 FF`). None for keys of another form.
///
/// It is the prefix that the expiring family's bloom filters know. Nothing but speed depends on it: a walk uses the filters
/// only if its whole range lies in one such prefix.
pub(crate) fn window_prefix(key: &[u8]) -> Option<&[u8]> {
    let mut at = 6;
    loop {
        at += match key.get(at..)? {
            [0, 0xFF, ..] => 2,
            [0, 1, ..] => return key.get(..at + 2),
            [0, ..] | [] => return None,
            [..] => 1,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(id: u16, expires: bool) -> SpaceSpec {
        SpaceSpec { id: SpaceId(id), name: format!("s{id}"), expires }
    }

    #[test]
    fn reserved_keys_lie_before_all_spaces() {
        let first = Place::Plain([0, 0]).bounds(Range::ALL, &[]);
        assert!(METADATA < first.lower.as_slice() && CATALOGUE < METADATA);
        assert_eq!(first.upper, Some(vec![0, 1]));
        assert_eq!(Place::Plain([0xFF, 0xFF]).bounds(Range::ALL, &[]).upper, None);
    }

    #[test]
    fn stored_keys_have_the_space_in_front_however_long() {
        for len in [0, 1, 125, 126, 127, 500] {
            let key = vec![7; len];
            assert_eq!(Place::Plain([1, 2]).with_key(&key, <[u8]>::to_vec), [vec![1, 2], key.clone()].concat());
            assert_eq!(Place::Expiring.with_key(&key, <[u8]>::to_vec), key);
        }
    }

    #[test]
    fn bounds_are_half_open_and_begin_at_the_low_end() {
        let range = Range::new(Bound::Excluded(b"b"), Bound::Included(b"d"));
        let plain = Place::Plain([0, 3]).bounds(range, b"c");
        assert_eq!(plain, Bounds { lower: b"\0\x03b\0".to_vec(), upper: Some(b"\0\x03d\0".to_vec()) });
        assert_eq!(Place::Expiring.bounds(range, b"c"), Bounds { lower: b"c".to_vec(), upper: Some(b"d\0".to_vec()) });
        assert!(Place::Expiring.bounds(range, b"x").is_empty());
    }

    #[test]
    fn specifications_are_checked() {
        let spaces = Spaces::new(&[spec(9, false), spec(2, false), spec(5, true)]).unwrap();
        assert_eq!(spaces.place(SpaceId(9)).unwrap(), Place::Plain([0, 9]));
        assert_eq!(spaces.place(SpaceId(5)).unwrap(), Place::Expiring);
        assert_eq!(spaces.place(SpaceId(1)).unwrap_err().kind(), ErrorKind::Invalid);
        for bad in [[spec(1, false), spec(1, true)], [spec(1, true), spec(2, true)]] {
            assert_eq!(Spaces::new(&bad).unwrap_err().kind(), ErrorKind::Invalid);
        }
    }

    #[test]
    fn the_catalogue_grows_and_refuses_a_change_of_kind() {
        let old = Spaces::new(&[spec(1, false), spec(5, true)]).unwrap().encode();
        let merged = |specs: &[SpaceSpec]| Spaces::new(specs).unwrap().merge(&old);
        assert_eq!(merged(&[spec(1, false)]).unwrap(), None);
        assert_eq!(merged(&[spec(0x102, false)]).unwrap(), Some([old.clone(), vec![1, 2, 0]].concat()));
        for bad in [spec(1, true), spec(5, false), spec(6, true)] {
            assert_eq!(merged(&[bad]).unwrap_err().kind(), ErrorKind::Invalid);
        }
    }

    #[test]
    fn the_prefix_of_a_windowed_key_ends_with_the_end_mark() {
        let key = [&[0, 0, 0, 9, 0, 1][..], &[7, 0, 0xFF, 8, 0, 1], &[1, 2, 3, 4, 5, 6, 7, 8]].concat();
        assert_eq!(window_prefix(&key), key.get(..12));
        assert_eq!(window_prefix(&key[..12]), key.get(..12));
        for other in [&key[..11], b"", b"short", b"1234567890", &[0; 20]] {
            assert_eq!(window_prefix(other), None, "{other:?}");
        }
    }
}
