//! Handles of stores, and the sets of stores that a processor declares and opens.

use crate::error::{Error, ErrorKind, Result};
use crate::node::TaskCx;
use crate::port::{StoreAccess, StoreIndex};
use crate::store::{ReadOnly, StoreKind, Writable, sealed, with_access};

/// A declared store, as the builder knows it. Hand it to the processors that are to use the store.
pub struct StoreHandle<T: StoreKind> {
    pub(crate) topology: u64,
    pub(crate) index: usize,
    pub(crate) name: String,
    pub(crate) serdes: T::Serdes,
}

impl<T: StoreKind> StoreHandle<T> {
    /// The store's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same store for a processor that only reads it.
    pub fn read_only(&self) -> StoreHandle<ReadOnly<T>> {
        let Self { topology, index, name, serdes } = self;
        StoreHandle { topology: *topology, index: *index, name: name.clone(), serdes: serdes.clone() }
    }
}

impl<T: StoreKind> Clone for StoreHandle<T> {
    fn clone(&self) -> Self {
        let Self { topology, index, name, serdes } = self;
        Self { topology: *topology, index: *index, name: name.clone(), serdes: serdes.clone() }
    }
}

impl<T: StoreKind> std::fmt::Debug for StoreHandle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreHandle").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A store that a processor has declared: what its supplier gets, and the only thing that opens a store. One that comes from
/// another topology is refused with an error when it is used.
pub struct StoreRef<T: StoreKind> {
    pub(crate) topology: u64,
    pub(crate) index: StoreIndex,
    pub(crate) serdes: T::Serdes,
}

impl<T: StoreKind> Clone for StoreRef<T> {
    fn clone(&self) -> Self {
        Self { topology: self.topology, index: self.index, serdes: self.serdes.clone() }
    }
}

impl<T: StoreKind> std::fmt::Debug for StoreRef<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreRef").field("index", &self.index).finish_non_exhaustive()
    }
}

impl<T: StoreKind> StoreRef<T> {
    /// Refuses a handle of another topology: its place would be some other store here.
    #[inline]
    pub(crate) fn check(&self, topology: u64) -> Result {
        if self.topology == topology { Ok(()) } else { Err(foreign()) }
    }
}

#[cold]
fn foreign() -> Error {
    Error::new(ErrorKind::Topology, "open a store").with("cause", "the handle belongs to another topology")
}

/// A store in a set, as the graph needs it.
#[derive(Clone, Debug)]
pub struct Bound {
    pub(crate) topology: u64,
    pub(crate) index: usize,
    pub(crate) name: String,
}

/// The stores that a processor declares: `()`, `&store`, or a tuple of two to four `&store`.
pub trait StoreSet: sealed::Sealed {
    /// What the processor's supplier gets for them.
    type Refs: Clone + Send + Sync + 'static;

    #[doc(hidden)]
    fn bind(&self) -> (Vec<Bound>, Self::Refs);
}

impl sealed::Sealed for () {}

impl StoreSet for () {
    type Refs = ();

    fn bind(&self) -> (Vec<Bound>, ()) {
        (Vec::new(), ())
    }
}

impl<T: StoreKind> sealed::Sealed for &StoreHandle<T> {}

impl<T: StoreKind> StoreSet for &StoreHandle<T>
where
    StoreRef<T>: Send + Sync,
{
    type Refs = StoreRef<T>;

    fn bind(&self) -> (Vec<Bound>, StoreRef<T>) {
        let index = StoreIndex(crate::topology::index(self.index));
        let bound = Bound { topology: self.topology, index: self.index, name: self.name.clone() };
        (vec![bound], StoreRef { topology: self.topology, index, serdes: self.serdes.clone() })
    }
}

/// Several different stores to be opened at once: a tuple of two to four `&store`.
pub trait ViewSet<'a>: sealed::Sealed {
    /// The views, in the same order.
    type Views;

    #[doc(hidden)]
    fn open(self, cx: TaskParts<'a>) -> Result<Self::Views>;
}

/// What views are made of.
pub struct TaskParts<'a>(pub(crate) TaskCx<'a>);

impl std::fmt::Debug for TaskParts<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TaskParts")
    }
}

fn opened(access: Option<StoreAccess<'_>>) -> Result<StoreAccess<'_>> {
    access.ok_or_else(|| Error::new(ErrorKind::Topology, "open a store").with("cause", "the task did not give it"))
}

macro_rules! sets {
    ([$($t:ident $at:tt),+] [$($rest:ident),*]) => {
        impl<$($t: StoreKind),+> sealed::Sealed for ($(&StoreHandle<$t>,)+) {}

        impl<$($t: StoreKind),+> StoreSet for ($(&StoreHandle<$t>,)+) {
            type Refs = ($(StoreRef<$t>,)+);

            fn bind(&self) -> (Vec<Bound>, Self::Refs) {
                let parts = ($(self.$at.bind(),)+);
                let mut bound = Vec::new();
                $(bound.extend(parts.$at.0);)+
                (bound, ($(parts.$at.1,)+))
            }
        }

        impl<$($t: StoreKind),+> sealed::Sealed for ($(&StoreRef<$t>,)+) {}

        impl<'a, $($t: StoreKind),+> ViewSet<'a> for ($(&'a StoreRef<$t>,)+) {
            type Views = ($($t::View<'a, Writable>,)+);

            fn open(self, cx: TaskParts<'a>) -> Result<Self::Views> {
                let TaskCx { port, scratch, task, .. } = cx.0;
                $(self.$at.check(task.topology)?;)+
                let which = [$(Some(self.$at.index),)+ $(sets!(@none $rest)),*];
                let mut accesses = port.stores(which)?.into_iter();
                let mut buffers = scratch.views.iter_mut();
                let mut next = || {
                    let access = opened(accesses.next().flatten())?;
                    let own = buffers.next().expect("there are as many buffers as places in the array above");
                    Result::Ok((access, own))
                };
                Ok(($({
                    let (access, own) = next()?;
                    $t::view(with_access(access, own, self.$at.index, task), &self.$at.serdes)
                },)+))
            }
        }
    };
    (@none $rest:ident) => { None };
}

sets!([A 0, B 1] [C, D]);
sets!([A 0, B 1, C 2] [D]);
sets!([A 0, B 1, C 2, D 3] []);

/// What views are made of.
pub(crate) fn parts(cx: TaskCx<'_>) -> TaskParts<'_> {
    TaskParts(cx)
}
