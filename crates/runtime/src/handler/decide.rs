//! Asks the handler, keeps it within its bounds, counts and tells what it has answered.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::{ErrorAnswer, ErrorHandler, ErrorStage, Failed};
use crate::error::{Error, ErrorKind, Result};
use crate::metrics::{Counter, Scope};
use crate::ports::Ports;
use crate::settings::{ErrorPolicy, Settings};

/// What is done about a record that has failed.
pub(crate) enum Decision {
    /// The application stops with this error.
    Fail(Error),
    Skip,
    /// To this one of [`Handlers::topics`], because of this error.
    DeadLetter(usize, Error),
    Retry(Duration),
}

/// The application's handler, if it has one, and what the settings say.
pub(crate) struct Handlers {
    handler: Option<Arc<dyn ErrorHandler>>,
    on_deserialization: ErrorPolicy,
    on_processing: ErrorPolicy,
    on_production: ErrorPolicy,
    max_attempts: u32,
    /// The default topic for dead letters is the first of the topics.
    has_default: bool,
    topics: Vec<String>,
    ports: Ports,
}

impl Handlers {
    /// A dead-letter topic that nobody would write to is an error: who sets one expects to find letters there.
    pub(crate) fn new(settings: &Settings, ports: &Ports) -> Result<Self> {
        let handler = ports.error_handler.clone();
        let default = settings.dead_letter_topic.clone();
        let policies = [settings.on_deserialization_error, settings.on_processing_error, settings.on_production_error];
        if handler.is_none() && default.is_some() && !policies.contains(&ErrorPolicy::DeadLetter) {
            return Err(Error::new(ErrorKind::Config, "check settings")
                .with("setting without effect", "errors.dead.letter.queue.topic.name")
                .remedy("let an exception handler be `dead-letter`, or give the builder an `error_handler`"));
        }
        let has_default = default.is_some();
        let mut topics: Vec<String> = default.into_iter().collect();
        for topic in handler.iter().flat_map(|h| h.dead_letter_topics()) {
            if !topics.contains(&topic) {
                topics.push(topic);
            }
        }
        let [on_deserialization, on_processing, on_production] = policies;
        let (max_attempts, ports) = (settings.max_attempts, ports.clone());
        Ok(Self { handler, on_deserialization, on_processing, on_production, max_attempts, has_default, topics, ports })
    }

    /// The topics for dead letters, each once.
    pub(crate) fn topics(&self) -> &[String] {
        &self.topics
    }

    pub(crate) fn topic(&self, at: usize) -> &str {
        self.topics.get(at).map_or("", String::as_str)
    }

    pub(crate) fn policy(&self, stage: ErrorStage) -> ErrorPolicy {
        match stage {
            ErrorStage::Deserialization => self.on_deserialization,
            ErrorStage::Processing => self.on_processing,
            ErrorStage::Production => self.on_production,
        }
    }

    /// Whether a refused output may be anything but the end: then the worker keeps what it takes to ask about it.
    pub(crate) fn asks_about_outputs(&self) -> bool {
        self.handler.is_some() || self.on_production != ErrorPolicy::Fail
    }

    /// How often something is tried in all.
    pub(crate) fn max_attempts(&self) -> u32 {
        self.max_attempts
    }

    /// The wall clock, in milliseconds since 1970.
    pub(crate) fn wall_ms(&self) -> i64 {
        self.ports.clock.wall_ms()
    }

    /// Asks. `remedy` is what a user can do who has not decided on anything but to fail.
    #[cold]
    pub(crate) fn decide(&self, failed: &Failed<'_>, error: Error, remedy: impl Into<Cow<'static, str>>) -> Decision {
        let why = error.chain();
        let decision = match self.ask(failed, &error) {
            Ok(answer) => self.bounded(failed, answer, error, remedy.into()),
            Err(panicked) => Decision::Fail(error.with("error handler", panicked).remedy("mend the error handler")),
        };
        self.tell(failed, &decision, &why);
        decision
    }

    fn ask(&self, failed: &Failed<'_>, error: &Error) -> std::result::Result<ErrorAnswer, &'static str> {
        let Some(handler) = &self.handler else { return Ok(failed.policy.into()) };
        // It has a shared reference only: what it may have broken of its own is its affair, as with any shared object.
        catch_unwind(AssertUnwindSafe(|| handler.handle(failed, error))).map_err(|_| "panicked")
    }

    fn bounded(&self, failed: &Failed<'_>, answer: ErrorAnswer, error: Error, remedy: Cow<'static, str>) -> Decision {
        let letter = |to: Option<usize>, error: Error, remedy: &'static str| match to {
            Some(to) => Decision::DeadLetter(to, error),
            None => Decision::Fail(error.remedy(remedy)),
        };
        match answer {
            ErrorAnswer::Fail => Decision::Fail(error.remedy(remedy)),
            ErrorAnswer::Skip => Decision::Skip,
            ErrorAnswer::DeadLetter => {
                let remedy = "the error handler wants it dead-lettered: set `errors.dead.letter.queue.topic.name`";
                letter(self.has_default.then_some(0), error, remedy)
            }
            ErrorAnswer::DeadLetterTo(topic) => {
                let remedy =
                    "give the error handler this topic by `with_dead_letter_topics`, or in its `dead_letter_topics`";
                letter(self.topics.iter().position(|t| *t == topic), error.with("dead-letter topic", topic), remedy)
            }
            ErrorAnswer::Retry if failed.output.is_none() && failed.attempt < self.max_attempts => {
                Decision::Retry(Duration::ZERO)
            }
            ErrorAnswer::RetryAfter(pause) if failed.output.is_none() && failed.attempt < self.max_attempts => {
                Decision::Retry(pause)
            }
            ErrorAnswer::Retry | ErrorAnswer::RetryAfter(_) => {
                Decision::Fail(error.with("attempts", failed.attempt).remedy(remedy))
            }
        }
    }

    fn tell(&self, failed: &Failed<'_>, decision: &Decision, why: &str) {
        let (metrics, scope) = (&self.ports.metrics, Scope::Task(failed.task));
        metrics.add(Counter::of_error(failed.stage, decision), scope, 1);
        let task = failed.task;
        match decision {
            // The application ends with it, and shows it.
            Decision::Fail(_) => return,
            Decision::Retry(pause) => {
                tracing::warn!(%task, attempt = failed.attempt, ?pause, "tries it again: {why}");
                return;
            }
            Decision::Skip => tracing::warn!(%task, "skips it: {why}"),
            Decision::DeadLetter(to, _) => {
                tracing::warn!(%task, to = self.topic(*to), "writes a dead letter: {why}");
                metrics.add(Counter::DeadLetterTotal, scope, 1);
            }
        }
        metrics.add(Counter::DroppedRecordsTotal, scope, 1);
    }
}
