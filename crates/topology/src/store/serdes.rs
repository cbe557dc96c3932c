//! The serdes of a store, and its keys as bytes.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::serde::Coder;

/// The serdes of a store, shared by everything that has a handle.
pub struct Serdes<K, C>(Arc<Pair<K, C>>);

struct Pair<K, C> {
    key: Coder<K>,
    values: C,
}

impl<K, C> Clone for Serdes<K, C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K, C> std::fmt::Debug for Serdes<K, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Serdes")
    }
}

impl<K: 'static, C> Serdes<K, C> {
    pub(crate) fn new(key: Coder<K>, values: C) -> Self {
        Self(Arc::new(Pair { key, values }))
    }

    pub(crate) fn key(&self) -> &Coder<K> {
        &self.0.key
    }

    pub(crate) fn values(&self) -> &C {
        &self.0.values
    }

    /// The ends of a range as bytes. A null end is an open end, as in Kafka Streams.
    ///
    /// An error if the bytes do not sort as the keys do, unless the range is open on both sides.
    pub(crate) fn bounds(&self, range: &impl RangeBounds<K>) -> Result<[Bound<Vec<u8>>; 2]> {
        let ends = (range.start_bound(), range.end_bound());
        if matches!(ends, (Bound::Unbounded, Bound::Unbounded)) {
            return Ok([Bound::Unbounded, Bound::Unbounded]);
        }
        if !self.key().ordered() {
            let cause =
                "the bytes of this key's serde do not sort as the keys do; use an ordered one, or scan all rows";
            return Err(Error::new(ErrorKind::Topology, "scan a range").with("cause", cause));
        }
        Ok([self.bound(ends.0)?, self.bound(ends.1)?])
    }

    fn bound(&self, bound: Bound<&K>) -> Result<Bound<Vec<u8>>> {
        let mut out = Vec::new();
        let encoded = match bound {
            Bound::Included(key) | Bound::Excluded(key) => self.key().encode(key, &mut out)?,
            Bound::Unbounded => false,
        };
        Ok(match bound {
            _ if !encoded => Bound::Unbounded,
            Bound::Included(_) => Bound::Included(out),
            _ => Bound::Excluded(out),
        })
    }
}
