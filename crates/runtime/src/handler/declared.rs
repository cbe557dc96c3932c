//! A handler with topics for dead letters that it cannot name itself.

use super::{ErrorAnswer, ErrorHandler, Failed};
use crate::error::Error;

/// A handler and topics that it names in [`ErrorAnswer::DeadLetterTo`]: what [`ErrorHandler::with_dead_letter_topics`] makes.
pub struct WithDeadLetterTopics<H> {
    handler: H,
    topics: Vec<String>,
}

impl<H> WithDeadLetterTopics<H> {
    pub(super) fn new(handler: H, topics: Vec<String>) -> Self {
        Self { handler, topics }
    }
}

impl<H: ErrorHandler> ErrorHandler for WithDeadLetterTopics<H> {
    fn handle(&self, failed: &Failed<'_>, error: &Error) -> ErrorAnswer {
        self.handler.handle(failed, error)
    }

    fn dead_letter_topics(&self) -> Vec<String> {
        let mut all = self.handler.dead_letter_topics();
        all.extend_from_slice(&self.topics);
        all
    }
}

impl<H> std::fmt::Debug for WithDeadLetterTopics<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WithDeadLetterTopics").field("topics", &self.topics).finish_non_exhaustive()
    }
}
