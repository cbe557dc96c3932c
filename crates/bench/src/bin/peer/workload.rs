//! The bytes of the input, as a function of a seed: `xtask/peer/README.md` defines them. Of the distributions only the
//! uniform one: that of zipf depends on the last bit of a `pow`, so Java writes it.

/// Of the ids; the values' is its complement.
const SEED: u64 = 0x6d69_6c6c_706f_6e64;
const BASE_MS: i64 = 1_780_000_000_000;
const RECORDS_PER_MS: u64 = 10;
const VALUE_BYTES: usize = 100;

/// A record without its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Generated {
    pub(crate) key: [u8; 8],
    pub(crate) value: Vec<u8>,
    pub(crate) timestamp: i64,
}

/// The records of an input topic: ids drawn from so many, all alike.
pub(crate) fn uniform(keys: u64) -> impl Iterator<Item = Generated> {
    let mut ids = SplitMix(SEED);
    records(move |_| (ids.next() >> 11) % keys)
}

/// The records of a changelog: every id once in scattered order, then again, and so on.
pub(crate) fn each(keys: u64) -> impl Iterator<Item = Generated> {
    records(move |sequence| sequence % keys * 611_953 % keys)
}

fn records(mut id: impl FnMut(u64) -> u64) -> impl Iterator<Item = Generated> {
    let mut bytes = SplitMix(!SEED);
    (0..).map(move |sequence: u64| Generated {
        key: id(sequence).to_be_bytes(),
        value: value(sequence, &mut bytes),
        timestamp: BASE_MS + (sequence / RECORDS_PER_MS) as i64,
    })
}

/// The sequence number, whole words, and the low bytes of a last one.
fn value(sequence: u64, bytes: &mut SplitMix) -> Vec<u8> {
    let mut out = Vec::with_capacity(VALUE_BYTES);
    out.extend_from_slice(&sequence.to_be_bytes());
    while VALUE_BYTES - out.len() >= 8 {
        out.extend_from_slice(&bytes.next().to_be_bytes());
    }
    out.extend(bytes.next().to_le_bytes().into_iter().take(VALUE_BYTES - out.len()));
    out
}

/// Steele, Lea and Flood's SplitMix64.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_the_published_one() {
        let mut generator = SplitMix(1_234_567);
        let drawn = [(); 3].map(|()| generator.next());
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    /// Read with Kafka's console consumer from a topic that the Java generator wrote.
    #[test]
    fn a_record_is_the_one_that_java_writes() {
        let record = uniform(20_000).nth(6).unwrap();
        assert_eq!((u64::from_be_bytes(record.key), record.timestamp), (0x3936, 1_780_000_000_000));
        assert_eq!(millpond_changelog::partition_for_key(&record.key, 4), 3);
        assert_eq!(record.value.len(), 100);
        assert_eq!(record.value[..16], [0, 0, 0, 0, 0, 0, 0, 6, 0x4b, 0x2d, 0x89, 0x59, 0x5a, 0x2c, 0x78, 0xb9]);
        assert_eq!(record.value[96..], [0x7b, 0xde, 0x9c, 0x8e]);
    }

    #[test]
    fn a_changelog_has_every_id_once_a_round() {
        let ids: Vec<_> = each(1_000).map(|r| u64::from_be_bytes(r.key)).take(2_000).collect();
        let (first, second) = ids.split_at(1_000);
        assert_eq!(first, second);
        assert_eq!(first.iter().collect::<std::collections::BTreeSet<_>>().len(), 1_000);
    }
}
