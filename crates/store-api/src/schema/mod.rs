//! The keys of the space that all windowed stores of a shard share, and when its rows expire.
//!
//! ```text
//! u32 bucket ‖ u16 store ‖ esc(key) ‖ suffix          all numbers big endian
//!
//! suffix    window            i64 start
//!           with duplicates   i64 start ‖ u32 sequence
//!           session           i64 end ‖ i64 start
//!           old version       i64 valid to ‖ i64 valid from
//! ```
//!
//! *bucket* is the minute in which the row has expired for certain, see [`Buckets`]: what has expired by some time is one
//! range at the low end of the space. *esc* makes rows of one key neighbours and sorts them as their keys are sorted, see
//! [`escape()`]. Times have their sign bit flipped, so that their bytes sort as they do. The first time of the suffix is the
//! one that decides the bucket; so the rows of one key are in the order of their suffixes over all buckets.
//!
//! These bytes never leave the machine: Kafka Streams' keys, which a changelog has, are not in the order of the keys.

mod bucket;
mod escape;
mod key;

pub use bucket::Buckets;
pub use escape::{escape, escape_end, escape_prefix, unescape};
pub use key::{ExpiringKey, Suffix, SuffixKind};
