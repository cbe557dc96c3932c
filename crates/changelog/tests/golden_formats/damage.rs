//! What damaged bytes may do: be refused, or be read as something that could have been meant. Never a panic.

use crate::case::Outcome;

/// Reads bytes and writes what they say; none if they are refused.
pub(crate) type Again<'a> = &'a dyn Fn(&[u8]) -> Option<Vec<u8>>;

/// For formats in which all that is read has one way to be written: what is read of damaged bytes is written as they are.
pub(crate) fn canonical(bytes: &[u8], again: Again<'_>) -> Outcome {
    each(bytes, &mut |bad| match again(bad) {
        Some(written) if written != bad => Err(format!("{bad:02x?} are read, but written as {written:02x?}")),
        _ => Ok(()),
    })
}

/// For others: what is read of damaged bytes and written again is read as the same.
pub(crate) fn readable(bytes: &[u8], again: Again<'_>) -> Outcome {
    each(bytes, &mut |bad| match again(bad) {
        Some(written) if again(&written).as_ref() != Some(&written) => {
            Err(format!("{bad:02x?} are read and written as {written:02x?}, which are not read so"))
        }
        _ => Ok(()),
    })
}

/// All truncations, all bytes behind the end, and all flips of a bit near the ends.
fn each(bytes: &[u8], check: &mut dyn FnMut(&[u8]) -> Outcome) -> Outcome {
    const NEAR: usize = 24;
    (0..bytes.len()).try_for_each(|n| check(&bytes[..n]))?;
    let mut bad = bytes.to_vec();
    for byte in 0..=u8::MAX {
        bad.push(byte);
        check(&bad)?;
        bad.pop();
    }
    for at in (0..bytes.len()).filter(|at| *at < NEAR || bytes.len() - at <= NEAR) {
        for bit in 0..8 {
            bad[at] ^= 1 << bit;
            check(&bad)?;
            bad[at] ^= 1 << bit;
        }
    }
    Ok(())
}
