//! Messages as a reader has lent them, read where librdkafka keeps them.

use std::ffi::{CStr, c_void};
use std::ptr::{NonNull, addr_of, null, null_mut};
use std::sync::Arc;

use millpond_broker_api::{Header, Offset};
use rdkafka::bindings as rd;

use super::failure::{code, text};
use super::handle::Handle;

/// Owns a batch of messages until it is emptied. Its capacity bounds the batch.
pub(crate) struct Messages {
    slots: Box<[*mut rd::rd_kafka_message_t]>,
    /// The first so many slots hold a message each.
    len: usize,
    of: Arc<Handle>,
}

// SAFETY: messages have one owner and no ties to a thread.
unsafe impl Send for Messages {}

impl Messages {
    pub(super) fn new(of: &Arc<Handle>, capacity: usize) -> Self {
        Self { slots: vec![null_mut(); capacity].into_boxed_slice(), len: 0, of: of.clone() }
    }

    /// Whether they are of this client.
    pub(super) fn are_of(&self, handle: &Arc<Handle>) -> bool {
        Arc::ptr_eq(&self.of, handle)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds as many as it may.
    pub(crate) fn is_full(&self) -> bool {
        self.len == self.slots.len()
    }

    /// Message `i`.
    #[inline]
    pub(crate) fn get(&self, i: usize) -> Option<Message<'_>> {
        let slot = self.slots.get(i).filter(|_| i < self.len)?;
        // SAFETY: the slots below `len` hold messages that are ours, and the borrow of `self` keeps them.
        Some(Message { raw: NonNull::new(*slot)?, _of: self })
    }

    /// Gives all messages back.
    pub(crate) fn clear(&mut self) {
        let len = std::mem::take(&mut self.len);
        for slot in self.slots.iter().take(len) {
            // SAFETY: the slots below `len` hold messages that are ours; with `len` at zero none is destroyed twice.
            unsafe { rd::rd_kafka_message_destroy(*slot) }
        }
    }

    /// Takes what the queue has, without waiting.
    pub(super) fn fill(&mut self, queue: NonNull<rd::rd_kafka_queue_t>) {
        self.clear();
        // SAFETY: the queue lives, and all slots are free to be written. It answers with how many it has written, which
        // are ours from then on; negative is an error without messages.
        let count =
            unsafe { rd::rd_kafka_consume_batch_queue(queue.as_ptr(), 0, self.slots.as_mut_ptr(), self.slots.len()) };
        self.len = usize::try_from(count).unwrap_or(0);
    }
}

impl Drop for Messages {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A message, or an error in a message's place.
#[derive(Clone, Copy)]
pub(crate) struct Message<'a> {
    raw: NonNull<rd::rd_kafka_message_t>,
    _of: &'a Messages,
}

impl<'a> Message<'a> {
    #[inline]
    fn raw(&self) -> &'a rd::rd_kafka_message_t {
        // SAFETY: it is valid for `'a`, and nobody writes to the public part of it meanwhile.
        unsafe { self.raw.as_ref() }
    }

    /// Zero for a message, else the error.
    #[inline]
    pub(crate) fn code(&self) -> i32 {
        // SAFETY: the field is a C enumeration; read as a number, since brokers may know more codes than our bindings.
        unsafe { addr_of!((*self.raw.as_ptr()).err).cast::<i32>().read() }
    }

    /// The error's text.
    pub(crate) fn error_text(&self) -> String {
        // SAFETY: the message is valid; the text belongs to it or is static, and is copied.
        unsafe { text(rd::rd_kafka_message_errstr(self.raw.as_ptr())) }
    }

    /// The address of its topic, as [`Topic::address`](super::Topic::address); 0 if it is of none.
    #[inline]
    pub(crate) fn topic(&self) -> usize {
        self.raw().rkt.addr()
    }

    #[inline]
    pub(crate) fn partition(&self) -> i32 {
        self.raw().partition
    }

    #[inline]
    pub(crate) fn offset(&self) -> Offset {
        self.raw().offset
    }

    #[inline]
    pub(crate) fn key(&self) -> Option<&'a [u8]> {
        // SAFETY: a message's key is null, or as many bytes as it says, for as long as the message.
        unsafe { bytes(self.raw().key, self.raw().key_len) }
    }

    #[inline]
    pub(crate) fn value(&self) -> Option<&'a [u8]> {
        // SAFETY: as the key.
        unsafe { bytes(self.raw().payload, self.raw().len) }
    }

    /// Milliseconds since 1970; -1 if there is none.
    #[inline]
    pub(crate) fn timestamp(&self) -> i64 {
        // SAFETY: the message is valid; nobody asks for the kind of timestamp.
        unsafe { rd::rd_kafka_message_timestamp(self.raw.as_ptr(), null_mut()) }
    }

    #[inline]
    pub(crate) fn leader_epoch(&self) -> i32 {
        // SAFETY: the message is valid.
        unsafe { rd::rd_kafka_message_leader_epoch(self.raw.as_ptr()) }
    }

    /// Header `n`. The first question has librdkafka parse them all, into the message.
    pub(crate) fn header(&self, n: usize) -> Option<Header<'a>> {
        let mut headers = null_mut();
        let (mut name, mut value, mut size) = (null(), null(), 0);
        // SAFETY: the message is valid and its owner is not shared between threads, so parsing is not raced. Name and
        // value belong to the message and live as long; the name ends with a zero byte.
        unsafe {
            if rd::rd_kafka_message_headers(self.raw.as_ptr(), &raw mut headers) as i32 != code::NONE
                || rd::rd_kafka_header_get_all(headers, n, &raw mut name, &raw mut value, &raw mut size) as i32
                    != code::NONE
            {
                return None;
            }
            let name = CStr::from_ptr(name).to_str().unwrap_or("\u{fffd}");
            Some(Header { name, value: bytes(value, size) })
        }
    }
}

/// # Safety
///
/// Null, or `len` bytes that nobody writes to for `'a`.
#[inline]
pub(super) unsafe fn bytes<'a>(at: *const c_void, len: usize) -> Option<&'a [u8]> {
    match at.is_null() {
        true => None,
        // SAFETY: not null, and the rest is the caller's promise.
        false => Some(unsafe { std::slice::from_raw_parts(at.cast(), len) }),
    }
}
