//! Transactions: what is seen of them when, and who may end them.

use std::time::Duration;

use super::bench::{Bench, LIMIT, abort, commit, flush, nobody, positions, record, send, texts};
use crate::{At, CommitOutcome, ErrorKind, Isolation, Outgoing, Producer, ProducerOptions, Source};

pub(super) fn committed_records_are_seen(b: &mut Bench<'_>) {
    let topic = b.topic("commit", 1);
    let mut producer = b.transactional_alone();
    b.put(&mut *producer, &topic, 0, &["a", "b"]);
    commit(&mut *producer);
    assert_eq!(texts(&b.committed(&topic, 0)), ["a", "b"]);
}

pub(super) fn aborted_records_are_not_seen(b: &mut Bench<'_>) {
    let topic = b.topic("abort", 1);
    let mut producer = b.transactional_alone();
    b.put(&mut *producer, &topic, 0, &["a", "b"]);
    flush(&mut *producer);
    abort(&mut *producer);
    b.put(&mut *producer, &topic, 0, &["c"]);
    commit(&mut *producer);
    assert_eq!(texts(&b.committed(&topic, 0)), ["c"]);
}

pub(super) fn abort_without_a_flush_shows_nothing(b: &mut Bench<'_>) {
    let topic = b.topic("abort-unflushed", 1);
    let mut producer = b.transactional_alone();
    b.put(&mut *producer, &topic, 0, &["a", "b"]);
    abort(&mut *producer);
    b.put(&mut *producer, &topic, 0, &["c"]);
    commit(&mut *producer);
    assert_eq!(texts(&b.committed(&topic, 0)), ["c"]);
}

pub(super) fn open_transaction_withholds(b: &mut Bench<'_>) {
    let topic = b.topic("open", 1);
    b.fill(&topic, 0, &["before"]);
    let mut producer = b.transactional_alone();
    b.put(&mut *producer, &topic, 0, &["open"]);
    flush(&mut *producer);
    b.fill(&topic, 0, &["behind"]);
    b.await_stable(&topic, 0, 1);
    assert_eq!(b.offset(&topic, 0, At::End), 3);
    let mut consumer = b.consumer(Isolation::ReadCommitted, &topic, 0, 0);
    assert_eq!(texts(&b.take(&mut *consumer, 1)), ["before"]);
    b.take_nothing(&mut *consumer);
    assert_eq!(consumer.position(Source(0)), Some(1));
    commit(&mut *producer);
    assert_eq!(texts(&b.take(&mut *consumer, 2)), ["open", "behind"]);
    assert_eq!(b.settled(&topic, 0), 4);
}

pub(super) fn uncommitted_isolation_sees_all(b: &mut Bench<'_>) {
    let topic = b.topic("uncommitted", 1);
    let mut producer = b.transactional_alone();
    b.put(&mut *producer, &topic, 0, &["aborted"]);
    flush(&mut *producer);
    abort(&mut *producer);
    b.put(&mut *producer, &topic, 0, &["committed"]);
    commit(&mut *producer);
    b.settled(&topic, 0);
    b.put(&mut *producer, &topic, 0, &["open"]);
    flush(&mut *producer);
    let mut consumer = b.consumer(Isolation::ReadUncommitted, &topic, 0, 0);
    let seen = b.drain(&mut *consumer, Source(0), 5);
    assert_eq!(
        (texts(&seen), positions(&seen)),
        (["aborted", "committed", "open"].map(str::to_owned).to_vec(), vec![0, 2, 4])
    );
    abort(&mut *producer);
}

/// Writes c0 c1 M a3 a4 a5 M c7 M a9 a10 M.
fn mixed(b: &mut Bench<'_>) -> String {
    let topic = b.topic("mixed", 1);
    let mut producer = b.transactional_alone();
    for (values, committed) in
        [(&["c0", "c1"][..], true), (&["a3", "a4", "a5"], false), (&["c7"], true), (&["a9", "a10"], false)]
    {
        b.put(&mut *producer, &topic, 0, values);
        flush(&mut *producer);
        if committed { commit(&mut *producer) } else { abort(&mut *producer) }
    }
    topic
}

pub(super) fn markers_take_an_offset(b: &mut Bench<'_>) {
    let topic = mixed(b);
    assert_eq!(b.settled(&topic, 0), 12);
    let seen = b.committed(&topic, 0);
    assert_eq!(texts(&seen), ["c0", "c1", "c7"]);
    assert_eq!(positions(&seen), [0, 1, 7]);
}

pub(super) fn position_passes_markers_and_aborted_records(b: &mut Bench<'_>) {
    let topic = mixed(b);
    b.settled(&topic, 0);
    for isolation in [Isolation::ReadCommitted, Isolation::ReadUncommitted] {
        let mut consumer = b.consumer(isolation, &topic, 0, 0);
        b.drain(&mut *consumer, Source(0), 12);
        assert_eq!(consumer.position(Source(0)), Some(12));
    }
}

pub(super) fn reading_starts_anywhere_in_a_transaction(b: &mut Bench<'_>) {
    let topic = mixed(b);
    b.settled(&topic, 0);
    let rows: [(i64, &[i64]); 7] = [(1, &[1, 7]), (2, &[7]), (4, &[7]), (6, &[7]), (8, &[]), (9, &[]), (12, &[])];
    for (from, want) in rows {
        assert_eq!(positions(&b.committed_from(&topic, 0, from)), want, "from {from}");
    }
}

pub(super) fn trailing_abort_moves_a_waiting_reader(b: &mut Bench<'_>) {
    let topic = b.topic("trailing", 1);
    let mut producer = b.transactional_alone();
    b.put(&mut *producer, &topic, 0, &["a"]);
    commit(&mut *producer);
    let mut consumer = b.consumer(Isolation::ReadCommitted, &topic, 0, 0);
    b.drain(&mut *consumer, Source(0), 2);
    b.put(&mut *producer, &topic, 0, &["b"]);
    flush(&mut *producer);
    abort(&mut *producer);
    assert!(b.drain(&mut *consumer, Source(0), 4).is_empty());
}

pub(super) fn empty_transactions_leave_no_trace(b: &mut Bench<'_>) {
    let topic = b.topic("nothing", 1);
    let mut producer = b.transactional_alone();
    commit(&mut *producer);
    abort(&mut *producer);
    commit(&mut *producer);
    assert_eq!(b.settled(&topic, 0), 0);
    b.put(&mut *producer, &topic, 0, &["a"]);
    commit(&mut *producer);
    commit(&mut *producer);
    abort(&mut *producer);
    assert_eq!(b.settled(&topic, 0), 2);
    assert_eq!(texts(&b.committed(&topic, 0)), ["a"], "an abort after the commit changes nothing");
}

pub(super) fn transaction_spans_partitions_and_topics(b: &mut Bench<'_>) {
    let (one, two) = (b.topic("span", 3), b.topic("span", 1));
    let mut producer = b.transactional_alone();
    for (round, keep) in [(0, true), (1, false), (2, true)] {
        for partition in 0..3 {
            b.put(
                &mut *producer,
                &one,
                partition,
                &[&format!("{round}/{partition}/a"), &format!("{round}/{partition}/b")],
            );
        }
        b.put(&mut *producer, &two, 0, &[&format!("{round}")]);
        flush(&mut *producer);
        if keep { commit(&mut *producer) } else { abort(&mut *producer) }
    }
    for partition in 0..3 {
        let want = [0, 2].iter().flat_map(|r| ["a", "b"].map(|x| format!("{r}/{partition}/{x}"))).collect::<Vec<_>>();
        assert_eq!(texts(&b.committed(&one, partition)), want);
    }
    assert_eq!(texts(&b.committed(&two, 0)), ["0", "2"]);
}

pub(super) fn many_records_in_one_transaction(b: &mut Bench<'_>) {
    let topic = b.topic("many", 2);
    let mut producer = b.transactional_alone();
    let values: Vec<_> = (0..3_000).map(|i| i.to_string()).collect();
    for value in &values {
        b.put(&mut *producer, &topic, 0, &[value]);
        b.put(&mut *producer, &topic, 1, &[value]);
    }
    commit(&mut *producer);
    for partition in 0..2 {
        assert_eq!(texts(&b.committed(&topic, partition)), values);
    }
}

pub(super) fn flush_reports_are_per_transaction(b: &mut Bench<'_>) {
    let topic = b.topic("reports", 1);
    let mut producer = b.transactional_alone();
    b.put(&mut *producer, &topic, 0, &["a"]);
    flush(&mut *producer);
    b.put(&mut *producer, &topic, 0, &["b"]);
    let rows = flush(&mut *producer).delivered.to_vec();
    assert_eq!(rows.iter().map(|d| d.records).collect::<Vec<_>>(), [2], "since the transaction began");
    assert!(rows[0].next.is_none_or(|next| next == 2));
    commit(&mut *producer);
    b.settled(&topic, 0);
    b.put(&mut *producer, &topic, 0, &["c"]);
    let rows = flush(&mut *producer).delivered.to_vec();
    assert_eq!(rows.iter().map(|d| d.records).collect::<Vec<_>>(), [1]);
    assert!(rows[0].next.is_none_or(|next| next == 4), "the marker has an offset");
    abort(&mut *producer);
}

pub(super) fn oldest_open_transaction_holds_the_stable_end(b: &mut Bench<'_>) {
    let topic = b.topic("oldest", 1);
    let (mut older, mut younger) = (b.transactional_alone(), b.transactional_alone());
    b.put(&mut *older, &topic, 0, &["older"]);
    flush(&mut *older);
    b.put(&mut *younger, &topic, 0, &["younger"]);
    commit(&mut *younger);
    let mut consumer = b.consumer(Isolation::ReadCommitted, &topic, 0, 0);
    b.take_nothing(&mut *consumer);
    assert_eq!(b.offset(&topic, 0, At::StableEnd), 0);
    abort(&mut *older);
    assert_eq!(texts(&b.take(&mut *consumer, 1)), ["younger"]);
}

pub(super) fn interleaved_producers_with_a_third_aborted(b: &mut Bench<'_>) {
    let topic = b.topic("interleaved", 1);
    let mut producers = [b.transactional_alone(), b.transactional_alone(), b.transactional_alone()];
    let mut consumer = b.consumer(Isolation::ReadCommitted, &topic, 0, 0);
    let (mut dice, mut open, mut want) = (12_345u32, [0usize; 3], 0);
    let mut kept = [Vec::new(), Vec::new(), Vec::new()];
    for step in 0..400usize {
        dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (who, end) = ((dice >> 20) as usize % 3, (dice >> 8).is_multiple_of(5));
        let value = format!("{who}/{step}");
        b.put(&mut *producers[who], &topic, 0, &[&value]);
        flush(&mut *producers[who]);
        kept[who].push(value);
        open[who] += 1;
        if end && (dice >> 12).is_multiple_of(3) {
            abort(&mut *producers[who]);
            let left = kept[who].len() - open[who];
            kept[who].truncate(left);
            open[who] = 0;
        } else if end {
            commit(&mut *producers[who]);
            want += open[who];
            open[who] = 0;
        }
    }
    for (who, producer) in producers.iter_mut().enumerate() {
        commit(&mut **producer);
        want += open[who];
    }
    let end = b.settled(&topic, 0);
    let seen = b.drain(&mut *consumer, Source(0), end);
    assert_eq!(seen.len(), want);
    assert!(seen.windows(2).all(|w| w[0].offset < w[1].offset), "in log order");
    for (who, kept) in kept.iter().enumerate() {
        let of: Vec<_> = texts(&seen).into_iter().filter(|t| t.starts_with(&format!("{who}/"))).collect();
        assert_eq!(&of, kept);
    }
}

pub(super) fn refused_record_makes_the_commit_an_abort(b: &mut Bench<'_>) {
    let topic = b.topic("poison", 1);
    let mut producer = b.transactional_alone();
    b.put(&mut *producer, &topic, 0, &["beside"]);
    let base = record(&mut *producer, &topic, b.now() + 7_200_000, "from the future");
    send(&mut *producer, &Outgoing { tag: 9, ..base });
    let outcome = producer.commit(&nobody(), &[], LIMIT);
    assert!(matches!(&outcome, CommitOutcome::Aborted(_)), "{outcome:?}");
    b.put(&mut *producer, &topic, 0, &["again"]);
    commit(&mut *producer);
    assert_eq!(texts(&b.committed(&topic, 0)), ["again"]);
}

pub(super) fn refused_record_shows_in_the_flush(b: &mut Bench<'_>) {
    let topic = b.topic("poison", 1);
    let mut producer = b.transactional_alone();
    let base = record(&mut *producer, &topic, b.now() + 7_200_000, "from the future");
    send(&mut *producer, &Outgoing { tag: 9, ..base });
    let flushed = producer.flush(LIMIT).unwrap();
    assert_eq!(flushed.failed.iter().map(|f| (f.tag, f.error.kind())).collect::<Vec<_>>(), [(9, ErrorKind::Refused)]);
    abort(&mut *producer);
    b.put(&mut *producer, &topic, 0, &["again"]);
    commit(&mut *producer);
    assert_eq!(texts(&b.committed(&topic, 0)), ["again"]);
}

pub(super) fn record_refused_by_send_is_not_of_the_transaction(b: &mut Bench<'_>) {
    let topic = b.topic("huge", 1);
    let mut producer = b.transactional_alone();
    b.put(&mut *producer, &topic, 0, &["before"]);
    let huge = vec![7; 20 << 20];
    let base = record(&mut *producer, &topic, b.now(), "");
    let error = producer.send(&Outgoing { value: Some(&huge), ..base }).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error:?}");
    b.put(&mut *producer, &topic, 0, &["after"]);
    commit(&mut *producer);
    assert_eq!(texts(&b.committed(&topic, 0)), ["before", "after"]);
}

pub(super) fn plain_producers_have_no_transactions(b: &mut Bench<'_>) {
    let mut producer = b.plain();
    assert_eq!(producer.init(LIMIT).unwrap_err().kind(), ErrorKind::Fatal);
    assert_eq!(producer.abort(LIMIT).unwrap_err().kind(), ErrorKind::Fatal);
    let outcome = producer.commit(&nobody(), &[], LIMIT);
    let CommitOutcome::Aborted(error) = outcome else { panic!("{outcome:?}") };
    assert_eq!(error.kind(), ErrorKind::Fatal);
}

pub(super) fn send_before_init_is_wrong(b: &mut Bench<'_>) {
    let (topic, id) = (b.topic("too-early", 1), b.name("tx"));
    let mut producer = b.broker().producer(&ProducerOptions::transactional(&id)).unwrap();
    let base = record(&mut *producer, &topic, b.now(), "v");
    assert_eq!(producer.send(&base).unwrap_err().kind(), ErrorKind::Fatal);
    producer.init(LIMIT).unwrap();
    send(&mut *producer, &base);
    commit(&mut *producer);
    assert_eq!(texts(&b.committed(&topic, 0)), ["v"]);
}

/// A producer with an open transaction of one flushed record, and its successor of the same id.
fn fenced(b: &mut Bench<'_>, topic: &str) -> [Box<dyn Producer>; 2] {
    let id = b.name("tx");
    let mut old = b.transactional(&id);
    b.put(&mut *old, topic, 0, &["of the old"]);
    flush(&mut *old);
    [old, b.transactional(&id)]
}

/// The successor goes on, and nothing of the old one is seen.
#[track_caller]
fn successor_goes_on(b: &mut Bench<'_>, topic: &str, new: &mut dyn Producer) {
    b.put(new, topic, 0, &["of the new"]);
    commit(new);
    assert_eq!(texts(&b.committed(topic, 0)), ["of the new"]);
}

fn is_fenced(outcome: &CommitOutcome) -> bool {
    matches!(outcome, CommitOutcome::Fenced(error) if error.kind() == ErrorKind::ProducerFenced)
}

pub(super) fn init_aborts_the_open_transaction(b: &mut Bench<'_>) {
    let topic = b.topic("inherit", 1);
    let [_old, mut new] = fenced(b, &topic);
    b.await_stable(&topic, 0, 2);
    assert!(b.committed(&topic, 0).is_empty());
    successor_goes_on(b, &topic, &mut *new);
}

pub(super) fn init_keeps_what_was_committed(b: &mut Bench<'_>) {
    let (topic, id) = (b.topic("keep", 1), b.name("tx"));
    let mut old = b.transactional(&id);
    b.put(&mut *old, &topic, 0, &["kept"]);
    commit(&mut *old);
    let _new = b.transactional(&id);
    assert_eq!(texts(&b.committed(&topic, 0)), ["kept"]);
}

pub(super) fn fenced_at_commit(b: &mut Bench<'_>) {
    let topic = b.topic("fenced", 1);
    let [mut old, mut new] = fenced(b, &topic);
    for _ in 0..2 {
        let outcome = old.commit(&nobody(), &[], LIMIT);
        assert!(is_fenced(&outcome), "{outcome:?}");
    }
    successor_goes_on(b, &topic, &mut *new);
}

pub(super) fn fenced_at_abort(b: &mut Bench<'_>) {
    let topic = b.topic("fenced", 1);
    let [mut old, mut new] = fenced(b, &topic);
    assert_eq!(old.abort(LIMIT).unwrap_err().kind(), ErrorKind::ProducerFenced);
    successor_goes_on(b, &topic, &mut *new);
}

pub(super) fn fenced_at_flush(b: &mut Bench<'_>) {
    let topic = b.topic("fenced", 1);
    let [mut old, mut new] = fenced(b, &topic);
    let base = record(&mut *old, &topic, b.now(), "of the zombie");
    match old.send(&base) {
        Ok(_) => assert_eq!(old.flush(LIMIT).unwrap_err().kind(), ErrorKind::ProducerFenced),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ProducerFenced, "told by the client already"),
    }
    assert_eq!(old.send(&base).unwrap_err().kind(), ErrorKind::ProducerFenced, "it is told once, then known");
    let outcome = old.commit(&nobody(), &[], LIMIT);
    assert!(is_fenced(&outcome), "{outcome:?}");
    successor_goes_on(b, &topic, &mut *new);
}

pub(super) fn fenced_in_a_new_transaction(b: &mut Bench<'_>) {
    let (topic, id) = (b.topic("fenced", 1), b.name("tx"));
    let mut old = b.transactional(&id);
    b.put(&mut *old, &topic, 0, &["kept"]);
    commit(&mut *old);
    let _new = b.transactional(&id);
    let base = record(&mut *old, &topic, b.now(), "of the zombie");
    // The transaction begins without a round trip; at the latest its end says what is the matter.
    let _ = old.send(&base);
    let outcome = old.commit(&nobody(), &[], LIMIT);
    assert!(is_fenced(&outcome), "{outcome:?}");
    assert_eq!(texts(&b.committed(&topic, 0)), ["kept"]);
}

pub(super) fn other_ids_are_not_fenced(b: &mut Bench<'_>) {
    let topic = b.topic("others", 1);
    let mut other = b.transactional_alone();
    b.put(&mut *other, &topic, 0, &["of another"]);
    flush(&mut *other);
    let [_old, _new] = fenced(b, &topic);
    commit(&mut *other);
    assert_eq!(texts(&b.committed(&topic, 0)), ["of another"]);
}

pub(super) fn init_again_ends_ones_own_transaction(b: &mut Bench<'_>) {
    let topic = b.topic("init-again", 1);
    let mut producer = b.transactional_alone();
    b.put(&mut *producer, &topic, 0, &["dropped"]);
    flush(&mut *producer);
    producer.init(LIMIT).unwrap();
    b.put(&mut *producer, &topic, 0, &["kept"]);
    commit(&mut *producer);
    assert_eq!(texts(&b.committed(&topic, 0)), ["kept"]);
}

pub(super) fn transaction_times_out(b: &mut Bench<'_>) {
    let (topic, id) = (b.topic("timeout", 1), b.name("tx"));
    let mut producer = b.transactional(&id);
    b.put(&mut *producer, &topic, 0, &["late"]);
    flush(&mut *producer);
    // Ten seconds is the timeout, and coordinators look every ten.
    b.pass(Duration::from_secs(25));
    b.await_stable(&topic, 0, 2);
    let outcome = producer.commit(&nobody(), &[], LIMIT);
    assert!(is_fenced(&outcome), "{outcome:?}");
    let mut again = b.transactional(&id);
    b.put(&mut *again, &topic, 0, &["again"]);
    commit(&mut *again);
    assert_eq!(texts(&b.committed(&topic, 0)), ["again"]);
}

pub(super) fn transaction_lives_until_its_timeout(b: &mut Bench<'_>) {
    let topic = b.topic("in-time", 1);
    let mut producer = b.transactional_alone();
    b.put(&mut *producer, &topic, 0, &["a"]);
    flush(&mut *producer);
    b.pass(Duration::from_secs(4));
    b.put(&mut *producer, &topic, 0, &["b"]);
    commit(&mut *producer);
    assert_eq!(texts(&b.committed(&topic, 0)), ["a", "b"]);
}
