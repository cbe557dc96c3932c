//! The hash by which a foreign-key join tells whether a left row is still the one that was asked for.

/// MurmurHash3, x64, 128 bits, with Kafka Streams' seed 104729: its `Murmur3.hash128`, as two signed numbers.
///
/// ```
/// assert_eq!(millpond_topology::murmur3_128(b""), [-7122613646888064702, -8341524471658347240]);
/// ```
pub fn murmur3_128(data: &[u8]) -> [i64; 2] {
    const SEED: u64 = 104_729;
    let (mut h1, mut h2) = (SEED, SEED);
    let (blocks, tail) = data.as_chunks::<16>();
    for block in blocks {
        let (k1, k2) = halves(block);
        h1 = (h1 ^ mix1(k1)).rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52DC_E729);
        h2 = (h2 ^ mix2(k2)).rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5AB5);
    }
    // The mixture of 0 is 0, so a tail that is filled up with zeros, or empty, does as the definition's.
    let mut last = [0; 16];
    last.iter_mut().zip(tail).for_each(|(to, from)| *to = *from);
    let (k1, k2) = halves(&last);
    h1 ^= mix1(k1) ^ data.len() as u64;
    h2 ^= mix2(k2) ^ data.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    h1 = finish(h1);
    h2 = finish(h2);
    h1 = h1.wrapping_add(h2);
    [h1.cast_signed(), h2.wrapping_add(h1).cast_signed()]
}

const C1: u64 = 0x87C3_7B91_1142_53D5;
const C2: u64 = 0x4CF5_AD43_2745_937F;

/// The two words of a block, little endian.
fn halves(block: &[u8; 16]) -> (u64, u64) {
    let both = u128::from_le_bytes(*block);
    (both as u64, (both >> 64) as u64)
}

fn mix1(k: u64) -> u64 {
    k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

fn mix2(k: u64) -> u64 {
    k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

fn finish(mut h: u64) -> u64 {
    h = (h ^ h >> 33).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    h = (h ^ h >> 33).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    h ^ h >> 33
}
