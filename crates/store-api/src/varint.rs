//! Kafka's variable-length integers: zig-zag, then seven bits per byte, the low ones first.

/// Appends `value` in one to five bytes: 0, -1, 1, -2, … become 0, 1, 2, 3, …, so that numbers near zero are short.
pub fn put_varint(value: i32, out: &mut Vec<u8>) {
    let mut bits = ((value << 1) ^ (value >> 31)).cast_unsigned();
    while bits >= 0x80 {
        out.push(bits as u8 | 0x80);
        bits >>= 7;
    }
    out.push(bits as u8);
}

/// Takes the integer off the front; `None` where the bytes end early or say more than 32 bits.
///
/// ```
/// use millpond_store_api::take_varint;
///
/// let mut bytes = &[0x80, 0x01, 7][..];
/// assert_eq!(take_varint(&mut bytes), Some(64));
/// assert_eq!(bytes, [7]);
/// ```
pub fn take_varint(bytes: &mut &[u8]) -> Option<i32> {
    let mut bits = 0_u32;
    for shift in (0..32).step_by(7) {
        let byte = *bytes.split_off_first()?;
        let seven = u32::from(byte & 0x7F);
        // The fifth byte has room for four bits.
        if (seven << shift) >> shift != seven {
            return None;
        }
        bits |= seven << shift;
        if byte < 0x80 {
            return Some((bits >> 1).cast_signed() ^ -(bits & 1).cast_signed());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_come_back() {
        for (value, bytes) in [
            (0, &[0][..]),
            (-1, &[1]),
            (1, &[2]),
            (63, &[0x7E]),
            (-64, &[0x7F]),
            (64, &[0x80, 0x01]),
            (i32::MAX, &[0xFE, 0xFF, 0xFF, 0xFF, 0x0F]),
            (i32::MIN, &[0xFF, 0xFF, 0xFF, 0xFF, 0x0F]),
        ] {
            let mut out = Vec::new();
            put_varint(value, &mut out);
            assert_eq!(out, bytes, "{value}");
            out.push(9);
            let mut left = out.as_slice();
            assert_eq!(take_varint(&mut left), Some(value));
            assert_eq!(left, [9]);
        }
    }

    #[test]
    fn what_is_no_integer_is_refused() {
        for bytes in
            [&[][..], &[0x80], &[0xFF; 4], &[0xFF, 0xFF, 0xFF, 0xFF, 0x1F], &[0x80, 0x80, 0x80, 0x80, 0x80, 0x00]]
        {
            assert_eq!(take_varint(&mut &*bytes), None, "{bytes:?}");
        }
    }
}
