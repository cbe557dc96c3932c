//! What a time to live adds to a key-value store.

use millpond_store_api as store;
use store::TtlKeyValue;

use crate::error::Result;
use crate::port::StoreAccess;
use crate::store::expiry::{earliest, observed, windowed};
use crate::store::{Expiring, Mode, StoreView};

/// Sets a key, or counts that its value has expired: then the answer is false.
pub(crate) fn put(access: &mut StoreAccess<'_>, row: &mut Vec<u8>, key: &[u8], value: &[u8]) -> Result<bool> {
    let value = store::ValueAndTimestamp::decode(value)?;
    let (mut rows, mut index, beside) = windowed(access, value.timestamp)?;
    let mut view = TtlKeyValue::new(&mut rows, &mut index, beside.store, beside.retention, *beside.observed)
        .with_buffer(std::mem::take(row));
    let put = view.put(key, value)?;
    *beside.observed = view.observed();
    *row = view.into_buffer();
    *beside.refused += u64::from(!put);
    Ok(put)
}

/// A value of this time has been offered.
pub(super) fn observe(access: &mut StoreAccess<'_>, timestamp: Option<i64>) {
    if let (Some(expiry), Some(timestamp)) = (&mut access.expiry, timestamp) {
        *expiry.observed = (*expiry.observed).max(timestamp);
    }
}

impl<K: 'static, V: 'static, M: Mode> StoreView<'_, K, Expiring<V>, M> {
    /// Whether a value of this event time (milliseconds) would be put, and would be there.
    pub fn is_alive(&self, timestamp: i64) -> bool {
        earliest::<Expiring<V>>(&self.access) <= timestamp
    }

    /// What the store has observed (milliseconds since 1970): a row is there while its time is greater than this minus the
    /// time to live. -1 before the first record.
    pub fn observed(&self) -> i64 {
        observed(&self.access)
    }
}
