//! Keys of any length inside a longer key: prefix-free, and in the order of the keys.

use crate::{Error, ErrorKind, Result};

/// What ends an escaped key.
const END: [u8; 2] = [0, 1];

/// What stands behind a zero byte of the key itself.
const ZERO: u8 = 0xFF;

/// Appends `key` with each `00` as `00 FF`, and `00 01` as its end.
///
/// Two escaped keys sort as the keys do whatever follows them, and none begins with another. Without it, the rows of a key
/// would lie between those of longer keys.
pub fn escape(key: &[u8], out: &mut Vec<u8>) {
    escape_prefix(key, out);
    out.extend_from_slice(&END);
}

/// As [`escape()`] without the end: exactly the keys that begin with `prefix` begin with it when they are escaped.
pub fn escape_prefix(prefix: &[u8], out: &mut Vec<u8>) {
    out.reserve(prefix.len() + END.len());
    for part in prefix.split_inclusive(|byte| *byte == 0) {
        out.extend_from_slice(part);
        if part.last() == Some(&0) {
            out.push(ZERO);
        }
    }
}

/// Appends the least bytes behind all that begin with the escaped key: what a range up to and including it ends before.
pub fn escape_end(key: &[u8], out: &mut Vec<u8>) {
    escape_prefix(key, out);
    let [zero, end] = END;
    out.extend_from_slice(&[zero, end + 1]);
}

/// Takes an escaped key off the front: the key, and what stands behind its end. `scratch` is used for keys with a zero byte.
///
/// # Errors
///
/// [`ErrorKind::Corrupt`] if a zero byte is followed by anything but the two bytes above, or the end is missing.
pub fn unescape<'a>(bytes: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<(&'a [u8], &'a [u8])> {
    scratch.clear();
    let mut rest = bytes;
    loop {
        let Some(zero) = rest.iter().position(|byte| *byte == 0) else { return Err(damaged(bytes)) };
        let (plain, tail) = rest.split_at(zero);
        match tail {
            [0, 1, behind @ ..] if scratch.is_empty() => return Ok((plain, behind)),
            [0, 1, behind @ ..] => {
                scratch.extend_from_slice(plain);
                return Ok((scratch, behind));
            }
            [0, ZERO, behind @ ..] => {
                scratch.extend_from_slice(plain);
                scratch.push(0);
                rest = behind;
            }
            _ => return Err(damaged(bytes)),
        }
    }
}

#[cold]
fn damaged(bytes: &[u8]) -> Error {
    Error::new(ErrorKind::Corrupt, "read an escaped key").with("bytes", bytes.len())
}
