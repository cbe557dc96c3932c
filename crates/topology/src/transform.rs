//! User code that makes a table's values from another table's, with stores.

use crate::error::Result;
use crate::headers::Headers;
use crate::node::TaskCx;
use crate::store::{StoreKind, StoreRef, ViewSet, Writable, with_access};

/// Makes a row's value from that of another table's row, with what it keeps itself and in stores. What
/// [`Table::transform_values`](crate::Table::transform_values) takes; a closure
/// `FnMut(&mut RowContext, &K, Option<V>) -> Result<Option<W>>` is one.
///
/// It is made by its supplier, once per build of a task's graph, and never shared.
///
/// ```
/// use millpond_topology::*;
///
/// /// Says how much a price has changed since the last one.
/// struct Difference(StoreRef<KeyValue<String, i64>>);
///
/// impl ValueTransformer<String, i64, i64> for Difference {
///     fn transform(&mut self, cx: &mut RowContext<'_>, key: &String, price: Option<i64>) -> Result<Option<i64>> {
///         let mut last = cx.store(&self.0)?;
///         let before = last.get(key)?;
///         match &price {
///             Some(price) => last.put(key, price)?,
///             None => last.delete(key)?,
///         }
///         Ok(price.map(|price| price - before.unwrap_or(0)))
///     }
/// }
///
/// let mut builder = Topology::builder();
/// let last = builder.key_value_store("last", Utf8, I64);
/// builder
///     .table("prices", Consumed::with(Utf8, I64))
///     .transform_values(&last, |last| Ok(Difference(last)))
///     .to_stream()
///     .to("differences", Produced::with(Utf8, Nullable(I64)));
/// # builder.build().unwrap();
/// ```
pub trait ValueTransformer<K, V, W>: Send + 'static {
    /// The row's new value; `None`: there is no such row. It is asked for rows that are deleted as well: their value is `None`.
    ///
    /// # Errors
    ///
    /// The record fails as a whole: what it has done to stores is undone, and the application's handler decides what happens.
    fn transform(&mut self, cx: &mut RowContext<'_>, key: &K, value: Option<V>) -> Result<Option<W>>;
}

impl<K, V, W, F> ValueTransformer<K, V, W> for F
where
    F: FnMut(&mut RowContext<'_>, &K, Option<V>) -> Result<Option<W>> + Send + 'static,
{
    fn transform(&mut self, cx: &mut RowContext<'_>, key: &K, value: Option<V>) -> Result<Option<W>> {
        self(cx, key, value)
    }
}

/// What a [`ValueTransformer`] sees of the update that it is asked about. It is always asked about an update when that happens,
/// and never again: so the time and the headers are the update's own.
pub struct RowContext<'a> {
    pub(crate) task: TaskCx<'a>,
    pub(crate) timestamp: i64,
    pub(crate) headers: &'a Headers,
}

impl RowContext<'_> {
    /// The event time of the row's update (milliseconds since 1970).
    pub const fn timestamp(&self) -> i64 {
        self.timestamp
    }

    /// The headers of the row's update. There are none if the table above holds updates back in a cache, and its store keeps no
    /// headers.
    pub const fn headers(&self) -> &Headers {
        self.headers
    }

    /// Opens a store that was declared for the transformer. A handle of another topology is an error.
    pub fn store<'b, T: StoreKind>(&'b mut self, store: &'b StoreRef<T>) -> Result<T::View<'b, Writable>> {
        store.check(self.task.task.topology)?;
        let access = self.task.port.store(store.index)?;
        let [buffers, ..] = &mut self.task.scratch.views;
        Ok(T::view(with_access(access, buffers, store.index, self.task.task), &store.serdes))
    }

    /// Opens two to four different stores at once; see [`Context::stores`](crate::Context::stores).
    pub fn stores<'b, S: ViewSet<'b>>(&'b mut self, stores: S) -> Result<S::Views> {
        stores.open(crate::store::parts(self.task.reborrow()))
    }

    /// The largest event time that the task has seen (milliseconds since 1970).
    pub fn stream_time(&self) -> i64 {
        self.task.port.stream_time()
    }

    /// The wall clock (milliseconds since 1970), as the application's clock tells it.
    pub fn wall_time(&self) -> i64 {
        self.task.port.wall_time()
    }
}

impl std::fmt::Debug for RowContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowContext").field("timestamp", &self.timestamp).finish_non_exhaustive()
    }
}
