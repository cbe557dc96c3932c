//! A few bytes that claim to be a lot are refused, and no more memory is asked for than they are worth.
//!
//! One test alone in its binary: the profiler counts all of the process.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use millpond_changelog::{CommitMetadata, Position};
use millpond_store_api::{AggregationWithHeaders, BufferValue, Headers, ValueTimestampHeaders};
use millpond_topology::{ByteArray, ChangeSerde, I16, List, Nullable, Serde, Utf8};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// Whether bytes are refused.
type Refuses = fn(&[u8]) -> bool;

/// Reads what it is told to, and is refused.
const READERS: &[(&str, Refuses)] = &[
    ("headers", |bytes| Headers::from_bytes(bytes).iter().any(|h| h.is_err())),
    ("row with headers", |bytes| ValueTimestampHeaders::decode(bytes).is_err()),
    ("aggregation with headers", |bytes| AggregationWithHeaders::decode(bytes).is_err()),
    ("update that waits", |bytes| BufferValue::decode(bytes).is_err()),
    ("position", |bytes| Position::decode(bytes).is_err()),
    ("change", |bytes| ChangeSerde::new(ByteArray).read::<Vec<u8>>(bytes).is_err()),
    ("list of shorts", |bytes| List(Nullable(I16)).decode(bytes).is_err()),
    ("list of texts", |bytes| List(Nullable(Utf8)).decode(bytes).is_err()),
    ("list of lists", |bytes| List(List(ByteArray)).decode(bytes).map(|_: Vec<Vec<Vec<u8>>>| ()).is_err()),
    // Never an error by its contract: what cannot be read is not kept.
    ("commit metadata", |bytes| CommitMetadata::decode(&STANDARD.encode(bytes)).processor.is_empty()),
];

/// The largest length as an int32 and as a varint, and what stands around it in each format.
const CLAIMS: &[(&str, &[u8])] = &[
    ("headers", &[0xFE, 0xFF, 0xFF, 0xFF, 0x0F]),
    ("headers", &[2, 0xFE, 0xFF, 0xFF, 0xFF, 0x0F, b'k']),
    ("headers", &[2, 2, b'k', 0xFE, 0xFF, 0xFF, 0xFF, 0x0F, b'v']),
    ("row with headers", &[0xFE, 0xFF, 0xFF, 0xFF, 0x0F, 0, 0, 0, 0, 0, 0, 0, 0]),
    ("aggregation with headers", &[0xFE, 0xFF, 0xFF, 0xFF, 0x0F, 1]),
    ("update that waits", &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x7F, 0xFF, 0xFF, 0xFF, b't']),
    (
        "update that waits",
        &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x7F, 0xFF, 0xFF, 0xFF, 0, 0, 0, 1],
    ),
    ("position", &[0, 0x7F, 0xFF, 0xFF, 0xFF]),
    ("position", &[0, 0, 0, 0, 1, 0x7F, 0xFF, 0xFF, 0xFF, b't']),
    ("position", &[0, 0, 0, 0, 1, 0, 0, 0, 1, b't', 0x7F, 0xFF, 0xFF, 0xFF]),
    ("change", &[0xFE, 0xFF, 0xFF, 0xFF, 0x0F, b'n', 2]),
    ("list of shorts", &[0, 0x7F, 0xFF, 0xFF, 0xFF]),
    ("list of shorts", &[0, 0, 0, 0, 0, 0x7F, 0xFF, 0xFF, 0xFF]),
    ("list of shorts", &[1, 0x7F, 0xFF, 0xFF, 0xFF]),
    ("list of texts", &[1, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]),
    ("list of texts", &[1, 0, 0, 0, 1, 0x7F, 0xFF, 0xFF, 0xFF]),
    ("list of lists", &[1, 0, 0, 0, 1, 0, 0, 0, 5, 1, 0x7F, 0xFF, 0xFF, 0xFF]),
    ("commit metadata", &[2, 0, 0, 0, 0, 0, 0, 0, 0, 0x7F, 0xFF, 0xFF, 0xFF]),
    ("commit metadata", &[2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x7F, 0xFF, 0xFF, 0xFF]),
];

#[test]
fn no_claim_is_paid_for() {
    let _profiler = dhat::Profiler::builder().testing().build();
    for (format, bytes) in CLAIMS {
        let refuses = READERS.iter().find(|(name, _)| name == format).unwrap().1;
        let before = dhat::HeapStats::get().total_bytes;
        assert!(refuses(bytes), "{format}: {bytes:02x?}");
        let asked = dhat::HeapStats::get().total_bytes - before;
        assert!(asked < 4096, "{format}: {bytes:02x?} take {asked} bytes");
    }
}
