//! Kafka's default partitioner: which partition a key belongs to.

/// The partition of a key among `partitions`: `murmur2(key) & 0x7fffffff`, modulo the number of partitions.
///
/// The same for every Kafka client that keeps Java's default, so that a Java producer's keys are found here. The bytes are
/// the serialized key; for a windowed key those of the inner key alone. A null key has no partition of its own: the
/// producer chooses one. Fewer than one partition counts as one.
///
/// ```
/// assert_eq!(millpond_changelog::partition_for_key(b"key", 50), 31);
/// ```
pub fn partition_for_key(key: &[u8], partitions: i32) -> i32 {
    (murmur2(key) & i32::MAX) % partitions.max(1)
}

/// Austin Appleby's MurmurHash2, 32 bits, with Kafka's seed: what the partition is taken from.
pub fn murmur2(data: &[u8]) -> i32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    let mut h = SEED ^ data.len() as u32;
    let (words, tail) = data.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        h = h.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !tail.is_empty() {
        h ^= tail.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
        h = h.wrapping_mul(M);
    }
    h ^= h >> 13;
    h = h.wrapping_mul(M);
    (h ^ h >> 15).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_partitions_is_no_panic() {
        assert_eq!(partition_for_key(b"key", 0), 0);
        assert_eq!(partition_for_key(b"key", -1), 0);
        assert_eq!(partition_for_key(b"", 1), 0);
    }

    #[test]
    fn murmur2_is_kafkas() {
        assert_eq!(murmur2(b"key"), -1_079_937_367);
        assert_eq!(murmur2(b""), 275_646_681);
    }
}
