//! How the rows of windows and sessions lie in their stores.

use crate::error::Result;
use crate::headers::Headers;
use crate::serde::Coder;
use crate::store::{
    Stamped, StoreFormat, read_aggregate_headers, read_headers, split_aggregate, split_with_headers, write_aggregate,
    write_with_headers,
};

/// The serdes of a windowed aggregation, and the format of its rows. In the plain one a window's row begins with its time, a
/// session's row is the value alone; the others put headers before that.
pub(crate) struct WindowFormat<K, A> {
    pub(crate) key: Coder<K>,
    pub(crate) value: Coder<A>,
    pub(crate) format: StoreFormat,
}

impl<K, A> Clone for WindowFormat<K, A> {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), value: self.value.clone(), format: self.format }
    }
}

impl<K: 'static, A: 'static> WindowFormat<K, A> {
    /// Writes a window's row; false if the value stands for null, and nothing is written.
    #[inline]
    pub(super) fn write_window(&self, headers: &Headers, time: i64, value: &A, out: &mut Vec<u8>) -> Result<bool> {
        match self.format {
            StoreFormat::Plain => Stamped::append(time, value, &self.value, out),
            StoreFormat::Headers => write_with_headers(&Headers::new(), time, value, &self.value, out),
            StoreFormat::LastHeaders => write_with_headers(headers, time, value, &self.value, out),
        }
    }

    /// A window's time, and its value's own bytes.
    #[inline]
    pub(super) fn split_window<'a>(&self, row: &'a [u8]) -> Result<(i64, &'a [u8])> {
        if self.format == StoreFormat::Plain { Stamped::<A>::split(row) } else { split_with_headers(row) }
    }

    /// The headers that a window's row keeps, if there is a row.
    pub(super) fn window_headers(&self, row: Option<&[u8]>) -> Result<Headers> {
        row.filter(|_| self.format == StoreFormat::LastHeaders).map_or_else(|| Ok(Headers::new()), read_headers)
    }

    /// As [`WindowFormat::write_window`], of a session.
    #[inline]
    pub(super) fn write_session(&self, headers: &Headers, value: &A, out: &mut Vec<u8>) -> Result<bool> {
        match self.format {
            StoreFormat::Plain => self.value.encode(value, out),
            StoreFormat::Headers => write_aggregate(&Headers::new(), value, &self.value, out),
            StoreFormat::LastHeaders => write_aggregate(headers, value, &self.value, out),
        }
    }

    /// The bytes of a session's value.
    #[inline]
    pub(super) fn split_session<'a>(&self, row: &'a [u8]) -> Result<&'a [u8]> {
        if self.format == StoreFormat::Plain { Ok(row) } else { split_aggregate(row) }
    }

    /// As [`WindowFormat::window_headers`], of a session.
    pub(super) fn session_headers(&self, row: Option<&[u8]>) -> Result<Headers> {
        row.filter(|_| self.format == StoreFormat::LastHeaders)
            .map_or_else(|| Ok(Headers::new()), read_aggregate_headers)
    }
}
