//! A panic of a user's function becomes an error at the task's border.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Why a call into a user's graph failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It returned an error; the graph is as good as before.
    Error(millpond_topology::Error),
    /// It panicked; the graph has to be built anew. With the panic's message.
    Panic(String),
}

impl Failure {
    /// The node that failed, if that is known.
    pub(crate) fn node(&self) -> Option<String> {
        match self {
            Self::Error(error) => error.node().map(str::to_owned),
            Self::Panic(_) => None,
        }
    }
}

/// Runs `body`. What it has changed of a task is undone by the caller, who throws the graph away after a panic: that is why
/// asserting unwind safety is right.
pub(crate) fn catch(body: impl FnOnce() -> millpond_topology::Result) -> Result<(), Failure> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Failure::Error(error)),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Err(Failure::Panic(text.unwrap_or_else(|| "no message".to_owned())))
        }
    }
}
