//! What a handler is told about: a record of an input, or what stands for one.

use millpond_topology::{Drained, Headers, RecordMetadata};

use super::{ErrorStage, Failed, Handlers};
use crate::task::{Input, TaskId};

/// Where an output comes from: a task, and what it does.
#[derive(Clone, Copy)]
pub(crate) struct Origin<'a> {
    pub(crate) task: TaskId,
    pub(crate) of: Of<'a, &'a Input>,
}

/// What a task does between two borders.
#[derive(Clone, Copy)]
pub(crate) enum Of<'a, I> {
    /// It processes the front record of an input.
    Front(I),
    /// It forwards an update out of a cache, or one that a node has held back, with these headers.
    Update(Drained<'a>, &'a Headers),
    /// Something else, at this time: a punctuation, or what was held back.
    Other(i64),
}

impl<'a> Origin<'a> {
    pub(crate) fn subject(&self) -> Subject<'a> {
        let record = match &self.of {
            Of::Front(input) => Subject::of_front(self.task, input),
            Of::Update(drained, headers) => Some(Subject::of_update(self.task, drained, headers)),
            Of::Other(time) => Some(Subject::nobody(self.task, *time)),
        };
        record.unwrap_or(Subject::nobody(self.task, -1))
    }

    /// The input whose front record it is.
    pub(crate) fn input(&self) -> Option<&'a Input> {
        match self.of {
            Of::Front(input) => Some(input),
            Of::Update(..) | Of::Other(_) => None,
        }
    }
}

/// What has failed, but for how.
pub(crate) struct Subject<'a> {
    pub(crate) task: TaskId,
    pub(crate) source: Option<RecordMetadata<'a>>,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) headers: Headers,
    pub(crate) timestamp: i64,
}

impl<'a> Subject<'a> {
    /// The record that an input's queue has in front.
    pub(crate) fn of_front(task: TaskId, input: &'a Input) -> Option<Self> {
        let record = input.queue.front()?;
        Some(Self {
            task,
            source: Some(RecordMetadata { topic: &input.topic, partition: input.partition, offset: record.offset }),
            key: record.key,
            value: record.value,
            headers: crate::task::headers_of(&record),
            timestamp: input.head_time.unwrap_or(record.timestamp),
        })
    }

    /// An update that comes out of a cache or was held back: the row's key, and what it is now.
    pub(crate) fn of_update(task: TaskId, drained: &Drained<'a>, headers: &Headers) -> Self {
        let (key, value, headers) = (Some(drained.key), drained.new, headers.clone());
        Self { key, value, headers, ..Self::nobody(task, drained.timestamp) }
    }

    /// A punctuation.
    pub(crate) fn nobody(task: TaskId, timestamp: i64) -> Self {
        Self { task, source: None, key: None, value: None, headers: Headers::new(), timestamp }
    }

    /// What its handler is told, of the first attempt.
    pub(crate) fn failed(&self, stage: ErrorStage, handlers: &Handlers) -> Failed<'_> {
        Failed {
            stage,
            task: self.task,
            node: None,
            attempt: 1,
            source: self.source,
            key: self.key,
            value: self.value,
            headers: &self.headers,
            timestamp: self.timestamp,
            output: None,
            policy: handlers.policy(stage),
        }
    }
}
