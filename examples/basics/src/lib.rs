//! Small programs, each of one file and with its test: what to copy for a first application.
//!
//! | program | what it shows |
//! |---|---|
//! | `word-count` | the DSL: lines are cut into words, the words grouped and counted |
//! | `dedup` | one operator that keeps what it needs to know: copies of an order are dropped |
//! | `fraud-detection` | the Processor API: a store, timers by event time and by the wall clock, children by name |
//! | `dead-letters` | errors: bad records go to a topic of their own, with the cause in their headers |
//!
//! `cargo run -p millpond-example-basics --bin word-count` runs one, on a broker in its own process. An application of yours
//! has the topology and the [`App`](millpond::App) of such a program, and on a Kafka cluster `.connect(Kafka)` in place of
//! `.broker(…)`. What comes before it and after it are other programs there; here it is a [`Stage`].

mod stage;

pub use stage::{Output, Received, Result, Stage};
