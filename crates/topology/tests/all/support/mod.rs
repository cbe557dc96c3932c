//! What the tests share: a port over maps, a driver that runs whole topologies over it, and scripts over one store.

pub(crate) mod driver;
pub(crate) mod port;
pub(crate) mod script;
