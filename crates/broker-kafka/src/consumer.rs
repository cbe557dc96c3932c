//! The consumer: manual assignment over librdkafka, batches lent where librdkafka keeps them.
//!
//! librdkafka's own position and its pause are not relied on. Every change is an end and a new beginning at an absolute
//! offset, since any error in a batch, and the end-of-partition notice that [`KafkaConsumer`] learns the stable end
//! from, moves that position one too far (librdkafka issue 4844).

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use millpond_broker_api::{
    Batch, Change, Consumer, ConsumerOptions, ConsumerRole, Error, ErrorKind, Header, Headers, Isolation, Offset,
    Record, Records, Result, Source,
};

use crate::assignment::{Key, Part, Table};
use crate::complaints::Watch;
use crate::error;
use crate::ffi::{Complaint, Conf, Messages, Partitions, Reader, code};
use crate::memory;
use crate::settings::{Client, KafkaSettings};

/// A batch has at most so many records.
const BATCH: usize = 1000;

/// May be overridden by the user's settings.
const TUNED: [(&str, &str); 7] = [
    // Small: large responses are fresh pages of memory each, which costs two to three times the CPU.
    ("fetch.message.max.bytes", "262144"),
    // The default of a second is how long a partition stands still after the queue was full.
    ("fetch.queue.backoff.ms", "1"),
    ("fetch.error.backoff.ms", "100"),
    // How long an idle fetch stays at the broker, and so how late the stable end may be known.
    ("fetch.wait.max.ms", "100"),
    // A broker that vanishes without a word is given up when its partitions have long been led by others; the default is a
    // minute.
    ("socket.timeout.ms", "15000"),
    ("reconnect.backoff.max.ms", "1000"),
    ("topic.metadata.propagation.max.ms", "5000"),
];

/// What this consumer is.
const FIXED: [(&str, &str); 7] = [
    // Manual assignment asks for some group; nothing is ever joined or committed.
    ("group.id", "millpond-reader"),
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    ("enable.partition.eof", "true"),
    ("auto.offset.reset", "error"),
    ("allow.auto.create.topics", "false"),
    // Not a member of anything, so nobody has to hear from it.
    ("max.poll.interval.ms", "86400000"),
];

/// A consumer of a Kafka cluster.
pub(crate) struct KafkaConsumer {
    lent: Lent,
    faults: Vec<(Source, Error)>,
    parts: Table,
    reader: Reader,
    isolation: Isolation,
    watch: Watch,
    /// Whether the last poll has emptied the queue.
    drained: bool,
    /// What is told when all that came has been lent.
    hopeless: Option<Error>,
}

impl KafkaConsumer {
    /// A consumer without assignment. It connects when it has something to read.
    pub(crate) fn new(settings: &Arc<KafkaSettings>, options: &ConsumerOptions) -> Result<Self> {
        let client = match options.role {
            ConsumerRole::Main => Client::Consumer,
            ConsumerRole::Restore => Client::RestoreConsumer,
        };
        let isolation = match options.isolation {
            Isolation::ReadCommitted => "read_committed",
            Isolation::ReadUncommitted => "read_uncommitted",
        };
        let user = settings.client(client);
        let mut conf = Conf::new();
        conf.set_all(TUNED)?;
        for (name, value) in memory::of_consumer(options.memory, &user) {
            conf.set(name, &value)?;
        }
        conf.set_all(user)?;
        conf.set_all(FIXED)?;
        conf.set("isolation.level", isolation)?;
        let reader = Reader::new(conf)?;
        Ok(Self {
            lent: Lent { messages: reader.messages(BATCH), rows: Vec::with_capacity(BATCH) },
            faults: Vec::new(),
            parts: Table::default(),
            reader,
            isolation: options.isolation,
            watch: Watch::new("read from Kafka"),
            drained: true,
            hopeless: None,
        })
    }

    /// Takes what is there, and sorts it. Whether there is anything to tell.
    fn read(&mut self) -> bool {
        self.parts.confirm(&self.reader);
        self.lent.clear();
        self.reader.read(&mut self.lent.messages);
        self.drained = !self.lent.messages.is_full();
        let mut standing = Partitions::new(0);
        for complaint in self.reader.complaints() {
            self.complain(complaint, &mut standing);
        }
        for i in 0..self.lent.messages.len() {
            let Some(message) = self.lent.messages.get(i) else { break };
            let key = Key { topic: message.topic(), partition: message.partition() };
            match message.code() {
                code::NONE => {
                    if let Some(source) = self.parts.find(key).and_then(|part| part.lend(message.offset())) {
                        self.lent.rows.push(Row { message: i, source });
                    }
                }
                code::PARTITION_EOF => {
                    if let Some(part) = self.parts.find(key) {
                        part.end(message.offset());
                    }
                }
                // The broker had a fault of its own, and librdkafka asks it again after a pause.
                code::UNKNOWN => drop(self.watch.judge(Complaint { code: code::UNKNOWN, text: message.error_text() })),
                code => {
                    let complaint = Complaint { code, text: message.error_text() };
                    match self.parts.find(key) {
                        Some(part) => fault(part, &complaint, &mut self.faults, &mut standing),
                        // Of a partition that was removed, or of none.
                        None if key.topic != 0 => {}
                        None => {
                            self.hopeless = self.watch.judge(complaint).or(self.hopeless.take());
                        }
                    }
                }
            }
        }
        if !standing.is_empty()
            && let Err(error) = self.unassign(&standing)
        {
            self.hopeless = Some(error);
        }
        self.lent.messages.len() > 0 || self.hopeless.is_some()
    }

    /// What is the matter with the client; or with a partition that is not there, which librdkafka names in its text alone.
    fn complain(&mut self, complaint: Complaint, standing: &mut Partitions) {
        let part = complaint.partition().and_then(|(topic, partition)| self.parts.named(topic, partition));
        match part {
            Some(part) => fault(part, &complaint, &mut self.faults, standing),
            None => self.hopeless = self.watch.judge(complaint).or(self.hopeless.take()),
        }
    }

    fn unassign(&self, partitions: &Partitions) -> Result<()> {
        self.reader.unassign(partitions).map_err(|f| error::of_client("stop reading partitions", f.code, &f.text))
    }

    fn change(&mut self, change: &Change<'_>, ended: &mut Partitions) -> Result<()> {
        match *change {
            Change::Add { source, topic, partition, from } => {
                self.parts.remove(source, ended);
                let part = Part::new(&self.reader, source, topic, partition, from)?;
                self.parts.add(part)
            }
            Change::Remove(source) => {
                self.parts.remove(source, ended);
                Ok(())
            }
            Change::Seek(source, to) => self.part(source)?.seek(to),
            Change::Pause(source) => {
                let position = self.position(source);
                self.part(source)?.pause(position);
                Ok(())
            }
            Change::Resume(source) => {
                self.part(source)?.resume();
                Ok(())
            }
        }
    }

    fn part(&mut self, source: Source) -> Result<&mut Part> {
        self.parts.of_mut(source).ok_or_else(|| {
            let error = Error::new(ErrorKind::Fatal, "change an assignment").with("source", source.0);
            error.with("reason", "it is not assigned")
        })
    }
}

/// A live partition gets a fault, and stands still from then on.
fn fault(part: &mut Part, why: &Complaint, faults: &mut Vec<(Source, Error)>, standing: &mut Partitions) {
    if part.is_live() {
        let error = error::of_client("read a partition", why.code, &why.text)
            .with("topic", part.topic())
            .with("partition", part.partition())
            .with("offset", part.next());
        faults.push((part.source(), error));
        part.stand_still(standing);
    }
}

impl Consumer for KafkaConsumer {
    fn assign(&mut self, changes: &[Change<'_>]) -> Result<()> {
        self.lent.clear();
        self.faults.clear();
        let mut ended = Partitions::new(changes.len());
        let mut done = Ok(());
        for change in changes {
            done = done.and_then(|()| self.change(change, &mut ended));
        }
        // Also after an error: what was changed before it is changed.
        let begun = self.parts.settle(&mut ended);
        if !ended.is_empty() {
            self.unassign(&ended)?;
        }
        if !begun.is_empty() {
            self.reader.assign(&begun).map_err(|f| error::of_client("begin to read partitions", f.code, &f.text))?;
        }
        Ok(())
    }

    fn poll(&mut self, max_wait: Duration) -> Result<Batch<'_>> {
        self.faults.clear();
        if !self.read() && !max_wait.is_zero() {
            self.reader.signal().arm();
            // Something may have come before the signal was armed.
            if !self.read() {
                self.reader.signal().wait(max_wait);
                self.read();
            }
        }
        self.reader.signal().take_woken();
        if self.lent.rows.is_empty()
            && self.faults.is_empty()
            && let Some(error) = self.hopeless.take()
        {
            return Err(error);
        }
        Ok(Batch { records: &self.lent, faults: &self.faults })
    }

    fn position(&self, source: Source) -> Option<Offset> {
        self.parts.of(source).map(|part| part.position(&self.reader))
    }

    /// Under `ReadCommitted` the last stable offset is known where the reader has arrived at it. Before that the high
    /// watermark stands for it: there is more to fetch, or [`TUNED`]'s `fetch.wait.max.ms` later it turns out that there is not.
    fn known_end(&self, source: Source) -> Option<Offset> {
        let part = self.parts.of(source)?;
        let position = part.position(&self.reader);
        if !part.has_heard(position) {
            return None;
        }
        let stable = part.end_at(position).filter(|_| self.isolation == Isolation::ReadCommitted && self.drained);
        stable.or_else(|| part.high_watermark(&self.reader).map(|high| high.max(position)))
    }

    fn waker(&self) -> Waker {
        Waker::from(self.reader.signal().clone())
    }
}

impl std::fmt::Debug for KafkaConsumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaConsumer").field("isolation", &self.isolation).finish_non_exhaustive()
    }
}

/// What is lent until the next call.
struct Lent {
    messages: Messages,
    rows: Vec<Row>,
}

/// A message that is a record.
#[derive(Clone, Copy)]
struct Row {
    message: usize,
    source: Source,
}

impl Lent {
    fn clear(&mut self) {
        self.rows.clear();
        self.messages.clear();
    }
}

impl Records for Lent {
    fn len(&self) -> usize {
        self.rows.len()
    }

    #[inline]
    fn get(&self, i: usize) -> Option<Record<'_>> {
        let row = self.rows.get(i)?;
        let message = self.messages.get(row.message)?;
        Some(Record {
            source: row.source,
            leader_epoch: message.leader_epoch(),
            offset: message.offset(),
            timestamp: message.timestamp(),
            key: message.key(),
            value: message.value(),
            headers: Headers::new(self, i),
        })
    }

    fn header(&self, i: usize, n: usize) -> Option<Header<'_>> {
        let row = self.rows.get(i)?;
        self.messages.get(row.message)?.header(n)
    }
}
