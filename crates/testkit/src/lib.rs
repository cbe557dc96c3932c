//! The topology test driver and the seeded simulator of Millpond.
//!
//! | you want | look at |
//! |---|---|
//! | to test a topology | [`Driver`] |
//! | to shake the runtime with seeded faults | [`sim`] |
//! | to test a storage engine under the whole library (feature `store-conformance`) | `stack` |

pub mod driver;
pub mod sim;
#[cfg(feature = "store-conformance")]
pub mod stack;

pub use driver::{
    Driver, DriverBuilder, InputTopic, OutputTopic, RawRecord, SessionStore, Store, TestRecord, VersionedStore,
    WindowStore,
};
