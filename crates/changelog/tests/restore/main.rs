//! Restores against a log and a shard in memory: the shard ends as the fold of the log, whatever happens on the way.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

mod buffers;
mod clearing;
mod fakes;
mod kinds;
mod model;
mod run;
mod stores;
mod views;

use std::time::Duration;

use fakes::{FakeConsumer, FakeShard, Log, Rows};
use millpond_broker_api::{Consumer, Source};
use millpond_changelog::{
    Applier, ApplyLimits, Changelog, Decision, LogRange, RebuildReason, Restore, RestorePhase, RowLayout,
    ShardMetadata, ValueFormat, Waiting,
};
use millpond_store_api::{ErrorKind, SpaceId};
use run::Run;

const A: SpaceId = SpaceId(1);
const B: SpaceId = SpaceId(2);
const NOW: i64 = 1_700_000_000_000;

fn changelog(store: &str, space: SpaceId, format: ValueFormat) -> Changelog {
    let (source, rows) = (Source(space.0.into()), RowLayout::KeyValue { space });
    Changelog {
        source,
        topic: store.into(),
        partition: 0,
        store: store.into(),
        rows,
        format,
        held: false,
        accepts: None,
    }
}

fn plain(store: &str, space: SpaceId) -> Changelog {
    changelog(store, space, ValueFormat::Plain)
}

fn rows(rows: &[(&str, &str)]) -> Rows {
    rows.iter().map(|(k, v)| (k.as_bytes().to_vec(), v.as_bytes().to_vec())).collect()
}

/// A shard that stands at `next` of the log of store `a`.
fn shard_at(next: i64, rows: &[(&str, &str)]) -> FakeShard {
    let mut shard = FakeShard::default();
    rows.iter().for_each(|(k, v)| shard.put(A, k.as_bytes(), v.as_bytes()));
    let mut metadata = ShardMetadata::default();
    metadata.set_changelog("a", 1, 0, next);
    shard.set_metadata(&metadata);
    shard
}

#[test]
fn a_shard_that_lacks_nothing_is_not_written_to() {
    let mut log = Log::starting_at(0);
    log.put("k", "1");
    let mut consumer = FakeConsumer::new(10, &[("a", &log)]);
    let mut shard = shard_at(1, &[("k", "1")]);
    let run = Run::plan(&mut consumer, &mut shard, &[plain("a", A)]).complete();
    assert_eq!(run.decision(), Decision::Nothing { at: 1 });
    assert_eq!((run.shard.batches.len(), run.consumer.polls), (0, 0));
}

#[test]
fn b032_deletes_survive_a_restore_in_batches_of_any_size() {
    let mut log = Log::starting_at(0);
    log.put("k", "1").delete("k").put("j", "1").delete("j").put("m", "1");
    let mut twice = Log::starting_at(0);
    twice.put("k", "1").delete("k").put("k", "2").delete("k");
    for records in [1, 2, 100] {
        let limits = ApplyLimits { records, ..ApplyLimits::default() };
        for (log, expected) in [(&log, rows(&[("m", "1")])), (&twice, rows(&[]))] {
            let mut consumer = FakeConsumer::new(100, &[("a", log)]);
            let mut shard = FakeShard::default();
            let run = Run::plan(&mut consumer, &mut shard, &[plain("a", A)]).limits(limits).complete();
            assert_eq!(run.shard.rows(A), expected);
            assert_eq!(run.total.records as usize, log.entries.len());
        }
    }
}

#[test]
fn a_timestamped_store_gets_its_timestamps_back() {
    let mut log = Log::starting_at(0);
    log.push(Some(b"k"), Some(b"v"), 1234).push(Some(b"gone"), None, 1300).push(Some(b"empty"), Some(b""), 999);
    let mut consumer = FakeConsumer::new(100, &[("a", &log)]);
    let mut shard = FakeShard::default();
    let run = Run::plan(&mut consumer, &mut shard, &[changelog("a", A, ValueFormat::Timestamped)]).complete();
    let value = |ts: i64, value: &[u8]| [&ts.to_be_bytes()[..], value].concat();
    let expected: Rows = [(b"k".to_vec(), value(1234, b"v")), (b"empty".to_vec(), value(999, b""))].into();
    assert_eq!(run.shard.rows(A), expected);
    assert_eq!(run.metadata.stream_time("a"), Some(1300));
}

#[test]
fn records_without_a_key_are_skipped_and_counted() {
    let mut log = Log::starting_at(0);
    log.put("k", "1").push(None, Some(b"odd"), 5).push(None, None, 6);
    let mut consumer = FakeConsumer::new(1, &[("a", &log)]);
    let mut shard = FakeShard::default();
    let run = Run::plan(&mut consumer, &mut shard, &[plain("a", A)]).complete();
    assert_eq!(run.shard.rows(A), rows(&[("k", "1")]));
    assert_eq!((run.total.records, run.total.null_keys, run.total.bytes), (1, 2, 2));
    assert_eq!(run.progress().null_keys, 2);
    assert_eq!(run.metadata.changelog("a", 0).unwrap().next, 3);
}

#[test]
fn b086_after_a_failure_at_any_batch_rows_and_positions_agree() {
    let mut log = Log::starting_at(0);
    for i in 0..20 {
        log.put(&format!("k{}", i % 7), &i.to_string()).hole(i % 3);
    }
    for fails_at in 0..20 {
        let mut consumer = FakeConsumer::new(100, &[("a", &log)]);
        let mut shard = FakeShard::answering((0..fails_at).map(|_| None).chain([Some(ErrorKind::Io)]));
        let limits = ApplyLimits { records: 3, ..ApplyLimits::default() };
        let mut run = Run::plan(&mut consumer, &mut shard, &[plain("a", A)]).limits(limits);
        let failed = run.begin().and_then(|()| run.step()).is_err();
        assert_eq!(failed, fails_at < 8, "7 batches and the last positions");
        // What the shard says of itself is what it holds.
        let at = run.shard.metadata().changelog("a", 0).map_or(0, |p| p.next);
        let mut prefix = log.clone();
        prefix.entries.retain(|entry| entry.offset < at);
        assert_eq!(run.shard.rows(A), prefix.fold());
        shard.answers.clear();
        assert_eq!(Run::plan(&mut consumer, &mut shard, &[plain("a", A)]).complete().shard.rows(A), log.fold());
    }
}

#[test]
fn a_batch_that_is_to_be_tried_again_goes_on_where_it_was() {
    let log = Log::of(0, 10);
    let mut consumer = FakeConsumer::new(100, &[("a", &log)]);
    let mut shard = FakeShard::answering([None, Some(ErrorKind::Retry)]);
    let limits = ApplyLimits { records: 4, ..ApplyLimits::default() };
    let mut run = Run::plan(&mut consumer, &mut shard, &[plain("a", A)]).limits(limits);
    run.begin().unwrap();
    let batch = run.consumer.poll(Duration::ZERO).unwrap();
    let mut polled = run.applier.batch(&batch);
    let error = polled.apply(&mut run.restore, run.shard, &mut run.metadata).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry);
    assert_eq!(run.metadata.changelog("a", 0).unwrap().next, 4, "the batch that was refused does not count");
    let applied = polled.apply(&mut run.restore, run.shard, &mut run.metadata).unwrap();
    assert_eq!((applied.records, applied.batches), (6, 2));
    assert_eq!(run.shard.batches, [4, 4, 2]);
    assert_eq!(run.shard.rows(A), log.fold());
}

#[test]
fn b088_a_restore_that_is_cut_short_stands_where_it_was() {
    let log = Log::of(0, 500);
    let mut consumer = FakeConsumer::new(120, &[("a", &log)]);
    let mut shard = FakeShard::default();
    let mut run = Run::plan(&mut consumer, &mut shard, &[plain("a", A)]);
    run.begin().unwrap();
    run.step().unwrap();
    let left = shard.metadata();
    assert_eq!(left.changelog("a", 0).unwrap().next, 120);
    assert!(left.restoring, "the state is not complete");
    let run = Run::plan(&mut consumer, &mut shard, &[plain("a", A)]).complete();
    assert_eq!(run.decision(), Decision::Resume { from: 120 });
    assert_eq!((run.total.records, run.shard.rows(A).len()), (380, 500));
}

#[test]
fn b091_a_position_outside_the_log_wipes_once_and_ends() {
    let log = Log::of(200, 100);
    for local in [50, 400] {
        let mut consumer = FakeConsumer::new(30, &[("a", &log)]);
        let mut shard = shard_at(local, &[("old", "1"), ("old2", "1")]);
        let run = Run::plan(&mut consumer, &mut shard, &[plain("a", A)]).complete();
        assert_eq!(run.shard.rows(A), log.fold());
        let progress = run.progress();
        assert_eq!((progress.from, progress.at, progress.records, progress.rebuilds), (200, 300, 100, 1));
        assert_eq!(
            progress.rebuilt.unwrap(),
            if local == 50 {
                RebuildReason::BelowStart { local: 50, start: 200 }
            } else {
                RebuildReason::BeyondEnd { local: 400, end: 300 }
            }
        );
        // The next start has nothing to do.
        let again = Run::plan(&mut consumer, &mut shard, &[plain("a", A)]);
        assert_eq!(again.decision(), Decision::Nothing { at: 300 });
    }
}

#[test]
fn b094_an_empty_log_is_restored_at_once() {
    for (at, local) in [(0, None), (0, Some(500)), (0, Some(499)), (500, None), (500, Some(500)), (500, Some(499))] {
        let log = Log::starting_at(at);
        let mut consumer = FakeConsumer::new(30, &[("a", &log)]);
        let mut shard = local.map_or_else(FakeShard::default, |next| shard_at(next, &[("old", "1")]));
        let run = Run::plan(&mut consumer, &mut shard, &[plain("a", A)]).complete();
        assert!(run.consumer.polls <= 1);
        let progress = run.progress();
        assert_eq!((progress.records, progress.remaining(), progress.at), (0, 0, at));
        assert_eq!(run.shard.metadata().changelog("a", 0).unwrap().next, at, "{local:?}");
        let kept = local == Some(500) && at == 500;
        assert_eq!(run.shard.rows(A).is_empty(), !kept, "rows of another log go");
    }
}

#[test]
fn b095_records_past_the_end_are_left_alone() {
    let log = Log::of(95, 11);
    let mut gap = Log::starting_at(90);
    gap.put("90", "v").hole(29).put("120", "v");
    // Markers, too, may come after the end that was asked for.
    let mut markers = Log::of(98, 1);
    markers.hole(5);
    for (log, expected) in [(&log, 5), (&gap, 1), (&markers, 1)] {
        let mut consumer = FakeConsumer::new(100, &[("a", log)]);
        let mut shard = FakeShard::default();
        let range = LogRange::whole(1, log.start, 100);
        let run = Run::plan_to(&mut consumer, &mut shard, vec![(plain("a", A), range)]).complete();
        assert_eq!(run.total.records, expected);
        assert_eq!(run.shard.rows(A).len() as u64, expected);
        assert_eq!(run.total.past_end as usize, log.entries.len() - expected as usize);
        assert_eq!(run.shard.metadata().changelog("a", 0).unwrap().next, 100);
    }
}

#[test]
fn b096_markers_and_aborted_records_at_the_end_are_no_reason_to_wait() {
    let mut log = Log::of(0, 10);
    log.hole(1).hole(5).hole(1);
    let mut markers = Log::starting_at(0);
    markers.hole(3);
    for (log, expected) in [(&log, 10), (&markers, 0)] {
        let mut consumer = FakeConsumer::new(4, &[("a", log)]);
        let mut shard = FakeShard::default();
        let run = Run::plan(&mut consumer, &mut shard, &[plain("a", A)]).complete();
        assert_eq!(run.total.records, expected);
        assert_eq!(run.progress().at, log.end);
        assert_eq!(run.shard.metadata().changelog("a", 0).unwrap().next, log.end);
    }
}

#[test]
fn b096_an_open_transaction_holds_the_restore_back_and_is_shown() {
    let mut log = Log::starting_at(0);
    log.put("k", "1").put("k", "2").hole(1);
    log.open_from = Some(1);
    let mut consumer = FakeConsumer::new(10, &[("a", &log)]);
    let mut shard = FakeShard::default();
    let mut run = Run::plan(&mut consumer, &mut shard, &[plain("a", A)]);
    run.begin().unwrap();
    for _ in 0..3 {
        run.step().unwrap();
    }
    assert_eq!((run.progress().at, run.restore.phase()), (1, RestorePhase::Fetching));
    assert_eq!(run.progress().waiting, None, "the reason is not known yet");
    let stable = run.consumer.known_end(Source(1)).unwrap();
    run.restore.stable_end(Source(1), stable);
    assert_eq!(run.progress().waiting, Some(Waiting::OpenTransaction { at: 1 }));
    // It is committed.
    run.consumer.log("a").open_from = None;
    run.step().unwrap();
    assert_eq!((run.progress().waiting, run.progress().at), (None, 3));
    assert_eq!(run.restore.phase(), RestorePhase::CaughtUp);
    assert_eq!(run.shard.rows(A), rows(&[("k", "2")]));
}

#[test]
fn b097_logs_of_zero_one_and_two_records() {
    for records in 0..3i64 {
        let log = Log::of(0, records);
        for local in [None, Some(0), Some(1), Some(2)] {
            let mut consumer = FakeConsumer::new(10, &[("a", &log)]);
            let held = [("0", "v"), ("1", "v")];
            let mut shard = local.map_or_else(FakeShard::default, |n| shard_at(n, &held[..n as usize]));
            let run = Run::plan(&mut consumer, &mut shard, &[plain("a", A)]).complete();
            let expected = match local {
                Some(local) if local <= records => records - local,
                _ => records,
            };
            assert_eq!(run.total.records, expected as u64, "{records} {local:?}");
            assert_eq!(run.shard.rows(A), log.fold());
        }
    }
}

#[test]
fn b098_a_log_that_starts_later_is_read_from_its_start() {
    let log = Log::of(300, 100);
    let mut consumer = FakeConsumer::new(64, &[("a", &log)]);
    let mut shard = FakeShard::default();
    let run = Run::plan(&mut consumer, &mut shard, &[plain("a", A)]).complete();
    assert_eq!((run.progress().from, run.total.records), (300, 100));
}

#[test]
fn b099_a_head_that_is_trimmed_meanwhile_is_begun_anew() {
    let mut log = Log::of(0, 100);
    log.hole(1);
    let mut consumer = FakeConsumer::new(10, &[("a", &log)]);
    let mut shard = FakeShard::default();
    let mut run = Run::plan(&mut consumer, &mut shard, &[plain("a", A)]);
    run.begin().unwrap();
    run.step().unwrap();
    run.consumer.log("a").trim(50);
    assert!(run.step().unwrap(), "the source stands still");
    let range = run.consumer.log("a").range();
    let why = RebuildReason::BelowStart { local: 10, start: 50 };
    assert_eq!(run.restore.replan(Source(1), range), Some(Decision::Rebuild { from: 50, why }));
    assert_eq!(run.restore.phase(), RestorePhase::Planned);
    let run = run.complete();
    assert_eq!(run.shard.rows(A), run.consumer.logs[&("a".to_owned(), 0)].fold());
    assert_eq!((run.progress().rebuilds, run.shard.rows(A).len()), (1, 50));
}

#[test]
fn a_fault_that_passes_goes_on_where_it_was() {
    let mut log = Log::starting_at(0);
    log.put("a", "1").put("b", "1");
    let mut consumer = FakeConsumer::new(1, &[("a", &log)]);
    let mut shard = FakeShard::default();
    let mut run = Run::plan(&mut consumer, &mut shard, &[plain("a", A)]);
    run.begin().unwrap();
    run.step().unwrap();
    assert_eq!(run.restore.replan(Source(1), log.range()), Some(Decision::Resume { from: 1 }));
    assert_eq!(run.restore.replan(Source(9), log.range()), None);
    assert_eq!(run.complete().shard.rows(A), log.fold());
}

#[test]
fn a_topic_that_is_made_again_meanwhile_is_found_out() {
    let mut log = Log::starting_at(0);
    log.put("old", "1").put("older", "1");
    let mut consumer = FakeConsumer::new(1, &[("a", &log)]);
    let mut shard = FakeShard::default();
    let mut run = Run::plan(&mut consumer, &mut shard, &[plain("a", A)]);
    run.begin().unwrap();
    run.step().unwrap();
    let mut again = Log { topic_id: 2, ..Log::starting_at(0) };
    again.put("new", "1");
    let decision = run.restore.replan(Source(1), again.range()).unwrap();
    assert_eq!(decision, Decision::Rebuild { from: 0, why: RebuildReason::OtherTopic { local: 1, now: 2 } });
    *run.consumer.log("a") = again;
    assert_eq!(run.complete().shard.rows(A), rows(&[("new", "1")]));
    assert_eq!(shard.metadata().changelog("a", 0).unwrap().topic_id, 2);
}

#[test]
fn b100_progress_counts_what_was_applied() {
    let log = Log::of(0, 250);
    let mut consumer = FakeConsumer::new(100, &[("a", &log)]);
    let mut shard = FakeShard::default();
    let mut run = Run::plan(&mut consumer, &mut shard, &[plain("a", A)]);
    assert_eq!((run.progress().from, run.progress().until, run.progress().records), (0, 250, 0));
    assert_eq!(run.restore.phase(), RestorePhase::Planned);
    run.begin().unwrap();
    run.step().unwrap();
    assert_eq!((run.progress().at, run.progress().records, run.progress().remaining()), (100, 100, 150));
    // Suspended by a rebalance; the shard is where it was left.
    drop(run);
    let mut run = Run::plan(&mut consumer, &mut shard, &[plain("a", A)]);
    assert_eq!((run.progress().from, run.progress().until), (100, 250));
    let mut counted = 100;
    run.begin().unwrap();
    while run.restore.phase() != RestorePhase::CaughtUp {
        let before = run.progress().records;
        run.step().unwrap();
        counted += run.progress().records - before;
    }
    assert_eq!((counted, run.progress().at), (250, 250));
    assert_eq!(run.progress().bytes, run.total.bytes);
    assert_eq!((run.progress().store, run.progress().topic), ("a", "a"));
}

#[test]
fn b102_a_store_that_lost_its_position_is_restored_alone() {
    let (a, b) = (Log::of(0, 10), Log::of(0, 10));
    let mut consumer = FakeConsumer::new(7, &[("a", &a), ("b", &b)]);
    let held: Vec<_> = ["0", "1", "2", "3", "4", "5", "6", "7"].map(|k| (k, "v")).into();
    let mut shard = shard_at(8, &held);
    // Rows of which nobody knows how old they are.
    shard.put(B, b"ghost", b"b");
    let run = Run::plan(&mut consumer, &mut shard, &[plain("a", A), plain("b", B)]).complete();
    let decisions: Vec<_> = run.restore.decisions().map(|d| d.decision).collect();
    assert_eq!(decisions, [Decision::Resume { from: 8 }, Decision::FromStart { from: 0 }]);
    assert_eq!((run.shard.rows(A), run.shard.rows(B)), (a.fold(), b.fold()));
    assert_eq!(run.total.records, 12);
}

#[test]
fn a_crash_while_a_store_is_cleared_leaves_no_position() {
    let mut log = Log::starting_at(200);
    log.put("k", "1");
    let mut consumer = FakeConsumer::new(10, &[("a", &log)]);
    let mut shard = shard_at(50, &[("1", "v"), ("2", "v"), ("3", "v")]);
    shard.answers = [None, Some(ErrorKind::Io)].into();
    let limits = ApplyLimits { records: 2, ..ApplyLimits::default() };
    let mut run = Run::plan(&mut consumer, &mut shard, &[plain("a", A)]).limits(limits);
    assert_eq!(run.begin().unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(shard.rows(A).len(), 1);
    assert_eq!(shard.metadata().changelog("a", 0), None);
    let run = Run::plan(&mut consumer, &mut shard, &[plain("a", A)]).complete();
    assert_eq!(run.decision(), Decision::FromStart { from: 200 });
    assert_eq!(run.shard.rows(A), rows(&[("k", "1")]));
}

#[test]
fn batches_keep_to_their_limits_and_a_large_record_goes_alone() {
    let mut log = Log::starting_at(0);
    log.put("a", "1234").put("b", "1234").put("c", "a value that is larger than the limit").put("d", "1").put("e", "1");
    let mut consumer = FakeConsumer::new(100, &[("a", &log)]);
    let mut shard = FakeShard::default();
    let limits = ApplyLimits { records: 100, bytes: 10 };
    let run = Run::plan(&mut consumer, &mut shard, &[plain("a", A)]).limits(limits).complete();
    assert_eq!(run.shard.batches, [2, 1, 2, 0], "the last one says that the shard is complete");
    assert_eq!(run.shard.rows(A), log.fold());
}

#[test]
fn one_poll_serves_several_shards() {
    let (mut a, mut b) = (Log::starting_at(0), Log::starting_at(0));
    a.put("k", "a");
    b.put("k", "b").put("j", "b");
    let mut consumer = FakeConsumer::new(100, &[("a", &a), ("b", &b)]);
    let (mut first, mut second) = (FakeShard::default(), FakeShard::default());
    let (mut of_first, mut of_second) = (ShardMetadata::default(), ShardMetadata::default());
    let mut restore_first = Restore::plan(&of_first, [(plain("a", A), a.range())], NOW);
    let mut restore_second = Restore::plan(&of_second, [(plain("b", B), b.range())], NOW);
    let mut applier = Applier::default();
    applier.prepare(&mut restore_first, &mut first, &mut of_first).unwrap();
    applier.prepare(&mut restore_second, &mut second, &mut of_second).unwrap();
    let changes: Vec<_> = restore_first.changes().chain(restore_second.changes()).collect();
    consumer.assign(&changes).unwrap();
    let batch = consumer.poll(Duration::ZERO).unwrap();
    let mut polled = applier.batch(&batch);
    assert_eq!(polled.apply(&mut restore_first, &mut first, &mut of_first).unwrap().records, 1);
    assert_eq!(polled.apply(&mut restore_second, &mut second, &mut of_second).unwrap().records, 2);
    assert_eq!((first.rows(A), second.rows(B)), (a.fold(), b.fold()));
    assert!(first.rows(B).is_empty() && second.rows(A).is_empty());
}

#[test]
fn a_restore_keeps_the_rest_of_the_metadata_and_says_how_old_the_state_is() {
    let mut log = Log::starting_at(0);
    log.put("k", "1");
    let mut consumer = FakeConsumer::new(10, &[("a", &log)]);
    let mut shard = FakeShard::default();
    let mut metadata = ShardMetadata::default();
    (metadata.timeline, metadata.generation, metadata.written_ms) = (2, 3, NOW - 5);
    metadata.set_input("in", 0, 77);
    shard.set_metadata(&metadata);
    let run = Run::plan(&mut consumer, &mut shard, &[plain("a", A)]).complete();
    assert_eq!((run.metadata.timeline, run.metadata.generation, run.metadata.written_ms), (2, 3, NOW));
    assert_eq!(run.metadata.input("in", 0), Some(77));
}
