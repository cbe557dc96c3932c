//! Kafka's envelope for subscriptions and assignments, so that stock tools can read a group's topics and partitions.
//!
//! `ConsumerProtocolSubscription` and `ConsumerProtocolAssignment`: a big-endian version, then fields. Version 1 is
//! written; every version is read, fields behind the known ones are passed over. What is Millpond's own travels in
//! `user_data`.
//!
//! ```
//! use millpond_broker_api::membership::protocol::Subscription;
//!
//! let mine = Subscription { topics: vec!["orders".into()], user_data: b"mine".to_vec(), ..Subscription::default() };
//! assert_eq!(Subscription::decode(&mine.encode()).unwrap(), mine);
//! ```

use crate::{Error, ErrorKind, Result};

/// The version that is written: 1 has owned partitions, and Kafka 2.5 knows it.
const VERSION: i16 = 1;

/// What a member brings to a join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The topics that the group reads.
    pub topics: Vec<String>,
    /// Bytes that only members understand. Kafka's null is read as empty.
    pub user_data: Vec<u8>,
    /// Topics and partitions that the member has now.
    pub owned: Vec<(String, Vec<i32>)>,
    /// The generation that it has them from; -1 if unknown. Read from version 2 on, not written.
    pub generation: i32,
    /// Where the member stands. Read from version 3 on, not written.
    pub rack: Option<String>,
}

impl Default for Subscription {
    fn default() -> Self {
        Self { topics: Vec::new(), user_data: Vec::new(), owned: Vec::new(), generation: -1, rack: None }
    }
}

impl Subscription {
    /// The bytes of version 1, without `generation` and `rack`.
    ///
    /// # Panics
    ///
    /// If a topic's name is longer than 32 767 bytes (Kafka allows 249).
    pub fn encode(&self) -> Vec<u8> {
        let mut out = VERSION.to_be_bytes().to_vec();
        put_len(&mut out, self.topics.len());
        for topic in &self.topics {
            put_str(&mut out, topic);
        }
        put_bytes(&mut out, &self.user_data);
        put_partitions(&mut out, &self.owned);
        out
    }

    /// Reads any version. [`Fatal`](ErrorKind::Fatal) if the bytes are not such an envelope.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut input = Input { rest: bytes, len: bytes.len(), op: "decode a subscription" };
        let version = input.version()?;
        let mut found = Self { topics: input.array(Input::string)?, user_data: input.bytes()?, ..Self::default() };
        if version >= 1 {
            found.owned = input.array(Input::partitions)?;
        }
        if version >= 2 {
            found.generation = input.int()?;
        }
        if version >= 3 {
            found.rack = input.nullable_string()?;
        }
        Ok(found)
    }
}

/// What a member gets from a sync.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    /// Topics and partitions to be read.
    pub partitions: Vec<(String, Vec<i32>)>,
    /// Bytes that only members understand. Kafka's null is read as empty.
    pub user_data: Vec<u8>,
}

impl Assignment {
    /// The bytes of version 1.
    ///
    /// # Panics
    ///
    /// If a topic's name is longer than 32 767 bytes (Kafka allows 249).
    pub fn encode(&self) -> Vec<u8> {
        let mut out = VERSION.to_be_bytes().to_vec();
        put_partitions(&mut out, &self.partitions);
        put_bytes(&mut out, &self.user_data);
        out
    }

    /// Reads any version. No bytes at all are an empty assignment: what a leader gave nothing gets.
    /// [`Fatal`](ErrorKind::Fatal) if the bytes are not such an envelope.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        let mut input = Input { rest: bytes, len: bytes.len(), op: "decode an assignment" };
        input.version()?;
        Ok(Self { partitions: input.array(Input::partitions)?, user_data: input.bytes()? })
    }
}

fn put_len(out: &mut Vec<u8>, len: usize) {
    let len = i32::try_from(len).expect("a group's metadata is below a megabyte");
    out.extend_from_slice(&len.to_be_bytes());
}

fn put_str(out: &mut Vec<u8>, text: &str) {
    let len = i16::try_from(text.len()).expect("topic names have at most 249 bytes");
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_len(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn put_partitions(out: &mut Vec<u8>, topics: &[(String, Vec<i32>)]) {
    put_len(out, topics.len());
    for (topic, partitions) in topics {
        put_str(out, topic);
        put_len(out, partitions.len());
        for partition in partitions {
            out.extend_from_slice(&partition.to_be_bytes());
        }
    }
}

/// Foreign bytes, read from the front.
struct Input<'a> {
    rest: &'a [u8],
    len: usize,
    op: &'static str,
}

impl<'a> Input<'a> {
    fn malformed(&self, what: &str) -> Error {
        Error::new(ErrorKind::Fatal, self.op).with("what", what).with("at", self.len - self.rest.len())
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(len).ok_or_else(|| self.malformed("too short"))?;
        self.rest = rest;
        Ok(head)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or_else(|| self.malformed("too short"))?;
        self.rest = rest;
        Ok(*head)
    }

    fn int(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.fixed()?))
    }

    fn version(&mut self) -> Result<i16> {
        let version = i16::from_be_bytes(self.fixed()?);
        if version < 0 { Err(self.malformed("negative version")) } else { Ok(version) }
    }

    /// A length, where -1 stands for null.
    fn len(&self, len: i32) -> Result<Option<usize>> {
        match len {
            -1 => Ok(None),
            len => usize::try_from(len).map(Some).map_err(|_| self.malformed("negative length")),
        }
    }

    fn bytes(&mut self) -> Result<Vec<u8>> {
        let len = self.int()?;
        Ok(self.take(self.len(len)?.unwrap_or(0))?.to_vec())
    }

    fn nullable_string(&mut self) -> Result<Option<String>> {
        let len = i16::from_be_bytes(self.fixed()?);
        let Some(len) = self.len(i32::from(len))? else { return Ok(None) };
        let text = std::str::from_utf8(self.take(len)?).map_err(|e| self.malformed("no UTF-8").caused_by(e))?;
        Ok(Some(text.to_owned()))
    }

    fn string(&mut self) -> Result<String> {
        self.nullable_string()?.ok_or_else(|| self.malformed("null"))
    }

    fn partitions(&mut self) -> Result<(String, Vec<i32>)> {
        Ok((self.string()?, self.array(Self::int)?))
    }

    /// Grows with what is there, not with what a length claims.
    fn array<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let len = self.int()?;
        (0..self.len(len)?.unwrap_or(0)).map(|_| item(self)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Version 1, topics `in`, `b`; user data FF 01; owned `in` 0, 7. Written by hand from Kafka's schema.
    const SUBSCRIPTION: &[u8] = b"\x00\x01\
        \x00\x00\x00\x02\x00\x02in\x00\x01b\
        \x00\x00\x00\x02\xff\x01\
        \x00\x00\x00\x01\x00\x02in\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x07";

    /// Version 1, `in` 1, 258; user data `x`.
    const ASSIGNMENT: &[u8] = b"\x00\x01\
        \x00\x00\x00\x01\x00\x02in\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x01\x02\
        \x00\x00\x00\x01x";

    fn subscription() -> Subscription {
        Subscription {
            topics: vec!["in".into(), "b".into()],
            user_data: vec![0xff, 1],
            owned: vec![("in".into(), vec![0, 7])],
            ..Subscription::default()
        }
    }

    #[test]
    fn golden_bytes() {
        assert_eq!(subscription().encode(), SUBSCRIPTION);
        assert_eq!(Subscription::decode(SUBSCRIPTION).unwrap(), subscription());
        let assignment = Assignment { partitions: vec![("in".into(), vec![1, 258])], user_data: b"x".to_vec() };
        assert_eq!(assignment.encode(), ASSIGNMENT);
        assert_eq!(Assignment::decode(ASSIGNMENT).unwrap(), assignment);
    }

    #[test]
    fn every_version_of_a_subscription_is_read() {
        let v0 = b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff";
        let plain = Subscription { topics: vec!["t".into()], ..Subscription::default() };
        assert_eq!(Subscription::decode(v0).unwrap(), plain);
        let v2 = b"\x00\x02\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x05";
        assert_eq!(Subscription::decode(v2).unwrap(), Subscription { generation: 5, ..plain.clone() });
        let v3 = b"\x00\x03\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x05\x00\x01r";
        let full = Subscription { generation: 5, rack: Some("r".into()), ..plain };
        assert_eq!(Subscription::decode(v3).unwrap(), full);
        let no_rack = [&v3[..v3.len() - 3], b"\xff\xff"].concat();
        assert_eq!(Subscription::decode(&no_rack).unwrap(), Subscription { rack: None, ..full.clone() });
        let later = [b"\x00\x09", &v3[2..], b"fields of the future"].concat();
        assert_eq!(Subscription::decode(&later).unwrap(), full);
    }

    #[test]
    fn later_assignments_and_none_are_read() {
        let later = [b"\x00\x04", &ASSIGNMENT[2..], b"more"].concat();
        assert_eq!(Assignment::decode(&later).unwrap(), Assignment::decode(ASSIGNMENT).unwrap());
        assert_eq!(Assignment::decode(b"").unwrap(), Assignment::default());
        let null = b"\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff";
        assert_eq!(Assignment::decode(null).unwrap(), Assignment::default());
    }

    #[test]
    fn cut_and_foreign_bytes_are_refused_by_name() {
        for cut in 0..SUBSCRIPTION.len() {
            assert!(Subscription::decode(&SUBSCRIPTION[..cut]).is_err(), "cut at {cut}");
        }
        for cut in 1..ASSIGNMENT.len() {
            assert!(Assignment::decode(&ASSIGNMENT[..cut]).is_err(), "cut at {cut}");
        }
        let error = Subscription::decode(b"\xff\xfe\x00\x00").unwrap_err();
        assert_eq!(error.to_string(), "decode a subscription failed: fatal what=`negative version` at=`2`");
        let huge = b"\x00\x01\x7f\xff\xff\xff\x00\x01t";
        assert_eq!(Subscription::decode(huge).unwrap_err().kind(), ErrorKind::Fatal);
        assert!(Subscription::decode(b"\x00\x00\xff\xff\xff\xfe").is_err(), "a length below -1");
        assert!(Subscription::decode(b"\x00\x00\x00\x00\x00\x01\x00\x01\xff\x00\x00\x00\x00").is_err(), "no UTF-8");
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(
            version in 0i16..5,
            bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xff), any::<u8>()], 0..80),
        ) {
            let with_version = [&version.to_be_bytes()[..], &bytes].concat();
            for input in [&bytes, &with_version] {
                let _ = (Subscription::decode(input), Assignment::decode(input));
            }
        }

        #[test]
        fn what_is_written_is_read(
            topics in prop::collection::vec("[a-z.]{0,9}", 0..4),
            user_data in prop::collection::vec(any::<u8>(), 0..40),
            owned in prop::collection::vec(("[a-z]{0,9}", prop::collection::vec(any::<i32>(), 0..4)), 0..4),
        ) {
            let assignment = Assignment { partitions: owned.clone(), user_data: user_data.clone() };
            prop_assert_eq!(Assignment::decode(&assignment.encode()).unwrap(), assignment);
            let subscription = Subscription { topics, user_data, owned, ..Subscription::default() };
            prop_assert_eq!(Subscription::decode(&subscription.encode()).unwrap(), subscription);
        }
    }
}
