//! Drops records whose id has been let through already.

use std::sync::Arc;

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::port::Dropped;
use crate::processor::Processor;
use crate::record::{FixedKeyRecord, Record};
use crate::serde::{Coder, Serde};
use crate::store::{StoreRef, Window};

/// Gets the id of a record.
pub(crate) type IdFn<F> = Arc<F>;

/// See [`Stream::dedup_by`](crate::Stream::dedup_by).
pub(crate) struct Dedup<K: 'static, V, I: 'static, F> {
    id: IdFn<F>,
    keys: KeyAndId<K, I>,
    /// How far apart two records of one id are to be the same, in milliseconds.
    within: i64,
    /// How far a record may be behind its task's time and still be judged, in milliseconds.
    grace: i64,
    seen: StoreRef<Window<(K, I), Origin>>,
    /// The call that is under way, and how many records it has brought here.
    call: (u64, u32),
    value: std::marker::PhantomData<fn(V)>,
}

impl<K: 'static, V, I: 'static, F> Dedup<K, V, I, F> {
    pub(crate) fn new(
        id: IdFn<F>,
        keys: KeyAndId<K, I>,
        within: i64,
        grace: i64,
        seen: StoreRef<Window<(K, I), Origin>>,
    ) -> Self {
        Self { id, keys, within, grace, seen, call: (0, 0), value: std::marker::PhantomData }
    }
}

impl<K, V, I, F> Processor for Dedup<K, V, I, F>
where
    K: 'static,
    V: 'static,
    I: 'static,
    F: Fn(&K, &V) -> I + Send + Sync + 'static,
{
    type In = FixedKeyRecord<K, V>;
    type Out = FixedKeyRecord<K, V>;

    fn process(&mut self, cx: &mut Context<'_, Self>, record: Self::In) -> Result {
        let origin = self.origin(cx);
        let Record { key, value, timestamp: time, headers } = record.0;
        let id = (self.id)(&key, &value);
        let pair = (key, id);
        if self.keys.is_null(&pair) {
            cx.task.port.dropped(cx.node, Dropped::NullKey);
            return Ok(());
        }
        let mut seen = cx.store(&self.seen)?;
        if time <= seen.observed().saturating_sub(self.grace) {
            cx.task.port.dropped(cx.node, Dropped::Late);
            return Ok(());
        }
        let mut near = seen.fetch(&pair, time.saturating_sub(self.within)..=time.saturating_add(self.within))?;
        let (mut known, mut again) = (false, false);
        while let Some((_, of)) = near.next(cx)? {
            known = true;
            again |= of.offset >= 0 && of == origin;
        }
        if known && !again {
            return Ok(());
        }
        if !again {
            cx.store(&self.seen)?.put(&pair, time, &origin)?;
        }
        cx.forward(FixedKeyRecord(Record { key: pair.0, value, timestamp: time, headers }))
    }
}

impl<K: 'static, V: 'static, I: 'static, F> Dedup<K, V, I, F>
where
    F: Fn(&K, &V) -> I + Send + Sync + 'static,
{
    /// Which record this is: the same one whenever its input record is processed again.
    fn origin(&mut self, cx: &Context<'_, Self>) -> Origin {
        let call = cx.task.task.call;
        let nth = if self.call.0 == call { self.call.1 + 1 } else { 0 };
        self.call = (call, nth);
        match cx.task.port.metadata() {
            Some(at) => Origin { topic: at.topic.into(), offset: at.offset, nth },
            None => Origin { topic: "".into(), offset: -1, nth },
        }
    }
}

/// The input record that a record came of, and the how many-eth of it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    topic: Box<str>,
    /// -1: of no input record, but of a punctuation or of an update that a cache held back.
    offset: i64,
    nth: u32,
}

/// Offset (i64 BE), number (u32 BE), topic.
pub(crate) struct OriginSerde;

impl Serde<Origin> for OriginSerde {
    fn encode(&self, value: &Origin, out: &mut Vec<u8>) -> Result {
        out.extend_from_slice(&value.offset.to_be_bytes());
        out.extend_from_slice(&value.nth.to_be_bytes());
        out.extend_from_slice(value.topic.as_bytes());
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<Origin> {
        let (offset, rest) = bytes.split_first_chunk().ok_or_else(|| short("read where a record came from"))?;
        let (nth, topic) = rest.split_first_chunk().ok_or_else(|| short("read where a record came from"))?;
        let topic = std::str::from_utf8(topic)?.into();
        Ok(Origin { topic, offset: i64::from_be_bytes(*offset), nth: u32::from_be_bytes(*nth) })
    }
}

/// A key and an id in it: the key's length (u32 BE), the key, the id.
pub(crate) struct KeyAndId<K, I> {
    key: Coder<K>,
    id: Coder<I>,
}

impl<K, I> Clone for KeyAndId<K, I> {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), id: self.id.clone() }
    }
}

impl<K: 'static, I: 'static> KeyAndId<K, I> {
    pub(crate) fn new(key: Coder<K>, id: Coder<I>) -> Self {
        Self { key, id }
    }

    fn is_null(&self, (key, id): &(K, I)) -> bool {
        self.key.is_null(key) || self.id.is_null(id)
    }
}

impl<K: 'static, I: 'static> Serde<(K, I)> for KeyAndId<K, I> {
    fn encode(&self, (key, id): &(K, I), out: &mut Vec<u8>) -> Result {
        const LEN: usize = size_of::<u32>();
        let start = out.len();
        out.extend_from_slice(&[0; LEN]);
        self.key.encode(key, out)?;
        let len = u32::try_from(out.len().saturating_sub(start + LEN))?;
        if let Some(place) = out.get_mut(start..start + LEN) {
            place.copy_from_slice(&len.to_be_bytes());
        }
        self.id.encode(id, out).map(drop)
    }

    fn decode(&self, bytes: &[u8]) -> Result<(K, I)> {
        let parts = bytes
            .split_first_chunk()
            .and_then(|(len, rest)| rest.split_at_checked(usize::try_from(u32::from_be_bytes(*len)).ok()?));
        let (key, id) = parts.ok_or_else(|| short("read a key and an id"))?;
        Ok((self.key.decode(key)?, self.id.decode(id)?))
    }
}

#[cold]
fn short(op: &'static str) -> Error {
    Error::new(ErrorKind::Deserialization, op).with("cause", "too few bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serde::{I64, Utf8};

    /// The bytes are in changelogs: they do not change.
    #[test]
    fn bytes_of_rows() {
        let keys = KeyAndId::new(Coder::key(Arc::new(Utf8)), Coder::key(Arc::new(I64)));
        let mut out = vec![9];
        keys.encode(&("ab".to_owned(), 3), &mut out).unwrap();
        assert_eq!(out, [9, 0, 0, 0, 2, b'a', b'b', 0, 0, 0, 0, 0, 0, 0, 3]);
        assert_eq!(keys.decode(&out[1..]).unwrap(), ("ab".to_owned(), 3));

        let origin = Origin { topic: "in".into(), offset: 5, nth: 1 };
        let mut out = vec![];
        OriginSerde.encode(&origin, &mut out).unwrap();
        assert_eq!(out, [0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1, b'i', b'n']);
        assert!(OriginSerde.decode(&out).unwrap() == origin);
    }

    #[test]
    fn cut_off_bytes_are_errors() {
        let keys = KeyAndId::new(Coder::key(Arc::new(Utf8)), Coder::key(Arc::new(I64)));
        for bytes in [&b""[..], &[0, 0, 0], &[0, 0, 0, 9, b'a'], &[0xFF; 5]] {
            assert!(keys.decode(bytes).is_err());
        }
        assert!(OriginSerde.decode(&[0; 11]).is_err());
    }
}
