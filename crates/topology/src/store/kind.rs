//! The kinds of stores, as types.

use std::marker::PhantomData;

use crate::node::{Buffers, TaskIdentity};
use crate::port::{StoreAccess, StoreIndex};
use crate::store::{
    AggregateWithHeaders, Expiring, Listed, Mode, Plain, Serdes, SessionView, Stamped, StampedWithHeaders, StoreType,
    StoreView, VersionedView, WindowSerdes, WindowView,
};

pub(crate) mod sealed {
    /// What only this crate implements.
    pub trait Sealed {}
}

/// A kind of store, such as [`KeyValue`] or [`Window`]. It is a mark in the type of handles, never a value.
pub trait StoreKind: sealed::Sealed + 'static {
    /// The serdes of the kind's parts.
    type Serdes: Clone + Send + Sync + 'static;

    /// What a processor reads and writes it through, or only reads.
    type View<'a, M: Mode>;

    /// The kind, as the runtime knows it.
    const TYPE: StoreType;

    #[doc(hidden)]
    fn view<'a, M: Mode>(access: Opened<'a>, serdes: &'a Self::Serdes) -> Self::View<'a, M>;
}

/// A store that a view is made of.
pub struct Opened<'a> {
    pub(crate) access: StoreAccess<'a>,
    pub(crate) buffers: &'a mut Buffers,
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
    buffers: &'a mut Buffers,
    store: StoreIndex,
    task: TaskIdentity,
) -> Opened<'a> {
    Opened { access, buffers, store, task }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident($type:ident), $serdes:ty, $view:ty;)+) => {$(
        $(#[$doc])*
        pub struct $kind<K, V>(PhantomData<fn() -> (K, V)>);

        impl<K, V> std::fmt::Debug for $kind<K, V> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(stringify!($kind))
            }
        }

        impl<K: 'static, V: 'static> sealed::Sealed for $kind<K, V> {}

        impl<K: 'static, V: 'static> StoreKind for $kind<K, V> {
            type Serdes = $serdes;
            type View<'a, M: Mode> = $view;

            const TYPE: StoreType = StoreType::$type;

            #[inline]
            fn view<'a, M: Mode>(opened: Opened<'a>, serdes: &'a Self::Serdes) -> Self::View<'a, M> {
                <$view>::new(opened, serdes)
            }
        }
    )+};
}

kinds! {
    /// A store of keys and values.
    KeyValue(KeyValue), Serdes<K, Plain<V>>, StoreView<'a, K, Plain<V>, M>;

    /// A store of keys and values with the event time of their last update; the kind behind tables and aggregations, in Kafka
    /// Streams' bytes.
    ///
    /// ```
    /// use millpond_topology::*;
    ///
    /// /// Keeps the newest reading of each sensor, whatever the order in which they come.
    /// struct Newest(StoreRef<TimestampedKeyValue<String, i64>>);
    ///
    /// impl Processor for Newest {
    ///     type In = Record<String, i64>;
    ///     type Out = Record<String, i64>;
    ///
    ///     fn process(&mut self, cx: &mut Context<'_, Self>, reading: Self::In) -> Result {
    ///         let new = ValueAndTimestamp { value: reading.value, timestamp: reading.timestamp };
    ///         let mut readings = cx.store(&self.0)?;
    ///         readings.update(&reading.key, |old| old.filter(|old| old.timestamp > new.timestamp).or(Some(new))).map(drop)
    ///     }
    /// }
    ///
    /// let mut builder = Topology::builder();
    /// let newest = builder.timestamped_key_value_store("newest", Utf8, I64);
    /// let _ = builder.stream("readings", Consumed::with(Utf8, I64)).process(&newest, |_, newest| Ok(Newest(newest)));
    /// # builder.build().unwrap();
    /// ```
    TimestampedKeyValue(TimestampedKeyValue), Serdes<K, Stamped<V>>, StoreView<'a, K, Stamped<V>, M>;

    /// A store of keys and values with the event time and the headers of their last update (KIP-1271).
    ///
    /// ```
    /// use millpond_topology::*;
    ///
    /// /// Keeps the last order of each customer, with the headers that it came with.
    /// struct Last(StoreRef<TimestampedKeyValueWithHeaders<String, String>>);
    ///
    /// impl Processor for Last {
    ///     type In = Record<String, String>;
    ///     type Out = Record<String, String>;
    ///
    ///     fn process(&mut self, cx: &mut Context<'_, Self>, order: Self::In) -> Result {
    ///         let Record { key, value, timestamp, headers } = order;
    ///         cx.store(&self.0)?.put(&key, &ValueTimestampHeaders { value, timestamp, headers })
    ///     }
    /// }
    ///
    /// let mut builder = Topology::builder();
    /// let last = builder.add_store(StoreSpec::timestamped_key_value_with_headers("last", Utf8, Utf8));
    /// let _ = builder.stream("orders", Consumed::with(Utf8, Utf8)).process(&last, |_, last| Ok(Last(last)));
    /// # builder.build().unwrap();
    /// ```
    TimestampedKeyValueWithHeaders(TimestampedKeyValueWithHeaders), Serdes<K, StampedWithHeaders<V>>, StoreView<'a, K, StampedWithHeaders<V>, M>;

    /// A store of keys and values with the event time of their last update, which live for a while: what has expired is
    /// never seen again, and is deleted in the background. Kafka Streams has no such store.
    ///
    /// ```
    /// use std::time::Duration;
    /// use millpond_topology::*;
    ///
    /// /// Lets the first record of each key through, once an hour of event time.
    /// struct Dedup(StoreRef<TtlKeyValue<String, i64>>);
    ///
    /// impl Processor for Dedup {
    ///     type In = Record<String, i64>;
    ///     type Out = Record<String, i64>;
    ///
    ///     fn process(&mut self, cx: &mut Context<'_, Self>, record: Self::In) -> Result {
    ///         let seen = ValueAndTimestamp { value: record.value, timestamp: record.timestamp };
    ///         if cx.store(&self.0)?.put_if_absent(&record.key, &seen)?.is_none() {
    ///             cx.forward(record)?;
    ///         }
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let mut builder = Topology::builder();
    /// let seen = builder.add_store(StoreSpec::ttl_key_value("seen", Duration::from_secs(3600), Utf8, I64));
    /// let _ = builder.stream("orders", Consumed::with(Utf8, I64)).process(&seen, |_, seen| Ok(Dedup(seen)));
    /// # builder.build().unwrap();
    /// ```
    TtlKeyValue(TtlKeyValue), Serdes<K, Expiring<V>>, StoreView<'a, K, Expiring<V>, M>;

    /// A store with all versions of each key's value, for as long as its history retention (KIP-889). See
    /// [`VersionedView`].
    Versioned(VersionedKeyValue), Serdes<K, Stamped<V>>, VersionedView<'a, K, V, M>;

    /// A store with a list of values under each key. An append copies the list: it is meant for a few values per key, such
    /// as records that wait for something.
    ///
    /// ```
    /// use millpond_topology::*;
    ///
    /// /// Holds orders back until their customer is known; a record without a value says that it is.
    /// struct Wait(StoreRef<ListValue<String, i64>>);
    ///
    /// impl Processor for Wait {
    ///     type In = Record<String, Option<i64>>;
    ///     type Out = Record<String, i64>;
    ///
    ///     fn process(&mut self, cx: &mut Context<'_, Self>, r: Self::In) -> Result {
    ///         let mut waiting = cx.store(&self.0)?;
    ///         let Some(order) = r.value else {
    ///             for order in waiting.remove(&r.key)?.unwrap_or_default() {
    ///                 cx.forward(Record::new(r.key.clone(), order, r.timestamp))?;
    ///             }
    ///             return Ok(());
    ///         };
    ///         waiting.append(&r.key, &order)
    ///     }
    /// }
    ///
    /// let mut builder = Topology::builder();
    /// let waiting = builder.add_store(StoreSpec::list_value("waiting", Utf8, I64));
    /// let _ = builder.stream("in", Consumed::with(Utf8, Nullable(I64))).process(&waiting, |_, w| Ok(Wait(w)));
    /// # builder.build().unwrap();
    /// ```
    ListValue(ListValue), Serdes<K, Listed<V>>, StoreView<'a, K, Listed<V>, M>;

    /// A store of values by key and window start, for as long as its retention. See [`WindowView`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use millpond_topology::*;
    ///
    /// /// Answers each click with the views of its page in the ten seconds before, one by one.
    /// struct Join(StoreRef<Window<String, String>>);
    ///
    /// impl Processor for Join {
    ///     type In = Record<String, String>;
    ///     type Out = Record<String, String>;
    ///
    ///     fn process(&mut self, cx: &mut Context<'_, Self>, click: Self::In) -> Result {
    ///         let mut views = cx.store(&self.0)?.fetch(&click.key, click.timestamp - 10_000..=click.timestamp)?;
    ///         while let Some((at, view)) = views.next(cx)? {
    ///             cx.forward(Record::new(at.key, format!("{view} {}", click.value), click.timestamp))?;
    ///         }
    ///         Ok(())
    ///     }
    /// }
    ///
    /// /// Keeps them.
    /// struct Keep(StoreRef<Window<String, String>>);
    ///
    /// impl Processor for Keep {
    ///     type In = Record<String, String>;
    ///     type Out = Record<String, String>;
    ///
    ///     fn process(&mut self, cx: &mut Context<'_, Self>, view: Self::In) -> Result {
    ///         cx.store(&self.0)?.put(&view.key, view.timestamp, &view.value).map(drop)
    ///     }
    /// }
    ///
    /// let (retention, size) = (Duration::from_secs(60), Duration::from_millis(1));
    /// let mut builder = Topology::builder();
    /// let views = builder.add_store(StoreSpec::window("views", retention, size, Utf8, Utf8).retain_duplicates());
    /// let _ = builder.stream("views", Consumed::with(Utf8, Utf8)).process(&views, |_, views| Ok(Keep(views)));
    /// builder
    ///     .stream("clicks", Consumed::with(Utf8, Utf8))
    ///     .process(&views, |_, views| Ok(Join(views)))
    ///     .to("joined", Produced::with(Utf8, Utf8));
    /// # builder.build().unwrap();
    /// ```
    Window(Window), WindowSerdes<K, Plain<V>>, WindowView<'a, K, Plain<V>, M>;

    /// A window store whose values have the event time of their last update: what windowed aggregations use. See
    /// [`WindowView`].
    TimestampedWindow(TimestampedWindow), WindowSerdes<K, Stamped<V>>, WindowView<'a, K, Stamped<V>, M>;

    /// A window store whose values have the event time and the headers of their last update (KIP-1271). See
    /// [`WindowView`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use millpond_topology::*;
    ///
    /// /// Keeps the last reading of each minute, with its headers.
    /// struct Sample(StoreRef<TimestampedWindowWithHeaders<String, i64>>);
    ///
    /// impl Processor for Sample {
    ///     type In = Record<String, i64>;
    ///     type Out = Record<String, i64>;
    ///
    ///     fn process(&mut self, cx: &mut Context<'_, Self>, reading: Self::In) -> Result {
    ///         let Record { key, value, timestamp, headers } = reading;
    ///         let minute = timestamp - timestamp % 60_000;
    ///         cx.store(&self.0)?.put(&key, minute, &ValueTimestampHeaders { value, timestamp, headers }).map(drop)
    ///     }
    /// }
    ///
    /// let (day, minute) = (Duration::from_secs(86_400), Duration::from_secs(60));
    /// let spec = StoreSpec::timestamped_window_with_headers("samples", day, minute, Utf8, I64);
    /// let mut builder = Topology::builder();
    /// let samples = builder.add_store(spec);
    /// let _ = builder.stream("readings", Consumed::with(Utf8, I64)).process(&samples, |_, samples| Ok(Sample(samples)));
    /// # builder.build().unwrap();
    /// ```
    TimestampedWindowWithHeaders(TimestampedWindowWithHeaders), WindowSerdes<K, StampedWithHeaders<V>>, WindowView<'a, K, StampedWithHeaders<V>, M>;

    /// A store of values by key and session, for as long as its retention. See [`SessionView`].
    Session(Session), Serdes<K, Plain<V>>, SessionView<'a, K, Plain<V>, M>;

    /// A session store whose values have the headers of their last update (KIP-1271). See [`SessionView`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use millpond_topology::*;
    ///
    /// /// Keeps calls, with the headers of the record that told that they are over.
    /// struct Calls(StoreRef<SessionWithHeaders<String, i64>>);
    ///
    /// impl Processor for Calls {
    ///     type In = Record<String, i64>;
    ///     type Out = Record<String, i64>;
    ///
    ///     fn process(&mut self, cx: &mut Context<'_, Self>, call: Self::In) -> Result {
    ///         let Record { key, value: seconds, timestamp: end, headers } = call;
    ///         let session = Windowed { key, start: end - seconds * 1000, end };
    ///         cx.store(&self.0)?.put(&session, &AggregationWithHeaders { aggregation: seconds, headers }).map(drop)
    ///     }
    /// }
    ///
    /// let spec = StoreSpec::session_with_headers("calls", Duration::from_secs(86_400), Utf8, I64);
    /// let mut builder = Topology::builder();
    /// let calls = builder.add_store(spec);
    /// let _ = builder.stream("calls", Consumed::with(Utf8, I64)).process(&calls, |_, calls| Ok(Calls(calls)));
    /// # builder.build().unwrap();
    /// ```
    SessionWithHeaders(SessionWithHeaders), Serdes<K, AggregateWithHeaders<V>>, SessionView<'a, K, AggregateWithHeaders<V>, M>;
}
