//! What leaves an instance: the producer of a worker, and what it has reported.

mod collector;
#[cfg(test)]
mod tests;
mod watch;

pub(crate) use collector::Collector;
