//! What the cases share: topics, writing, reading to an end, and waiting without assumptions about time.

use std::sync::Arc;
use std::time::Duration;

use super::Environment;
use crate::{
    At, Broker, Change, CommitOutcome, Consumer, Error, Flushed, GroupOffset, Header, Isolation, Member, NewTopic,
    Offset, Outgoing, Producer, ProducerOptions, Result, Sent, Source, Stable,
};

/// How long anything may take that is bound to happen.
pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// A case's view of its environment.
pub(super) struct Bench<'e> {
    env: &'e mut dyn Environment,
}

/// A record as it was read.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) source: Source,
    pub(super) offset: Offset,
    pub(super) timestamp: i64,
    pub(super) key: Option<Vec<u8>>,
    pub(super) value: Option<Vec<u8>>,
    pub(super) headers: Vec<(String, Option<Vec<u8>>)>,
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", self.text(), self.offset)
    }
}

impl Seen {
    /// The value as text.
    pub(super) fn text(&self) -> String {
        self.value.as_ref().map_or_else(|| "null".to_owned(), |v| String::from_utf8_lossy(v).into_owned())
    }
}

/// The values as text.
pub(super) fn texts(seen: &[Seen]) -> Vec<String> {
    seen.iter().map(Seen::text).collect()
}

/// The offsets.
pub(super) fn positions(seen: &[Seen]) -> Vec<Offset> {
    seen.iter().map(|s| s.offset).collect()
}

/// What a consumer lends now, copied; faults are appended to `faults`.
#[track_caller]
pub(super) fn poll_into(consumer: &mut dyn Consumer, seen: &mut Vec<Seen>, faults: &mut Vec<(Source, Error)>) {
    let batch = consumer.poll(Duration::ZERO).expect("a poll");
    faults.extend_from_slice(batch.faults);
    seen.extend(batch.iter().map(|r| Seen {
        source: r.source,
        offset: r.offset,
        timestamp: r.timestamp,
        key: r.key.map(<[u8]>::to_vec),
        value: r.value.map(<[u8]>::to_vec),
        headers: r.headers.iter().map(|h| (h.name.to_owned(), h.value.map(<[u8]>::to_vec))).collect(),
    }));
}

/// A record of text for partition 0, to be changed by the case.
pub(super) fn record<'a>(producer: &mut dyn Producer, topic: &str, timestamp: i64, value: &'a str) -> Outgoing<'a> {
    let topic = producer.topic(topic);
    Outgoing { topic, partition: 0, timestamp, key: Some(b"k"), value: Some(value.as_bytes()), headers: &[], tag: 0 }
}

/// Sends a record; flushes when the buffer is full.
#[track_caller]
pub(super) fn send(producer: &mut dyn Producer, record: &Outgoing<'_>) {
    for _ in 0..100 {
        match producer.send(record).expect("a send") {
            Sent::Queued => return,
            Sent::Full => drop(producer.flush(LIMIT).expect("a flush")),
        }
    }
    panic!("the buffer stays full");
}

/// Flushes; all records have been written.
#[track_caller]
pub(super) fn flush<'p>(producer: &'p mut dyn Producer) -> Flushed<'p> {
    let flushed = producer.flush(LIMIT).expect("a flush");
    assert_eq!(flushed.outstanding, 0, "records without an answer");
    assert!(flushed.failed.is_empty(), "{:?}", flushed.failed);
    flushed
}

/// Who commits where no offsets are committed.
pub(super) fn nobody() -> Member {
    Member { group: Arc::from("nobody"), member_id: Arc::from(""), instance_id: None, generation: -1 }
}

/// Commits a transaction without offsets.
#[track_caller]
pub(super) fn commit(producer: &mut dyn Producer) {
    let outcome = producer.commit(&nobody(), &[], LIMIT);
    assert!(matches!(outcome, CommitOutcome::Committed), "{outcome:?}");
}

/// Aborts a transaction.
#[track_caller]
pub(super) fn abort(producer: &mut dyn Producer) {
    producer.abort(LIMIT).expect("an abort");
}

/// An offset of a partition without metadata.
pub(super) fn next(topic: &str, partition: i32, next: Offset) -> GroupOffset<'_> {
    GroupOffset { topic, partition, next, leader_epoch: -1, metadata: "" }
}

impl<'e> Bench<'e> {
    pub(super) fn new(env: &'e mut dyn Environment) -> Self {
        Self { env }
    }

    pub(super) fn env(&mut self) -> &mut dyn Environment {
        self.env
    }

    pub(super) fn broker(&self) -> &dyn Broker {
        self.env.broker()
    }

    /// The broker's wall clock, in milliseconds since 1970.
    pub(super) fn now(&self) -> i64 {
        self.env.clock().wall_ms()
    }

    pub(super) fn name(&mut self, stem: &str) -> String {
        self.env.unique(stem)
    }

    /// Lets time pass.
    #[track_caller]
    pub(super) fn pass(&mut self, time: Duration) {
        assert!(self.env.pass(time), "the environment says that it can");
    }

    /// Waits for something that is bound to happen.
    #[track_caller]
    pub(super) fn until(&mut self, what: &str, done: &mut dyn FnMut(&dyn Broker) -> Result<bool>) {
        let came = self.env.until(LIMIT, done).unwrap_or_else(|e| panic!("waiting for {what}: {e:?}"));
        assert!(came, "{what}: not within {LIMIT:?}");
    }

    /// Lets a little time pass.
    pub(super) fn breathe(&mut self) {
        let _ = self.env.until(Duration::from_millis(20), &mut |_| Ok(false));
    }

    /// A topic that keeps its records for ever, whatever their timestamps.
    #[track_caller]
    pub(super) fn topic(&mut self, stem: &str, partitions: i32) -> String {
        self.topic_with(stem, partitions, &[("retention.ms", "-1")])
    }

    /// A topic with configs; waits until its partitions can be asked.
    #[track_caller]
    pub(super) fn topic_with(&mut self, stem: &str, partitions: i32, configs: &[(&str, &str)]) -> String {
        let name = self.name(stem);
        self.create(&name, partitions, configs);
        name
    }

    /// Creates a topic of this name; waits until its partitions can be asked.
    #[track_caller]
    pub(super) fn create(&mut self, name: &str, partitions: i32, configs: &[(&str, &str)]) {
        let mut admin = self.broker().admin().expect("an admin");
        let answer =
            admin.create_topics(&[NewTopic { name, partitions, replication: None, configs }]).expect("answers");
        answer.into_iter().next().expect("an answer per item").expect("created");
        let all: Vec<_> = (0..partitions).map(|p| (name, p, At::End)).collect();
        self.until("the topic's leaders", &mut |_| Ok(admin.offsets(&all)?.iter().all(Result::is_ok)));
    }

    /// A producer without transactions.
    #[track_caller]
    pub(super) fn plain(&self) -> Box<dyn Producer> {
        self.broker().producer(&ProducerOptions::default()).expect("a producer")
    }

    /// A transactional producer that holds its id.
    #[track_caller]
    pub(super) fn transactional(&self, id: &str) -> Box<dyn Producer> {
        let mut producer = self.broker().producer(&ProducerOptions::transactional(id)).expect("a producer");
        producer.init(LIMIT).expect("init");
        producer
    }

    /// A transactional producer with an id of its own.
    #[track_caller]
    pub(super) fn transactional_alone(&mut self) -> Box<dyn Producer> {
        let id = self.name("tx");
        self.transactional(&id)
    }

    /// Sends texts to a partition, with key `k` and the time of now.
    #[track_caller]
    pub(super) fn put(&self, producer: &mut dyn Producer, topic: &str, partition: i32, values: &[&str]) {
        for value in values {
            let record = Outgoing { partition, ..record(producer, topic, self.now(), value) };
            send(producer, &record);
        }
    }

    /// Sends texts with a producer of its own, and waits for the acknowledgement.
    #[track_caller]
    pub(super) fn fill(&self, topic: &str, partition: i32, values: &[&str]) {
        let mut producer = self.plain();
        self.put(&mut *producer, topic, partition, values);
        flush(&mut *producer);
    }

    /// Sends keys with texts (`None`: a tombstone) to partition 0 with a producer of its own.
    #[track_caller]
    pub(super) fn fill_keyed(&self, topic: &str, rows: &[(&str, Option<&str>)]) {
        let mut producer = self.plain();
        self.put_keyed(&mut *producer, topic, rows);
        flush(&mut *producer);
    }

    /// Sends keys with texts (`None`: a tombstone) to partition 0.
    #[track_caller]
    pub(super) fn put_keyed(&self, producer: &mut dyn Producer, topic: &str, rows: &[(&str, Option<&str>)]) {
        for (key, value) in rows {
            let base = record(producer, topic, self.now(), "");
            send(producer, &Outgoing { key: Some(key.as_bytes()), value: value.map(str::as_bytes), ..base });
        }
    }

    /// An offset of a partition, as soon as it can be told.
    #[track_caller]
    pub(super) fn offset(&mut self, topic: &str, partition: i32, at: At) -> Offset {
        let mut admin = self.broker().admin().expect("an admin");
        let mut found = 0;
        self.until("an offset", &mut |_| {
            match admin.offsets(&[(topic, partition, at)])?.into_iter().next().expect("an answer per item") {
                Ok(offset) => found = offset,
                Err(e) if e.kind() == crate::ErrorKind::Retriable => return Ok(false),
                Err(e) => return Err(e),
            }
            Ok(true)
        });
        found
    }

    /// Waits until the last stable offset is this. Brokers write the markers of a transaction after they answered.
    #[track_caller]
    pub(super) fn await_stable(&mut self, topic: &str, partition: i32, end: Offset) {
        let mut admin = self.broker().admin().expect("an admin");
        let mut last = -1;
        let limit = LIMIT;
        let done = self.env.until(limit, &mut |_| {
            if let Some(Ok(offset)) = admin.offsets(&[(topic, partition, At::StableEnd)])?.first() {
                last = *offset;
            }
            Ok(last == end)
        });
        assert!(done.expect("offsets"), "the last stable offset is {last}, not {end}");
    }

    /// Waits until no transaction of the partition is open or being completed; answers with the log's end.
    #[track_caller]
    pub(super) fn settled(&mut self, topic: &str, partition: i32) -> Offset {
        let mut admin = self.broker().admin().expect("an admin");
        let mut end = 0;
        self.until("all transactions of a partition to end", &mut |_| match admin
            .offsets(&[(topic, partition, At::StableEnd), (topic, partition, At::End)])?
            .as_slice()
        {
            [Ok(stable), Ok(high)] => {
                end = *high;
                Ok(stable == high)
            }
            _ => Ok(false),
        });
        end
    }

    /// A consumer of one partition, as source 0.
    #[track_caller]
    pub(super) fn consumer(
        &self,
        isolation: Isolation,
        topic: &str,
        partition: i32,
        from: Offset,
    ) -> Box<dyn Consumer> {
        let mut consumer = self.broker().consumer(&isolation.into()).expect("a consumer");
        consumer.assign(&[Change::Add { source: Source(0), topic, partition, from }]).expect("an assignment");
        consumer
    }

    /// Polls until the position of `source` is at least `end`; answers with all records that came. No faults may come.
    #[track_caller]
    pub(super) fn drain(&mut self, consumer: &mut dyn Consumer, source: Source, end: Offset) -> Vec<Seen> {
        let (mut seen, mut faults) = (Vec::new(), Vec::new());
        let done = self.env.until(LIMIT, &mut |_| {
            poll_into(consumer, &mut seen, &mut faults);
            Ok(!faults.is_empty() || consumer.position(source).expect("assigned") >= end)
        });
        assert!(faults.is_empty(), "{faults:?}");
        let position = consumer.position(source);
        assert!(done.expect("polls"), "position {position:?} does not reach {end}; read {seen:?}");
        seen
    }

    /// Polls until `count` records came, no fewer, no more.
    #[track_caller]
    pub(super) fn take(&mut self, consumer: &mut dyn Consumer, count: usize) -> Vec<Seen> {
        let (mut seen, mut faults) = (Vec::new(), Vec::new());
        let done = self.env.until(LIMIT, &mut |_| {
            poll_into(consumer, &mut seen, &mut faults);
            Ok(!faults.is_empty() || seen.len() >= count)
        });
        assert!(faults.is_empty(), "{faults:?}");
        assert!(done.expect("polls"), "{count} records expected, read {seen:?}");
        assert_eq!(seen.len(), count, "{seen:?}");
        seen
    }

    /// Polls for a little while; nothing comes.
    #[track_caller]
    pub(super) fn take_nothing(&mut self, consumer: &mut dyn Consumer) {
        let (mut seen, mut faults) = (Vec::new(), Vec::new());
        let _ = self.env.until(Duration::from_millis(300), &mut |_| {
            poll_into(consumer, &mut seen, &mut faults);
            Ok(false)
        });
        assert!(seen.is_empty() && faults.is_empty(), "{seen:?} {faults:?}");
    }

    /// Polls until a fault comes; answers with all faults and records of that time.
    #[track_caller]
    pub(super) fn await_fault(&mut self, consumer: &mut dyn Consumer) -> (Vec<(Source, Error)>, Vec<Seen>) {
        let (mut seen, mut faults) = (Vec::new(), Vec::new());
        self.until("a fault", &mut |_| {
            poll_into(consumer, &mut seen, &mut faults);
            Ok(!faults.is_empty())
        });
        (faults, seen)
    }

    /// All committed records of a partition from an offset on, once no transaction is open.
    #[track_caller]
    pub(super) fn committed_from(&mut self, topic: &str, partition: i32, from: Offset) -> Vec<Seen> {
        let end = self.settled(topic, partition);
        let mut consumer = self.consumer(Isolation::ReadCommitted, topic, partition, from);
        self.drain(&mut *consumer, Source(0), end)
    }

    /// All committed records of a partition, once no transaction is open.
    #[track_caller]
    pub(super) fn committed(&mut self, topic: &str, partition: i32) -> Vec<Seen> {
        self.committed_from(topic, partition, 0)
    }

    /// What is committed of a group, as soon as no transaction may change it.
    #[track_caller]
    pub(super) fn fetch(&mut self, group: &str, of: &[(&str, i32)]) -> Vec<Option<crate::Committed>> {
        let mut offsets = self.broker().offsets().expect("offsets");
        let mut found = Vec::new();
        self.until("stable offsets", &mut |_| match offsets.fetch_stable(group, of, LIMIT)? {
            Stable::Offsets(all) => {
                found = all;
                Ok(true)
            }
            Stable::Unstable { .. } => Ok(false),
        });
        assert_eq!(found.len(), of.len(), "an answer per partition");
        found
    }

    /// The next offset that is committed for one partition.
    #[track_caller]
    pub(super) fn fetch_next(&mut self, group: &str, topic: &str, partition: i32) -> Option<Offset> {
        self.fetch(group, &[(topic, partition)]).remove(0).map(|c| c.next)
    }
}

/// A header for a record.
pub(super) fn header<'a>(name: &'a str, value: Option<&'a [u8]>) -> Header<'a> {
    Header { name, value }
}
