//! Our own client of the wire protocol: blocking, one request in flight per connection.

mod address;
mod backoff;
mod cluster;
mod connection;
#[cfg(test)]
pub(crate) mod fake;
mod interrupt;
mod sasl;
mod socket;
#[cfg(test)]
mod tests;
mod tls;
mod versions;

use kafka_protocol::protocol::StrBytes;

pub(crate) use address::Address;
pub(crate) use backoff::Backoff;
pub(crate) use cluster::{Cluster, Leader, Node, To};
pub(crate) use interrupt::Interrupt;
pub(crate) use versions::Api;

/// A string as the codec wants it.
pub(crate) fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

/// Milliseconds as the protocol counts them.
pub(crate) fn millis(time: std::time::Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
}
