//! Our own client of the wire protocol.

mod address;

pub(crate) use address::Address;
