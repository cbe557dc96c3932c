//! Refused outputs with a producer that behaves as librdkafka's does: reports that come in parts and are told again, batches
//! in which nobody knows who is to blame, and refusals that are answered to a later record.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millpond_broker_api::{
    self as broker, CommitOutcome, Failure, Flushed, GroupOffset, Member, Outgoing, Producer, Sent, TopicId,
};

use super::Collector;
use crate::error::{Error, ErrorKind};
use crate::exec::SinkRoute;
use crate::handler::{ErrorAnswer, Failed, Handlers, Of, Origin};
use crate::instance::Closing;
use crate::ports::Ports;
use crate::settings::{Guarantee, Settings};
use crate::task::TaskId;

/// A value that the broker refuses.
const LARGE: &[u8] = b"too large";

/// What a client holds, and what the log has.
#[derive(Default)]
struct Client {
    waiting: Vec<(u64, Vec<u8>)>,
    failed: Vec<Failure>,
    /// Records of one batch: all of them are refused with one, unless each goes alone.
    alone: bool,
    written: Vec<Vec<u8>>,
    /// Of the open transaction.
    pending: Vec<Vec<u8>>,
    /// Whole answers that a flush still holds back.
    late: u32,
    /// How many records may wait, if it has a bound.
    room: Option<usize>,
}

#[derive(Clone)]
struct Scripted {
    client: Arc<Mutex<Client>>,
    transactional: bool,
}

fn error(kind: broker::ErrorKind) -> broker::Error {
    broker::Error::new(kind, "write a record")
}

impl Client {
    /// The broker answers for all that waits, up to the first refusal in a transaction.
    fn answer(&mut self, transactional: bool) {
        let waiting = std::mem::take(&mut self.waiting);
        let batch_fails = transactional && !self.alone && waiting.iter().any(|(_, value)| value == LARGE);
        for (tag, value) in waiting {
            let kind = match &value[..] {
                _ if batch_fails => broker::ErrorKind::Abortable,
                LARGE => broker::ErrorKind::Refused,
                _ if transactional && !self.failed.is_empty() => broker::ErrorKind::Abortable,
                _ if transactional => {
                    self.pending.push(value);
                    continue;
                }
                _ => {
                    self.written.push(value);
                    continue;
                }
            };
            self.failed.push(Failure { topic: TopicId(0), partition: 0, tag, error: error(kind) });
        }
    }
}

struct Lent {
    inner: Scripted,
    report: Vec<Failure>,
}

impl Producer for Lent {
    fn topic(&mut self, _: &str) -> TopicId {
        TopicId(0)
    }

    fn send(&mut self, record: &Outgoing<'_>) -> broker::Result<Sent> {
        let mut client = self.inner.client.lock().unwrap();
        if let Some(why) = client.failed.first().filter(|_| self.inner.transactional) {
            // The transaction takes no more records; the client says why, which is not about this one.
            return Err(why.error.clone());
        }
        if client.room.is_some_and(|room| client.waiting.len() >= room) {
            return Ok(Sent::Full);
        }
        client.waiting.push((record.tag, record.value.unwrap().to_vec()));
        Ok(Sent::Queued)
    }

    fn flush(&mut self, _: Duration) -> broker::Result<Flushed<'_>> {
        let mut client = self.inner.client.lock().unwrap();
        client.answer(self.inner.transactional);
        self.report.clone_from(&client.failed);
        let outstanding = client.late as usize;
        client.late = client.late.saturating_sub(1);
        if outstanding == 0 && !self.inner.transactional {
            client.failed.clear();
        }
        Ok(Flushed { outstanding, delivered: &[], failed: &self.report })
    }

    fn init(&mut self, _: Duration) -> broker::Result<()> {
        Ok(())
    }

    fn commit(&mut self, _: &Member, _: &[GroupOffset<'_>], _: Duration) -> CommitOutcome {
        let mut client = self.inner.client.lock().unwrap();
        let pending = std::mem::take(&mut client.pending);
        client.written.extend(pending);
        CommitOutcome::Committed
    }

    fn abort(&mut self, _: Duration) -> broker::Result<()> {
        let mut client = self.inner.client.lock().unwrap();
        // After a batch that nobody knows the culprit of each record goes alone, for one transaction.
        client.alone = client.failed.iter().all(|f| f.error.kind() == broker::ErrorKind::Abortable);
        client.pending.clear();
        client.failed.clear();
        Ok(())
    }
}

/// A collector that skips what is refused, its client, and how often was asked.
fn skipping(guarantee: Guarantee) -> (Collector, Arc<Mutex<Client>>, Arc<AtomicU32>) {
    let (client, asked) = (Arc::<Mutex<Client>>::default(), Arc::new(AtomicU32::new(0)));
    let count = asked.clone();
    let handler = move |failed: &Failed<'_>, _: &Error| {
        assert_eq!(failed.output.map(|o| o.topic), Some("out"));
        count.fetch_add(1, Ordering::Relaxed);
        ErrorAnswer::Skip
    };
    let ports = Ports { error_handler: Some(Arc::new(handler)), ..Ports::default() };
    let handlers = Arc::new(Handlers::new(&Settings::new("test"), &ports).unwrap());
    let closing = Arc::new(Closing::new(ports.clock.clone(), Duration::from_secs(1)));
    let transactional = guarantee == Guarantee::ExactlyOnce;
    let inner = Scripted { client: client.clone(), transactional };
    let producer = Box::new(Lent { inner, report: Vec::new() });
    (Collector::new(producer, &closing, &handlers, &[], guarantee), client, asked)
}

fn record(value: &[u8]) -> Outgoing<'_> {
    Outgoing { topic: TopicId(0), partition: 0, timestamp: 1, key: None, value: Some(value), headers: &[], tag: 0 }
}

fn output(collector: &mut Collector, value: &[u8]) -> crate::Result {
    output_at(collector, value, 1)
}

fn output_at(collector: &mut Collector, value: &[u8], timestamp: i64) -> crate::Result {
    let (node, topic) = ("sink".into(), "out".to_owned());
    let sink = Arc::new(SinkRoute { node, topic, id: TopicId(0), partitions: 1, tagged: false });
    let task = TaskId { sub_topology: 0, partition: 0 };
    collector.send_output(&Outgoing { timestamp, ..record(value) }, &sink, Origin { task, of: Of::Other(-1) })
}

fn commit(collector: &mut Collector) {
    let member = Member { group: "g".into(), member_id: "m".into(), instance_id: None, generation: 1 };
    assert!(matches!(collector.commit(&member, &[]), CommitOutcome::Committed));
    collector.committed();
}

/// Processes an interval until its transaction can be committed, or the error is not that it is to be done again.
fn until_done(collector: &mut Collector, interval: &mut dyn FnMut(&mut Collector) -> crate::Result) -> crate::Result {
    while let Err(error) = interval(collector) {
        if error.kind() != ErrorKind::Aborted {
            return Err(error);
        }
        collector.abort()?;
    }
    commit(collector);
    Ok(())
}

#[test]
fn a_transaction_is_done_again_until_the_refused_output_is_known() {
    let (mut collector, client, asked) = skipping(Guarantee::ExactlyOnce);
    let interval = |collector: &mut Collector| {
        collector.send(&record(b"change"))?;
        output(collector, b"small")?;
        output(collector, LARGE)?;
        output(collector, b"last")?;
        collector.flush()
    };
    for round in 0..2 {
        // Of a batch it is not known which one it was; of those that go alone it is.
        for _ in 0..2 {
            let error = interval(&mut collector).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Aborted, "{error:?}");
            assert!(!collector.take_met());
            collector.abort().unwrap();
        }
        assert_eq!(asked.load(Ordering::Relaxed), round);
        interval(&mut collector).unwrap();
        assert!(collector.take_met(), "a commit is due");
        commit(&mut collector);
        assert_eq!(asked.load(Ordering::Relaxed), round + 1);
        // After a commit nothing is known any more: the same record may be taken the next time.
    }
    let written: Vec<String> =
        client.lock().unwrap().written.iter().map(|v| String::from_utf8_lossy(v).into_owned()).collect();
    assert_eq!(written, ["change", "small", "last", "change", "small", "last"]);
}

#[test]
fn a_refusal_that_is_told_to_another_record_is_not_taken_for_its_own() {
    let (mut collector, client, asked) = skipping(Guarantee::ExactlyOnce);
    client.lock().unwrap().alone = true;
    let interval = |collector: &mut Collector, next: &dyn Fn(&mut Collector) -> crate::Result| {
        output(collector, LARGE)?;
        // The client has sent it by itself, before anybody flushed.
        client.lock().unwrap().answer(true);
        next(collector)?;
        collector.flush()
    };
    let change = |c: &mut Collector| c.send(&record(b"change"));
    let other = |c: &mut Collector| output(c, b"other");
    let nexts: [&dyn Fn(&mut Collector) -> crate::Result; 2] = [&change, &other];
    for (round, next) in (0..).zip(nexts) {
        let error = interval(&mut collector, next).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Aborted, "{error:?}");
        assert_eq!(asked.load(Ordering::Relaxed), round, "nobody is asked about the innocent one");
        collector.abort().unwrap();
        client.lock().unwrap().alone = true;
        interval(&mut collector, next).unwrap();
        commit(&mut collector);
        assert_eq!(asked.load(Ordering::Relaxed), round + 1);
    }
    assert_eq!(client.lock().unwrap().written, [&b"change"[..], b"other"]);
}

#[test]
fn a_report_that_is_told_again_is_dealt_with_once() {
    let (mut collector, client, asked) = skipping(Guarantee::AtLeastOnce);
    output(&mut collector, LARGE).unwrap();
    output(&mut collector, b"small").unwrap();
    client.lock().unwrap().late = 2;
    for _ in 0..3 {
        collector.push_out().unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        // Something new has to be there for it to look.
        collector.send(&record(b"change")).unwrap();
    }
    collector.flush().unwrap();
    output(&mut collector, LARGE).unwrap();
    collector.flush().unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    collector.committed();
    assert_eq!(client.lock().unwrap().written.len(), 4);
}

#[test]
fn an_output_that_had_to_wait_for_room_is_asked_about() {
    for guarantee in [Guarantee::AtLeastOnce, Guarantee::ExactlyOnce] {
        let (mut collector, client, asked) = skipping(guarantee);
        client.lock().unwrap().room = Some(1);
        let mut interval = |collector: &mut Collector| {
            output(collector, b"small")?;
            output(collector, LARGE)?;
            output(collector, b"last")?;
            collector.flush()
        };
        until_done(&mut collector, &mut interval).unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), 1, "{guarantee:?}");
        assert_eq!(client.lock().unwrap().written, [&b"small"[..], b"last"]);
    }
}

#[test]
fn a_record_may_have_many_refused_outputs() {
    let (mut collector, client, asked) = skipping(Guarantee::ExactlyOnce);
    let mut interval = |collector: &mut Collector| {
        (0..20).try_for_each(|timestamp| output_at(collector, LARGE, timestamp))?;
        output(collector, b"small")?;
        collector.flush()
    };
    until_done(&mut collector, &mut interval).unwrap();
    assert_eq!(client.lock().unwrap().written, [b"small"]);
    assert!(asked.load(Ordering::Relaxed) >= 20);
}

#[test]
fn a_refused_output_that_always_differs_is_given_up_beside_one_that_does_not() {
    let (mut collector, client, _) = skipping(Guarantee::ExactlyOnce);
    let mut rounds = 0;
    let mut interval = |collector: &mut Collector| {
        rounds += 1;
        assert!(rounds < 100, "it is done again for ever");
        output(collector, LARGE)?;
        output_at(collector, LARGE, rounds)?;
        collector.flush()
    };
    let error = until_done(&mut collector, &mut interval).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Record);
    assert!(error.chain().contains("it differs each time it is made"), "{error:?}");
    assert!(client.lock().unwrap().written.is_empty());
}

#[test]
fn what_is_not_an_output_is_never_asked_about() {
    for guarantee in [Guarantee::AtLeastOnce, Guarantee::ExactlyOnce] {
        let (mut collector, client, asked) = skipping(guarantee);
        client.lock().unwrap().alone = true;
        collector.send(&record(LARGE)).unwrap();
        let error = collector.flush().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Record);
        assert_eq!(collector.flush().unwrap_err().kind(), ErrorKind::Record, "nothing of the interval is committed");
        assert_eq!(asked.load(Ordering::Relaxed), 0);
    }
}
