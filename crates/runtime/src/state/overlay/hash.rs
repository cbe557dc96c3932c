//! The overlay's hash of a key: folded multiplications with fixed constants, the same in every run.

/// Constants without structure (digits of pi), as wyhash and its kin use them.
const K: [u64; 3] = [0x2435_08B8_5A08_D31B, 0x1319_8A2E_0370_7345, 0xA409_3822_299F_31D1];

/// Multiplies to 128 bits and folds the halves.
#[inline]
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    #[expect(clippy::cast_possible_truncation, reason = "the two halves are what is wanted")]
    let folded = (product as u64) ^ ((product >> 64) as u64);
    folded
}

/// The first and the last eight bytes as numbers, overlapping if there are fewer than sixteen.
#[inline]
fn ends(key: &[u8]) -> (u64, u64) {
    if let (Some(head), Some(tail)) = (key.first_chunk::<8>(), key.last_chunk::<8>()) {
        (u64::from_le_bytes(*head), u64::from_le_bytes(*tail))
    } else if let (Some(head), Some(tail)) = (key.first_chunk::<4>(), key.last_chunk::<4>()) {
        (u64::from(u32::from_le_bytes(*head)), u64::from(u32::from_le_bytes(*tail)))
    } else {
        let short = key.iter().fold(0, |bytes, byte| bytes << 8 | u64::from(*byte));
        (short, 0)
    }
}

/// The hash of a key.
#[inline]
pub(super) fn hash(key: &[u8]) -> u64 {
    let mut state = K[0] ^ key.len() as u64;
    let mut rest = key;
    while rest.len() > 16 {
        let Some((words, after)) = rest.split_first_chunk::<16>() else { break };
        let (a, b) = ends(words);
        state = mix(a ^ K[1], b ^ state);
        rest = after;
    }
    let (a, b) = ends(rest);
    mix(mix(a ^ K[1], b ^ state), K[2])
}
