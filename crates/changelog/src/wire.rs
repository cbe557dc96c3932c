//! Numbers and strings in this crate's own binary formats: written to a buffer, read without a panic.

/// Appends unsigned LEB128: seven bits per byte, the low ones first.
pub(crate) fn put_uleb(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends the length as unsigned LEB128, then the bytes.
pub(crate) fn put_str(out: &mut Vec<u8>, text: &str) {
    put_uleb(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Bytes that are read from the front. Every read answers `None` where the bytes end early or say something impossible.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// How many bytes are left.
    pub(crate) fn left(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[b]| b)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_be_bytes)
    }

    pub(crate) fn u128(&mut self) -> Option<u128> {
        self.array().map(u128::from_be_bytes)
    }

    /// Unsigned LEB128 that fits `T`.
    pub(crate) fn uleb<T: TryFrom<u64>>(&mut self) -> Option<T> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7F);
            // The tenth byte has room for one bit.
            if (bits << shift) >> shift != bits {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return T::try_from(value).ok();
            }
        }
        None
    }

    /// What [`put_str`] wrote.
    pub(crate) fn str(&mut self) -> Option<&'a str> {
        let len = self.uleb()?;
        std::str::from_utf8(self.bytes(len)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_back(value: u64, text in ".{0,20}") {
            let mut out = Vec::new();
            put_uleb(&mut out, value);
            put_str(&mut out, &text);
            let mut read = Reader::new(&out);
            prop_assert_eq!(read.uleb::<u64>(), Some(value));
            prop_assert_eq!(read.str(), Some(text.as_str()));
            prop_assert_eq!(read.left(), 0);
        }
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        assert_eq!(Reader::new(&[0x80, 0x02]).uleb::<u8>(), None, "256");
        assert_eq!(Reader::new(&[0xFF; 10]).uleb::<u64>(), None, "too many bits");
        assert_eq!(Reader::new(&[0x80; 11]).uleb::<u64>(), None, "too long");
        assert_eq!(Reader::new(&[0x80]).uleb::<u64>(), None, "ends early");
        assert_eq!(Reader::new(&[3, b'a']).str(), None, "string ends early");
        assert_eq!(Reader::new(&[1, 0xFF]).str(), None, "not UTF-8");
        let max = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01];
        assert_eq!(Reader::new(&max).uleb::<u64>(), Some(u64::MAX));
    }
}
