//! A suite that cannot fail is worthless: wrappers that break one rule each, and the cases that must notice.

mod wrapper;

use std::panic::{AssertUnwindSafe, catch_unwind};

use millpond_store_conformance::{CASES, Case, Needs};
use millpond_store_mem::{MemEngine, SimulatedDisk};

use wrapper::{Fault, Faulty};

fn passes(case: &Case, fault: Fault) -> bool {
    let disk = SimulatedDisk::default();
    let harness = move || match case.needs {
        Needs::Volatile => Faulty::new(MemEngine::default(), fault),
        Needs::Nothing | Needs::Persistent => Faulty::new(MemEngine::with_simulated_disk(&disk), fault),
    };
    catch_unwind(AssertUnwindSafe(|| (case.run)(&harness))).is_ok()
}

fn case(area: &str, name: &str) -> &'static Case {
    CASES.iter().find(|case| case.area == area && case.name == name).expect("the case is in the list")
}

/// One test per fault: each case named must pass on the sound engine, and fail on the faulty one.
macro_rules! faults {
    ($($test:ident: $fault:ident => $($area:ident::$case:ident),+;)*) => {
        $(#[test]
        fn $test() {
            $({
                let case = case(stringify!($area), stringify!($case));
                assert!(passes(case, Fault::None), "`{}` fails on a sound engine", case.name);
                assert!(!passes(case, Fault::$fault), "`{}` does not notice {:?}", case.name, Fault::$fault);
            })+
        })*

        /// Every fault of the wrapper, and the areas of the cases that notice it.
        const PLANTED: &[(Fault, &[&str])] = &[$((Fault::$fault, &[$(stringify!($area)),+])),*];
    };
}

faults! {
    the_first_write_wins: FirstWriteWins => shard::the_later_write_of_a_key_in_a_batch_wins, shard::b147_conflicting_writes_of_a_key_in_one_batch;
    a_refused_batch_is_half_applied: HalfABatch => shard::an_unknown_space_in_a_batch_changes_nothing;
    empty_batches_are_ignored: EmptyBatchesIgnored => shard::an_empty_batch_moves_the_metadata, durable::metadata_alone_survives;
    empty_metadata_is_none: EmptyMetadataIsNone => shard::empty_metadata_is_not_none, durable::metadata_alone_survives;
    an_empty_value_deletes: EmptyValueDeletes => shard::an_empty_value_is_not_absent, durable::special_rows_survive;
    a_delete_writes_an_empty_value: DeleteWritesEmpty => shard::deleting_an_absent_key_is_fine, cursor::a_walk_over_a_run_of_deleted_rows;
    long_keys_are_cut: LongKeysCut => shard::a_key_of_64_kib;
    keys_are_cut_at_24_bytes: KeysCutAt24 => keys::every_key_has_its_own_value, keys::every_key_in_its_place, shard::values_of_every_small_size;
    all_spaces_are_one: OneSpace => shard::spaces_are_separate, shard::keys_that_look_like_space_numbers, model::short_keys;
    space_numbers_are_bytes: SpaceNumbersAreBytes => shard::keys_that_look_like_space_numbers, shard::the_greatest_space_number;
    an_unknown_space_is_empty: UnknownSpaceIsEmpty => shard::reads_of_an_unknown_space_are_invalid, reader::a_reader_refuses_unknown_spaces;
    multi_get_answers_a_key_once: MultiGetOnce => shard::multi_get_calls_once_per_key_that_is_there;
    rows_of_all_spaces_are_counted: CountsAllSpaces => count::b126_many_rows_are_counted_about;
    a_count_is_one_too_many: CountsOneMore => count::b126_few_rows_are_counted;
    the_visitor_is_called_twice: VisitorTwice => shard::a_batch_is_visible_with_its_metadata, keys::every_key_has_its_own_value;
    reverse_is_forward: ReverseIsForward => cursor::rows_come_in_key_order, cursor::reverse_is_the_mirror_of_forward, keys::every_key_in_its_place;
    excluded_bounds_are_included: ExcludedIsIncluded => cursor::every_kind_of_bounds, cursor::seek_to_an_excluded_bound, keys::every_key_as_a_bound;
    row_stays_after_the_end: RowAfterTheEnd => cursor::row_is_what_next_lent, model::short_keys;
    the_end_is_not_the_end: LastRowAgain => cursor::next_after_the_end;
    seek_goes_back: SeekGoesBack => cursor::seek_does_not_go_back, cursor::every_seek_from_every_row, cursor::seek_behind_an_unlent_head;
    seek_revives_an_ended_walk: SeekGoesBack => cursor::seek_after_the_end;
    seek_leaves_the_range: SeekLeavesTheRange => cursor::seek_before_the_range_stays_in_it, cursor::seek_past_the_end, model::numbers_as_keys;
    seek_does_nothing: SeekIgnored => cursor::seek_before_the_first_next, cursor::seeks_through_a_long_walk, keys::every_key_as_a_target;
    a_row_is_lost_at_a_chunks_end: LostAtChunkEnd => cursor::a_walk_over_thousands_of_rows;
    a_row_is_repeated_at_a_chunks_end: RepeatedAtChunkEnd => cursor::a_walk_over_thousands_of_rows;
    drop_below_drops_its_key: DropBelowInclusive => shard::drop_below_keeps_what_is_not_below, durable::drop_below_then_reopen;
    drop_below_drops_from_all_spaces: DropBelowEverywhere => shard::drop_below_keeps_what_is_not_below, durable::drop_below_then_reopen;
    drop_below_drops_the_bucket_at_its_key: DropBelowTakesTheBucket => expiry::dropping_dead_buckets_changes_no_read, durable::expired_rows_stay_unseen;
    a_reader_stands_still: ReaderStandsStill => reader::a_reader_follows_the_writer;
    a_reader_outlives_its_shard: ReaderOutlives => reader::a_reader_after_close, reader::a_reader_after_destroy, reader::a_reader_after_drop;
    a_walk_is_not_as_isolated_as_declared: IsolationOverstated => reader::a_walk_goes_on_over_a_batch;
    durable_is_promised_too_early: DurableAtOnce => durable::durable_is_no_promise_too_early, durable::a_crash_leaves_a_batch_border;
    flush_does_nothing: FlushIgnored => durable::flush_makes_durable, durable::durable_moves_forward, durable::waiting_behind_a_started_flush;
    close_does_not_flush: CloseDoesNotFlush => durable::close_then_reopen, durable::special_rows_survive;
    metadata_lags_behind_rows: MetadataLags => durable::a_crash_leaves_a_batch_border, durable::random_crashes;
    a_directory_opens_twice: OpensTwice => durable::a_directory_is_open_once;
    no_directory_is_needed: NoDirectoryNeeded => durable::a_directory_is_needed;
    destroy_leaves_the_rows: DestroyLeaves => shard::destroy_then_open_is_a_new_shard, durable::destroy_removes_the_shard;
    spaces_are_numbered_by_their_place: SpacesByPlace => durable::reopen_with_more_spaces;
    spaces_are_known_by_name: SpacesByName => durable::a_renamed_space_keeps_its_rows;
    spaces_not_asked_for_are_deleted: OtherSpacesDeleted => durable::reopen_with_fewer_spaces;
    a_checkpoint_is_declared_but_refused: CheckpointRefused => capability::a_checkpoint_works_or_is_unsupported, capability::a_shard_goes_on_after_a_checkpoint;
    a_checkpoint_works_undeclared: CheckpointUndeclared => capability::a_checkpoint_works_or_is_unsupported;
    a_checkpoint_is_of_the_last_flush: CheckpointStale => capability::a_checkpoint_works_or_is_unsupported;
    abilities_change: AbilitiesChange => capability::capabilities_do_not_change;
    the_unlogged_flag_is_ignored: UnloggedIgnored => unlogged::an_applied_batch_survives_a_crash, unlogged::rows_and_metadata_are_of_the_last_batch, unlogged::durable_is_committed, unlogged::the_flag_may_change, unlogged::spaces_made_before_a_crash, unlogged::a_refused_batch_does_not_survive, unlogged::random_crashes_and_changes_of_the_flag;
    the_unlogged_flag_is_a_promise_only: UnloggedPromised => unlogged::an_applied_batch_survives_a_crash, unlogged::durable_is_committed, unlogged::the_flag_may_change;
    what_an_unlogged_shard_wrote_is_found_by_such_only: UnloggedApart => unlogged::the_flag_may_change, unlogged::spaces_made_before_a_crash, unlogged::random_crashes_and_changes_of_the_flag;
    an_unlogged_shard_is_not_destroyed: DestroyLeaves => unlogged::destroy_removes_what_was_not_flushed;
    a_volatile_engine_says_durable: DurableAtOnce => volatile::nothing_is_durable;
}

/// The wrapper itself is sound without a fault: the whole suite passes through it.
#[test]
fn the_wrapper_without_a_fault_passes() {
    let failed: Vec<_> = CASES.iter().filter(|case| !passes(case, Fault::None)).map(|case| case.name).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn every_area_has_a_planted_fault() {
    for case in CASES {
        assert!(PLANTED.iter().any(|(_, areas)| areas.contains(&case.area)), "no fault is planted for `{}`", case.area);
    }
}

#[test]
fn case_names_are_unique_within_an_area_and_there_are_enough() {
    let mut names: Vec<_> = CASES.iter().map(|case| (case.area, case.name)).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), CASES.len());
    assert!(CASES.len() >= 75, "{} cases", CASES.len());
}
