//! The kinds of stores, as types.

use std::marker::PhantomData;

use crate::node::TaskIdentity;
use crate::port::{StoreAccess, StoreIndex};
use crate::store::{Plain, Serdes, Stamped, StoreType, StoreView};

pub(crate) mod sealed {
    /// What only this crate implements.
    pub trait Sealed {}
}

/// A kind of store: [`KeyValue`] or [`TimestampedKeyValue`]. It is a mark in the type of handles, never a value.
pub trait StoreKind: sealed::Sealed + 'static {
    /// The serdes of the kind's parts.
    type Serdes: Clone + Send + Sync + 'static;

    /// What a processor reads and writes it through.
    type View<'a>;

    /// The kind, as the runtime knows it.
    const TYPE: StoreType;

    #[doc(hidden)]
    fn view<'a>(access: Opened<'a>, serdes: &'a Self::Serdes) -> Self::View<'a>;
}

/// A store that a view is made of.
pub struct Opened<'a> {
    pub(crate) access: StoreAccess<'a>,
    pub(crate) scratch: &'a mut Vec<u8>,
    pub(crate) store: StoreIndex,
    pub(crate) task: TaskIdentity,
}

impl std::fmt::Debug for Opened<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened").field("store", &self.store).finish_non_exhaustive()
    }
}

/// The parts of a view.
pub(crate) fn with_access<'a>(
    access: StoreAccess<'a>,
    scratch: &'a mut Vec<u8>,
    store: StoreIndex,
    task: TaskIdentity,
) -> Opened<'a> {
    Opened { access, scratch, store, task }
}

/// A store of keys and values.
pub struct KeyValue<K, V>(PhantomData<fn() -> (K, V)>);

/// A store of keys and values with the event time of their last update; the kind behind tables and aggregations, in Kafka
/// Streams' bytes.
pub struct TimestampedKeyValue<K, V>(PhantomData<fn() -> (K, V)>);

impl<K, V> std::fmt::Debug for KeyValue<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyValue")
    }
}

impl<K, V> std::fmt::Debug for TimestampedKeyValue<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TimestampedKeyValue")
    }
}

impl<K: 'static, V: 'static> sealed::Sealed for KeyValue<K, V> {}

impl<K: 'static, V: 'static> StoreKind for KeyValue<K, V> {
    type Serdes = Serdes<K, Plain<V>>;
    type View<'a> = StoreView<'a, K, Plain<V>>;

    const TYPE: StoreType = StoreType::KeyValue;

    #[inline]
    fn view<'a>(opened: Opened<'a>, serdes: &'a Self::Serdes) -> Self::View<'a> {
        StoreView::new(opened, serdes)
    }
}

impl<K: 'static, V: 'static> sealed::Sealed for TimestampedKeyValue<K, V> {}

impl<K: 'static, V: 'static> StoreKind for TimestampedKeyValue<K, V> {
    type Serdes = Serdes<K, Stamped<V>>;
    type View<'a> = StoreView<'a, K, Stamped<V>>;

    const TYPE: StoreType = StoreType::TimestampedKeyValue;

    #[inline]
    fn view<'a>(opened: Opened<'a>, serdes: &'a Self::Serdes) -> Self::View<'a> {
        StoreView::new(opened, serdes)
    }
}
