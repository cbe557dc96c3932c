//! Kafka's default partitioner, written down once more: murmur2 of the key's bytes.

/// The partition of a key; without one, the first.
pub(crate) fn partition(key: Option<&str>, partitions: i32) -> i32 {
    key.map_or(0, |key| (murmur2(key.as_bytes()) & 0x7fff_ffff) as i32 % partitions)
}

fn murmur2(bytes: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ bytes.len() as u32;
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        let mut word = u32::from_le_bytes(*word).wrapping_mul(M);
        word = (word ^ (word >> 24)).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ word;
    }
    if !rest.is_empty() {
        let last = rest.iter().rev().fold(0, |last, byte| (last << 8) | u32::from(*byte));
        hash = (hash ^ last).wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}
