//! Stateless operators, and the node that runs one.

use std::fmt::Debug;
use std::io::Write;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Result;
use crate::node::{Event, Node, Outs, TaskCx};
use crate::record::Record;

/// A stateless operator: one object for all tasks.
pub(crate) trait Op<I>: Send + Sync + 'static {
    type Out: 'static;

    /// An operator that cannot fail hands its children's results on untouched: a tail call.
    const FALLIBLE: bool = false;

    /// What it emits is what it has received.
    const SAME: bool = false;

    fn apply(&self, message: I, emit: &mut impl FnMut(Self::Out) -> Result) -> Result;
}

pub(crate) struct OpNode<I, O: Op<I>> {
    pub(crate) name: Arc<str>,
    pub(crate) op: Arc<O>,
    pub(crate) outs: Outs<O::Out>,
    pub(crate) message: PhantomData<fn(I)>,
}

impl<I: 'static, O: Op<I>> Node<I> for OpNode<I, O> {
    #[inline]
    fn receive(&mut self, cx: &mut TaskCx<'_>, message: I) -> Result {
        let outs = &mut self.outs;
        if !O::FALLIBLE {
            return self.op.apply(message, &mut |m| outs.forward(cx, m));
        }
        self.op.apply(message, &mut |m| outs.forward(cx, m)).map_err(|e| e.at(&self.name))
    }

    fn visit(&mut self, cx: &mut TaskCx<'_>, path: &[u16], event: Event<'_>) -> Result {
        self.outs.visit(cx, path, event)
    }
}

// Where one operator stands for both forms its closure answers with a result, which in the form that cannot fail
// (`FALLIBLE` is false) is always fine.

/// Hands everything on.
pub(crate) struct Pass;
pub(crate) struct Filter<F>(pub(crate) F);
pub(crate) struct TryFilter<F>(pub(crate) F);
pub(crate) struct Map<F>(pub(crate) F);
pub(crate) struct TryMap<F>(pub(crate) F);
pub(crate) struct MapValues<F>(pub(crate) F);
pub(crate) struct MapValuesWithKey<F, const FALLIBLE: bool>(pub(crate) F);
pub(crate) struct TryMapValues<F>(pub(crate) F);
pub(crate) struct FlatMap<F, const FALLIBLE: bool>(pub(crate) F);
pub(crate) struct FlatMapValues<F, const FALLIBLE: bool>(pub(crate) F);
pub(crate) struct SelectKey<F, const FALLIBLE: bool>(pub(crate) F);
pub(crate) struct Peek<F>(pub(crate) F);
pub(crate) struct TryPeek<F>(pub(crate) F);
/// As [`Peek`], and nothing goes on.
pub(crate) struct Foreach<F, const FALLIBLE: bool>(pub(crate) F);
/// Writes each record as text, and nothing goes on.
pub(crate) struct Print<W> {
    pub(crate) label: String,
    /// All tasks write to one.
    pub(crate) to: Mutex<W>,
}

impl<M: 'static> Op<M> for Pass {
    type Out = M;

    #[inline]
    fn apply(&self, message: M, emit: &mut impl FnMut(M) -> Result) -> Result {
        emit(message)
    }
}

impl<K: 'static, V: 'static, F> Op<Record<K, V>> for Filter<F>
where
    F: Fn(&K, &V) -> bool + Send + Sync + 'static,
{
    type Out = Record<K, V>;
    const SAME: bool = true;

    #[inline]
    fn apply(&self, r: Record<K, V>, emit: &mut impl FnMut(Self::Out) -> Result) -> Result {
        if (self.0)(&r.key, &r.value) { emit(r) } else { Ok(()) }
    }
}

impl<K: 'static, V: 'static, F> Op<Record<K, V>> for TryFilter<F>
where
    F: Fn(&K, &V) -> Result<bool> + Send + Sync + 'static,
{
    type Out = Record<K, V>;
    const SAME: bool = true;
    const FALLIBLE: bool = true;

    #[inline]
    fn apply(&self, r: Record<K, V>, emit: &mut impl FnMut(Self::Out) -> Result) -> Result {
        if (self.0)(&r.key, &r.value)? { emit(r) } else { Ok(()) }
    }
}

impl<K: 'static, V: 'static, L: 'static, W: 'static, F> Op<Record<K, V>> for Map<F>
where
    F: Fn(K, V) -> (L, W) + Send + Sync + 'static,
{
    type Out = Record<L, W>;

    #[inline]
    fn apply(&self, r: Record<K, V>, emit: &mut impl FnMut(Self::Out) -> Result) -> Result {
        emit(r.map(&self.0))
    }
}

impl<K: 'static, V: 'static, L: 'static, W: 'static, F> Op<Record<K, V>> for TryMap<F>
where
    F: Fn(K, V) -> Result<(L, W)> + Send + Sync + 'static,
{
    type Out = Record<L, W>;
    const FALLIBLE: bool = true;

    #[inline]
    fn apply(&self, r: Record<K, V>, emit: &mut impl FnMut(Self::Out) -> Result) -> Result {
        let (key, value) = (self.0)(r.key, r.value)?;
        emit(Record { key, value, timestamp: r.timestamp, headers: r.headers })
    }
}

impl<K: 'static, V: 'static, W: 'static, F> Op<Record<K, V>> for MapValues<F>
where
    F: Fn(V) -> W + Send + Sync + 'static,
{
    type Out = Record<K, W>;

    #[inline]
    fn apply(&self, r: Record<K, V>, emit: &mut impl FnMut(Self::Out) -> Result) -> Result {
        emit(r.map(|k, v| (k, (self.0)(v))))
    }
}

impl<K: 'static, V: 'static, W: 'static, F, const FALLIBLE: bool> Op<Record<K, V>> for MapValuesWithKey<F, FALLIBLE>
where
    F: Fn(&K, V) -> Result<W> + Send + Sync + 'static,
{
    type Out = Record<K, W>;
    const FALLIBLE: bool = FALLIBLE;

    #[inline]
    fn apply(&self, r: Record<K, V>, emit: &mut impl FnMut(Self::Out) -> Result) -> Result {
        let value = (self.0)(&r.key, r.value)?;
        emit(Record { key: r.key, value, timestamp: r.timestamp, headers: r.headers })
    }
}

impl<K: 'static, V: 'static, W: 'static, F> Op<Record<K, V>> for TryMapValues<F>
where
    F: Fn(V) -> Result<W> + Send + Sync + 'static,
{
    type Out = Record<K, W>;
    const FALLIBLE: bool = true;

    #[inline]
    fn apply(&self, r: Record<K, V>, emit: &mut impl FnMut(Self::Out) -> Result) -> Result {
        let value = (self.0)(r.value)?;
        emit(Record { key: r.key, value, timestamp: r.timestamp, headers: r.headers })
    }
}

impl<K: 'static, V: 'static, L: 'static, F, const FALLIBLE: bool> Op<Record<K, V>> for SelectKey<F, FALLIBLE>
where
    F: Fn(&K, &V) -> Result<L> + Send + Sync + 'static,
{
    type Out = Record<L, V>;
    const FALLIBLE: bool = FALLIBLE;

    #[inline]
    fn apply(&self, r: Record<K, V>, emit: &mut impl FnMut(Self::Out) -> Result) -> Result {
        let key = (self.0)(&r.key, &r.value)?;
        emit(r.with_key(key))
    }
}

impl<K: 'static, V: 'static, F> Op<Record<K, V>> for Peek<F>
where
    F: Fn(&K, &V) + Send + Sync + 'static,
{
    type Out = Record<K, V>;
    const SAME: bool = true;

    #[inline]
    fn apply(&self, r: Record<K, V>, emit: &mut impl FnMut(Self::Out) -> Result) -> Result {
        (self.0)(&r.key, &r.value);
        emit(r)
    }
}

impl<K: 'static, V: 'static, F> Op<Record<K, V>> for TryPeek<F>
where
    F: Fn(&K, &V) -> Result + Send + Sync + 'static,
{
    type Out = Record<K, V>;
    const SAME: bool = true;
    const FALLIBLE: bool = true;

    #[inline]
    fn apply(&self, r: Record<K, V>, emit: &mut impl FnMut(Self::Out) -> Result) -> Result {
        (self.0)(&r.key, &r.value)?;
        emit(r)
    }
}

impl<K: 'static, V: 'static, F, const FALLIBLE: bool> Op<Record<K, V>> for Foreach<F, FALLIBLE>
where
    F: Fn(&K, &V) -> Result + Send + Sync + 'static,
{
    type Out = Record<K, V>;
    const FALLIBLE: bool = FALLIBLE;

    #[inline]
    fn apply(&self, r: Record<K, V>, _: &mut impl FnMut(Self::Out) -> Result) -> Result {
        (self.0)(&r.key, &r.value)
    }
}

impl<K: 'static, V: 'static, L: 'static, W: 'static, I, F, const FALLIBLE: bool> Op<Record<K, V>>
    for FlatMap<F, FALLIBLE>
where
    I: IntoIterator<Item = (L, W)>,
    F: Fn(K, V) -> Result<I> + Send + Sync + 'static,
{
    type Out = Record<L, W>;
    const FALLIBLE: bool = FALLIBLE;

    #[inline]
    fn apply(&self, r: Record<K, V>, emit: &mut impl FnMut(Self::Out) -> Result) -> Result {
        for (key, value) in (self.0)(r.key, r.value)? {
            emit(Record { key, value, timestamp: r.timestamp, headers: r.headers.clone() })?;
        }
        Ok(())
    }
}

impl<K: Clone + 'static, V: 'static, I, F, const FALLIBLE: bool> Op<Record<K, V>> for FlatMapValues<F, FALLIBLE>
where
    I: IntoIterator<Item: 'static>,
    F: Fn(&K, V) -> Result<I> + Send + Sync + 'static,
{
    type Out = Record<K, I::Item>;
    const FALLIBLE: bool = FALLIBLE;

    #[inline]
    fn apply(&self, r: Record<K, V>, emit: &mut impl FnMut(Self::Out) -> Result) -> Result {
        for value in (self.0)(&r.key, r.value)? {
            emit(Record { key: r.key.clone(), value, timestamp: r.timestamp, headers: r.headers.clone() })?;
        }
        Ok(())
    }
}

impl<K: Debug + 'static, V: Debug + 'static, W: Write + Send + 'static> Op<Record<K, V>> for Print<W> {
    type Out = Record<K, V>;
    const FALLIBLE: bool = true;

    fn apply(&self, r: Record<K, V>, _: &mut impl FnMut(Self::Out) -> Result) -> Result {
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(writeln!(to, "[{}]: {:?}, {:?}", self.label, r.key, r.value)?)
    }
}
