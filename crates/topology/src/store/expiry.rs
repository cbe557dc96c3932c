//! What stores whose rows expire ask of an access.

use millpond_store_api as store;
use store::schema::Buckets;

use crate::error::{Error, ErrorKind, Result};
use crate::port::{Expiry, LayerSpace, StoreAccess};
use crate::store::Values;

/// The store's space, and what a store has beside whose rows expire.
pub(crate) fn expiring<'s, 'a>(access: &'s mut StoreAccess<'a>) -> Result<(LayerSpace<'s>, &'s mut Expiry<'a>)> {
    let StoreAccess { layer, base, timestamp, expiry } = access;
    let expiry = expiry.as_mut().ok_or_else(no_expiry)?;
    Ok((LayerSpace { layer: &mut **layer, base: *base, timestamp: *timestamp }, expiry))
}

/// What a store has beside that has rows in its own space as well as in the windowed one.
pub(crate) fn windowed<'s, 'a>(
    access: &'s mut StoreAccess<'a>,
    timestamp: i64,
) -> Result<(LayerSpace<'s>, LayerSpace<'s>, Beside<'s>)> {
    let StoreAccess { layer, base, expiry, .. } = access;
    let Expiry { store, retention, observed, refused, windowed, puts, .. } = expiry.as_mut().ok_or_else(no_expiry)?;
    let windowed = windowed.as_mut().ok_or_else(no_expiry)?;
    let own = LayerSpace { layer: &mut **layer, base: *base, timestamp };
    let windowed = LayerSpace { layer: &mut **windowed, base: *base, timestamp };
    Ok((own, windowed, Beside { store: *store, retention: *retention, observed, refused, puts: puts.as_deref_mut() }))
}

/// [`Expiry`] without its layer.
pub(crate) struct Beside<'s> {
    pub(crate) store: u16,
    pub(crate) retention: i64,
    pub(crate) observed: &'s mut i64,
    pub(crate) refused: &'s mut u64,
    pub(crate) puts: Option<&'s mut crate::put_log::PutLog>,
}

/// What the store has observed, in milliseconds.
pub(crate) fn observed(access: &StoreAccess<'_>) -> i64 {
    access.expiry.as_ref().map_or(i64::MIN, |expiry| *expiry.observed)
}

/// The earliest time of a row that is there; for values that do not expire, one that all rows have.
#[inline]
pub(crate) fn earliest<C: Values>(access: &StoreAccess<'_>) -> i64 {
    if !C::EXPIRES {
        return i64::MIN;
    }
    // Where the task offers nothing, all rows are there: the first put is the error.
    access.expiry.as_ref().map_or(i64::MIN, earliest_alive)
}

/// As [`earliest`], of a store whose rows expire.
pub(crate) fn earliest_alive(expiry: &Expiry<'_>) -> i64 {
    // None is alive where the retention is nothing, which is no retention that a store can be built with.
    Buckets::new(expiry.retention).earliest_alive(*expiry.observed).unwrap_or(i64::MAX)
}

/// Whether a row with these bytes as value is there.
#[inline]
pub(crate) fn is_alive<C: Values>(value: &[u8], earliest: i64) -> Result<bool> {
    Ok(!C::EXPIRES || store::ValueAndTimestamp::decode(value)?.timestamp >= earliest)
}

#[cold]
fn no_expiry() -> Error {
    Error::new(ErrorKind::Topology, "open a store whose rows expire")
        .with("cause", "the task did not give its retention")
}
