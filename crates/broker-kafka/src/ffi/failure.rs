//! Errors of librdkafka as values: a code, a text, and what transactions say about them.

use std::ffi::{CStr, c_char};
use std::ptr::NonNull;

use rdkafka::bindings as rd;
use rdkafka::bindings::rd_kafka_resp_err_t as Code;

/// The codes that the clients themselves look at; all others are sorted by [`crate::error`].
pub(crate) mod code {
    use super::Code;

    /// No error.
    pub(crate) const NONE: i32 = Code::RD_KAFKA_RESP_ERR_NO_ERROR as i32;
    /// Something went wrong in the broker (UNKNOWN_SERVER_ERROR).
    pub(crate) const UNKNOWN: i32 = Code::RD_KAFKA_RESP_ERR_UNKNOWN as i32;
    /// The reader has read all there is; no error.
    pub(crate) const PARTITION_EOF: i32 = Code::RD_KAFKA_RESP_ERR__PARTITION_EOF as i32;
    /// The producer's buffer is full.
    pub(crate) const QUEUE_FULL: i32 = Code::RD_KAFKA_RESP_ERR__QUEUE_FULL as i32;
    /// The handle has a fatal error, which has to be asked for.
    pub(crate) const FATAL: i32 = Code::RD_KAFKA_RESP_ERR__FATAL as i32;
    /// Not in this state: the transaction has failed already.
    pub(crate) const STATE: i32 = Code::RD_KAFKA_RESP_ERR__STATE as i32;
    /// An argument that cannot be passed on.
    pub(crate) const INVALID_ARG: i32 = Code::RD_KAFKA_RESP_ERR__INVALID_ARG as i32;
    /// The record was given up on demand.
    pub(crate) const PURGE_QUEUE: i32 = Code::RD_KAFKA_RESP_ERR__PURGE_QUEUE as i32;
    /// The same, under way.
    pub(crate) const PURGE_INFLIGHT: i32 = Code::RD_KAFKA_RESP_ERR__PURGE_INFLIGHT as i32;
    /// Another record of the same batch was refused, not this one.
    pub(crate) const INVALID_DIFFERENT_RECORD: i32 = Code::RD_KAFKA_RESP_ERR__INVALID_DIFFERENT_RECORD as i32;
    /// A record of the batch has no key where it needs one, or the like.
    pub(crate) const INVALID_RECORD: i32 = Code::RD_KAFKA_RESP_ERR_INVALID_RECORD as i32;
    /// A record of the batch is from the future.
    pub(crate) const INVALID_TIMESTAMP: i32 = Code::RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP as i32;
    /// The batch, or the record, is too large for the topic.
    pub(crate) const MSG_SIZE_TOO_LARGE: i32 = Code::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE as i32;
    /// The topic is not there.
    pub(crate) const UNKNOWN_TOPIC_OR_PART: i32 = Code::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART as i32;
    /// The same, as librdkafka says it.
    pub(crate) const UNKNOWN_TOPIC: i32 = Code::RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC as i32;
    /// The topic has no such partition.
    pub(crate) const UNKNOWN_PARTITION: i32 = Code::RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION as i32;
    /// No access to the topic.
    pub(crate) const TOPIC_AUTHORIZATION: i32 = Code::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED as i32;
    /// No connection.
    pub(crate) const TRANSPORT: i32 = Code::RD_KAFKA_RESP_ERR__TRANSPORT as i32;
    /// No connection to any broker.
    pub(crate) const ALL_BROKERS_DOWN: i32 = Code::RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN as i32;
    /// No answer in time.
    pub(crate) const TIMED_OUT: i32 = Code::RD_KAFKA_RESP_ERR__TIMED_OUT as i32;
    /// Wrong credentials.
    pub(crate) const AUTHENTICATION: i32 = Code::RD_KAFKA_RESP_ERR__AUTHENTICATION as i32;
    /// Any failure of TLS.
    pub(crate) const SSL: i32 = Code::RD_KAFKA_RESP_ERR__SSL as i32;
    /// The broker is too old.
    pub(crate) const UNSUPPORTED: i32 = Code::RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE as i32;
    /// No access to the group: of no interest to a reader without one.
    pub(crate) const GROUP_AUTHORIZATION: i32 = Code::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED as i32;
}

/// What a call of librdkafka says when it fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Negative: librdkafka's own; else a code of the wire protocol.
    pub(crate) code: i32,
    /// For people.
    pub(crate) text: String,
    /// The same call may be made again.
    pub(crate) retriable: bool,
    /// The transaction has to be aborted.
    pub(crate) abortable: bool,
    /// The handle is of no use any more.
    pub(crate) fatal: bool,
}

/// What a call comes to.
pub(crate) type Outcome = Result<(), Failure>;

impl Failure {
    /// The text of an error code.
    pub(crate) fn text_of(code: i32) -> String {
        // SAFETY: the function takes any number and returns a string that is never freed, or one of the thread's own, which
        // is copied.
        unsafe { text(rd_kafka_err2str(code)) }
    }

    /// Takes an error object over; null is success.
    pub(super) fn take(error: *mut rd::rd_kafka_error_t) -> Outcome {
        let Some(error) = NonNull::new(error) else { return Ok(()) };
        let error = error.as_ptr();
        // SAFETY: librdkafka returned this object and left it to us; its string lives as long as it does, is copied, and
        // the object is destroyed once.
        let failure = unsafe {
            let failure = Self {
                code: rd_kafka_error_code(error),
                text: text(rd::rd_kafka_error_string(error)),
                retriable: rd::rd_kafka_error_is_retriable(error) != 0,
                abortable: rd::rd_kafka_error_txn_requires_abort(error) != 0,
                fatal: rd::rd_kafka_error_is_fatal(error) != 0,
            };
            rd::rd_kafka_error_destroy(error);
            failure
        };
        Err(failure)
    }
}

// Declared anew, with numbers for codes: our bindings' enumeration must not hold one that it does not know, and brokers may
// answer with codes of later versions.
unsafe extern "C" {
    fn rd_kafka_err2str(code: i32) -> *const c_char;
    fn rd_kafka_error_code(error: *const rd::rd_kafka_error_t) -> i32;
    pub(super) fn rd_kafka_event_error(event: *mut rd::rd_kafka_event_t) -> i32;
    pub(super) fn rd_kafka_fatal_error(client: *mut rd::rd_kafka_t, why: *mut c_char, size: usize) -> i32;
}

/// Copies a C string.
///
/// # Safety
///
/// Null, or a string that ends with a zero byte and is not changed meanwhile.
pub(super) unsafe fn text(text: *const c_char) -> String {
    match text.is_null() {
        true => String::new(),
        // SAFETY: not null, and the rest is the caller's promise.
        false => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
    }
}
