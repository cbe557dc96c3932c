//! What a versioned store logs: its puts, since its rows are not the records of its changelog.

/// The puts of a versioned store since the last record border, in order: what its changelog is to get.
#[derive(Default)]
pub struct PutLog {
    bytes: Vec<u8>,
    puts: Vec<Lengths>,
}

#[derive(Clone, Copy)]
struct Lengths {
    key: usize,
    /// `None`: a tombstone.
    value: Option<usize>,
    timestamp: i64,
}

/// A put of a versioned store, lent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LoggedPut<'a> {
    /// The key's bytes.
    pub key: &'a [u8],
    /// The value's bytes; `None` for a tombstone.
    pub value: Option<&'a [u8]>,
    /// The version's time (milliseconds).
    pub timestamp: i64,
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for LoggedPut<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoggedPut")
            .field("key_len", &self.key.len())
            .field("value_len", &self.value.map(<[u8]>::len))
            .field("timestamp", &self.timestamp)
            .finish()
    }
}

impl PutLog {
    /// Adds a put.
    pub fn push(&mut self, put: LoggedPut<'_>) {
        let LoggedPut { key, value, timestamp } = put;
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.puts.push(Lengths { key: key.len(), value: value.map(<[u8]>::len), timestamp });
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.puts.is_empty()
    }

    /// The puts, in order.
    pub fn iter(&self) -> impl Iterator<Item = LoggedPut<'_>> {
        let mut rest = self.bytes.as_slice();
        self.puts.iter().map(move |lengths| {
            let (key, behind) = rest.split_at(lengths.key);
            let (value, behind) = behind.split_at(lengths.value.unwrap_or(0));
            rest = behind;
            LoggedPut { key, value: lengths.value.map(|_| value), timestamp: lengths.timestamp }
        })
    }

    /// Forgets all, and keeps no more memory than an ordinary record needs.
    pub fn clear(&mut self) {
        const KEPT: usize = 64 << 10;
        self.bytes.clear();
        self.puts.clear();
        self.bytes.shrink_to(KEPT);
        self.puts.shrink_to(KEPT / size_of::<Lengths>());
    }
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for PutLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PutLog").field("puts", &self.puts.len()).field("bytes", &self.bytes.len()).finish()
    }
}
