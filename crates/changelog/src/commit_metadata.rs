//! The text that is committed beside an input offset: the partition's time and what processors keep with it.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::wire::Reader;

/// As lenient as Java's decoder: padding may be missing.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

const TIME_ONLY: u8 = 1;
const VERSION: u8 = 2;

/// What is committed beside an input offset, in Kafka Streams' bytes (see `docs/formats/commit-metadata.md`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitMetadata {
    /// The largest event time seen in the partition, in milliseconds since 1970; [`CommitMetadata::UNKNOWN_TIME`] if none.
    pub partition_time: i64,
    /// Small numbers of processors, by name: the last window close that a store emitted, the time of a node.
    pub processor: Vec<(String, i64)>,
}

impl CommitMetadata {
    /// The partition time of an input that no record was read from.
    pub const UNKNOWN_TIME: i64 = -1;

    /// What an absent or unreadable text stands for: the time is unknown, nothing is kept.
    pub const UNKNOWN: Self = Self { partition_time: Self::UNKNOWN_TIME, processor: Vec::new() };

    /// A time, and nothing of processors.
    pub const fn at(partition_time: i64) -> Self {
        Self { partition_time, processor: Vec::new() }
    }

    /// Replaces `out` by the text. Allocates nothing but room in `out`, unless processors keep something.
    pub fn encode(&self, out: &mut String) {
        out.clear();
        let mut head = [VERSION; 9];
        if let Some((_, time)) = head.split_first_mut() {
            time.copy_from_slice(&self.partition_time.to_be_bytes());
        }
        if self.processor.is_empty() {
            return BASE64.encode_string(head, out);
        }
        let mut bytes = head.to_vec();
        bytes.extend_from_slice(&(self.processor.len() as i32).to_be_bytes());
        for (name, value) in &self.processor {
            bytes.extend_from_slice(&(name.len() as i32).to_be_bytes());
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(&value.to_be_bytes());
        }
        BASE64.encode_string(bytes, out);
    }

    /// Reads a text. Never an error: what cannot be read is unknown, as in Kafka Streams, since the offset beside it is
    /// what counts and other tools commit offsets with texts of their own.
    pub fn decode(text: &str) -> Self {
        let Ok(bytes) = BASE64.decode(text) else { return Self::UNKNOWN };
        let mut read = Reader::new(&bytes);
        let (Some(version), Some(partition_time)) = (read.u8(), read.i64()) else { return Self::UNKNOWN };
        match version {
            TIME_ONLY => Self::at(partition_time),
            VERSION => Self { partition_time, processor: processor(read).unwrap_or_default() },
            _ => Self::UNKNOWN,
        }
    }
}

/// The map behind the time: all of it, or nothing.
fn processor(mut read: Reader<'_>) -> Option<Vec<(String, i64)>> {
    let n = read.i32()?;
    let mut entries = Vec::new();
    for _ in 0..n {
        let len = usize::try_from(read.i32()?).ok()?;
        let name = std::str::from_utf8(read.bytes(len)?).ok()?;
        entries.push((name.to_owned(), read.i64()?));
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn comes_back(time: i64, processor in proptest::collection::vec((".{0,12}", any::<i64>()), 0..4)) {
            let metadata = CommitMetadata { partition_time: time, processor };
            let mut text = String::from("left over");
            metadata.encode(&mut text);
            prop_assert_eq!(CommitMetadata::decode(&text), metadata);
        }

        #[test]
        fn any_text_is_read_without_a_panic(text in ".{0,60}", bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = CommitMetadata::decode(&text);
            let _ = CommitMetadata::decode(&BASE64.encode(bytes));
        }
    }

    #[test]
    fn a_map_that_ends_early_is_dropped_as_a_whole() {
        let mut text = String::new();
        CommitMetadata { partition_time: 5, processor: vec![("a".into(), 1), ("b".into(), 2)] }.encode(&mut text);
        let mut bytes = BASE64.decode(&text).unwrap();
        bytes.pop();
        assert_eq!(CommitMetadata::decode(&BASE64.encode(bytes)), CommitMetadata::at(5));
    }

    #[test]
    fn an_absurd_count_allocates_nothing() {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&7i64.to_be_bytes());
        bytes.extend_from_slice(&i32::MAX.to_be_bytes());
        assert_eq!(CommitMetadata::decode(&BASE64.encode(bytes)), CommitMetadata::at(7));
    }
}
