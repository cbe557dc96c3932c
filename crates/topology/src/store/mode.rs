//! Stores that are only read.

use std::marker::PhantomData;

use crate::store::StoreType;
use crate::store::kind::{Opened, StoreKind, sealed};

/// What a view may do: [`Writable`] or [`Readable`]. It is a mark in the type of views, never a value.
pub trait Mode: sealed::Sealed + 'static {}

/// Reads and writes.
#[derive(Clone, Copy, Debug)]
pub enum Writable {}

/// Reads only.
#[derive(Clone, Copy, Debug)]
pub enum Readable {}

impl sealed::Sealed for Writable {}
impl sealed::Sealed for Readable {}
impl Mode for Writable {}
impl Mode for Readable {}

/// A store of some kind that is only read: its views have no function that writes. Made by
/// [`StoreHandle::read_only`](crate::StoreHandle::read_only).
///
/// ```
/// use millpond_topology::*;
///
/// /// Answers with the price, which another processor keeps.
/// struct Ask(StoreRef<ReadOnly<KeyValue<String, i64>>>);
///
/// impl Processor for Ask {
///     type In = Record<String, String>;
///     type Out = Record<String, i64>;
///
///     fn process(&mut self, cx: &mut Context<'_, Self>, question: Self::In) -> Result {
///         match cx.store(&self.0)?.get(&question.key)? {
///             Some(price) => cx.forward(question.with_value(price)),
///             None => Ok(()),
///         }
///     }
/// }
/// # struct Keep(StoreRef<KeyValue<String, i64>>);
/// # impl Processor for Keep {
/// #     type In = Record<String, i64>;
/// #     type Out = Record<String, i64>;
/// #     fn process(&mut self, cx: &mut Context<'_, Self>, r: Self::In) -> Result { cx.store(&self.0)?.put(&r.key, &r.value) }
/// # }
///
/// let mut builder = Topology::builder();
/// let prices = builder.key_value_store("prices", Utf8, I64);
/// let _ = builder.stream("prices", Consumed::with(Utf8, I64)).process(&prices, |_, prices| Ok(Keep(prices)));
/// builder
///     .stream("questions", Consumed::with(Utf8, Utf8))
///     .process(&prices.read_only(), |_, prices| Ok(Ask(prices)))
///     .to("answers", Produced::with(Utf8, I64));
/// # builder.build().unwrap();
/// ```
///
/// A write does not compile:
///
/// ```compile_fail,E0599
/// # use millpond_topology::*;
/// # struct Ask(StoreRef<ReadOnly<KeyValue<String, i64>>>);
/// # impl Processor for Ask {
/// #     type In = Record<String, i64>;
/// #     type Out = Record<String, i64>;
/// fn process(&mut self, cx: &mut Context<'_, Self>, record: Self::In) -> Result {
///     cx.store(&self.0)?.put(&record.key, &record.value)
/// }
/// # }
/// ```
pub struct ReadOnly<T>(PhantomData<fn() -> T>);

impl<T> std::fmt::Debug for ReadOnly<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReadOnly")
    }
}

impl<T: StoreKind> sealed::Sealed for ReadOnly<T> {}

impl<T: StoreKind> StoreKind for ReadOnly<T> {
    type Serdes = T::Serdes;
    type View<'a, M: Mode> = T::View<'a, Readable>;

    const TYPE: StoreType = T::TYPE;

    #[inline]
    fn view<'a, M: Mode>(opened: Opened<'a>, serdes: &'a Self::Serdes) -> Self::View<'a, M> {
        T::view::<Readable>(opened, serdes)
    }
}
