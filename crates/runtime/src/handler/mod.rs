//! What is done about records that fail: the application's handler, and what the settings say where it has none.

mod dead_letter;
mod decide;
mod declared;
mod subject;

use std::time::Duration;

use millpond_topology::{Headers, RecordMetadata};

use crate::error::Error;
use crate::settings::ErrorPolicy;
use crate::task::TaskId;

pub(crate) use dead_letter::{DeadLetterRoute, Letter};
pub(crate) use decide::{Decision, Handlers};
pub use declared::WithDeadLetterTopics;
pub(crate) use subject::{Of, Origin, Subject};

/// What was being done when a record failed: Kafka Streams' three kinds of handlers.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorStage {
    /// A source read the bytes of a record (`deserialization.exception.handler`).
    Deserialization,
    /// An operator or processor, its stores included, took a record, a punctuation, or an update that came out of a cache or was
    /// held back (`processing.exception.handler`).
    Processing,
    /// A sink wrote the bytes of an output, or the broker refused one (`production.exception.handler`).
    Production,
}

impl ErrorStage {
    /// The name, as it stands in a dead letter.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deserialization => "deserialization",
            Self::Processing => "processing",
            Self::Production => "production",
        }
    }
}

/// What an [`ErrorHandler`] answers.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ErrorAnswer {
    /// Stop the application with the error. What was done before the record or punctuation is committed; before an update out of a
    /// cache, whose own write cannot be undone, nothing is: all since the last commit is done again by the next start. So it is
    /// under exactly-once before a final result or what a suppression lets through.
    Fail,
    /// Go on as if the record had not been there. Of an output that the broker refused: go on without that output.
    Skip,
    /// As [`ErrorAnswer::Skip`], and write the record to the topic that `errors.dead.letter.queue.topic.name` names.
    DeadLetter,
    /// As [`ErrorAnswer::DeadLetter`], to this topic, which has to be one of [`ErrorHandler::dead_letter_topics`].
    DeadLetterTo(String),
    /// Process it again at once. [`ErrorAnswer::Fail`] where it was tried `errors.max.attempts` times, and for an output that
    /// the broker refused, which it would refuse again.
    Retry,
    /// As [`ErrorAnswer::Retry`], after a pause in which the task takes no other record; other tasks go on, and so do commits
    /// and punctuations by the wall clock. What is no record (a punctuation, an update out of a cache or one that was held back)
    /// is tried again at once.
    RetryAfter(Duration),
}

impl From<ErrorPolicy> for ErrorAnswer {
    fn from(policy: ErrorPolicy) -> Self {
        match policy {
            ErrorPolicy::Fail => Self::Fail,
            ErrorPolicy::Continue => Self::Skip,
            ErrorPolicy::DeadLetter => Self::DeadLetter,
        }
    }
}

/// An output that the broker refused, or its client: too large, say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedOutput<'a> {
    /// The topic it was for.
    pub topic: &'a str,
    /// The partition.
    pub partition: i32,
}

/// What has failed, lent to an [`ErrorHandler`].
///
/// Key, value, headers and time are those of the *input* record, also where an output of it was refused. A punctuation has
/// neither key nor value; an update that came out of a cache has those of the store's row, and so has a final result or what a
/// suppression lets through: its key is that of the window, as a topic has it.
#[non_exhaustive]
#[derive(Clone, Copy)]
pub struct Failed<'a> {
    /// What was being done.
    pub stage: ErrorStage,
    /// The task.
    pub task: TaskId,
    /// The innermost node that failed, where that is known; after a panic it is not.
    pub node: Option<&'a str>,
    /// 1 when it has failed for the first time. It begins with 1 again when the task was restarted, or went back to what is
    /// committed.
    pub attempt: u32,
    /// Where the record was read; `None` for a punctuation, and for an update that came out of a cache or was held back.
    pub source: Option<RecordMetadata<'a>>,
    /// The key's bytes.
    pub key: Option<&'a [u8]>,
    /// The value's bytes.
    pub value: Option<&'a [u8]>,
    /// The headers, without the library's own.
    pub headers: &'a Headers,
    /// The event time, or the time of the punctuation, in milliseconds since 1970 (UTC). -1 or less where the record has none.
    pub timestamp: i64,
    /// The output, if it is one that was refused: what else the record did stays.
    pub output: Option<RefusedOutput<'a>>,
    /// What the settings say about this stage; `failed.policy.into()` is the answer without a handler.
    pub policy: ErrorPolicy,
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for Failed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Failed")
            .field("stage", &self.stage)
            .field("task", &self.task)
            .field("node", &self.node)
            .field("attempt", &self.attempt)
            .field("source", &self.source)
            .field("key_len", &self.key.map(<[u8]>::len))
            .field("value_len", &self.value.map(<[u8]>::len))
            .field("output", &self.output)
            .finish_non_exhaustive()
    }
}

/// Decides what becomes of records that fail, for all three of Kafka Streams' kinds of handlers.
///
/// Given to [`AppBuilder::error_handler`](crate::AppBuilder::error_handler), it is asked in place of the settings. It is asked
/// at the border of the task, when all that the record had done is undone: its writes to stores, their changelogs, its
/// outputs. So [`ErrorAnswer::Skip`] means that the record had no effect anywhere. It is asked once for each attempt; a record
/// that is read again after a crash or a way back to what is committed is processed again, and the handler is asked again.
///
/// A closure is a handler:
///
/// ```
/// use std::time::Duration;
///
/// use millpond_runtime::{App, Error, ErrorAnswer, ErrorStage, Failed};
///
/// /// Bad bytes go to the dead letters; what may pass is tried again for a while.
/// fn patient(failed: &Failed<'_>, _error: &Error) -> ErrorAnswer {
///     match failed.stage {
///         ErrorStage::Deserialization => ErrorAnswer::DeadLetter,
///         ErrorStage::Processing if failed.attempt < 5 => ErrorAnswer::RetryAfter(Duration::from_secs(1)),
///         _ => failed.policy.into(),
///     }
/// }
/// let app = App::builder("orders").set("errors.dead.letter.queue.topic.name", "orders-dead")?.error_handler(patient);
/// # Ok::<(), millpond_runtime::Error>(())
/// ```
///
/// # What it is not asked about
///
/// Errors that are nobody's record: a store that fails is opened anew, a broker that does not answer is asked again, a wrong
/// use of the topology ends the application. And a change or a record to a repartition topic that the broker refuses: without
/// it a store would differ from its log, so it always ends the application.
///
/// # Refused outputs
///
/// Whether the broker takes an output is known long after its record was processed. So what is asked about is the output
/// alone: without it, all else that the record did stays. Under exactly-once the transaction that held it is aborted, its
/// records are processed again, and the handler is asked when the same output comes again, which is not sent a second time.
/// Outputs that differ each time (one holds the time of the clock, say) cannot be told to be the same: after
/// `errors.max.attempts` such ways back the application stops.
///
/// # Threading
///
/// Workers call it on their threads, at the same time. It must be quick, as its worker does nothing else meanwhile. A panic in
/// it counts as [`ErrorAnswer::Fail`].
pub trait ErrorHandler: Send + Sync {
    /// What is to be done. `error` has the cause of the failure as its [source](std::error::Error::source).
    fn handle(&self, failed: &Failed<'_>, error: &Error) -> ErrorAnswer;

    /// The topics that it names in [`ErrorAnswer::DeadLetterTo`]. Asked once, at the start: they must exist by then.
    fn dead_letter_topics(&self) -> Vec<String> {
        Vec::new()
    }

    /// This handler with topics for dead letters beside those of its own: a closure or a function has no other way to say which
    /// ones it names.
    ///
    /// ```
    /// use millpond_runtime::{App, Error, ErrorAnswer, ErrorHandler, ErrorStage, Failed};
    ///
    /// fn sort(failed: &Failed<'_>, _error: &Error) -> ErrorAnswer {
    ///     match failed.stage {
    ///         ErrorStage::Deserialization => ErrorAnswer::DeadLetterTo("unreadable".to_owned()),
    ///         _ => failed.policy.into(),
    ///     }
    /// }
    /// let app = App::builder("orders").error_handler(sort.with_dead_letter_topics(["unreadable"]));
    /// ```
    fn with_dead_letter_topics(self, topics: impl IntoIterator<Item = impl Into<String>>) -> WithDeadLetterTopics<Self>
    where
        Self: Sized,
    {
        WithDeadLetterTopics::new(self, topics.into_iter().map(Into::into).collect())
    }
}

impl<F: Fn(&Failed<'_>, &Error) -> ErrorAnswer + Send + Sync> ErrorHandler for F {
    fn handle(&self, failed: &Failed<'_>, error: &Error) -> ErrorAnswer {
        self(failed, error)
    }
}
