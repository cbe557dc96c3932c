//! The flights that left New York City in 2013, added up per carrier, hour and plane: what an application on Millpond looks
//! like.
//!
//! | you want to see | look at |
//! |---|---|
//! | the topology: all there is to say about what is computed | [`topology`] |
//! | how an application is started and watched | [`run`] |
//! | a plain producer, and topics with configs | [`load`] |
//! | plain consumers that read what is committed | [`show`], [`reader`] |
//! | all of it in one process | [`demo`] |
//!
//! `flights demo` runs it on the embedded broker; `flights load`, `run` and `show` are its parts as programs of their own, for
//! a Kafka cluster.

pub mod cluster;
pub mod data;
pub mod demo;
pub mod error;
pub mod events;
mod exact;
pub mod flight;
pub mod lag;
pub mod load;
pub mod options;
pub mod ports;
pub mod reader;
pub mod run;
pub mod show;
pub mod topology;
mod utc;
pub mod view;
