//! A producer of librdkafka, idempotent or transactional.

use std::ffi::{CString, c_void};
use std::ptr::{NonNull, null, without_provenance_mut};
use std::sync::Arc;
use std::time::Duration;

use millpond_broker_api::{Error, ErrorKind, Header, Member, Result};
use rdkafka::bindings as rd;
use rdkafka::bindings::rd_kafka_vtype_t as Arg;

use super::event::Events;
use super::failure::code;
use super::handle::{Complaints, Handle, Topic};
use super::{Conf, Failure, Outcome, Partitions};

// Tags travel as addresses.
const _: () = assert!(size_of::<usize>() >= size_of::<u64>(), "a tag has 64 bits");

/// A producer. Clones are handles of the same.
#[derive(Clone)]
pub(crate) struct Writer {
    handle: Arc<Handle>,
}

/// A record for [`Writer::produce`].
#[derive(Clone, Copy)]
pub(crate) struct Produce<'a> {
    pub(crate) partition: i32,
    pub(crate) timestamp: i64,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) headers: &'a [Header<'a>],
    pub(crate) tag: u64,
}

impl Writer {
    /// Makes the client and the queue of its events.
    pub(crate) fn new(conf: Conf) -> Result<(Self, Events)> {
        // SAFETY: the configuration is ours.
        unsafe { rd::rd_kafka_conf_set_events(conf.as_ptr(), rd::RD_KAFKA_EVENT_DR | rd::RD_KAFKA_EVENT_ERROR) };
        let client = conf.build(rd::rd_kafka_type_t::RD_KAFKA_PRODUCER)?;
        let handle = Handle::new(client, Arc::new(Complaints::default()));
        match Events::new(&handle) {
            Some(events) => Ok((Self { handle }, events)),
            None => Err(Error::new(ErrorKind::Fatal, "make a Kafka producer").with("text", "it has no queue")),
        }
    }

    /// A topic by name, with a number for its reports; `None` if it cannot have this name.
    pub(crate) fn topic(&self, name: &str, number: u32) -> Option<Topic> {
        self.handle.topic(name, number)
    }

    /// Takes a copy of a record; the answer is librdkafka's code.
    #[inline]
    pub(crate) fn produce(&self, topic: &Topic, record: &Produce<'_>) -> i32 {
        debug_assert!(topic.is_of(&self.handle), "a topic is of its client");
        let (key, key_len) = parts(record.key);
        let (value, value_len) = parts(record.value);
        let headers = match record.headers {
            [] => None,
            headers => match HeaderList::of(headers) {
                Some(list) => Some(list),
                None => return code::INVALID_ARG,
            },
        };
        let list = headers.as_ref().map_or(std::ptr::null_mut(), |h| h.0.as_ptr());
        // SAFETY: client and topic live; key and value are copied before the call returns. Each argument has the type that
        // its tag asks for, and the end is marked. A null list of headers is none.
        let answer = unsafe {
            rd::rd_kafka_producev(
                self.handle.as_ptr(),
                Arg::RD_KAFKA_VTYPE_RKT,
                topic.as_ptr(),
                Arg::RD_KAFKA_VTYPE_PARTITION,
                record.partition,
                Arg::RD_KAFKA_VTYPE_MSGFLAGS,
                rd::RD_KAFKA_MSG_F_COPY,
                Arg::RD_KAFKA_VTYPE_VALUE,
                value,
                value_len,
                Arg::RD_KAFKA_VTYPE_KEY,
                key,
                key_len,
                Arg::RD_KAFKA_VTYPE_TIMESTAMP,
                record.timestamp,
                Arg::RD_KAFKA_VTYPE_OPAQUE,
                without_provenance_mut::<c_void>(record.tag as usize),
                Arg::RD_KAFKA_VTYPE_HEADERS,
                list,
                Arg::RD_KAFKA_VTYPE_END,
            )
        };
        let answer = answer as i32;
        if answer == code::NONE {
            // They belong to the record now.
            std::mem::forget(headers);
        }
        answer
    }

    /// Sends what lingers, waits until all records have an answer or for `max_wait`. Their reports may still be on the way.
    pub(crate) fn flush(&self, max_wait: Duration) {
        // SAFETY: the client lives.
        unsafe { rd::rd_kafka_flush(self.handle.as_ptr(), millis(max_wait)) };
    }

    /// Gives up all records that have no answer yet.
    pub(crate) fn purge(&self) {
        let all = rd::RD_KAFKA_PURGE_F_QUEUE | rd::RD_KAFKA_PURGE_F_INFLIGHT | rd::RD_KAFKA_PURGE_F_NON_BLOCKING;
        // SAFETY: the client lives.
        unsafe { rd::rd_kafka_purge(self.handle.as_ptr(), all) };
    }

    /// What made the client useless, if anything.
    pub(crate) fn fatal(&self) -> Option<Failure> {
        self.handle.fatal()
    }

    /// Fences former holders of the id.
    pub(crate) fn init(&self, max_wait: Duration) -> Outcome {
        // SAFETY: the client lives.
        Failure::take(unsafe { rd::rd_kafka_init_transactions(self.handle.as_ptr(), millis(max_wait)) })
    }

    /// Begins a transaction, without a round trip.
    pub(crate) fn begin(&self) -> Outcome {
        // SAFETY: the client lives.
        Failure::take(unsafe { rd::rd_kafka_begin_transaction(self.handle.as_ptr()) })
    }

    /// Commits the transaction.
    pub(crate) fn commit(&self, max_wait: Duration) -> Outcome {
        // SAFETY: the client lives.
        Failure::take(unsafe { rd::rd_kafka_commit_transaction(self.handle.as_ptr(), millis(max_wait)) })
    }

    /// Aborts the transaction.
    pub(crate) fn abort(&self, max_wait: Duration) -> Outcome {
        // SAFETY: the client lives.
        Failure::take(unsafe { rd::rd_kafka_abort_transaction(self.handle.as_ptr(), millis(max_wait)) })
    }

    /// Adds offsets to the transaction, in the name of a member.
    pub(crate) fn send_offsets(&self, offsets: &Partitions, member: &Membership, max_wait: Duration) -> Outcome {
        // SAFETY: client, list and membership live; both are copied.
        Failure::take(unsafe {
            rd::rd_kafka_send_offsets_to_transaction(
                self.handle.as_ptr(),
                offsets.as_ptr(),
                member.0.as_ptr(),
                millis(max_wait),
            )
        })
    }
}

/// A membership in librdkafka's words.
pub(crate) struct Membership(NonNull<rd::rd_kafka_consumer_group_metadata_t>);

// SAFETY: it is plain memory with one owner.
unsafe impl Send for Membership {}

impl Membership {
    /// `None` if one of its names has a zero byte.
    pub(crate) fn new(member: &Member) -> Option<Self> {
        let group = CString::new(&*member.group).ok()?;
        let id = CString::new(&*member.member_id).ok()?;
        let instance = member.instance_id.as_deref().map(CString::new).transpose().ok()?;
        // SAFETY: all strings outlive the call and are copied; without a static id the pointer is null.
        let metadata = unsafe {
            rd::rd_kafka_consumer_group_metadata_new_with_genid(
                group.as_ptr(),
                member.generation,
                id.as_ptr(),
                instance.as_ref().map_or(null(), |i| i.as_ptr()),
            )
        };
        NonNull::new(metadata).map(Self)
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        // SAFETY: it is ours and destroyed once.
        unsafe { rd::rd_kafka_consumer_group_metadata_destroy(self.0.as_ptr()) }
    }
}

/// Headers that are on their way into a record.
struct HeaderList(NonNull<rd::rd_kafka_headers_t>);

impl HeaderList {
    fn of(headers: &[Header<'_>]) -> Option<Self> {
        // SAFETY: no preconditions.
        let list = Self(NonNull::new(unsafe { rd::rd_kafka_headers_new(headers.len()) })?);
        for header in headers {
            let (value, len) = parts(header.value);
            let (name_len, len) = (isize::try_from(header.name.len()).ok()?, isize::try_from(len).ok()?);
            // SAFETY: the list is ours; name and value are copied, with their lengths.
            let answer =
                unsafe { rd::rd_kafka_header_add(list.0.as_ptr(), header.name.as_ptr().cast(), name_len, value, len) };
            if answer as i32 != code::NONE {
                return None;
            }
        }
        Some(list)
    }
}

impl Drop for HeaderList {
    fn drop(&mut self) {
        // SAFETY: it is ours: a record that takes it over forgets this owner.
        unsafe { rd::rd_kafka_headers_destroy(self.0.as_ptr()) }
    }
}

/// Null and 0, or an address that is never null and a length.
#[inline]
fn parts(bytes: Option<&[u8]>) -> (*const c_void, usize) {
    bytes.map_or((null(), 0), |b| (b.as_ptr().cast(), b.len()))
}

/// At least one millisecond: zero would not even try, and less than zero would wait for ever.
fn millis(wait: Duration) -> i32 {
    i32::try_from(wait.as_millis()).unwrap_or(i32::MAX).max(1)
}
