//! What a processor may do: while it is made, and while it runs.

use crate::error::{Error, ErrorKind, Result};
use crate::node::{Outs, TaskCx};
use crate::port::{NodeIndex, Port, RecordMetadata, Schedule};
use crate::processor::{Processor, Timer, Timers};
use crate::store::{StoreKind, StoreRef, ViewSet, Writable, with_access};

/// A child of a node, found by name once: see [`Init::child`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child(u16);

/// What a processor's supplier gets beside its stores. The graph is complete by then.
pub struct Init<'a, P: Processor> {
    pub(crate) node: NodeIndex,
    pub(crate) children: &'a [&'a str],
    pub(crate) port: &'a mut (dyn Port + 'a),
    pub(crate) timers: &'a mut Timers<P>,
}

impl<P: Processor> Init<'_, P> {
    /// The child with this name, for [`Context::forward_to`]. An unknown one is an error that lists the children.
    pub fn child(&self, name: &str) -> Result<Child> {
        let found = self.children.iter().position(|c| *c == name).and_then(|at| u16::try_from(at).ok());
        found.map(Child).ok_or_else(|| {
            let error = Error::new(ErrorKind::Topology, "find a child").with("child", name);
            error.with("children", self.children.join(", "))
        })
    }

    /// Calls `punctuate` again and again; it gets the processor, so it need not capture anything.
    ///
    /// By stream time the first call comes with the first record, by the wall clock after one interval; missed calls
    /// collapse into one. An interval below 1 ms is an error.
    pub fn schedule(
        &mut self,
        schedule: Schedule,
        punctuate: impl FnMut(&mut P, &mut Context<'_, P>, i64) -> Result + Send + 'static,
    ) -> Result<Timer> {
        self.timers.start(self.port, self.node, schedule, Box::new(punctuate))
    }
}

impl<P: Processor> std::fmt::Debug for Init<'_, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Init").field("node", &self.node).field("children", &self.children).finish_non_exhaustive()
    }
}

/// What a running processor sees of its task. It holds nothing of the processor, so `self` stays free.
///
/// A view of a store borrows the context, so it must have had its last use before something is forwarded; a child may
/// share the store:
///
/// ```compile_fail,E0499
/// # use millpond_topology::*;
/// # struct Count(StoreRef<KeyValue<String, i64>>);
/// # impl Processor for Count {
/// #     type In = Record<String, i64>;
/// #     type Out = Record<String, i64>;
/// fn process(&mut self, cx: &mut Context<'_, Self>, record: Self::In) -> Result {
///     let mut counts = cx.store(&self.0)?;
///     cx.forward(record.clone())?;
///     counts.put(&record.key, &record.value)
/// }
/// # }
/// ```
pub struct Context<'a, P: Processor> {
    pub(crate) task: TaskCx<'a>,
    pub(crate) outs: &'a mut Outs<P::Out>,
    pub(crate) timers: &'a mut Timers<P>,
    pub(crate) node: NodeIndex,
    /// The first error of a child. What it had done by then is undone only with the whole call.
    pub(crate) failed: Option<Error>,
}

impl<P: Processor> Context<'_, P> {
    /// Hands a message to all children; it has been processed down to the sinks when this returns.
    ///
    /// # Errors
    ///
    /// Those of the children: the record, or the punctuation, has failed as a whole. So the error is to be passed on; one that
    /// is not is the outcome all the same, once the processor has returned.
    #[inline]
    pub fn forward(&mut self, message: P::Out) -> Result {
        let done = self.outs.forward(&mut self.task, message);
        self.noted(done)
    }

    /// Hands a message to one child.
    ///
    /// # Errors
    ///
    /// As [`Context::forward`].
    #[inline]
    pub fn forward_to(&mut self, child: Child, message: P::Out) -> Result {
        let done = self.outs.forward_to(&mut self.task, child.0, message);
        self.noted(done)
    }

    #[inline]
    fn noted(&mut self, done: Result) -> Result {
        if let Err(error) = &done {
            self.note(error);
        }
        done
    }

    #[cold]
    fn note(&mut self, error: &Error) {
        self.failed.get_or_insert_with(|| error.clone());
    }

    /// Opens a store that the processor has declared. A handle of another topology is an error.
    #[inline]
    pub fn store<'b, T: StoreKind>(&'b mut self, store: &'b StoreRef<T>) -> Result<T::View<'b, Writable>> {
        store.check(self.task.task.topology)?;
        let access = self.task.port.store(store.index)?;
        let [buffers, ..] = &mut self.task.scratch.views;
        Ok(T::view(with_access(access, buffers, store.index, self.task.task), &store.serdes))
    }

    /// Opens two to four different stores at once: `let (mut a, mut b) = cx.stores((&self.a, &self.b))?`. The same store
    /// twice is an error.
    #[inline]
    pub fn stores<'b, S: ViewSet<'b>>(&'b mut self, stores: S) -> Result<S::Views> {
        stores.open(crate::store::parts(self.task.reborrow()))
    }

    /// Starts a timer, as [`Init::schedule`].
    pub fn schedule(
        &mut self,
        schedule: Schedule,
        punctuate: impl FnMut(&mut P, &mut Context<'_, P>, i64) -> Result + Send + 'static,
    ) -> Result<Timer> {
        self.task.timers_changed(self.node);
        self.timers.start(self.task.port, self.node, schedule, Box::new(punctuate))
    }

    /// Ends a timer; also from inside its own call, and again without harm.
    pub fn cancel(&mut self, timer: Timer) {
        self.task.timers_changed(self.node);
        self.timers.cancel(self.task.port, timer);
    }

    /// Whether a timer goes on: not if it was cancelled, nor if the record that started it has failed.
    ///
    /// Timers are undone with a record that fails, a processor's fields are not. So a timer that runs only while it is needed
    /// is kept in a field and asked about here; that the field holds one says nothing.
    pub fn is_scheduled(&self, timer: Timer) -> bool {
        self.timers.runs(timer)
    }

    /// Asks for a commit soon after the record at hand.
    pub fn commit(&mut self) {
        self.task.port.request_commit();
    }

    /// Where the record at hand comes from; none in a punctuation.
    pub fn metadata(&self) -> Option<RecordMetadata<'_>> {
        self.task.port.metadata()
    }

    /// The event time of the record at hand, or the time of the punctuation (milliseconds since 1970).
    pub fn timestamp(&self) -> i64 {
        self.task.port.timestamp()
    }

    /// The largest event time that the task has seen; -1 before the first record.
    pub fn stream_time(&self) -> i64 {
        self.task.port.stream_time()
    }

    /// The wall clock (milliseconds since 1970), as the application's clock tells it: use this one, so that tests can move it.
    pub fn wall_time(&self) -> i64 {
        self.task.port.wall_time()
    }
}

impl<P: Processor> std::fmt::Debug for Context<'_, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("node", &self.node).finish_non_exhaustive()
    }
}
