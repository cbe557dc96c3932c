//! The first part: creates the topics, and replays the flights into two of them: spread over partitions by their numbers, and
//! in one partition in their order.
//!
//! Into the embedded broker they go as they are; into Kafka in transactions, since a broker that was killed no longer knows
//! which records of an idempotent producer it has if they are as old as these (see `exact.rs`).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use millpond::broker::{Admin, Broker, Clock, ErrorKind, NewTopic, Outgoing, Producer, ProducerOptions, Sent, TopicId};
use millpond::changelog::partition_for_key;

use crate::cluster;
use crate::data::Input;
use crate::error::{Error, Result};
use crate::exact::ExactWriter;
use crate::flight::Flight;
use crate::options::{LoadOptions, ReplayOptions};
use crate::ports::{Ports, Stop};
use crate::topology::{CARRIER_TOTALS, FLIGHTS, FLIGHTS_ORDERED, HOURLY_DEPARTURES, LATE_FLIGHTS, PLANE_LEGS};
use crate::view::View;

/// All topics but those that the application makes, with their partitions.
const TOPICS: [(&str, i32); 6] = [
    (FLIGHTS, PARTITIONS),
    (FLIGHTS_ORDERED, 1),
    (CARRIER_TOTALS, PARTITIONS),
    (HOURLY_DEPARTURES, PARTITIONS),
    (PLANE_LEGS, PARTITIONS),
    (LATE_FLIGHTS, PARTITIONS),
];
/// The partitions of what need not be in order.
const PARTITIONS: i32 = 4;
/// The flights are of 2013: no broker that deletes what is older than a week may begin with them.
const CONFIGS: [(&str, &str); 1] = [("retention.ms", "-1")];
/// A replay that is ahead of its rate by less does not wait: clocks and threads are no finer.
const SHORTEST_WAIT: Duration = Duration::from_millis(5);
/// How long a flush waits before it looks for the signal to stop.
const FLUSH_WAIT: Duration = Duration::from_millis(200);

/// Creates the topics on a Kafka cluster, and replays the flights into them.
///
/// # Errors
///
/// A wrong option or setting, and what [`create_topics`] and [`replay`] say.
pub fn load(options: &LoadOptions, ports: &Ports, view: &mut View) -> Result<()> {
    let input = Input::find(&options.replay.data)?;
    let broker = cluster::connect(&cluster::settings(&options.cluster)?)?;
    create_topics(&broker)?;
    let replayed = Replayed::default();
    let writer = ExactWriter::open(&broker, ports)?;
    replay_into(writer, &input, &options.replay, ports, &replayed)?;
    view.note(&format!("replayed {} flights from {input} into `{FLIGHTS}` on {}", replayed.records(), broker.name()));
    Ok(())
}

/// Creates the topics of the input and of the results; those that are there must be as they would have been created.
///
/// # Errors
///
/// The broker's, or a topic of that name with other partitions or a retention that would delete the flights.
pub fn create_topics(broker: &dyn Broker) -> Result<()> {
    let topics = TOPICS.map(|(name, partitions)| NewTopic { name, partitions, replication: None, configs: &CONFIGS });
    let failed = |error| Error::failed("cannot create topics").with("broker", broker.name()).caused_by(error);
    let mut admin = broker.admin().map_err(failed)?;
    let answers = admin.create_topics(&topics).map_err(failed)?;
    for ((name, partitions), answer) in TOPICS.into_iter().zip(answers) {
        match answer {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Refused => check_existing(&mut *admin, name, partitions)?,
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(())
}

/// Kafka does not say why a creation was refused in a way to rely on, so the topic itself is asked.
fn check_existing(admin: &mut dyn Admin, name: &str, partitions: i32) -> Result<()> {
    let failed = |message| Error::failed(message).with("topic", name);
    let described = admin.describe(&[name]).map_err(|error| failed("cannot describe topic").caused_by(error))?;
    let Some(topic) = described.into_iter().flatten().next() else {
        return Err(failed("the broker refuses to create a topic"));
    };
    let remedy = "delete it, or give it the right settings";
    if topic.partitions != partitions {
        let error = failed("the topic exists with other partitions").with("partitions", topic.partitions);
        return Err(error.with("expected", partitions).with("remedy", remedy));
    }
    let lacks = |wanted: &&(&str, &str)| !topic.configs.iter().any(|(key, value)| (&**key, &**value) == **wanted);
    match CONFIGS.iter().find(lacks) {
        None => Ok(()),
        Some((key, value)) => {
            let error = failed("the topic exists without a config that it needs");
            Err(error.with("config", format_args!("{key}={value}")).with("remedy", remedy))
        }
    }
}

/// How far a replay has come, for other threads.
#[derive(Debug, Default)]
pub struct Replayed {
    records: AtomicU64,
    is_complete: AtomicBool,
}

impl Replayed {
    /// How many flights were handed to the producer.
    pub fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// True once all flights are in the topics.
    pub fn is_complete(&self) -> bool {
        self.is_complete.load(Ordering::Acquire)
    }
}

/// Replays the flights into the topics `flights` and `flights-ordered`: event time is the departure, or the schedule if it was
/// cancelled, and the key is the flight number, or the origin. Returns when the broker has acknowledged all of them.
///
/// # Errors
///
/// A bad row, a flight of the future (see `--repeat`), the broker's refusal, or the signal to stop.
pub fn replay(
    broker: &dyn Broker,
    input: &Input,
    options: &ReplayOptions,
    ports: &Ports,
    replayed: &Replayed,
) -> Result<()> {
    replay_into(Writer::open(broker, &ports.stop)?, input, options, ports, replayed)
}

/// Something that flights are written to.
pub(crate) trait Sink {
    /// Takes a flight; `number` counts them from 0.
    fn send(&mut self, flight: Flight, number: u64) -> Result<()>;

    /// Nothing is sent for a while: what was sent shall be seen now.
    fn push(&mut self) -> Result<()>;

    /// Ends when all flights are in the topic for good.
    fn finish(self) -> Result<()>;
}

fn replay_into(
    mut writer: impl Sink,
    input: &Input,
    options: &ReplayOptions,
    ports: &Ports,
    replayed: &Replayed,
) -> Result<()> {
    let (clock, start) = (&*ports.clock, ports.clock.now());
    for (sent, flight) in (0..).zip(input.repeated(options.repeat)) {
        let flight = flight?;
        refuse_future(&flight, input, clock)?;
        let due = options.rate.map_or(start, |rate| start + Duration::from_secs(sent) / rate);
        let ahead = due.saturating_sub(clock.now());
        if ahead >= SHORTEST_WAIT {
            writer.push()?;
        }
        ports.stop.wait(if ahead >= SHORTEST_WAIT { ahead } else { Duration::ZERO })?;
        writer.send(flight, sent)?;
        replayed.records.store(sent + 1, Ordering::Relaxed);
    }
    writer.finish()?;
    replayed.is_complete.store(true, Ordering::Release);
    Ok(())
}

/// Brokers refuse times more than an hour ahead, those of topics that the application creates too: so this is said first.
fn refuse_future(flight: &Flight, input: &Input, clock: &dyn Clock) -> Result<()> {
    if flight.event_time() <= clock.wall_ms() {
        return Ok(());
    }
    let error = Error::failed("a flight lies in the future, which brokers refuse").with("file", input);
    Err(error.with("time_ms", flight.event_time()).with("remedy", "lower --repeat: each time is a year later"))
}

/// Makes the records of a flight.
pub(crate) struct Copies {
    spread: TopicId,
    ordered: TopicId,
    number: String,
    json: Vec<u8>,
}

impl Copies {
    pub(crate) fn new(producer: &mut dyn Producer) -> Self {
        let (spread, ordered) = (producer.topic(FLIGHTS), producer.topic(FLIGHTS_ORDERED));
        Self { spread, ordered, number: String::new(), json: Vec::new() }
    }

    /// The record of each topic. `tag` comes back with a failure.
    pub(crate) fn of<'a>(&'a mut self, flight: &'a Flight, tag: u64) -> Result<[Outgoing<'a>; 2]> {
        self.json.clear();
        serde_json::to_writer(&mut self.json, flight).map_err(not_written)?;
        self.number = flight.number();
        let record = |topic, partition, key: &'a str| Outgoing {
            topic,
            partition,
            timestamp: flight.event_time(),
            key: Some(key.as_bytes()),
            value: Some(&self.json),
            headers: &[],
            tag,
        };
        let partition = partition_for_key(self.number.as_bytes(), PARTITIONS);
        Ok([record(self.spread, partition, &self.number), record(self.ordered, 0, &flight.origin)])
    }
}

/// A plain producer.
struct Writer<'a> {
    producer: Box<dyn Producer>,
    copies: Copies,
    stop: &'a Stop,
}

impl<'a> Writer<'a> {
    fn open(broker: &dyn Broker, stop: &'a Stop) -> Result<Self> {
        let mut producer = broker.producer(&ProducerOptions::default()).map_err(not_written)?;
        let copies = Copies::new(&mut *producer);
        Ok(Self { producer, copies, stop })
    }
}

/// How many records have no answer yet.
fn flush(producer: &mut dyn Producer, max_wait: Duration) -> Result<usize> {
    let flushed = producer.flush(max_wait).map_err(not_written)?;
    match flushed.failed.first() {
        None => Ok(flushed.outstanding),
        Some(failure) => Err(not_written(failure.error.clone()).with("partition", failure.partition)),
    }
}

impl Sink for Writer<'_> {
    fn send(&mut self, flight: Flight, number: u64) -> Result<()> {
        for record in self.copies.of(&flight, number)? {
            while let Sent::Full = self.producer.send(&record).map_err(not_written)? {
                flush(&mut *self.producer, FLUSH_WAIT)?;
                self.stop.wait(Duration::ZERO)?;
            }
        }
        Ok(())
    }

    fn push(&mut self) -> Result<()> {
        flush(&mut *self.producer, Duration::ZERO).map(drop)
    }

    fn finish(mut self) -> Result<()> {
        while flush(&mut *self.producer, FLUSH_WAIT)? > 0 {
            self.stop.wait(Duration::ZERO)?;
        }
        Ok(())
    }
}

pub(crate) fn not_written(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::failed("cannot write flights").with("topics", format_args!("{FLIGHTS},{FLIGHTS_ORDERED}")).caused_by(error)
}
