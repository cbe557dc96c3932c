//! How far the application is: its committed offsets and the ends of what it reads, and whether the last hours are over.

use std::time::Duration;

use millpond::broker::{Admin, At, Broker, Committed, ErrorKind, GroupOffsets, Offset, Stable};
use millpond::changelog::CommitMetadata;

use crate::error::{Error, Result};
use crate::topology::{APPLICATION, FLIGHTS, FLIGHTS_ORDERED, HOUR, HOURLY_STORE, SOURCES};

/// How long one question may take.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// What was measured at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// How many offsets of the topic `flights` are processed and committed.
    pub processed: u64,
    /// How many offsets of all sources are not.
    pub remaining: u64,
    /// Nothing remains, and all hours that flights left in are over. Under exactly-once a source's end may move by the transaction that commits what is upstream of it;
    /// that is seen, so this is final unless new flights are written.
    pub is_complete: bool,
}

/// Asks the broker, again and again.
pub struct LagMeter {
    admin: Box<dyn Admin>,
    offsets: Box<dyn GroupOffsets>,
    last: Lag,
}

impl LagMeter {
    /// Opens the clients.
    ///
    /// # Errors
    ///
    /// The broker's.
    pub fn open(broker: &dyn Broker) -> Result<Self> {
        let (admin, offsets) = (broker.admin().map_err(unknown)?, broker.offsets().map_err(unknown)?);
        Ok(Self { admin, offsets, last: Lag::default() })
    }

    /// Measures all sources. While a transaction holds an offset, or a topic is yet to be created, the answer is the one before,
    /// not complete.
    ///
    /// # Errors
    ///
    /// The broker's, but those that asking again can cure.
    pub fn measure(&mut self) -> Result<Lag> {
        match self.ask() {
            Ok(Some(lag)) => self.last = lag,
            Ok(None) => self.last.is_complete = false,
            Err(error) if matches!(error.kind(), ErrorKind::Retriable | ErrorKind::UnknownTopic) => {
                self.last.is_complete = false;
            }
            Err(error) => return Err(unknown(error)),
        }
        Ok(self.last)
    }

    /// `None`: not known at this moment.
    fn ask(&mut self) -> millpond::broker::Result<Option<Lag>> {
        let (mut lag, mut hours_are_over) = (Lag::default(), false);
        // Upstream first: once a source is done, the ends of those below it do not move any more.
        for topic in SOURCES {
            let Some(info) = self.admin.describe(&[topic])?.into_iter().flatten().next() else { return Ok(None) };
            let partitions = (0..info.partitions).map(|partition| (topic, partition)).collect::<Vec<_>>();
            let Stable::Offsets(committed) = self.offsets.fetch_stable(APPLICATION, &partitions, MAX_WAIT)? else {
                return Ok(None);
            };
            let starts = self.ends(&partitions, At::Start)?;
            let ends = self.ends(&partitions, At::StableEnd)?;
            for ((committed, start), end) in committed.into_iter().zip(starts).zip(ends) {
                if topic == FLIGHTS_ORDERED {
                    hours_are_over = Self::are_hours_over(committed.as_ref(), end == start);
                }
                let next = committed.map_or(start, |committed| committed.next);
                lag.remaining += u64::try_from(end - next).unwrap_or(0);
                if topic == FLIGHTS {
                    lag.processed += u64::try_from(next).unwrap_or(0);
                }
            }
        }
        lag.is_complete = lag.remaining == 0 && hours_are_over;
        Ok(Some(lag))
    }

    /// The end of the last hour that any flight was scheduled for or left in is compared with what stands beside the offset: up
    /// to when hours have been written. Both were committed together.
    fn are_hours_over(committed: Option<&Committed>, is_empty: bool) -> bool {
        let Some(committed) = committed else { return is_empty };
        let CommitMetadata { partition_time, processor } = CommitMetadata::decode(&committed.metadata);
        let hour = i64::try_from(HOUR.as_millis()).unwrap_or(i64::MAX);
        let last = (partition_time.div_euclid(hour) + 1).saturating_mul(hour);
        processor.iter().any(|(store, close)| store == HOURLY_STORE && *close >= last)
    }

    fn ends(&mut self, partitions: &[(&str, i32)], at: At) -> millpond::broker::Result<Vec<Offset>> {
        let of = partitions.iter().map(|(topic, partition)| (*topic, *partition, at)).collect::<Vec<_>>();
        self.admin.offsets(&of)?.into_iter().collect()
    }
}

impl std::fmt::Debug for LagMeter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LagMeter").field("last", &self.last).finish_non_exhaustive()
    }
}

fn unknown(error: millpond::broker::Error) -> Error {
    Error::failed("cannot ask for the lag").with("group", APPLICATION).caused_by(error)
}
