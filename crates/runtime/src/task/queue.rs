//! A partition's waiting records: copied into an arena, so that the client's memory is free at its next poll and the bytes
//! held are known exactly.

use std::collections::VecDeque;

use millpond_broker_api::{Header, Headers, NoHeaders, Offset, Record, Records, Source};

const CHUNK: usize = 64 << 10;
/// What a record takes beside its bytes.
const BESIDE: usize = size_of::<Entry>();

/// Where a record's bytes lie: key, value and headers one after the other in the chunk that is in front when it is.
struct Entry {
    offset: Offset,
    timestamp: i64,
    leader_epoch: i32,
    /// Length of the key; `None` is null.
    key: Option<u32>,
    value: Option<u32>,
    headers: u32,
    at: u32,
}

#[derive(Default)]
struct Chunk {
    bytes: Vec<u8>,
    /// Records that were not popped yet.
    waiting: usize,
}

impl Chunk {
    fn is_oversized(&self) -> bool {
        self.bytes.capacity() > 2 * CHUNK
    }
}

/// The queue of one input partition, in log order.
pub(crate) struct Queue {
    source: Source,
    entries: VecDeque<Entry>,
    chunks: VecDeque<Chunk>,
    spare: Option<Chunk>,
    bytes: usize,
}

impl Queue {
    pub(crate) fn new(source: Source) -> Self {
        Self { source, entries: VecDeque::new(), chunks: VecDeque::new(), spare: None, bytes: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of keys, values and headers, and what is kept beside them. Free room in chunks is not counted: of an empty
    /// queue no more than two of [`CHUNK`] bytes is kept.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        while let Some(chunk) = self.chunks.pop_front() {
            self.reuse(chunk);
        }
        self.bytes = 0;
    }

    /// The offset and time of the front record; touches none of its bytes.
    pub(crate) fn head(&self) -> Option<(Offset, i64)> {
        self.entries.front().map(|e| (e.offset, e.timestamp))
    }

    pub(crate) fn push(&mut self, record: &Record<'_>) {
        let (key, value) = (record.key.unwrap_or_default(), record.value.unwrap_or_default());
        let need = key.len() + value.len();
        let chunk = self.chunk_for(need);
        let at = chunk.bytes.len();
        chunk.bytes.extend_from_slice(key);
        chunk.bytes.extend_from_slice(value);
        let before_headers = chunk.bytes.len();
        for header in record.headers.iter() {
            push_header(&mut chunk.bytes, header);
        }
        let headers = chunk.bytes.len() - before_headers;
        chunk.waiting += 1;
        self.bytes += need + headers + BESIDE;
        self.entries.push_back(Entry {
            offset: record.offset,
            timestamp: record.timestamp,
            leader_epoch: record.leader_epoch,
            key: record.key.map(|k| k.len() as u32),
            value: record.value.map(|v| v.len() as u32),
            headers: headers as u32,
            at: at as u32,
        });
    }

    /// A chunk with room, the last one or another: no record is cut in two, so that it can be lent whole.
    fn chunk_for(&mut self, need: usize) -> &mut Chunk {
        let room = self.chunks.back().is_some_and(|c| c.bytes.capacity() - c.bytes.len() >= need);
        if let Some(empty) = self.chunks.back_mut().filter(|c| c.waiting == 0) {
            // Nothing may come behind a chunk without records: the one in front is that of the front record.
            empty.bytes.reserve(need);
        } else if !room {
            let mut chunk = self.spare.take().unwrap_or_default();
            chunk.bytes.reserve(CHUNK.max(need));
            self.chunks.push_back(chunk);
        }
        self.chunks.back_mut().expect("one was pushed if there was none with room")
    }

    /// The record that is next, lent.
    pub(crate) fn front(&self) -> Option<Record<'_>> {
        let (e, chunk) = (self.entries.front()?, self.chunks.front()?);
        let body = chunk.bytes.get(e.at as usize..)?;
        let (key, rest) = body.split_at_checked(e.key.unwrap_or(0) as usize)?;
        let value = rest.get(..e.value.unwrap_or(0) as usize)?;
        let headers = if e.headers == 0 { Headers::new(&NoHeaders, 0) } else { Headers::new(self, 0) };
        Some(Record {
            source: self.source,
            leader_epoch: e.leader_epoch,
            offset: e.offset,
            timestamp: e.timestamp,
            key: e.key.map(|_| key),
            value: e.value.map(|_| value),
            headers,
        })
    }

    /// The keys of the next records, nulls left out.
    pub(crate) fn keys<'a>(&'a self, records: usize, each: &mut dyn FnMut(&'a [u8])) {
        let mut chunks = self.chunks.iter();
        let mut chunk = chunks.next();
        let mut left = chunk.map_or(0, |c| c.waiting);
        for e in self.entries.iter().take(records) {
            while left == 0 {
                chunk = chunks.next();
                let Some(c) = chunk else { return };
                left = c.waiting;
            }
            left -= 1;
            let key = e.key.and_then(|len| chunk?.bytes.get(e.at as usize..(e.at + len) as usize));
            if let Some(key) = key {
                each(key);
            }
        }
    }

    pub(crate) fn pop(&mut self) {
        let (Some(e), Some(chunk)) = (self.entries.pop_front(), self.chunks.front_mut()) else { return };
        self.bytes -= BESIDE + (e.key.unwrap_or(0) + e.value.unwrap_or(0) + e.headers) as usize;
        chunk.waiting -= 1;
        if chunk.waiting == 0 {
            chunk.bytes.clear();
            // The last chunk stays where it is, empty, for the next record.
            if chunk.is_oversized() || self.chunks.len() > 1 {
                self.chunks.pop_front().into_iter().for_each(|chunk| self.reuse(chunk));
            }
        }
    }

    /// Keeps a chunk for later, unless a huge record has made it huge: such memory goes back.
    fn reuse(&mut self, mut chunk: Chunk) {
        if !chunk.is_oversized() {
            chunk.bytes.clear();
            chunk.waiting = 0;
            self.spare = Some(chunk);
        }
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("records", &self.len()).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// Name length, value length (-1: null), name, value.
fn push_header(out: &mut Vec<u8>, header: Header<'_>) {
    out.extend_from_slice(&(header.name.len() as u32).to_le_bytes());
    out.extend_from_slice(&header.value.map_or(-1, |v| v.len() as i32).to_le_bytes());
    out.extend_from_slice(header.name.as_bytes());
    out.extend_from_slice(header.value.unwrap_or_default());
}

fn split_header(bytes: &[u8]) -> Option<(Header<'_>, &[u8])> {
    let (name_len, rest) = bytes.split_first_chunk()?;
    let (value_len, rest) = rest.split_first_chunk()?;
    let (name, rest) = rest.split_at_checked(u32::from_le_bytes(*name_len) as usize)?;
    let value_len = usize::try_from(i32::from_le_bytes(*value_len)).ok();
    let (value, rest) = rest.split_at_checked(value_len.unwrap_or(0))?;
    Some((Header { name: str::from_utf8(name).ok()?, value: value_len.map(|_| value) }, rest))
}

/// Only the front is ever lent.
impl Records for Queue {
    fn len(&self) -> usize {
        self.entries.len().min(1)
    }

    fn get(&self, i: usize) -> Option<Record<'_>> {
        if i == 0 { self.front() } else { None }
    }

    fn header(&self, i: usize, n: usize) -> Option<Header<'_>> {
        let e = self.entries.front().filter(|_| i == 0)?;
        let start = (e.at + e.key.unwrap_or(0) + e.value.unwrap_or(0)) as usize;
        let mut rest = self.chunks.front()?.bytes.get(start..start + e.headers as usize)?;
        for _ in 0..n {
            rest = split_header(rest)?.1;
        }
        split_header(rest).map(|(header, _)| header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A batch of one record with headers, as a client would lend it.
    struct One(Vec<(&'static str, Option<Vec<u8>>)>);
    impl Records for One {
        fn len(&self) -> usize {
            1
        }
        fn get(&self, _: usize) -> Option<Record<'_>> {
            None
        }
        fn header(&self, _: usize, n: usize) -> Option<Header<'_>> {
            self.0.get(n).map(|(name, value)| Header { name, value: value.as_deref() })
        }
    }

    fn record<'a>(offset: i64, key: Option<&'a [u8]>, value: Option<&'a [u8]>, headers: &'a One) -> Record<'a> {
        Record {
            source: Source(3),
            leader_epoch: 7,
            offset,
            timestamp: offset * 10,
            key,
            value,
            headers: Headers::new(headers, 0),
        }
    }

    #[test]
    fn records_come_out_as_they_went_in() {
        let mut queue = Queue::new(Source(3));
        let headers = One(vec![("a", Some(b"1".to_vec())), ("b", None), ("a", Some(vec![]))]);
        let none = One(vec![]);
        let big = vec![9; 3 * CHUNK];
        type Row<'a> = (Option<&'a [u8]>, Option<&'a [u8]>, &'a One);
        let inputs: [Row<'_>; 4] = [
            (Some(b"k"), Some(b"v"), &headers),
            (None, Some(b""), &none),
            (Some(b""), None, &headers),
            (Some(&big), Some(&big), &none),
        ];
        for round in 0..100 {
            for (i, (key, value, headers)) in inputs.iter().enumerate() {
                queue.push(&record(round * 10 + i as i64, *key, *value, headers));
            }
            for (i, (key, value, headers)) in inputs.iter().enumerate() {
                let front = queue.front().unwrap();
                assert_eq!((front.key, front.value, front.offset), (*key, *value, round * 10 + i as i64));
                assert_eq!(front.headers.iter().count(), headers.0.len());
                for (got, want) in front.headers.iter().zip(&headers.0) {
                    assert_eq!((got.name, got.value), (want.0, want.1.as_deref()));
                }
                queue.pop();
            }
            assert_eq!((queue.len(), queue.bytes()), (0, 0));
            assert!(queue.front().is_none());
        }
    }

    #[test]
    fn a_record_that_fits_no_chunk_goes_into_an_empty_queue() {
        let mut queue = Queue::new(Source(0));
        let none = One(vec![]);
        for size in [10, CHUNK + 1, 10, 3 * CHUNK] {
            let value = vec![7; size];
            queue.push(&record(1, Some(b"k"), Some(&value), &none));
            assert_eq!(queue.front().and_then(|r| r.value.map(<[u8]>::len)), Some(size));
            queue.pop();
        }
    }

    #[test]
    fn the_memory_of_huge_records_goes_back() {
        let mut queue = Queue::new(Source(0));
        let none = One(vec![]);
        let kept = |queue: &Queue| -> usize {
            queue.chunks.iter().chain(&queue.spare).map(|chunk| chunk.bytes.capacity()).sum()
        };
        let huge = vec![7; 100 * CHUNK];
        for clear in [false, true] {
            for i in 0..10 {
                queue.push(&record(i, None, Some(&huge), &none));
                queue.push(&record(i, None, Some(b"small"), &none));
            }
            assert!(queue.bytes() > 1000 * CHUNK && kept(&queue) < 2 * queue.bytes());
            if clear {
                queue.clear();
            }
            while !queue.is_empty() {
                queue.pop();
            }
            assert_eq!(queue.bytes(), 0);
            assert!(kept(&queue) <= 4 * CHUNK, "{} bytes are kept", kept(&queue));
        }
    }

    #[test]
    fn keys_are_seen_ahead_of_their_records() {
        let mut queue = Queue::new(Source(0));
        let none = One(vec![]);
        let keys: Vec<Vec<u8>> = (0..300u32).map(|i| i.to_be_bytes().repeat(200)).collect();
        for (i, key) in keys.iter().enumerate() {
            queue.push(&record(i as i64, (i % 7 != 0).then_some(key), Some(&[0; 9]), &none));
        }
        for popped in 0..300 {
            let mut seen = Vec::new();
            queue.keys(32, &mut |key| seen.push(key.to_vec()));
            let want = (popped..300.min(popped + 32)).filter(|i| i % 7 != 0).map(|i| keys[i].clone());
            assert_eq!(seen, want.collect::<Vec<_>>());
            queue.pop();
        }
    }

    #[test]
    fn memory_is_reused_and_clear_forgets() {
        let mut queue = Queue::new(Source(0));
        let none = One(vec![]);
        for i in 0..100_000 {
            queue.push(&record(i, Some(b"key"), Some(&[1; 100]), &none));
            if i >= 50 {
                queue.pop();
            }
        }
        assert_eq!(queue.len(), 50);
        assert!(queue.chunks.len() <= 2, "50 records fit into two chunks, there are {}", queue.chunks.len());
        queue.clear();
        assert_eq!((queue.len(), queue.bytes(), queue.head()), (0, 0, None));
        queue.push(&record(1, None, None, &none));
        assert_eq!(queue.head(), Some((1, 10)));
    }
}
