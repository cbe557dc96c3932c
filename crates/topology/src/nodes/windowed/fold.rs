//! How a value goes into the aggregate of a window, and how sessions become one.

use crate::error::Result;
use crate::nodes::{Aggregate, Count, Reduce};

/// As [`Fold`](crate::nodes::Fold), for a value that goes into several aggregates.
pub(crate) trait FoldRef<K, V, A>: Send + Sync + 'static {
    fn fold(&self, so_far: Option<A>, key: &K, value: &V) -> Result<A>;
}

/// As [`FoldRef`], where aggregates can become one.
pub(crate) trait Merge<K, V, A>: FoldRef<K, V, A> {
    /// `so_far` is none for the first one.
    fn merge(&self, key: &K, so_far: Option<A>, next: A) -> Result<A>;
}

/// Of sessions; initializer, aggregator and merger.
pub(crate) struct SessionAggregate<I, F, M>(pub(crate) I, pub(crate) F, pub(crate) M);

impl<K, V> FoldRef<K, V, i64> for Count {
    #[inline]
    fn fold(&self, so_far: Option<i64>, _: &K, _: &V) -> Result<i64> {
        Ok(so_far.unwrap_or(0).wrapping_add(1))
    }
}

impl<K, V> Merge<K, V, i64> for Count {
    fn merge(&self, _: &K, so_far: Option<i64>, next: i64) -> Result<i64> {
        Ok(so_far.unwrap_or(0).wrapping_add(next))
    }
}

impl<K, V: Clone, F: Fn(V, V) -> V + Send + Sync + 'static> FoldRef<K, V, V> for Reduce<F> {
    #[inline]
    fn fold(&self, so_far: Option<V>, _: &K, value: &V) -> Result<V> {
        Ok(match so_far {
            Some(so_far) => (self.0)(so_far, value.clone()),
            None => value.clone(),
        })
    }
}

impl<K, V: Clone, F: Fn(V, V) -> V + Send + Sync + 'static> Merge<K, V, V> for Reduce<F> {
    fn merge(&self, _: &K, so_far: Option<V>, next: V) -> Result<V> {
        Ok(match so_far {
            Some(so_far) => (self.0)(so_far, next),
            None => next,
        })
    }
}

impl<K, V, A, I, F> FoldRef<K, V, A> for Aggregate<I, F>
where
    I: Fn() -> A + Send + Sync + 'static,
    F: Fn(A, &K, &V) -> Result<A> + Send + Sync + 'static,
{
    #[inline]
    fn fold(&self, so_far: Option<A>, key: &K, value: &V) -> Result<A> {
        (self.1)(so_far.unwrap_or_else(&self.0), key, value)
    }
}

impl<K, V, A, I, F, M> FoldRef<K, V, A> for SessionAggregate<I, F, M>
where
    I: Fn() -> A + Send + Sync + 'static,
    F: Fn(A, &K, &V) -> Result<A> + Send + Sync + 'static,
    M: Send + Sync + 'static,
{
    #[inline]
    fn fold(&self, so_far: Option<A>, key: &K, value: &V) -> Result<A> {
        (self.1)(so_far.unwrap_or_else(&self.0), key, value)
    }
}

impl<K, V, A, I, F, M> Merge<K, V, A> for SessionAggregate<I, F, M>
where
    I: Fn() -> A + Send + Sync + 'static,
    F: Fn(A, &K, &V) -> Result<A> + Send + Sync + 'static,
    M: Fn(&K, A, A) -> Result<A> + Send + Sync + 'static,
{
    fn merge(&self, key: &K, so_far: Option<A>, next: A) -> Result<A> {
        (self.2)(key, so_far.unwrap_or_else(&self.0), next)
    }
}
