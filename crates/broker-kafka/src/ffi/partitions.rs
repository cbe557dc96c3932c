//! A list of partitions, each with an offset: what librdkafka is told to read and to commit.

use std::ffi::{CStr, CString, c_void};
use std::ptr::NonNull;

use millpond_broker_api::Offset;
use rdkafka::bindings as rd;

/// A list of partitions.
pub(crate) struct Partitions(NonNull<rd::rd_kafka_topic_partition_list_t>);

// SAFETY: the list is plain memory with one owner.
unsafe impl Send for Partitions {}

impl Partitions {
    /// An empty list with room for `capacity`.
    pub(crate) fn new(capacity: usize) -> Self {
        let capacity = i32::try_from(capacity).unwrap_or(0);
        // SAFETY: no preconditions; the capacity is a hint.
        let list = unsafe { rd::rd_kafka_topic_partition_list_new(capacity) };
        Self(NonNull::new(list).expect("librdkafka aborts when memory is out"))
    }

    /// Adds a partition.
    pub(crate) fn push(&mut self, topic: &CStr, partition: i32, offset: Offset) {
        // SAFETY: the list is ours and the name is copied; the new element is valid until the list changes.
        unsafe {
            let element = rd::rd_kafka_topic_partition_list_add(self.0.as_ptr(), topic.as_ptr(), partition);
            (*element).offset = offset;
        }
    }

    /// Adds a partition with what is committed beside its offset. `None`: the name has a zero byte, and is not added.
    pub(crate) fn push_commit(
        &mut self,
        topic: &str,
        partition: i32,
        offset: Offset,
        leader_epoch: i32,
        metadata: &str,
    ) -> Option<()> {
        let topic = CString::new(topic).ok()?;
        // SAFETY: as in `push`. The metadata is copied into memory of C's allocator, since the list frees it with `free`;
        // without memory there is no metadata.
        unsafe {
            let element = rd::rd_kafka_topic_partition_list_add(self.0.as_ptr(), topic.as_ptr(), partition);
            (*element).offset = offset;
            rd::rd_kafka_topic_partition_set_leader_epoch(element, leader_epoch);
            if !metadata.is_empty() {
                let copy = libc::malloc(metadata.len());
                if !copy.is_null() {
                    std::ptr::copy_nonoverlapping(metadata.as_ptr(), copy.cast(), metadata.len());
                    (*element).metadata = copy.cast::<c_void>();
                    (*element).metadata_size = metadata.len();
                }
            }
        }
        Some(())
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        // SAFETY: the list is ours.
        unsafe { self.0.as_ref() }.cnt == 0
    }

    /// The offset of the first partition, as the last call has left it.
    pub(super) fn first_offset(&self) -> Option<Offset> {
        // SAFETY: the list is ours, and the first of `cnt` elements is there if there is one.
        unsafe {
            let list = self.0.as_ref();
            (list.cnt > 0).then(|| (*list.elems).offset)
        }
    }

    pub(super) fn as_ptr(&self) -> *mut rd::rd_kafka_topic_partition_list_t {
        self.0.as_ptr()
    }
}

impl Drop for Partitions {
    fn drop(&mut self) {
        // SAFETY: the list is ours and destroyed once.
        unsafe { rd::rd_kafka_topic_partition_list_destroy(self.0.as_ptr()) }
    }
}
