//! What leaves an instance: the producer of a worker, and what it has reported.

mod collector;

pub(crate) use collector::Collector;
