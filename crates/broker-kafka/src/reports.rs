//! Delivery reports: a thread takes them from a producer's queue, a ledger keeps what they come to.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use millpond_broker_api::{Delivered, Error, ErrorKind, Failure, Result, TopicId};

use crate::complaints::Watch;
use crate::deadline::Deadline;
use crate::error;
use crate::ffi::{self, Event, Events, Report, Returned, code};

/// How long the thread waits for an event before it looks up.
const LOOK_UP: Duration = Duration::from_secs(1);

/// What the reports since some moment come to.
#[derive(Default)]
pub(crate) struct Ledger {
    /// Whether refusals are of batches: records that share one with a refused record are to be written again.
    isolates: bool,
    /// Records that have an answer, since the producer was made.
    answered: u64,
    delivered: Vec<Delivered>,
    /// The row of the last report: they come in runs.
    last: usize,
    failed: Vec<Failure>,
    /// Records without an answer that have to be sent again, each alone.
    suspects: Vec<Returned>,
    /// Their partitions.
    suspected: BTreeSet<(TopicId, i32)>,
    /// Partitions in which later records were written than those: to send these again would change the order.
    overtaken: BTreeSet<(TopicId, i32)>,
    /// Whether librdkafka counts records that the broker has not seen.
    tainted: bool,
    /// Whether a batch was refused and nobody knows for which record.
    ambiguous: bool,
    /// What the client as a whole will not recover from.
    hopeless: Option<Error>,
    /// How often a connection was lost, or an answer.
    losses: u64,
}

impl Ledger {
    /// Takes a report down. A record comes back if it has to be sent again.
    pub(crate) fn note(&mut self, report: Report, record: &dyn Fn() -> Returned) {
        let (topic, partition) = (TopicId(report.topic), report.partition);
        match report.code {
            code::NONE => {
                // Whatever it was, the client gets through again.
                self.hopeless = None;
                if self.suspected.contains(&(topic, partition)) {
                    self.overtaken.insert((topic, partition));
                }
                let row = self.row(topic, partition);
                row.records += 1;
                row.next = report.offset.map(|offset| offset + 1);
            }
            code if self.isolates && is_of_batch(code) && !report.is_alone => {
                self.put_back([record()]);
                return;
            }
            code => {
                let mut error = error::of_client(WRITE, code, &ffi::Failure::text_of(code));
                if is_of_batch(code) && !report.is_alone {
                    self.ambiguous = true;
                    error = Error::new(ErrorKind::Abortable, WRITE)
                        .with("reason", "a record of its batch was refused, maybe another one")
                        .caused_by(error);
                }
                let error = error.with("partition", partition);
                self.failed.push(Failure { topic, partition, tag: report.tag, error });
                self.tainted |= !matches!(code, code::PURGE_QUEUE | code::PURGE_INFLIGHT);
            }
        }
        self.answered += 1;
    }

    fn row(&mut self, topic: TopicId, partition: i32) -> &mut Delivered {
        let is = |row: &Delivered| row.topic == topic && row.partition == partition;
        if !self.delivered.get(self.last).is_some_and(is) {
            self.last = self.delivered.iter().position(is).unwrap_or(self.delivered.len());
        }
        if self.last == self.delivered.len() {
            self.delivered.push(Delivered { topic, partition, records: 0, next: None });
        }
        let last = self.last;
        self.delivered.get_mut(last).expect("found or pushed")
    }

    /// Begins a new span.
    pub(crate) fn clear(&mut self) {
        self.delivered.clear();
        self.failed.clear();
        self.overtaken.clear();
        self.last = 0;
    }

    /// Takes the records that have to be sent again. Until [`Ledger::isolate`] what is refused is refused for good.
    pub(crate) fn take_suspects(&mut self) -> Vec<Returned> {
        self.isolates &= self.suspects.is_empty();
        self.suspected.clear();
        std::mem::take(&mut self.suspects)
    }

    /// Books a record that was taken to be sent again as failed, if others of its partition have overtaken it.
    pub(crate) fn fail_overtaken(&mut self, record: &Returned) -> bool {
        let (topic, partition) = (TopicId(record.topic), record.partition);
        let overtaken = self.overtaken.contains(&(topic, partition));
        if overtaken {
            let error = Error::new(ErrorKind::Abortable, WRITE)
                .with("reason", "a record of its batch was refused, and later ones are written")
                .with("partition", partition);
            self.failed.push(Failure { topic, partition, tag: record.tag, error });
            self.answered += 1;
            self.ambiguous = true;
        }
        overtaken
    }

    /// Has records sent again; also what was taken for that and not sent.
    pub(crate) fn put_back(&mut self, suspects: impl IntoIterator<Item = Returned>) {
        for record in suspects {
            self.suspected.insert((TopicId(record.topic), record.partition));
            self.suspects.push(record);
        }
    }

    /// From now on a refusal may be of other records of the same batch.
    pub(crate) fn isolate(&mut self) {
        self.isolates = true;
    }

    /// Whether a batch was refused and nobody knows for which record.
    pub(crate) fn is_ambiguous(&self) -> bool {
        self.ambiguous
    }

    /// Whether librdkafka counts records that the broker has not seen: its next batch would be out of order.
    pub(crate) fn is_tainted(&self) -> bool {
        self.tainted
    }

    /// The rows of this span.
    pub(crate) fn delivered(&self) -> &[Delivered] {
        &self.delivered
    }

    /// The failures of this span.
    pub(crate) fn failed(&self) -> &[Failure] {
        &self.failed
    }

    /// What the client as a whole will not recover from.
    pub(crate) fn hopeless(&self) -> Option<&Error> {
        self.hopeless.as_ref()
    }

    /// How often a connection was lost, or an answer.
    pub(crate) fn losses(&self) -> u64 {
        self.losses
    }

    /// How many of `sent` records have no answer.
    pub(crate) fn outstanding(&self, sent: u64) -> usize {
        usize::try_from(sent.saturating_sub(self.answered)).unwrap_or(usize::MAX)
    }

    /// Whether more of them will have an answer by waiting.
    pub(crate) fn is_waited_for(&self, sent: u64) -> bool {
        self.outstanding(sent) > self.suspects.len()
    }
}

const WRITE: &str = "write a record";

/// Whether a code may be of other records of the same batch.
fn is_of_batch(code: i32) -> bool {
    matches!(
        code,
        code::INVALID_DIFFERENT_RECORD | code::INVALID_RECORD | code::INVALID_TIMESTAMP | code::MSG_SIZE_TOO_LARGE
    )
}

/// The thread and its ledger. Ends the thread when dropped.
pub(crate) struct Reports {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    events: Events,
    stop: AtomicBool,
    ledger: Mutex<Ledger>,
    noted: Condvar,
}

impl Reports {
    /// Starts the thread.
    pub(crate) fn start(events: Events) -> Result<Self> {
        let shared =
            Arc::new(Shared { events, stop: AtomicBool::new(false), ledger: Mutex::default(), noted: Condvar::new() });
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new()
            .name("millpond-reports".to_owned())
            .spawn(move || of_thread.run())
            .map_err(|e| Error::new(ErrorKind::Fatal, "start a producer's thread").caused_by(e))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// The ledger as it is now.
    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.shared.ledger()
    }

    /// Waits until `sent` records have an answer or are to be sent again, or until the deadline.
    pub(crate) fn await_answers(&self, sent: u64, deadline: &Deadline) -> MutexGuard<'_, Ledger> {
        let mut ledger = self.ledger();
        while ledger.is_waited_for(sent) && !deadline.is_over() {
            let waited = self.shared.noted.wait_timeout(ledger, deadline.left());
            ledger = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        ledger
    }

    /// A pause before something is tried again; ends early when reports come.
    pub(crate) fn pause(&self, at_most: Duration) {
        let _waited = self.shared.noted.wait_timeout(self.ledger(), at_most);
    }
}

impl Drop for Reports {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.events.interrupt();
        if let Some(thread) = self.thread.take() {
            // A panic there has been told by its hook.
            let _ended = thread.join();
        }
    }
}

impl Shared {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut watch = Watch::new("write to Kafka");
        while !self.stop.load(Ordering::Acquire) {
            if let Some(event) = self.events.next(LOOK_UP) {
                self.take(event, &mut watch);
            }
        }
    }

    fn take(&self, mut event: Event, watch: &mut Watch) {
        let complaint = event.complaint();
        let mut ledger = self.ledger();
        if let Some(complaint) = complaint {
            if matches!(complaint.code, code::TRANSPORT | code::ALL_BROKERS_DOWN | code::TIMED_OUT) {
                ledger.losses += 1;
            }
            if let Some(hopeless) = watch.judge(complaint) {
                ledger.hopeless = Some(hopeless);
            }
        }
        event.each_report(|report, record| ledger.note(report, record));
        drop(ledger);
        self.noted.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(topic: u32, partition: i32, offset: Option<i64>) -> Report {
        Report { topic, partition, offset, tag: 0, code: code::NONE, is_alone: false }
    }

    fn note(ledger: &mut Ledger, report: Report) {
        ledger.note(report, &|| Returned {
            topic: report.topic,
            partition: report.partition,
            timestamp: 0,
            key: None,
            value: None,
            headers: Vec::new(),
            tag: report.tag,
        });
    }

    #[test]
    fn a_row_per_partition() {
        let mut ledger = Ledger::default();
        for (topic, partition, offset) in [(1, 0, 5), (1, 1, 9), (1, 0, 6), (2, 0, 0)] {
            note(&mut ledger, report(topic, partition, Some(offset)));
        }
        let rows: Vec<_> = ledger.delivered().iter().map(|d| (d.topic.0, d.partition, d.records, d.next)).collect();
        assert_eq!(rows, [(1, 0, 2, Some(7)), (1, 1, 1, Some(10)), (2, 0, 1, Some(1))]);
        assert_eq!(ledger.outstanding(6), 2);
    }

    #[test]
    fn the_last_report_says_whether_the_end_is_known() {
        let mut ledger = Ledger::default();
        note(&mut ledger, report(0, 0, Some(5)));
        note(&mut ledger, report(0, 0, None));
        assert_eq!(ledger.delivered()[0].next, None);
        note(&mut ledger, report(0, 0, Some(7)));
        assert_eq!(ledger.delivered()[0].next, Some(8));
    }

    #[test]
    fn what_was_overtaken_is_not_sent_again() {
        let mut ledger = Ledger::default();
        ledger.isolate();
        note(&mut ledger, Report { code: code::MSG_SIZE_TOO_LARGE, tag: 7, ..report(0, 0, None) });
        note(&mut ledger, Report { code: code::MSG_SIZE_TOO_LARGE, tag: 8, ..report(0, 1, None) });
        note(&mut ledger, report(0, 0, Some(5)));
        let suspects = ledger.take_suspects();
        let failed: Vec<_> = suspects.iter().map(|record| ledger.fail_overtaken(record)).collect();
        assert_eq!(failed, [true, false], "a later record of partition 0 is written");
        assert_eq!(
            ledger.failed().iter().map(|f| (f.tag, f.error.kind())).collect::<Vec<_>>(),
            [(7, ErrorKind::Abortable)]
        );
        assert!(ledger.is_ambiguous(), "which one it was is still to be found out");
        assert_eq!(ledger.outstanding(3), 1, "the other one is still to be sent");
    }

    #[test]
    fn a_new_span_is_empty_and_remembers_its_answers() {
        let mut ledger = Ledger::default();
        note(&mut ledger, report(0, 0, Some(5)));
        note(&mut ledger, Report { code: code::TIMED_OUT, tag: 7, ..report(0, 1, None) });
        assert_eq!(ledger.failed().iter().map(|f| f.tag).collect::<Vec<_>>(), [7]);
        ledger.clear();
        assert!(ledger.delivered().is_empty() && ledger.failed().is_empty());
        assert_eq!(ledger.outstanding(2), 0);
        note(&mut ledger, report(0, 1, Some(1)));
        assert_eq!(ledger.delivered().len(), 1);
    }

    #[test]
    fn who_shares_a_batch_with_a_refused_record_is_sent_again_alone() {
        let mut ledger = Ledger::default();
        ledger.isolate();
        for (tag, code) in [(1, code::INVALID_DIFFERENT_RECORD), (2, code::TIMED_OUT), (3, code::MSG_SIZE_TOO_LARGE)] {
            note(&mut ledger, Report { code, tag, ..report(0, 0, None) });
        }
        let failed = |ledger: &Ledger| ledger.failed().iter().map(|f| f.tag).collect::<Vec<_>>();
        assert_eq!(failed(&ledger), [2]);
        assert!(!ledger.is_waited_for(3), "nobody will answer for the suspects");
        assert_eq!(ledger.take_suspects().iter().map(|r| r.tag).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(ledger.outstanding(3), 2);
        note(&mut ledger, report(0, 0, Some(0)));
        note(&mut ledger, Report { code: code::MSG_SIZE_TOO_LARGE, tag: 3, ..report(0, 0, None) });
        assert_eq!((failed(&ledger), ledger.outstanding(3)), (vec![2, 3], 0), "alone, it is the one");
    }

    #[test]
    fn who_was_alone_is_the_one_at_once() {
        let mut ledger = Ledger::default();
        ledger.isolate();
        note(&mut ledger, Report { code: code::MSG_SIZE_TOO_LARGE, tag: 7, is_alone: true, ..report(0, 0, None) });
        let named: Vec<_> = ledger.failed().iter().map(|f| (f.tag, f.error.kind())).collect();
        assert_eq!((named, ledger.take_suspects().len()), (vec![(7, ErrorKind::Refused)], 0));
    }

    #[test]
    fn a_client_that_gets_through_is_not_hopeless_any_more() {
        let mut ledger = Ledger { hopeless: Some(Error::new(ErrorKind::Fatal, "log in")), ..Ledger::default() };
        note(&mut ledger, report(0, 0, Some(5)));
        assert!(ledger.hopeless().is_none());
    }

    #[test]
    fn in_a_transaction_nobody_is_blamed_for_a_batch() {
        let mut ledger = Ledger::default();
        note(&mut ledger, Report { code: code::INVALID_TIMESTAMP, is_alone: true, ..report(0, 0, None) });
        assert!(!ledger.is_ambiguous());
        note(&mut ledger, Report { code: code::INVALID_TIMESTAMP, ..report(0, 0, None) });
        assert!(ledger.is_ambiguous());
        assert_eq!(ledger.failed()[1].error.kind(), ErrorKind::Abortable);
    }

    #[test]
    fn what_was_given_up_taints_nothing() {
        let mut ledger = Ledger::default();
        note(&mut ledger, Report { code: code::PURGE_QUEUE, ..report(0, 0, None) });
        assert!(!ledger.is_tainted());
        note(&mut ledger, Report { code: code::INVALID_TIMESTAMP, ..report(0, 0, None) });
        assert!(ledger.is_tainted());
    }
}
