//! The case list, once, and the macros that make tests and tables of it.

/// Hands the list to another macro: `for_each_case!([path::to::macro] arguments)`.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_case {
    ([$($then:tt)*] $($arguments:tt)*) => {
        $($then)*! {
            [$($arguments)*]
            any {
                shard {
                    a_new_shard_is_empty,
                    a_batch_is_visible_with_its_metadata,
                    metadata_is_opaque,
                    empty_metadata_is_not_none,
                    an_empty_batch_moves_the_metadata,
                    a_later_batch_replaces_values,
                    the_later_write_of_a_key_in_a_batch_wins,
                    b147_conflicting_writes_of_a_key_in_one_batch,
                    deleting_an_absent_key_is_fine,
                    an_unknown_space_in_a_batch_changes_nothing,
                    a_refused_batch_does_not_stop_the_next,
                    reads_of_an_unknown_space_are_invalid,
                    lent_writes_are_copied,
                    spaces_are_separate,
                    keys_that_look_like_space_numbers,
                    the_greatest_space_number,
                    the_empty_key,
                    a_key_of_64_kib,
                    a_value_of_1_mib,
                    an_empty_value_is_not_absent,
                    values_of_every_small_size,
                    multi_get_calls_once_per_key_that_is_there,
                    multi_get_of_many_keys,
                    a_batch_of_ten_thousand_rows,
                    many_small_batches,
                    deleting_everything_leaves_an_empty_space,
                    drop_below_keeps_what_is_not_below,
                    two_shards_are_separate,
                    destroy_then_open_is_a_new_shard,
                    a_shard_moves_between_threads,
                }
                cursor {
                    rows_come_in_key_order,
                    every_kind_of_bounds,
                    reverse_is_the_mirror_of_forward,
                    narrow_ranges,
                    inverted_ranges_are_empty,
                    next_after_the_end,
                    row_is_what_next_lent,
                    row_after_seek_and_next,
                    seek_before_the_first_next,
                    seek_before_the_range_stays_in_it,
                    seek_to_an_excluded_bound,
                    seek_past_the_end,
                    seek_after_the_end,
                    seek_does_not_go_back,
                    seek_behind_an_unlent_head,
                    seeks_through_a_long_walk,
                    every_seek_from_every_row,
                    a_walk_over_thousands_of_rows,
                    a_walk_over_large_rows,
                    several_open_cursors,
                    cursors_of_two_shards,
                    prefixes_without_a_successor,
                    b145_only_the_last_version_of_a_key,
                    a_walk_over_a_run_of_deleted_rows,
                    a_cursor_may_be_dropped_anywhere,
                }
                keys {
                    every_key_has_its_own_value,
                    every_key_in_its_place,
                    every_key_as_a_bound,
                    every_key_as_a_target,
                    every_key_as_a_prefix,
                    deleting_a_key_leaves_its_neighbours,
                }
                count {
                    b126_few_rows_are_counted,
                    b126_many_rows_are_counted_about,
                }
                reader {
                    a_reader_reads_what_the_shard_reads,
                    a_reader_follows_the_writer,
                    a_reader_does_not_see_a_refused_batch,
                    a_reader_refuses_unknown_spaces,
                    committed_is_not_older_than_a_row,
                    a_walk_keeps_the_declared_isolation,
                    a_walk_goes_on_over_a_batch,
                    many_readers,
                    a_reader_after_close,
                    a_reader_after_destroy,
                    a_reader_after_drop,
                }
                capability {
                    the_engine_has_a_name,
                    capabilities_do_not_change,
                    a_checkpoint_works_or_is_unsupported,
                    a_shard_goes_on_after_a_checkpoint,
                }
                expiry {
                    dropping_dead_buckets_changes_no_read,
                }
                model {
                    short_keys,
                    long_keys,
                    numbers_as_keys,
                }
            }
            persistent {
                durable {
                    close_then_reopen,
                    close_without_a_batch,
                    flush_makes_durable,
                    durable_is_no_promise_too_early,
                    durable_moves_forward,
                    a_crash_leaves_a_batch_border,
                    a_crash_while_a_flush_runs,
                    waiting_behind_a_started_flush,
                    waiting_behind_a_flush_of_other_spaces,
                    repeated_crashes,
                    a_refused_batch_is_not_kept,
                    special_rows_survive,
                    metadata_alone_survives,
                    a_directory_is_open_once,
                    a_directory_is_needed,
                    destroy_removes_the_shard,
                    reopen_with_more_spaces,
                    reopen_with_fewer_spaces,
                    a_renamed_space_keeps_its_rows,
                    drop_below_then_reopen,
                    expired_rows_stay_unseen,
                    a_reader_of_a_reopened_shard,
                    shards_crash_alone,
                    random_crashes,
                }
                unlogged {
                    an_applied_batch_survives_a_crash,
                    rows_and_metadata_are_of_the_last_batch,
                    durable_is_committed,
                    a_refused_batch_does_not_survive,
                    the_flag_may_change,
                    spaces_made_before_a_crash,
                    destroy_removes_what_was_not_flushed,
                    random_crashes_and_changes_of_the_flag,
                }
            }
            volatile {
                volatile {
                    nothing_is_durable,
                    a_reopened_shard_is_empty,
                    opens_without_a_directory,
                }
            }
            kind {
                key_value {
                    put_get_delete,
                    empty_is_not_absent,
                    b031_put_if_absent,
                    put_all,
                    b126_approximate_num_entries,
                    b026_bounds,
                    b025_prefixes_without_a_successor,
                    reverse_is_the_mirror,
                    b034_a_delete_hides_what_lies_below,
                    a_key_that_came_and_went,
                    b035_deletes_ahead_of_the_rows_below,
                    rows_above_and_below_are_merged,
                    seeks,
                    the_end_of_a_walk,
                    two_walks_at_once,
                    b027_deleting_between_chunks,
                    touch_changes_nothing,
                    sizes,
                    b028_order_preserving_numbers,
                    against_a_model,
                }
                timestamped {
                    a_value_keeps_its_time,
                    extreme_times,
                    an_empty_value_is_a_value,
                    put_if_absent,
                    the_bytes_are_those_of_kafka_streams,
                    short_bytes_are_corrupt,
                    walks_are_in_key_order,
                    a_walk_may_be_ended,
                }
                headers {
                    headers_come_back,
                    a_put_replaces_everything,
                    put_if_absent,
                    the_bytes_are_those_of_kafka_streams,
                    damage_is_corrupt,
                    walks_are_in_key_order,
                }
                ttl {
                    the_boundary_is_exact,
                    an_expired_put_is_dropped,
                    walks_leave_out_what_has_expired,
                    b105_expired_rows_are_deleted,
                    expiry_goes_in_steps,
                    a_row_that_was_put_again_lives_on,
                    a_row_may_become_older,
                    b147_the_last_of_conflicting_puts_decides,
                    the_time_to_live_may_change,
                    b030_keys_that_share_bytes,
                    rows_of_a_restore,
                    damage_is_corrupt,
                    against_a_model_in_seconds,
                    against_a_model_in_hours,
                }
                versioned {
                    b139_out_of_order_history,
                    ranges_of_versions,
                    tombstones,
                    same_times,
                    delete,
                    the_borders_of_the_history,
                    no_history,
                    extreme_times,
                    keys_do_not_meet,
                    a_walk_over_the_latest,
                    b141_a_put_cut_short_is_repeated,
                    against_a_model_in_milliseconds,
                    against_a_model_in_minutes,
                }
                list_value {
                    append_and_delete,
                    the_bytes_are_those_of_kafka,
                    walks_are_flat,
                    damage_is_corrupt,
                    against_a_model,
                }
                arrival_buffer {
                    rows_come_out_by_time,
                    equal_rows_are_kept,
                    eviction_by_size,
                    extreme_times,
                    a_failed_visit_keeps_the_row,
                    many_rows,
                    damage_is_corrupt,
                    against_a_model,
                }
                key_buffer {
                    b075_a_key_keeps_its_first_time,
                    b075_the_oldest_row_goes_when_there_is_no_room,
                    rows_come_out_by_time_and_key,
                    remove,
                    an_empty_buffer_has_no_rows,
                    totals_without_what_is_due,
                    a_failed_visit_keeps_the_row,
                    damage_is_corrupt,
                    against_a_model,
                }
                window {
                    put_get_delete,
                    a_fetch_includes_both_ends,
                    ranges_of_keys,
                    keys_come_before_times,
                    adversarial_keys_are_kept_apart,
                    b003_retention_is_exact_and_driven_by_the_greatest_start,
                    b004_an_expired_put_is_refused,
                    b005_a_cache_serves_no_expired_rows,
                    b017_the_edges_of_time,
                    times_before_1970,
                    without_retention_nothing_lives,
                    b020_backward_is_the_mirror_of_forward,
                    b022_duplicates_are_kept_and_nulls_are_nothing,
                    duplicates_go_on_behind_what_is_there,
                    stores_share_the_space,
                    one_seek_at_most_for_each_bucket,
                    one_seek_at_most_for_each_bucket_and_chunk,
                    a_scan_is_resumed_behind_its_place,
                    a_foreign_place_is_corrupt,
                    damaged_rows_are_corrupt,
                    against_a_model,
                    duplicates_against_a_model,
                    times_at_the_edges_against_a_model,
                }
                session {
                    put_fetch_remove,
                    a_session_ends_after_its_start,
                    find_is_an_overlap,
                    sessions_come_by_end_then_start,
                    sessions_are_merged,
                    adversarial_keys_are_kept_apart,
                    b003_retention_is_exact_and_by_the_end,
                    b004_an_expired_session_is_refused,
                    b017_the_edges_of_time,
                    b020_backward_is_the_mirror_of_forward,
                    one_seek_at_most_for_each_bucket,
                    one_seek_at_most_for_each_bucket_and_chunk,
                    a_scan_is_resumed_behind_its_place,
                    sessions_beside_windows,
                    against_a_model,
                    times_at_the_edges_against_a_model,
                }
            }
        }
    };
}

/// Stamps one `#[test]` per case for an engine: `conformance!(persistent, harness)` or `conformance!(volatile, harness)`.
/// See the [crate's documentation](crate).
#[macro_export]
macro_rules! conformance {
    (persistent, $harness:expr $(,)?) => {
        $crate::for_each_case! { [$crate::__stamp] persistent $harness }
    };
    (volatile, $harness:expr $(,)?) => {
        $crate::for_each_case! { [$crate::__stamp] volatile $harness }
    };
}

/// Stamps one `#[test]` per case of the store kinds: `kind_conformance!(subject)`, where the expression makes a
/// [`Subject`](crate::Subject) that is empty; it is evaluated several times per test. See [`run_kind`](crate::run_kind).
#[macro_export]
macro_rules! kind_conformance {
    ($subject:expr $(,)?) => {
        $crate::for_each_case! { [$crate::__stamp_kinds] $subject }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __stamp {
    ([persistent $harness:expr] any { $($any:tt)* } persistent { $($more:tt)* } volatile { $($less:tt)* } kind { $($kind:tt)* }) => {
        $crate::__stamp_areas! { $harness; { $($any)* $($more)* } { $($kind)* } }
    };
    ([volatile $harness:expr] any { $($any:tt)* } persistent { $($less:tt)* } volatile { $($more:tt)* } kind { $($kind:tt)* }) => {
        $crate::__stamp_areas! { $harness; { $($any)* $($more)* } { $($kind)* } }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __stamp_areas {
    ($harness:expr;
     { $($area:ident { $($case:ident,)* })* }
     { $($kind:ident { $($kind_case:ident,)* })* }) => {
        fn __harness() -> impl $crate::Harness {
            $harness
        }
        $(mod $area {
            $(#[test]
            fn $case() {
                $crate::$area::$case(&super::__harness());
            })*
        })*
        $(mod $kind {
            $(#[test]
            fn $kind_case() {
                $crate::through_shard(&super::__harness(), $crate::$kind::$kind_case);
            })*
        })*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __stamp_kinds {
    ([$subject:expr] any { $($any:tt)* } persistent { $($more:tt)* } volatile { $($less:tt)* }
     kind { $($kind:ident { $($case:ident,)* })* }) => {
        fn __subject() -> ::std::boxed::Box<dyn $crate::Subject> {
            ::std::boxed::Box::new($subject)
        }
        $(mod $kind {
            $(#[test]
            fn $case() {
                $crate::run_kind(&super::__subject, $crate::$kind::$case);
            })*
        })*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __list_cases {
    ([]
     any { $($any:ident { $($any_case:ident,)* })* }
     persistent { $($more:ident { $($more_case:ident,)* })* }
     volatile { $($less:ident { $($less_case:ident,)* })* }
     kind { $($kind:tt)* }) => {
        &[
            $($($crate::__case!(Nothing $any $any_case),)*)*
            $($($crate::__case!(Persistent $more $more_case),)*)*
            $($($crate::__case!(Volatile $less $less_case),)*)*
        ]
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __case {
    ($needs:ident $area:ident $case:ident) => {
        $crate::Case {
            area: stringify!($area),
            name: stringify!($case),
            needs: $crate::Needs::$needs,
            run: $crate::$area::$case,
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __list_kind_cases {
    ([] any { $($any:tt)* } persistent { $($more:tt)* } volatile { $($less:tt)* }
     kind { $($kind:ident { $($case:ident,)* })* }) => {
        &[$($($crate::KindCase { area: stringify!($kind), name: stringify!($case), run: $crate::$kind::$case },)*)*]
    };
}
