//! The flights that left New York City in 2013, counted per carrier: what an application on Millpond looks like.
//!
//! | you want to see | look at |
//! |---|---|
//! | the topology: all there is to say about what is computed | [`topology`] |
//! | how an application is started and watched | [`run`] |
//! | a plain producer, and topics with configs | [`load`] |
//! | a plain consumer that reads what is committed | [`show`] |
//! | all of it in one process | [`demo`] |
//!
//! `flights demo` runs it. The parts take any broker; the demo gives them the embedded one.

pub mod data;
pub mod demo;
pub mod error;
pub mod flight;
pub mod lag;
pub mod load;
pub mod options;
pub mod ports;
pub mod run;
pub mod show;
pub mod topology;
pub mod view;
