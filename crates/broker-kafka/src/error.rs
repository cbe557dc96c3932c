//! What Kafka and librdkafka answer, sorted once: the one table of error codes.

use millpond_broker_api::{Error, ErrorKind};

/// An error code of the wire protocol, as an error of the operation `op`.
#[expect(dead_code, reason = "the clients are still to come")]
pub(crate) fn of_broker(op: &'static str, code: i16) -> Error {
    Error::new(ErrorKind::Fatal, op).with("code", code)
}

/// An error code of librdkafka (negative: its own; else one of the wire protocol), with its text.
pub(crate) fn of_client(op: &'static str, code: i32, text: &str) -> Error {
    Error::new(ErrorKind::Fatal, op).with("code", code).with("text", text)
}
