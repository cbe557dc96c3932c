//! A versioned store for one access: typed, over the task's bytes.

use std::marker::PhantomData;
use std::ops::RangeBounds;

use millpond_store_api as store;
use store::{Direction, VersionPut, Versioned};

use crate::error::{Error, ErrorKind, Result};
use crate::port::{LayerSpace, StoreAccess};
use crate::put_log::LoggedPut;
use crate::serde::Serde;
use crate::store::expiry::{observed, windowed};
use crate::store::kind::Opened;
use crate::store::rows::Rows;
use crate::store::window::times;
use crate::store::{Mode, Serdes, Stamped, StoreView, Writable};

/// A version of a key's value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct VersionedRecord<V> {
    /// The value.
    pub value: V,
    /// From when on it is valid, in milliseconds since 1970 (UTC).
    pub timestamp: i64,
    /// Until when it is valid, that time excluded: the time of the next version. `None` for the latest.
    pub valid_to: Option<i64>,
}

/// State is business data: the output shows no value.
impl<V> std::fmt::Debug for VersionedRecord<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VersionedRecord")
            .field("timestamp", &self.timestamp)
            .field("valid_to", &self.valid_to)
            .finish_non_exhaustive()
    }
}

/// Reads and writes, or [reads only](crate::ReadOnly), a versioned store (KIP-889): what a key's value was at any time of its history.
///
/// # Time
///
/// All times are event times in milliseconds since 1970 (UTC). A version is a value, or none (a tombstone), from its own time
/// on until the time of the key's next version; versions may be put in any order. The store has *observed* the greatest time
/// that was put, or a later one if its task has seen one. With *oldest* = observed − history retention,
///
/// * a version before *oldest* is not put: the answer is [`VersionPut::TooOld`], and a dropped record is counted;
/// * what was valid at or after *oldest* can be asked for; before it, only the latest version answers;
/// * the latest version never expires.
///
/// ```
/// use std::time::Duration;
/// use millpond_topology::*;
///
/// enum Event { Price(i64), Sold(i64) }
///
/// /// Values sales at the price that was valid when they happened, even if they come late.
/// struct Revenue(StoreRef<Versioned<String, i64>>);
///
/// impl Processor for Revenue {
///     type In = Record<String, Event>;
///     type Out = Record<String, i64>;
///
///     fn process(&mut self, cx: &mut Context<'_, Self>, record: Self::In) -> Result {
///         let Record { key, value, timestamp, .. } = record;
///         let mut prices = cx.store(&self.0)?;
///         match value {
///             Event::Price(price) => prices.put(&key, Some(&price), timestamp).map(drop),
///             Event::Sold(count) => match prices.get_as_of(&key, timestamp)? {
///                 Some(price) => cx.forward(Record::new(key, price.value * count, timestamp)),
///                 None => Ok(()),
///             },
///         }
///     }
/// }
///
/// let mut builder = Topology::builder();
/// let prices = builder.add_store(StoreSpec::versioned("prices", Duration::from_secs(86_400), Utf8, I64));
/// builder
///     .stream("events", Consumed::with(Utf8, I64))
///     .map_values(|n| if n > 0 { Event::Price(n) } else { Event::Sold(-n) })
///     .process(&prices, |_, prices| Ok(Revenue(prices)))
///     .to("revenue", Produced::with(Utf8, I64));
/// # builder.build().unwrap();
/// ```
pub struct VersionedView<'a, K, V, M = Writable> {
    inner: StoreView<'a, K, Stamped<V>>,
    mode: PhantomData<M>,
}

impl<K, V, M> std::fmt::Debug for VersionedView<'_, K, V, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VersionedView").field("store", &self.inner.store).finish_non_exhaustive()
    }
}

impl<'a, K: 'static, V: 'static, M: Mode> VersionedView<'a, K, V, M> {
    pub(crate) fn new(opened: Opened<'a>, serdes: &'a Serdes<K, Stamped<V>>) -> Self {
        Self { inner: StoreView::new(opened, serdes), mode: PhantomData }
    }

    /// The latest version of a key; `None` if that is a tombstone.
    pub fn get(&mut self, key: &K) -> Result<Option<VersionedRecord<V>>> {
        let found = self.inner.get(key)?;
        Ok(found.map(|latest| VersionedRecord { value: latest.value, timestamp: latest.timestamp, valid_to: None }))
    }

    /// The version of a key that was valid at a time. The latest one answers for any time from its own on, whatever the
    /// history retention.
    pub fn get_as_of(&mut self, key: &K, as_of: i64) -> Result<Option<VersionedRecord<V>>> {
        self.with_view(key, |view, key, values| {
            view.get_as_of(key, as_of)?.map(|found| typed(values, found)).transpose()
        })
    }

    /// Every version of a key that was valid at some time of a range, the earliest first, all at once. Of times that
    /// [`VersionedView::get_as_of`] does not answer for there is nothing.
    pub fn versions(&mut self, key: &K, valid: impl RangeBounds<i64>) -> Result<Vec<VersionedRecord<V>>> {
        self.history(key, times(&valid), Direction::Forward)
    }

    /// As [`VersionedView::versions`], the latest first.
    pub fn backward_versions(&mut self, key: &K, valid: impl RangeBounds<i64>) -> Result<Vec<VersionedRecord<V>>> {
        self.history(key, times(&valid), Direction::Reverse)
    }

    /// The latest version of every key that has a value, in the order of the keys' bytes.
    pub fn all(&mut self) -> Rows<K, Stamped<V>> {
        self.inner.all()
    }

    /// As [`VersionedView::all`], the last first.
    pub fn reverse_all(&mut self) -> Rows<K, Stamped<V>> {
        self.inner.reverse_all()
    }

    /// The latest versions between two keys; see [`StoreView::range`].
    pub fn range(&mut self, range: impl RangeBounds<K>) -> Result<Rows<K, Stamped<V>>> {
        self.inner.range(range)
    }

    /// As [`VersionedView::range`], the last first.
    pub fn reverse_range(&mut self, range: impl RangeBounds<K>) -> Result<Rows<K, Stamped<V>>> {
        self.inner.reverse_range(range)
    }

    /// The latest versions of keys that begin with a prefix; see [`StoreView::prefix`].
    pub fn prefix<P>(&mut self, prefix: &P, serde: &impl Serde<P>) -> Result<Rows<K, Stamped<V>>> {
        self.inner.prefix(prefix, serde)
    }

    /// About how many keys have a value now; see [`StoreView::approximate_num_entries`].
    pub fn approximate_num_entries(&mut self) -> Result<u64> {
        self.inner.approximate_num_entries()
    }

    /// What the store has observed (milliseconds since 1970); -1 before the first record.
    pub fn observed(&self) -> i64 {
        observed(&self.inner.access)
    }
}

impl<K: 'static, V: 'static> VersionedView<'_, K, V> {
    /// Puts a version of a key; one of the same time is replaced. `None`, or a value that stands for null, is a tombstone:
    /// from then on the key has no value.
    ///
    /// An error if the time lies before 1970: it is that of the record in the changelog.
    pub fn put(&mut self, key: &K, value: Option<&V>, timestamp: i64) -> Result<VersionPut> {
        self.inner.write_key(key)?;
        let StoreView { access, bytes, row, serdes, .. } = &mut self.inner;
        let end = bytes.len();
        let some = value.map_or(Ok(false), |value| serdes.values().coder().encode(value, bytes))?;
        let (key, value) = bytes.split_at(end);
        put(access, row, key, some.then_some(value), timestamp)
    }

    /// Puts a tombstone, and gives back what was valid at its time; nothing if that is too old to be put. An error as for
    /// [`VersionedView::put`].
    pub fn delete(&mut self, key: &K, timestamp: i64) -> Result<Option<VersionedRecord<V>>> {
        let found = self.get_as_of(key, timestamp)?;
        let put = self.put(key, None, timestamp)?;
        Ok(found.filter(|_| put != VersionPut::TooOld))
    }
}

impl<K: 'static, V: 'static, M: Mode> VersionedView<'_, K, V, M> {
    fn history(&mut self, key: &K, (from, to): (i64, i64), direction: Direction) -> Result<Vec<VersionedRecord<V>>> {
        self.with_view(key, |view, key, values| {
            let (mut found, mut failed) = (Vec::new(), None);
            view.versions(key, from, to, direction, &mut |record| match typed(values, record) {
                Ok(record) => {
                    found.push(record);
                    Ok(true)
                }
                Err(error) => {
                    failed = Some(error);
                    Ok(false)
                }
            })?;
            failed.map_or(Ok(found), Err)
        })
    }

    /// Reads a key by the view of bytes.
    fn with_view<T>(
        &mut self,
        key: &K,
        read: impl FnOnce(&mut Versioned<'_, LayerSpace<'_>>, &[u8], &Stamped<V>) -> Result<T>,
    ) -> Result<T> {
        self.inner.write_key(key)?;
        let StoreView { access, bytes, serdes, .. } = &mut self.inner;
        let timestamp = access.timestamp;
        let (mut latest, mut history, beside) = windowed(access, timestamp)?;
        let mut view = Versioned::new(&mut latest, &mut history, beside.store, beside.retention, *beside.observed);
        read(&mut view, bytes, serdes.values())
    }
}

/// Puts a version into the history and the log, or counts that it is too old.
pub(crate) fn put(
    access: &mut StoreAccess<'_>,
    row: &mut Vec<u8>,
    key: &[u8],
    value: Option<&[u8]>,
    timestamp: i64,
) -> Result<VersionPut> {
    if timestamp < 0 {
        return Err(before_1970(timestamp));
    }
    let (mut latest, mut history, beside) = windowed(access, timestamp)?;
    let mut view = Versioned::new(&mut latest, &mut history, beside.store, beside.retention, *beside.observed)
        .with_buffer(std::mem::take(row));
    let put = view.put(key, value, timestamp)?;
    *beside.observed = view.observed();
    *row = view.into_buffer();
    match (put, beside.puts) {
        (VersionPut::TooOld, _) => *beside.refused += 1,
        (VersionPut::Latest | VersionPut::ValidTo(_), Some(puts)) => puts.push(LoggedPut { key, value, timestamp }),
        (VersionPut::Latest | VersionPut::ValidTo(_), None) => {}
    }
    Ok(put)
}

fn typed<V: 'static>(values: &Stamped<V>, record: store::VersionedRecord<'_>) -> Result<VersionedRecord<V>> {
    let store::VersionedRecord { value, timestamp, valid_to } = record;
    Ok(VersionedRecord { value: values.coder().decode(value)?, timestamp, valid_to })
}

#[cold]
fn before_1970(timestamp: i64) -> Error {
    Error::new(ErrorKind::Serialization, "put a version")
        .with("cause", "its time lies before 1970")
        .with("timestamp", timestamp)
}
