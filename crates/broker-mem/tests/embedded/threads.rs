//! Threads on the system's clock: producers and consumers at once, waiting, waking.

use std::sync::mpsc;
use std::time::Duration;

use crate::common::{SECOND, alone, at, create, is_committed, send, transactional};
use millpond_broker_api::membership::{Incoming, Reply, Request, code};
use millpond_broker_api::{Broker, Change, CommitOutcome, Isolation, ProducerOptions, Source};
use millpond_broker_mem::{EmbeddedBroker, Op, OpKind, Options, Verdict};

const LONG: Duration = Duration::from_secs(60);
const ROUNDS: usize = 100;
const PER_ROUND: usize = 25;

fn broker(options: Options) -> EmbeddedBroker {
    let broker = EmbeddedBroker::with_options(options);
    create(&broker, "t", 2, &[("retention.ms", "-1")]);
    broker
}

/// Reads both partitions until `count` records came.
fn read(broker: &EmbeddedBroker, isolation: Isolation, count: usize) -> Vec<(u32, i64, String)> {
    let mut consumer = broker.consumer(&isolation.into()).unwrap();
    let add = |partition: i32| Change::Add { source: Source(partition as u32), topic: "t", partition, from: 0 };
    consumer.assign(&[add(0), add(1)]).unwrap();
    let mut all = Vec::new();
    while all.len() < count {
        let batch = consumer.poll(LONG).unwrap();
        assert!(batch.faults.is_empty(), "{:?}", batch.faults);
        assert!(!batch.is_empty(), "nothing came for a long time: {} of {count}", all.len());
        all.extend(batch.iter().map(|r| {
            let value = String::from_utf8(r.value.unwrap().to_vec()).unwrap();
            (r.source.0, r.offset, value)
        }));
    }
    assert_eq!(all.len(), count);
    all
}

#[test]
fn producers_and_consumers_at_once() {
    let broker = broker(Options { marker_lag: Duration::from_micros(200), ..Options::default() });
    let (committed, aborted) = (2 * ROUNDS * PER_ROUND, 2 * (ROUNDS / 4) * PER_ROUND);
    let produce = |id: &str| {
        let mut producer = transactional(&broker, id);
        for round in 0..ROUNDS + ROUNDS / 4 {
            let kind = if round % 5 == 4 { "aborted" } else { "committed" };
            for n in 0..PER_ROUND {
                send(&mut *producer, (n % 2) as i32, &format!("{id} {kind} {round:04} {n:02}"));
            }
            if kind == "committed" {
                is_committed(&producer.commit(&alone(id), &at(round as i64), LONG));
            } else {
                producer.flush(LONG).unwrap();
                producer.abort(LONG).unwrap();
            }
        }
    };
    let (committed, all) = std::thread::scope(|threads| {
        let reader = threads.spawn(|| read(&broker, Isolation::ReadCommitted, committed));
        let dirty = threads.spawn(|| read(&broker, Isolation::ReadUncommitted, committed + aborted));
        threads.spawn(|| produce("a"));
        threads.spawn(|| produce("b"));
        (reader.join().unwrap(), dirty.join().unwrap())
    });
    assert!(committed.iter().all(|(_, _, value)| value.contains(" committed ")));
    for partition in 0..2 {
        for id in ["a ", "b "] {
            let of = |rows: &[(u32, i64, String)]| -> Vec<(i64, String)> {
                let own = rows.iter().filter(|(p, _, v)| *p == partition && v.starts_with(id));
                own.map(|(_, offset, value)| (*offset, value.clone())).collect()
            };
            let (seen, kept) = (of(&committed), of(&all));
            let kept: Vec<_> = kept.into_iter().filter(|(_, value)| value.contains(" committed ")).collect();
            assert_eq!(seen, kept, "both see the same");
            let in_order = |w: &[(i64, String)]| w[0].0 < w[1].0 && w[0].1[12..] < w[1].1[12..];
            assert!(seen.windows(2).all(in_order), "in the order in which they were sent");
        }
    }
}

#[test]
fn poll_waits_for_a_record_for_its_waker_and_for_its_time() {
    let broker = broker(Options::default());
    let mut consumer = broker.consumer(&Isolation::ReadCommitted.into()).unwrap();
    consumer.assign(&[Change::Add { source: Source(0), topic: "t", partition: 0, from: 0 }]).unwrap();
    assert!(consumer.poll(Duration::from_millis(1)).unwrap().is_empty());
    let (waker, clock) = (consumer.waker(), broker.clock());
    let before = clock.now();
    let (ready, polls) = mpsc::channel();
    std::thread::scope(|threads| {
        let poller = threads.spawn(move || {
            ready.send(()).unwrap();
            let woken = consumer.poll(LONG).unwrap().len();
            ready.send(()).unwrap();
            (woken, consumer.poll(LONG).unwrap().len())
        });
        polls.recv().unwrap();
        waker.wake();
        polls.recv().unwrap();
        let mut producer = broker.producer(&ProducerOptions::default()).unwrap();
        send(&mut *producer, 0, "a");
        producer.flush(LONG).unwrap();
        assert_eq!(poller.join().unwrap(), (0, 1));
        assert!(clock.now() - before < LONG, "it was woken");
    });
}

#[test]
fn waiting_reader_sees_markers_that_lag() {
    let broker = broker(Options::default());
    let mut producer = transactional(&broker, "tx");
    broker.plan(OpKind::WriteMarkers, Verdict::Delay(Duration::from_millis(5)));
    send(&mut *producer, 0, "a");
    is_committed(&producer.commit(&alone("g"), &[], LONG));
    assert_eq!(read(&broker, Isolation::ReadCommitted, 1).len(), 1);
}

#[test]
fn init_waits_for_markers_that_lag() {
    let broker = broker(Options { marker_lag: Duration::from_millis(5), ..Options::default() });
    let mut old = transactional(&broker, "tx");
    send(&mut *old, 0, "a");
    old.flush(LONG).unwrap();
    let mut new = broker.producer(&ProducerOptions::transactional("tx")).unwrap();
    new.init(LONG).unwrap();
    send(&mut *new, 0, "b");
    is_committed(&new.commit(&alone("g"), &[], LONG));
    assert_eq!(read(&broker, Isolation::ReadCommitted, 1)[0].2, "b");
}

#[test]
fn late_answer_is_waited_for() {
    let broker = broker(Options::default());
    let mut producer = transactional(&broker, "tx");
    send(&mut *producer, 0, "a");
    broker.plan(OpKind::EndTxn, Verdict::Delay(Duration::from_millis(5)));
    let before = broker.clock().now();
    is_committed(&producer.commit(&alone("g"), &[], LONG));
    assert!(broker.clock().now() - before >= Duration::from_millis(5));
}

#[test]
fn link_waits_for_the_others() {
    let broker = broker(Options::default());
    let join = |instance: &str| Request::Join {
        member_id: "".into(),
        instance_id: Some(instance.into()),
        session_timeout: 10 * SECOND,
        rebalance_timeout: LONG,
        protocol: "p".into(),
        metadata: Vec::new(),
    };
    let joined = |incoming: Option<Incoming>| match incoming {
        Some(Incoming::Reply(Reply::Join { code: code::NONE, generation, member_id, .. })) => (generation, member_id),
        other => panic!("{other:?}"),
    };
    let (mut one, mut two) = (broker.group_link("g").unwrap(), broker.group_link("g").unwrap());
    one.send(&join("one"));
    let (generation, id) = joined(one.receive(LONG));
    assert_eq!(generation, 1);
    std::thread::scope(|threads| {
        let waiting = threads.spawn(move || {
            two.send(&join("two"));
            joined(two.receive(LONG)).0
        });
        let heartbeat = Request::Heartbeat { generation: 1, member_id: id.clone(), instance_id: None };
        loop {
            one.send(&heartbeat);
            match one.receive(LONG) {
                Some(Incoming::Reply(Reply::Heartbeat { code: code::REBALANCE_IN_PROGRESS })) => break,
                Some(Incoming::Reply(Reply::Heartbeat { code: code::NONE })) => std::thread::yield_now(),
                other => panic!("{other:?}"),
            }
        }
        let Request::Join { instance_id, session_timeout, rebalance_timeout, protocol, metadata, .. } = join("one")
        else {
            unreachable!()
        };
        let again =
            Request::Join { member_id: id, instance_id, session_timeout, rebalance_timeout, protocol, metadata };
        one.send(&again);
        assert_eq!(joined(one.receive(LONG)).0, 2);
        assert_eq!(waiting.join().unwrap(), 2);
    });
}

/// Whoever asks a broker that is down waits as long as it said, over all partitions together, and not longer.
#[test]
fn a_lost_request_takes_the_time_that_its_caller_gives_it() {
    const TIME: Duration = Duration::from_millis(400);
    let broker = broker(Options { request_timeout: TIME, ..Options::default() });
    let clock = broker.clock();
    let timed = |what: &str, call: &mut dyn FnMut()| {
        let start = clock.now();
        call();
        let took = clock.now() - start;
        assert!((TIME..2 * TIME).contains(&took), "{what} took {took:?}");
    };
    let mut producer = broker.producer(&ProducerOptions::default()).unwrap();
    (0..2).for_each(|partition| send(&mut *producer, partition, "x"));
    let mut consumer = broker.consumer(&Isolation::ReadCommitted.into()).unwrap();
    let (mut offsets, mut admin) = (broker.offsets().unwrap(), broker.admin().unwrap());
    let mut transaction = transactional(&broker, "id");
    broker.set_faults(|_: Op<'_>| Verdict::DropRequest);
    timed("a flush", &mut || assert_eq!(producer.flush(TIME).unwrap().outstanding, 2));
    timed("a poll", &mut || assert!(consumer.poll(TIME).unwrap().is_empty()));
    timed("a question for offsets", &mut || drop(offsets.fetch_stable("g", &[("t", 0)], TIME).unwrap_err()));
    timed("an administrator", &mut || drop(admin.describe(&["t"]).unwrap_err()));
    timed("a commit", &mut || {
        assert!(matches!(transaction.commit(&alone("g"), &at(1), TIME), CommitOutcome::Unknown(_)))
    });
    timed("a takeover of the id", &mut || drop(transaction.init(TIME).unwrap_err()));
}
