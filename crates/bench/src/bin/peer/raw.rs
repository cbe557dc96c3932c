//! The limit without an application: the library's own clients in a loop, which reads a topic, or reads and writes it.

use std::time::Duration;

use millpond_broker_api::{
    Broker, Change, Clock, CommitOutcome, Consumer, GroupOffset, GroupOffsets, Isolation, Member, Outgoing, Producer,
    ProducerOptions, Record, Sent, Source, SystemClock, TopicId,
};

use crate::args::Args;
use crate::error::Result;
use crate::event::Events;
use crate::figures::{Mark, Run};
use crate::usage::Meter;

/// How long a poll waits.
const POLL: Duration = Duration::from_millis(100);
/// How long anything else may take.
const ANSWER: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Polls, and commits what was polled.
    Consume,
    /// Sends each record to the same partition of another topic, too.
    Copy,
    /// The same in transactions.
    CopyInTransactions,
}

impl Mode {
    fn named(name: &str) -> Result<Self> {
        match name {
            "consume" => Ok(Self::Consume),
            "copy" => Ok(Self::Copy),
            "copy-eos" => Ok(Self::CopyInTransactions),
            other => Err(format!("`mode={other}` is none of consume, copy, copy-eos").into()),
        }
    }
}

pub(crate) fn run(broker: &dyn Broker, args: &Args, events: &mut Events<'_>) -> Result {
    let records = args.number::<u64>("records", 0)?;
    let fields = Loop::new(broker, args)?.run(records)?.fields()?;
    events.tell("result", fields)
}

struct Loop<'a> {
    consumer: Box<dyn Consumer>,
    sink: Sink,
    input: &'a str,
    partitions: i32,
    member: Member,
    commit_interval: Duration,
}

/// Where records and offsets go.
enum Sink {
    Nowhere { offsets: Box<dyn GroupOffsets> },
    Topic { producer: Box<dyn Producer>, topic: TopicId, offsets: Box<dyn GroupOffsets> },
    Transactions { producer: Box<dyn Producer>, topic: TopicId },
}

impl<'a> Loop<'a> {
    fn new(broker: &dyn Broker, args: &'a Args) -> Result<Self> {
        let mode = Mode::named(args.get("mode")?)?;
        let (app, input) = (args.get("app")?, args.get("input")?);
        // What the workers of an application read under the same guarantee.
        let (isolation, commit) = match mode {
            Mode::CopyInTransactions => (Isolation::ReadCommitted, 100),
            Mode::Consume | Mode::Copy => (Isolation::ReadUncommitted, 1_000),
        };
        let known = broker.admin()?.describe(&[input])?.into_iter().flatten().next();
        let partitions = known.ok_or_else(|| format!("there is no topic `{input}`"))?.partitions;
        let mut consumer = broker.consumer(&isolation.into())?;
        let from_start = |partition| Change::Add { source: source(partition), topic: input, partition, from: 0 };
        consumer.assign(&(0..partitions).map(from_start).collect::<Vec<_>>())?;
        Ok(Self {
            consumer,
            sink: Sink::new(mode, broker, app, args)?,
            input,
            partitions,
            // Nobody else is in the group, so there is nothing to fence: a consumer with manual assignment commits like this.
            member: Member { group: app.into(), member_id: "".into(), instance_id: None, generation: -1 },
            commit_interval: Duration::from_millis(args.number("commit", commit)?),
        })
    }

    /// Goes on until so many records are done and committed.
    fn run(mut self, records: u64) -> Result<Run> {
        let (meter, clock) = (Meter::default(), SystemClock::new());
        let (mut first, mut half) = (None, None);
        let (mut count, mut committed) = (0, clock.now());
        while count < records {
            let batch = self.consumer.poll(POLL)?;
            if let Some((Source(partition), error)) = batch.faults.first() {
                return Err(format!("cannot read partition {partition}: {error:#}").into());
            }
            if !batch.is_empty() {
                first.get_or_insert_with(|| Mark { usage: meter.now(), records: 0 });
            }
            for record in batch.iter() {
                self.sink.send(&record)?;
            }
            count += batch.len() as u64;
            if clock.now() - committed >= self.commit_interval || count >= records {
                self.commit()?;
                committed = clock.now();
            }
            if count >= records / 2 {
                half.get_or_insert_with(|| Mark { usage: meter.now(), records: count });
            }
        }
        let last = Mark { usage: meter.now(), records: count };
        let (first, half) = first.zip(half).ok_or("`records=` must be above 0")?;
        Ok(Run { first, half, last, done: last.usage })
    }

    fn commit(&mut self) -> Result {
        let positions = (0..self.partitions).filter_map(|partition| {
            let next = self.consumer.position(source(partition))?;
            Some(GroupOffset { topic: self.input, partition, next, leader_epoch: -1, metadata: "" })
        });
        let outcome = self.sink.commit(&self.member, &positions.collect::<Vec<_>>())?;
        match outcome {
            CommitOutcome::Committed => Ok(()),
            CommitOutcome::Aborted(e) | CommitOutcome::Fenced(e) | CommitOutcome::Unknown(e) => Err(e.into()),
        }
    }
}

impl Sink {
    fn new(mode: Mode, broker: &dyn Broker, app: &str, args: &Args) -> Result<Self> {
        if mode == Mode::Consume {
            return Ok(Self::Nowhere { offsets: broker.offsets()? });
        }
        if mode == Mode::Copy {
            let mut producer = broker.producer(&ProducerOptions::default())?;
            let topic = producer.topic(args.get("output")?);
            return Ok(Self::Topic { producer, topic, offsets: broker.offsets()? });
        }
        let mut producer = broker.producer(&ProducerOptions::transactional(app))?;
        producer.init(ANSWER)?;
        let topic = producer.topic(args.get("output")?);
        Ok(Self::Transactions { producer, topic })
    }

    fn send(&mut self, record: &Record<'_>) -> Result {
        let (producer, topic) = match self {
            Self::Nowhere { .. } => return Ok(()),
            Self::Topic { producer, topic, .. } | Self::Transactions { producer, topic } => (producer, *topic),
        };
        let outgoing = Outgoing {
            topic,
            partition: i32::try_from(record.source.0)?,
            timestamp: record.timestamp,
            key: record.key,
            value: record.value,
            headers: &[],
            tag: 0,
        };
        while producer.send(&outgoing)? == Sent::Full {
            producer.flush(POLL)?;
        }
        Ok(())
    }

    fn commit(&mut self, member: &Member, positions: &[GroupOffset<'_>]) -> Result<CommitOutcome> {
        match self {
            Self::Nowhere { offsets } => Ok(offsets.commit(member, positions, ANSWER)),
            Self::Topic { producer, offsets, .. } => {
                let flushed = producer.flush(ANSWER)?;
                if let Some(failure) = flushed.failed.first() {
                    return Err(failure.error.clone().into());
                }
                if flushed.outstanding > 0 {
                    return Err("records are without an answer for half a minute".into());
                }
                Ok(offsets.commit(member, positions, ANSWER))
            }
            Self::Transactions { producer, .. } => Ok(producer.commit(member, positions, ANSWER)),
        }
    }
}

/// The number of a partition's records is the partition's own.
fn source(partition: i32) -> Source {
    Source(partition.unsigned_abs())
}
