//! A client of librdkafka, whichever kind, and its topics.

use std::ffi::{CString, c_void};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use rdkafka::bindings as rd;

use super::failure::{self, Failure, code};

/// Owns a client; whatever belongs to it keeps it alive.
pub(super) struct Handle {
    client: NonNull<rd::rd_kafka_t>,
    /// The client's callbacks point into it.
    complaints: Arc<Complaints>,
}

// SAFETY: librdkafka's clients may be used by any threads at once.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    /// `complaints` is the opaque of the client, or nobody's.
    pub(super) fn new(client: NonNull<rd::rd_kafka_t>, complaints: Arc<Complaints>) -> Arc<Self> {
        Arc::new(Self { client, complaints })
    }

    pub(super) fn as_ptr(&self) -> *mut rd::rd_kafka_t {
        self.client.as_ptr()
    }

    pub(super) fn complaints(&self) -> &Complaints {
        &self.complaints
    }

    /// A topic by name, carrying a number of the caller's; `None` if librdkafka does not take the name.
    pub(super) fn topic(self: &Arc<Self>, name: &str, number: u32) -> Option<Topic> {
        let name = CString::new(name).ok()?;
        // SAFETY: the client lives, and the copied configuration is librdkafka's from the call on, whether there is a topic or
        // not. The number is carried as an address that nobody follows.
        let topic = unsafe {
            let conf = rd::rd_kafka_default_topic_conf_dup(self.as_ptr());
            rd::rd_kafka_topic_conf_set_opaque(conf, std::ptr::without_provenance_mut(number as usize));
            rd::rd_kafka_topic_new(self.as_ptr(), name.as_ptr(), conf)
        };
        Some(Topic { topic: NonNull::new(topic)?, of: self.clone() })
    }

    /// What made the client useless, if anything.
    pub(super) fn fatal(&self) -> Option<Failure> {
        let mut why = [0; 512];
        // SAFETY: the client lives and the buffer outlives the call; its text ends with a zero byte.
        let (found, text) = unsafe {
            let found = failure::rd_kafka_fatal_error(self.as_ptr(), why.as_mut_ptr(), why.len());
            (found, failure::text(why.as_ptr()))
        };
        (found != code::NONE).then_some(Failure { code: found, text, retriable: false, abortable: false, fatal: true })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: whatever belongs to the client holds it alive, so nothing is left of it; it is destroyed once. Without a
        // group there is nothing to close.
        unsafe { rd::rd_kafka_destroy_flags(self.as_ptr(), rd::RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE) }
    }
}

/// A topic of a client.
pub(crate) struct Topic {
    topic: NonNull<rd::rd_kafka_topic_t>,
    of: Arc<Handle>,
}

// SAFETY: librdkafka's topics may be used by any threads at once.
unsafe impl Send for Topic {}

impl Topic {
    /// Its address, which the messages of the topic carry.
    pub(crate) fn address(&self) -> usize {
        self.topic.as_ptr().addr()
    }

    /// Whether it is of this client.
    pub(super) fn is_of(&self, handle: &Arc<Handle>) -> bool {
        Arc::ptr_eq(&self.of, handle)
    }

    pub(super) fn as_ptr(&self) -> *mut rd::rd_kafka_topic_t {
        self.topic.as_ptr()
    }
}

impl Drop for Topic {
    fn drop(&mut self) {
        // SAFETY: `rd_kafka_topic_new` gave this reference to us, and it is given back once.
        unsafe { rd::rd_kafka_topic_destroy(self.as_ptr()) }
    }
}

/// An error of a client as a whole: no connection, wrong credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Complaint {
    /// librdkafka's code.
    pub(crate) code: i32,
    /// Its text.
    pub(crate) text: String,
}

impl Complaint {
    /// The partition that it is of, as librdkafka writes it: `TOPIC [PARTITION]: ...`, where the topic or partition is not
    /// there or the user may not read it. Other texts name a broker at most.
    pub(crate) fn partition(&self) -> Option<(&str, i32)> {
        if !matches!(self.code, code::UNKNOWN_TOPIC_OR_PART | code::UNKNOWN_PARTITION | code::TOPIC_AUTHORIZATION) {
            return None;
        }
        let (topic, rest) = self.text.split_once(" [")?;
        let (partition, _) = rest.split_once("]: ")?;
        Some((topic, partition.parse().ok()?))
    }
}

/// Where a client leaves its complaints until somebody asks.
#[derive(Debug, Default)]
pub(crate) struct Complaints(Mutex<Vec<Complaint>>);

impl Complaints {
    /// More are not kept: they repeat themselves.
    const MOST: usize = 64;

    /// Adds one.
    pub(crate) fn add(&self, complaint: Complaint) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < Self::MOST {
            all.push(complaint);
        }
    }

    /// Takes what there is.
    pub(crate) fn take(&self) -> Vec<Complaint> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// As the opaque of a client that keeps it alive.
    pub(super) fn as_opaque(self: &Arc<Self>) -> *mut c_void {
        Arc::as_ptr(self).cast_mut().cast()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Conf, Writer};
    use super::*;

    #[test]
    fn complaints_of_partitions_are_told_apart() {
        let of = |code, text: &str| {
            let complaint = Complaint { code, text: text.to_owned() };
            complaint.partition().map(|(topic, partition)| (topic.to_owned(), partition))
        };
        let text = "orders.by-user [12]: topic does not exist (Broker: Unknown topic or partition)";
        assert_eq!(of(code::UNKNOWN_TOPIC_OR_PART, text), Some(("orders.by-user".to_owned(), 12)));
        assert_eq!(of(code::TRANSPORT, text), None);
        assert_eq!(of(code::UNKNOWN_PARTITION, "FindCoordinator failed"), None);
    }

    #[test]
    fn a_name_that_no_topic_can_have_is_none() {
        let (writer, _events) = Writer::new(Conf::new()).unwrap();
        assert!(writer.topic(&"x".repeat(600), 0).is_none());
        assert!(writer.topic("x\0y", 1).is_none());
        assert!(writer.topic("fine", 2).is_some());
    }
}
