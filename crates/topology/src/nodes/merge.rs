//! Where the inputs of a cogroup meet: hands their updates on, and takes what is drained of the store that they share.

use std::sync::Arc;

use crate::error::Result;
use crate::node::{Event, Node, Outs, TaskCx};
use crate::port::Drained;
use crate::record::{Change, Record};

/// What a drained entry stands for; none if its row neither is there nor was when it was forwarded last.
pub(crate) type DrainFn<K, A> = Box<dyn Fn(&Drained<'_>) -> Result<Option<Record<K, Change<A>>>> + Send>;

pub(crate) struct MergeNode<K, A> {
    pub(crate) name: Arc<str>,
    pub(crate) drained: DrainFn<K, A>,
    pub(crate) outs: Outs<Record<K, Change<A>>>,
}

impl<K: 'static, A: 'static> Node<Record<K, Change<A>>> for MergeNode<K, A> {
    fn receive(&mut self, cx: &mut TaskCx<'_>, record: Record<K, Change<A>>) -> Result {
        self.outs.forward(cx, record)
    }

    fn visit(&mut self, cx: &mut TaskCx<'_>, path: &[u16], event: Event<'_>) -> Result {
        if !path.is_empty() {
            return self.outs.visit(cx, path, event);
        }
        let Event::Drained(entry) = event else { return Err(event.refused(&self.name)) };
        match (self.drained)(entry).map_err(|e| e.at(&self.name))? {
            Some(record) => self.outs.forward(cx, record),
            None => Ok(()),
        }
    }
}
