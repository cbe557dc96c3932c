//! A consumer of librdkafka that reads what it is told to, through one queue.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

use millpond_broker_api::{Error, ErrorKind, Offset, Result};
use rdkafka::bindings as rd;

use super::failure::text;
use super::handle::{Complaint, Complaints, Handle, Topic};
use super::{Conf, Failure, Messages, Outcome, Partitions, Signal};

/// A consumer by manual assignment.
pub(crate) struct Reader {
    handle: Arc<Handle>,
    /// All partitions, and the client's complaints, come through it.
    queue: NonNull<rd::rd_kafka_queue_t>,
    /// The queue points to it.
    signal: Arc<Signal>,
}

// SAFETY: librdkafka's clients and queues may be used by any threads at once.
unsafe impl Send for Reader {}

impl Reader {
    /// Makes the client; it connects when it has something to read.
    pub(crate) fn new(conf: Conf) -> Result<Self> {
        let complaints = Arc::new(Complaints::default());
        // SAFETY: the opaque outlives the client, since `Handle` holds both; the callback only reads it.
        unsafe {
            rd::rd_kafka_conf_set_opaque(conf.as_ptr(), complaints.as_opaque());
            rd::rd_kafka_conf_set_error_cb(conf.as_ptr(), Some(on_error));
        }
        let client = conf.build(rd::rd_kafka_type_t::RD_KAFKA_CONSUMER)?;
        let handle = Handle::new(client, complaints);
        // SAFETY: the client is a living consumer. The reference to its queue is ours.
        let queue = unsafe {
            rd::rd_kafka_poll_set_consumer(handle.as_ptr());
            rd::rd_kafka_queue_get_consumer(handle.as_ptr())
        };
        let Some(queue) = NonNull::new(queue) else {
            return Err(Error::new(ErrorKind::Fatal, "make a Kafka consumer").with("text", "it has no queue"));
        };
        let signal = Arc::new(Signal::default());
        // SAFETY: the signal outlives the callback: `drop` takes the callback away first.
        unsafe {
            let opaque = Arc::as_ptr(&signal).cast_mut().cast();
            rd::rd_kafka_queue_cb_event_enable(queue.as_ptr(), Some(on_ready), opaque);
        }
        Ok(Self { handle, queue, signal })
    }

    /// What ends a wait for messages.
    pub(crate) fn signal(&self) -> &Arc<Signal> {
        &self.signal
    }

    /// The errors of the client as a whole that came with the last messages.
    pub(crate) fn complaints(&self) -> Vec<Complaint> {
        self.handle.complaints().take()
    }

    /// A topic; `None` if it cannot have this name.
    pub(crate) fn topic(&self, name: &str) -> Option<Topic> {
        self.handle.topic(name, 0)
    }

    /// Begins to read partitions, each from its offset.
    pub(crate) fn assign(&self, partitions: &Partitions) -> Outcome {
        // SAFETY: client and list live, and the list is copied.
        Failure::take(unsafe { rd::rd_kafka_incremental_assign(self.handle.as_ptr(), partitions.as_ptr()) })
    }

    /// Ends reading them; messages in the queue become invalid before this returns.
    pub(crate) fn unassign(&self, partitions: &Partitions) -> Outcome {
        // SAFETY: as in `assign`.
        Failure::take(unsafe { rd::rd_kafka_incremental_unassign(self.handle.as_ptr(), partitions.as_ptr()) })
    }

    /// Room for messages of this reader.
    pub(crate) fn messages(&self, capacity: usize) -> Messages {
        Messages::new(&self.handle, capacity)
    }

    /// Takes the messages that are there.
    pub(crate) fn read(&self, messages: &mut Messages) {
        assert!(messages.are_of(&self.handle), "messages keep the client alive that they are of");
        messages.fill(self.queue);
    }

    /// The position of the only partition of a list, past markers; `None` before anything of it was polled.
    pub(crate) fn position(&self, of: &Partitions) -> Option<Offset> {
        // SAFETY: client and list live. The list is written to: it is not `Sync`, so nobody looks meanwhile.
        unsafe { rd::rd_kafka_position(self.handle.as_ptr(), of.as_ptr()) };
        of.first_offset().filter(|offset| *offset >= 0)
    }

    /// The high watermark that the last fetch spoke of.
    pub(crate) fn high_watermark(&self, topic: &CStr, partition: i32) -> Option<Offset> {
        let (mut low, mut high) = (-1, -1);
        // SAFETY: client and name live; both numbers are ours.
        unsafe {
            rd::rd_kafka_get_watermark_offsets(
                self.handle.as_ptr(),
                topic.as_ptr(),
                partition,
                &raw mut low,
                &raw mut high,
            )
        };
        (high >= 0).then_some(high)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // SAFETY: the callback is taken away under the queue's lock, so it does not run afterwards; the reference to the
        // queue is given back once.
        unsafe {
            rd::rd_kafka_queue_cb_event_enable(self.queue.as_ptr(), None, std::ptr::null_mut());
            rd::rd_kafka_queue_destroy(self.queue.as_ptr());
        }
    }
}

/// Called inside `rd_kafka_consume_batch_queue`, so by the thread that polls.
unsafe extern "C" fn on_error(_: *mut rd::rd_kafka_t, code: c_int, reason: *const c_char, opaque: *mut c_void) {
    // SAFETY: the opaque is the client's `Complaints`, which outlive it; the text lives until the callback returns.
    unsafe {
        let complaints = &*opaque.cast_const().cast::<Complaints>();
        complaints.add(Complaint { code, text: text(reason) });
    }
}

/// Called by librdkafka's threads when the queue is no longer empty.
unsafe extern "C" fn on_ready(_: *mut rd::rd_kafka_t, opaque: *mut c_void) {
    // SAFETY: the opaque is the reader's signal, which outlives the callback.
    unsafe { &*opaque.cast_const().cast::<Signal>() }.ready();
}
