//! What members say about themselves, and what the leader answers: compact bytes inside Kafka's ConsumerProtocol envelope.
//!
//! Format: `docs/formats/membership.md`. All subscriptions and assignments of a group share one broker record of 1 MB, so tasks
//! are bit sets per sub-topology.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, ErrorKind, Result};
use crate::task::TaskId;

const VERSION: u8 = 1;

/// A member's user data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subscription {
    /// The process id from the state directory.
    pub process: u128,
    /// How many workers share its tasks.
    pub workers: u32,
    /// Tasks that run there, or whose state lies there.
    pub held: BTreeSet<TaskId>,
    /// Tasks that cannot run there now, because a stuck worker has them.
    pub blocked: BTreeSet<TaskId>,
}

impl Subscription {
    /// The bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.process.to_be_bytes());
        put(&mut out, u64::from(self.workers));
        put_tasks(&mut out, &self.held);
        put_tasks(&mut out, &self.blocked);
        out
    }

    /// Reads the bytes; what follows the known fields is ignored. Never panics.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut read = Reader::open(bytes, "read a subscription")?;
        let process = u128::from_be_bytes(*read.take::<16>()?);
        let workers = u32::try_from(read.number()?).map_err(|_| read.damaged())?;
        Ok(Self { process, workers, held: read.tasks()?, blocked: read.tasks()? })
    }
}

/// A member's assignment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskAssignment {
    /// Tasks that it runs.
    pub active: BTreeSet<TaskId>,
}

impl TaskAssignment {
    /// The bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put_tasks(&mut out, &self.active);
        out
    }

    /// Reads the bytes; what follows the known fields is ignored. Never panics.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        Ok(Self { active: Reader::open(bytes, "read an assignment")?.tasks()? })
    }
}

/// Unsigned LEB128.
fn put(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Count of sub-topologies; for each its number, the length of its bit set, and the bit set, lowest partition first.
fn put_tasks(out: &mut Vec<u8>, tasks: &BTreeSet<TaskId>) {
    let mut sets: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    for task in tasks {
        let Ok(partition) = usize::try_from(task.partition) else { continue };
        let bits = sets.entry(task.sub_topology).or_default();
        bits.resize(bits.len().max(partition / 8 + 1), 0);
        if let Some(byte) = bits.get_mut(partition / 8) {
            *byte |= 1 << (partition % 8);
        }
    }
    put(out, sets.len() as u64);
    for (sub, bits) in sets {
        put(out, u64::from(sub));
        put(out, bits.len() as u64);
        out.extend_from_slice(&bits);
    }
}

struct Reader<'a> {
    rest: &'a [u8],
    op: &'static str,
}

impl<'a> Reader<'a> {
    fn open(bytes: &'a [u8], op: &'static str) -> Result<Self> {
        match bytes.split_first() {
            Some((&VERSION, rest)) => Ok(Self { rest, op }),
            Some((version, _)) => Err(Error::new(ErrorKind::Config, op)
                .with("version", version)
                .remedy("an instance of a newer version is in the group: upgrade this one too")),
            None => Err(Self { rest: bytes, op }.damaged()),
        }
    }

    #[cold]
    fn damaged(&self) -> Error {
        Error::new(ErrorKind::Config, self.op)
            .with("bytes left", self.rest.len())
            .remedy("is a foreign program in the group?")
    }

    fn take<const N: usize>(&mut self) -> Result<&'a [u8; N]> {
        let (head, rest) = self.rest.split_first_chunk().ok_or_else(|| self.damaged())?;
        self.rest = rest;
        Ok(head)
    }

    fn number(&mut self) -> Result<u64> {
        let mut n = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = *self.take::<1>()?;
            n |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(n);
            }
        }
        Err(self.damaged())
    }

    fn tasks(&mut self) -> Result<BTreeSet<TaskId>> {
        let mut tasks = BTreeSet::new();
        for _ in 0..self.number()? {
            let sub_topology = u32::try_from(self.number()?).map_err(|_| self.damaged())?;
            let len = usize::try_from(self.number()?).map_err(|_| self.damaged())?;
            let (bits, rest) = self.rest.split_at_checked(len).ok_or_else(|| self.damaged())?;
            self.rest = rest;
            for (at, byte) in bits.iter().enumerate() {
                let set = (0..8).filter(|bit| byte & (1 << bit) != 0);
                tasks.extend(set.map(|bit| TaskId { sub_topology, partition: (at * 8 + bit) as i32 }));
            }
        }
        Ok(tasks)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tasks() -> impl Strategy<Value = BTreeSet<TaskId>> {
        prop::collection::btree_set((0u32..5, 0i32..2_000), 0..40).prop_map(|set| {
            set.into_iter().map(|(sub_topology, partition)| TaskId { sub_topology, partition }).collect()
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(process: u128, workers: u32, held in tasks(), blocked in tasks()) {
            let subscription = Subscription { process, workers, held: held.clone(), blocked };
            prop_assert_eq!(Subscription::decode(&subscription.encode()).unwrap(), subscription);
            let assignment = TaskAssignment { active: held };
            prop_assert_eq!(TaskAssignment::decode(&assignment.encode()).unwrap(), assignment);
        }

        #[test]
        fn foreign_bytes_are_an_error_not_a_panic(bytes: Vec<u8>) {
            let _ = Subscription::decode(&bytes);
            let _ = TaskAssignment::decode(&bytes);
        }
    }

    #[test]
    fn golden_bytes() {
        let held = [(0, 0), (0, 9), (2, 1)].map(|(sub_topology, partition)| TaskId { sub_topology, partition });
        let subscription = Subscription { process: 1, workers: 2, held: held.into(), blocked: BTreeSet::new() };
        let mut want = vec![1];
        want.extend_from_slice(&[0; 15]);
        want.extend_from_slice(&[1, 2, 2, 0, 2, 0b1, 0b10, 2, 1, 0b10, 0]);
        assert_eq!(subscription.encode(), want);
        assert_eq!(TaskAssignment { active: held.into() }.encode(), [1, 2, 0, 2, 0b1, 0b10, 2, 1, 0b10]);
    }

    #[test]
    fn a_newer_version_is_named() {
        let text = Subscription::decode(&[9]).unwrap_err().chain();
        assert!(text.contains("version=`9`") && text.contains("upgrade"), "{text}");
    }
}
