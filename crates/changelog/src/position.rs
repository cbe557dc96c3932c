//! How far a store has read its inputs, in the bytes of Kafka Streams' consistency vector.

use std::collections::BTreeMap;

use crate::wire::Reader;
use crate::{Error, ErrorKind, Result};

/// The offsets up to which a store has seen its inputs, by topic and partition (`docs/formats/position.md`).
///
/// These are Kafka Streams' own: of the last record that was seen, not the next one as everywhere else here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    topics: BTreeMap<String, BTreeMap<i32, i64>>,
}

const VERSION: u8 = 0;

impl Position {
    /// The offset of a partition.
    pub fn get(&self, topic: &str, partition: i32) -> Option<i64> {
        self.topics.get(topic)?.get(&partition).copied()
    }

    /// Notes that a record was seen. A position never goes back: of two offsets the larger one stays.
    pub fn advance(&mut self, topic: &str, partition: i32, offset: i64) {
        if !self.topics.contains_key(topic) {
            self.topics.insert(topic.to_owned(), BTreeMap::new());
        }
        if let Some(partitions) = self.topics.get_mut(topic) {
            let seen = partitions.entry(partition).or_insert(offset);
            *seen = offset.max(*seen);
        }
    }

    /// All offsets: topic, partition, offset; in the order of topics and partitions.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i32, i64)> {
        self.topics.iter().flat_map(|(topic, partitions)| {
            partitions.iter().map(|(partition, offset)| (topic.as_str(), *partition, *offset))
        })
    }

    /// Appends the bytes. Equal positions have equal bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        put_len(self.topics.len(), out);
        for (topic, partitions) in &self.topics {
            put_len(topic.len(), out);
            out.extend_from_slice(topic.as_bytes());
            put_len(partitions.len(), out);
            for (partition, offset) in partitions {
                out.extend_from_slice(&partition.to_be_bytes());
                out.extend_from_slice(&offset.to_be_bytes());
            }
        }
    }

    /// Reads the bytes. What stands behind them is ignored: Kafka Streams leaves room there.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Future`] for another version, [`ErrorKind::Corrupt`] for bytes that end early, a name that is no UTF-8,
    /// and a partition that occurs twice.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let error = |kind| Error::new(kind, "read a position").with("bytes", bytes.len());
        match bytes.split_first() {
            Some((&VERSION, rest)) => read(Reader::new(rest)).ok_or_else(|| error(ErrorKind::Corrupt)),
            Some((version, _)) => Err(error(ErrorKind::Future).with("version", version)),
            None => Err(error(ErrorKind::Corrupt)),
        }
    }
}

fn read(mut read: Reader<'_>) -> Option<Position> {
    let mut position = Position::default();
    for _ in 0..len(&mut read)? {
        let topic = len(&mut read)?;
        let topic = std::str::from_utf8(read.bytes(topic)?).ok()?;
        let mut partitions = BTreeMap::new();
        for _ in 0..len(&mut read)? {
            if partitions.insert(read.i32()?, read.i64()?).is_some() {
                return None;
            }
        }
        if position.topics.insert(topic.to_owned(), partitions).is_some() {
            return None;
        }
    }
    Some(position)
}

fn len(read: &mut Reader<'_>) -> Option<usize> {
    usize::try_from(read.i32()?).ok()
}

/// No name and no number of topics or partitions of Kafka comes near what an int32 holds.
fn put_len(len: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&(len as i32).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(position: &Position) -> Vec<u8> {
        let mut out = Vec::new();
        position.encode(&mut out);
        out
    }

    #[test]
    fn a_position_never_goes_back() {
        let mut position = Position::default();
        [1, 9, 4].into_iter().for_each(|offset| position.advance("t", 0, offset));
        assert_eq!((position.get("t", 0), position.get("t", 1), position.get("u", 0)), (Some(9), None, None));
        assert_eq!(position.iter().collect::<Vec<_>>(), [("t", 0, 9)]);
    }

    #[test]
    fn damage_is_corrupt_and_another_version_is_the_future() {
        let mut position = Position::default();
        position.advance("t", 0, 1);
        let good = bytes(&position);
        for n in 0..good.len() {
            assert_eq!(Position::decode(&good[..n]).unwrap_err().kind(), ErrorKind::Corrupt, "{n}");
        }
        for claim in [[0x7F, 0xFF, 0xFF, 0xFF], [0xFF; 4]] {
            for at in [1, 5, 10] {
                let mut bad = good.clone();
                bad[at..at + 4].copy_from_slice(&claim);
                assert_eq!(Position::decode(&bad).unwrap_err().kind(), ErrorKind::Corrupt, "{at}");
            }
        }
        assert_eq!(Position::decode(&[1]).unwrap_err().kind(), ErrorKind::Future);
        let twice = [&[0, 0, 0, 0, 2][..], &good[5..], &good[5..]].concat();
        assert_eq!(Position::decode(&twice).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
