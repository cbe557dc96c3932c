//! The inside of a task: what a graph sees of it, and what makes a record atomic (D14).

mod changelog_route;
mod outbox;
mod panics;
mod port;

pub(crate) use changelog_route::ChangelogRoute;
pub(crate) use outbox::{Outbox, Routes, SinkRoute};
pub(crate) use panics::{Failure, catch};
pub(crate) use port::{RecordInfo, TaskPort};
