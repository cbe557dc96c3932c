//! The last part: what stands in the topics of the results, as JSON.

use std::collections::BTreeMap;

use millpond::broker::Broker;
use millpond::prelude::*;
use serde::Serialize;

use crate::cluster;
use crate::error::{Error, Result};
use crate::flight::{Departures, Legs, Totals};
use crate::options::ShowOptions;
use crate::ports::Stop;
use crate::reader::{TableReader, TopicReader};
use crate::topology::{CARRIER_TOTALS, HOURLY_DEPARTURES, LATE_FLIGHTS, PLANE_LEGS, hours, sessions};
use crate::utc::rfc3339;

/// The totals by carrier, in the order of their names.
pub type TotalsByCarrier = BTreeMap<String, Totals>;

/// All that is computed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Results {
    /// The totals by carrier.
    pub carriers: TotalsByCarrier,
    /// What left an airport in an hour.
    pub hourly: BTreeMap<Windowed<String>, Departures>,
    /// What a plane flew without a long rest: from the first departure to the last.
    pub legs: BTreeMap<Windowed<String>, Legs>,
    /// How many flights came after their hour would have been over, had nobody waited for late ones.
    pub late: u64,
}

/// Reads the results that stand on a Kafka cluster.
///
/// # Errors
///
/// A wrong option or setting, and what [`results`] says.
pub fn show(options: &ShowOptions, stop: &Stop) -> Result<Results> {
    results(&cluster::connect(&cluster::settings(&options.cluster)?)?, stop)
}

/// Reads the topics committed, from their start to the end that they have now.
///
/// # Errors
///
/// The broker's, a record that is none of ours, or the signal to stop.
pub fn results(broker: &dyn Broker, stop: &Stop) -> Result<Results> {
    Ok(Results {
        carriers: TableReader::open(broker, CARRIER_TOTALS, Utf8)?.read_to_end(stop)?,
        hourly: TableReader::open(broker, HOURLY_DEPARTURES, hours())?.read_to_end(stop)?,
        legs: TableReader::open(broker, PLANE_LEGS, sessions())?.read_to_end(stop)?,
        late: count(broker, LATE_FLIGHTS, stop)?,
    })
}

/// How many records a topic has.
fn count(broker: &dyn Broker, topic: &'static str, stop: &Stop) -> Result<u64> {
    let mut records = 0;
    TopicReader::open(broker, topic)?.read_to_end(stop, &mut |_| {
        records += 1;
        Ok(())
    })?;
    Ok(records)
}

impl Results {
    /// One JSON object; each carrier, each hour and each plane has a line.
    ///
    /// # Errors
    ///
    /// None as it stands: all values have a form in JSON.
    pub fn to_json(&self) -> Result<String> {
        let carriers = self.carriers.iter().map(|(carrier, totals)| Ok((carrier.as_str(), json(totals)?)));
        let carriers = object(1, carriers)?;
        let hourly = by_key(&self.hourly).into_iter().map(|(origin, hours)| {
            let hours = hours.into_iter().map(|(hour, departures)| Ok((rfc3339(hour.start), json(departures)?)));
            Ok((origin, object(2, hours)?))
        });
        let hourly = object(1, hourly)?;
        let legs = by_key(&self.legs).into_iter().map(|(plane, sessions)| {
            let session =
                |(window, legs): (&Windowed<_>, &Legs)| Leg { from: window.start, to: window.end, legs: *legs };
            Ok((plane, json(&sessions.into_iter().map(session).collect::<Vec<_>>())?))
        });
        let legs = object(1, legs)?;
        let all = [("carriers", carriers), ("hourly", hourly), ("legs", legs), ("late", self.late.to_string())];
        Ok(object(0, all.into_iter().map(Ok))? + "\n")
    }

    /// How much there is of everything, for people.
    pub fn summary(&self) -> String {
        let Self { carriers, hourly, legs, late } = self;
        let (airports, planes) = (by_key(hourly).len(), by_key(legs).len());
        format!(
            "{} carriers; {} hours at {airports} airports; {} sessions of {planes} planes; {late} late flights",
            carriers.len(),
            hourly.len(),
            legs.len(),
        )
    }
}

/// Keys of windows are business data to the library, which shows none of them: so this shows sizes.
impl std::fmt::Debug for Results {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Results").field(&self.summary()).finish()
    }
}

/// A session as it is printed.
#[derive(Serialize)]
struct Leg {
    from: i64,
    to: i64,
    #[serde(flatten)]
    legs: Legs,
}

/// The windows of each key.
fn by_key<V>(windows: &BTreeMap<Windowed<String>, V>) -> BTreeMap<&str, Vec<(&Windowed<String>, &V)>> {
    let mut keys = BTreeMap::<_, Vec<_>>::new();
    for (window, value) in windows {
        keys.entry(window.key.as_str()).or_default().push((window, value));
    }
    keys
}

/// An object whose fields, JSON already, stand on lines of their own.
fn object<K: AsRef<str>>(depth: usize, fields: impl Iterator<Item = Result<(K, String)>>) -> Result<String> {
    let line = |field: Result<(K, String)>| {
        let (key, value) = field?;
        Ok(format!("{:width$}{}: {value}", "", json(key.as_ref())?, width = 2 * (depth + 1)))
    };
    let lines = fields.map(line).collect::<Result<Vec<_>>>()?;
    if lines.is_empty() {
        return Ok("{}".to_owned());
    }
    Ok(format!("{{\n{}\n{:width$}}}", lines.join(",\n"), "", width = 2 * depth))
}

fn json(value: &(impl Serialize + ?Sized)) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::failed("cannot write results as JSON").caused_by(error))
}
