//! What the tests share: a port over maps, a driver that runs whole topologies over it, and an interpreter of golden cases.

pub(crate) mod driver;
pub(crate) mod interpret;
pub(crate) mod port;
pub(crate) mod script;
