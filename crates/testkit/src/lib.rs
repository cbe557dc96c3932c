//! The topology test driver and the seeded simulator of Millpond.
//!
//! | you want | look at |
//! |---|---|
//! | to test a topology | [`Driver`] |
//! | to shake the runtime with seeded faults | [`sim`] |

pub mod driver;
pub mod sim;

pub use driver::{Driver, DriverBuilder, InputTopic, OutputTopic, RawRecord, Store, TestRecord};
