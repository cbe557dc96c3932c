//! The last part: what stands in `carrier-totals`, as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use millpond::broker::{At, Broker, Change, Consumer, Isolation, Offset, Record, Source};

use crate::cluster;
use crate::error::{Error, Result};
use crate::flight::Totals;
use crate::options::ShowOptions;
use crate::ports::Stop;
use crate::topology::CARRIER_TOTALS;

/// How long a poll waits before it looks for the signal to stop.
const POLL_WAIT: Duration = Duration::from_millis(200);

/// The totals by carrier, in the order of their names.
pub type TotalsByCarrier = BTreeMap<String, Totals>;

/// Reads the totals that stand on a Kafka cluster.
///
/// # Errors
///
/// A wrong option or setting, and what [`totals`] says.
pub fn show(options: &ShowOptions, stop: &Stop) -> Result<TotalsByCarrier> {
    totals(&cluster::connect(&cluster::settings(&options.cluster)?)?, stop)
}

/// Reads the topic committed, from its start to the end that it has now: the last value of each carrier.
///
/// # Errors
///
/// The broker's, a record that is none of ours, or the signal to stop.
pub fn totals(broker: &dyn Broker, stop: &Stop) -> Result<TotalsByCarrier> {
    let mut reader = TotalsReader::open(broker)?;
    let ends = reader.ends(broker)?;
    while !reader.has_reached(&ends) {
        stop.wait(Duration::ZERO)?;
        reader.poll(POLL_WAIT)?;
    }
    Ok(reader.totals)
}

/// One JSON object, a line for each carrier.
pub fn to_json(totals: &TotalsByCarrier) -> Result<String> {
    let mut json = String::from("{");
    for (n, (carrier, totals)) in totals.iter().enumerate() {
        let of = |value| Error::failed("cannot write totals as JSON").caused_by(value);
        let (carrier, totals) =
            (serde_json::to_string(carrier).map_err(of)?, serde_json::to_string(totals).map_err(of)?);
        let separator = if n == 0 { "\n" } else { ",\n" };
        write!(json, "{separator}  {carrier}: {totals}").expect("a string takes all text");
    }
    json.push_str("\n}\n");
    Ok(json)
}

/// Follows the topic.
pub struct TotalsReader {
    consumer: Box<dyn Consumer>,
    partitions: i32,
    totals: TotalsByCarrier,
}

impl TotalsReader {
    /// Begins at the start of all partitions.
    ///
    /// # Errors
    ///
    /// The broker's, or there is no such topic.
    pub fn open(broker: &dyn Broker) -> Result<Self> {
        let mut admin = broker.admin().map_err(unreadable)?;
        let Some(topic) = admin.describe(&[CARRIER_TOTALS]).map_err(unreadable)?.into_iter().flatten().next() else {
            let error = Error::failed("the topic of the totals does not exist").with("topic", CARRIER_TOTALS);
            return Err(error.with("broker", broker.name()).with("remedy", "replay the flights first"));
        };
        let mut reader = Self {
            consumer: broker.consumer(&Isolation::ReadCommitted.into()).map_err(unreadable)?,
            partitions: topic.partitions,
            totals: TotalsByCarrier::new(),
        };
        let starts = reader.offsets(broker, At::Start)?;
        for (partition, from) in starts {
            let add = Change::Add { source: source(partition), topic: CARRIER_TOTALS, partition, from };
            reader.consumer.assign(&[add]).map_err(unreadable)?;
        }
        Ok(reader)
    }

    /// The totals as far as they were read.
    pub fn totals(&self) -> &TotalsByCarrier {
        &self.totals
    }

    /// Takes all that is there.
    ///
    /// # Errors
    ///
    /// The broker's, or a record that is none of ours.
    pub fn catch_up(&mut self) -> Result<()> {
        while self.poll(Duration::ZERO)? > 0 {}
        Ok(())
    }

    /// Takes a batch, or waits for one that long; how many records it had.
    fn poll(&mut self, max_wait: Duration) -> Result<usize> {
        let batch = self.consumer.poll(max_wait).map_err(unreadable)?;
        if let Some((source, error)) = batch.faults.first() {
            return Err(unreadable(error.clone()).with("partition", source.0));
        }
        for record in batch.iter() {
            match decode(&record)? {
                (carrier, Some(totals)) => self.totals.insert(carrier.to_owned(), totals),
                (carrier, None) => self.totals.remove(carrier),
            };
        }
        Ok(batch.len())
    }

    fn ends(&self, broker: &dyn Broker) -> Result<Vec<(i32, Offset)>> {
        self.offsets(broker, At::StableEnd)
    }

    fn has_reached(&self, ends: &[(i32, Offset)]) -> bool {
        ends.iter().all(|(partition, end)| self.consumer.position(source(*partition)) >= Some(*end))
    }

    fn offsets(&self, broker: &dyn Broker, at: At) -> Result<Vec<(i32, Offset)>> {
        let of = (0..self.partitions).map(|partition| (CARRIER_TOTALS, partition, at)).collect::<Vec<_>>();
        let answers = broker.admin().and_then(|mut admin| admin.offsets(&of)).map_err(unreadable)?;
        (0..).zip(answers).map(|(partition, offset)| Ok((partition, offset.map_err(unreadable)?))).collect()
    }
}

impl std::fmt::Debug for TotalsReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TotalsReader").field("carriers", &self.totals.len()).finish_non_exhaustive()
    }
}

/// A partition's number is never negative.
fn source(partition: i32) -> Source {
    Source(partition.unsigned_abs())
}

fn decode<'a>(record: &Record<'a>) -> Result<(&'a str, Option<Totals>)> {
    let foreign = |what: &'static str| {
        let error = Error::failed(what).with("topic", CARRIER_TOTALS);
        error.with("partition", record.source.0).with("offset", record.offset)
    };
    let key = record.key.ok_or_else(|| foreign("a record has no key"))?;
    let carrier = std::str::from_utf8(key).map_err(|_| foreign("a record's key is not UTF-8"))?;
    let decode =
        |value| serde_json::from_slice(value).map_err(|_| foreign("a record's value is not a carrier's totals"));
    Ok((carrier, record.value.map(decode).transpose()?))
}

fn unreadable(error: millpond::broker::Error) -> Error {
    Error::failed("cannot read totals").with("topic", CARRIER_TOTALS).caused_by(error)
}
