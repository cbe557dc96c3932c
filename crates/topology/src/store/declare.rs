//! How a store of each kind is declared.

use std::sync::Arc;
use std::time::Duration;

use crate::millis::counted;
use crate::serde::{Coder, Serde};
use crate::store::window::{WindowSerdes, Windows};
use crate::store::{
    AggregateWithHeaders, Expiring, KeyValue, ListValue, Listed, Plain, Retention, Serdes, Session, SessionWithHeaders,
    Stamped, StampedWithHeaders, StoreKind, StoreSpec, TimestampedKeyValue, TimestampedKeyValueWithHeaders,
    TimestampedWindow, TimestampedWindowWithHeaders, TtlKeyValue, Versioned, Window,
};

fn serdes<K: 'static, V: 'static, C>(
    key: impl Serde<K>,
    value: impl Serde<V>,
    values: fn(Coder<V>) -> C,
) -> Serdes<K, C> {
    Serdes::new(Coder::key(Arc::new(key)), values(Coder::value(Arc::new(value))))
}

impl<K: 'static, V: 'static> StoreSpec<KeyValue<K, V>> {
    /// A store of keys and values.
    pub fn key_value(name: &str, key: impl Serde<K>, value: impl Serde<V>) -> Self {
        Self::new(name, serdes(key, value, Plain::new))
    }
}

impl<K: 'static, V: 'static> StoreSpec<TimestampedKeyValue<K, V>> {
    /// A store of keys and values with the event time of their last update.
    pub fn timestamped_key_value(name: &str, key: impl Serde<K>, value: impl Serde<V>) -> Self {
        Self::new(name, serdes(key, value, Stamped::new))
    }
}

impl<K: 'static, V: 'static> StoreSpec<TimestampedKeyValueWithHeaders<K, V>> {
    /// A store of keys and values with the event time and the headers of their last update.
    pub fn timestamped_key_value_with_headers(name: &str, key: impl Serde<K>, value: impl Serde<V>) -> Self {
        Self::new(name, serdes(key, value, StampedWithHeaders::new))
    }
}

impl<K: 'static, V: 'static> StoreSpec<ListValue<K, V>> {
    /// A store with a list of values under each key.
    pub fn list_value(name: &str, key: impl Serde<K>, value: impl Serde<V>) -> Self {
        Self::new(name, serdes(key, value, Listed::new))
    }
}

impl<K: 'static, V: 'static> StoreSpec<TtlKeyValue<K, V>> {
    /// A store of keys and values with the event time of their last update, in which a row lives for `time_to_live` of event
    /// time.
    pub fn ttl_key_value(name: &str, time_to_live: Duration, key: impl Serde<K>, value: impl Serde<V>) -> Self {
        Self::new(name, serdes(key, value, Expiring::new)).kept_for("time to live", time_to_live)
    }
}

impl<K: 'static, V: 'static> StoreSpec<Versioned<K, V>> {
    /// A store with all versions of each key's value. What was valid can be asked for, and put, as long as it is not older
    /// than `history_retention` by event time; with none at all there are the latest versions.
    pub fn versioned(name: &str, history_retention: Duration, key: impl Serde<K>, value: impl Serde<V>) -> Self {
        let mut spec = Self::new(name, serdes(key, value, Stamped::new));
        let millis = if history_retention.is_zero() { 0 } else { spec.millis("history retention", history_retention) };
        spec.def.retention = Some(Retention::of_millis(millis));
        spec
    }
}

macro_rules! window_stores {
    ($($(#[$doc:meta])* $kind:ident, $function:ident, $values:ident;)+) => {$(
        impl<K: 'static, V: 'static> StoreSpec<$kind<K, V>> {
            $(#[$doc])*
            ///
            /// The retention must not be shorter than a window. A window is gone when the store has observed a time that
            /// lies so much after its *start*: a window in which updates may come late needs its size and that time. The
            /// size of the windows is only what the end of each key that is read is calculated with.
            pub fn $function(
                name: &str,
                retention: Duration,
                window_size: Duration,
                key: impl Serde<K>,
                value: impl Serde<V>,
            ) -> Self {
                let windows = Windows { size: 0, duplicates: false };
                let serdes = WindowSerdes { serdes: serdes(key, value, $values::new), windows };
                let mut spec = Self::new(name, serdes).kept_for("retention", retention);
                spec.serdes.windows.size = spec.windows_of(window_size);
                spec
            }

            /// Every value that is put for a key and window start is kept, as the join of two streams needs it. Their changelog
            /// is not compacted, and there is no caching.
            #[must_use]
            pub fn retain_duplicates(mut self) -> Self {
                self.serdes.windows.duplicates = true;
                if let Some(retention) = &mut self.def.retention {
                    retention.duplicates = true;
                }
                self
            }
        }
    )+};
}

window_stores! {
    /// A store of values by key and window start.
    Window, window, Plain;

    /// A store of values by key and window start, with the event time of their last update.
    TimestampedWindow, timestamped_window, Stamped;

    /// A store of values by key and window start, with the event time and the headers of their last update.
    TimestampedWindowWithHeaders, timestamped_window_with_headers, StampedWithHeaders;
}

impl<K: 'static, V: 'static> StoreSpec<Session<K, V>> {
    /// A store of values by key and session. A session is gone when the store has observed a time that lies `retention` after
    /// its end.
    pub fn session(name: &str, retention: Duration, key: impl Serde<K>, value: impl Serde<V>) -> Self {
        Self::new(name, serdes(key, value, Plain::new)).kept_for("retention", retention)
    }
}

impl<K: 'static, V: 'static> StoreSpec<SessionWithHeaders<K, V>> {
    /// As [`StoreSpec::session`], with the headers of their last update.
    pub fn session_with_headers(name: &str, retention: Duration, key: impl Serde<K>, value: impl Serde<V>) -> Self {
        Self::new(name, serdes(key, value, AggregateWithHeaders::new)).kept_for("retention", retention)
    }
}

impl<T: StoreKind> StoreSpec<T> {
    pub(crate) fn kept_for(mut self, what: &str, duration: Duration) -> Self {
        let millis = self.millis(what, duration);
        self.def.retention = Some(Retention::of_millis(millis));
        self
    }

    /// The size of the windows in milliseconds; compares it with the retention.
    fn windows_of(&mut self, size: Duration) -> i64 {
        let size = self.millis("window size", size);
        let retention = self.def.retention.map_or(0, |retention| retention.millis);
        if retention < size && self.mistakes.is_empty() {
            self.mistakes.push(format!(
                "the store `{}` has a retention of {retention} ms and windows of {size} ms, which would expire before they \
                 end; make the retention at least {size} ms",
                self.def.name
            ));
        }
        size
    }

    fn millis(&mut self, what: &str, duration: Duration) -> i64 {
        counted(duration, 1).unwrap_or_else(|wrong| {
            self.mistakes.push(format!("the store `{}` has a {what} of {wrong}", self.def.name));
            0
        })
    }
}
