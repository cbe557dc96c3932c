//! What a producer tells: delivery reports and complaints, as events of one queue.

use std::ptr::{NonNull, addr_of, null, null_mut};
use std::sync::Arc;
use std::time::Duration;

use millpond_broker_api::Offset;
use rdkafka::bindings as rd;

use super::failure::{code, text};
use super::handle::{Complaint, Handle};
use super::messages::bytes;

/// The queue of a producer's events. Any number of threads may share it; each event comes once.
pub(crate) struct Events {
    queue: NonNull<rd::rd_kafka_queue_t>,
    _of: Arc<Handle>,
}

// SAFETY: librdkafka's queues may be used by any threads at once.
unsafe impl Send for Events {}
// SAFETY: as above.
unsafe impl Sync for Events {}

impl Events {
    pub(super) fn new(of: &Arc<Handle>) -> Option<Self> {
        // SAFETY: the client lives; the reference to its queue is ours.
        let queue = unsafe { rd::rd_kafka_queue_get_main(of.as_ptr()) };
        Some(Self { queue: NonNull::new(queue)?, _of: of.clone() })
    }

    /// The next event, if one comes before [`Events::interrupt`] and within `max_wait`.
    pub(crate) fn next(&self, max_wait: Duration) -> Option<Event> {
        let millis = i32::try_from(max_wait.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the queue lives; the event is ours.
        NonNull::new(unsafe { rd::rd_kafka_queue_poll(self.queue.as_ptr(), millis) }).map(Event)
    }

    /// Ends a running or the next [`Events::next`].
    pub(crate) fn interrupt(&self) {
        // SAFETY: the queue lives.
        unsafe { rd::rd_kafka_queue_yield(self.queue.as_ptr()) }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // SAFETY: the reference is ours and given back once, while the client still lives.
        unsafe { rd::rd_kafka_queue_destroy(self.queue.as_ptr()) }
    }
}

/// One event: many reports, or a complaint, or something of no interest.
pub(crate) struct Event(NonNull<rd::rd_kafka_event_t>);

/// What became of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    /// The topic's number.
    pub(crate) topic: u32,
    /// The partition.
    pub(crate) partition: i32,
    /// Where it stands, if the report tells.
    pub(crate) offset: Option<Offset>,
    /// What was handed over with the record.
    pub(crate) tag: u64,
    /// Zero: written. Else why not: of the whole batch where librdkafka does not know better. Its text would tell more, but
    /// it is freed before the report comes (2.12.1).
    pub(crate) code: i32,
    /// Whether it was the only record of its batch.
    pub(crate) is_alone: bool,
}

/// A copy of a record that came back with its report.
pub(crate) struct Returned {
    pub(crate) topic: u32,
    pub(crate) partition: i32,
    pub(crate) timestamp: i64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
    pub(crate) tag: u64,
}

impl Event {
    /// The reports, in the order of the records of each partition; each with its record, which is lent to the call.
    #[inline]
    pub(crate) fn each_report(&mut self, mut note: impl FnMut(Report, &dyn Fn() -> Returned)) {
        // SAFETY: the event is ours. An event has the records of one batch.
        let is_alone = unsafe { rd::rd_kafka_event_message_count(self.0.as_ptr()) } == 1;
        loop {
            // SAFETY: the event is ours; other kinds of events have no messages, and answer with null.
            let message = unsafe { rd::rd_kafka_event_message_next(self.0.as_ptr()) };
            let Some(message) = NonNull::new(message.cast_mut()) else { break };
            let report = report(message, is_alone);
            // The closure is gone when `note` returns, and the event with its messages is not.
            note(report, &|| returned(message, report));
        }
    }

    /// The complaint, if it is one.
    pub(crate) fn complaint(&self) -> Option<Complaint> {
        // SAFETY: the event is ours; the text belongs to it and is copied.
        unsafe {
            if rd::rd_kafka_event_type(self.0.as_ptr()) != rd::RD_KAFKA_EVENT_ERROR {
                return None;
            }
            let code = super::failure::rd_kafka_event_error(self.0.as_ptr());
            Some(Complaint { code, text: text(rd::rd_kafka_event_error_string(self.0.as_ptr())) })
        }
    }
}

#[inline]
fn report(message: NonNull<rd::rd_kafka_message_t>, is_alone: bool) -> Report {
    let message = message.as_ptr();
    // SAFETY: the message belongs to its event, which is borrowed while reports are read, and its topic to the message.
    // The error is read as a number, since brokers may know more codes than our bindings.
    unsafe {
        let topic = match (*message).rkt.is_null() {
            true => null::<()>(),
            false => rd::rd_kafka_topic_opaque((*message).rkt).cast_const().cast(),
        };
        Report {
            topic: u32::try_from(topic.addr()).unwrap_or(u32::MAX),
            partition: (*message).partition,
            offset: Some((*message).offset).filter(|offset| *offset >= 0),
            tag: (*message)._private.addr() as u64,
            code: addr_of!((*message).err).cast::<i32>().read(),
            is_alone,
        }
    }
}

/// Copies a record out of its event.
#[cold]
fn returned(message: NonNull<rd::rd_kafka_message_t>, report: Report) -> Returned {
    let message = message.as_ptr();
    let (mut headers, mut copies) = (null_mut(), Vec::new());
    // SAFETY: the message belongs to its event, which is borrowed while reports are read; key, value and headers belong to
    // the message, are null or as long as they say, and are copied. The names of headers end with a zero byte.
    unsafe {
        if rd::rd_kafka_message_headers(message, &raw mut headers) as i32 == code::NONE {
            let (mut name, mut value, mut size) = (null(), null(), 0);
            while rd::rd_kafka_header_get_all(headers, copies.len(), &raw mut name, &raw mut value, &raw mut size)
                as i32
                == code::NONE
            {
                copies.push((text(name), bytes(value, size).map(<[u8]>::to_vec)));
            }
        }
        // The timestamp of a message with an error is not told. This one is ours, and its error has been read.
        (*message).err = rd::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR;
        Returned {
            topic: report.topic,
            partition: report.partition,
            timestamp: rd::rd_kafka_message_timestamp(message, null_mut()),
            key: bytes((*message).key, (*message).key_len).map(<[u8]>::to_vec),
            value: bytes((*message).payload, (*message).len).map(<[u8]>::to_vec),
            headers: copies,
            tag: report.tag,
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the event is ours and destroyed once, with its messages.
        unsafe { rd::rd_kafka_event_destroy(self.0.as_ptr()) }
    }
}
