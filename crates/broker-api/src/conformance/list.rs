//! The list of all cases, once; the table and the tests are made from it.

/// Hands the list to another macro: `__broker_cases!([macro] tokens)` becomes `macro! { [tokens] the list }`.
#[doc(hidden)]
#[macro_export]
macro_rules! __broker_cases {
    ([$($then:tt)*] $($tokens:tt)*) => {
        $($then)*! { [$($tokens)*]
            topics {
                created_topic_is_described []
                topic_that_exists_is_refused []
                creation_answers_each_item []
                unknown_topic_is_described_as_none []
                offsets_of_unknown_topic_or_partition []
                new_topic_is_empty []
                bad_topics_are_refused_by_item []
                configs_of_creation_are_described []
                set_configs_leaves_others_alone []
                configs_of_unknown_topic_are_not_set []
                deleted_topic_is_gone []
                topic_created_anew_is_another []
                offsets_by_time []
            }
            log {
                order_is_kept []
                keys_and_values_may_be_null_or_empty []
                headers_keep_order_duplicates_and_nulls []
                timestamps_are_kept []
                partitions_are_independent []
                more_than_one_poll_lends []
                large_values_come_whole []
                append_time_is_the_brokers []
                producers_keep_their_own_order []
                topics_have_one_number_per_name []
                flush_reports_a_row_per_partition []
                record_over_the_topics_size_is_refused []
                record_from_the_future_is_refused []
                null_key_is_refused_where_compacted []
                refused_record_amid_others_is_named []
                send_refuses_what_no_broker_takes []
                record_for_an_unknown_partition_fails []
                old_timestamps_are_taken []
            }
            reading {
                nothing_assigned_lends_nothing []
                starts_where_it_is_told []
                position_is_at_least_the_assigned_one []
                position_at_the_very_end []
                known_end_tells_how_much_there_is []
                new_records_come_to_a_waiting_consumer []
                sources_are_the_callers_numbers []
                seek_goes_back_and_forth []
                paused_partition_goes_on_where_it_was []
                removed_partition_is_silent []
                others_go_on_when_one_is_added []
                added_source_replaces_the_former []
                offset_beyond_the_end_is_a_fault_once []
                faulty_partition_leaves_others_alone []
                waker_ends_the_next_poll []
            }
            transactions {
                committed_records_are_seen []
                aborted_records_are_not_seen []
                abort_without_a_flush_shows_nothing []
                open_transaction_withholds []
                uncommitted_isolation_sees_all []
                markers_take_an_offset []
                position_passes_markers_and_aborted_records []
                reading_starts_anywhere_in_a_transaction []
                trailing_abort_moves_a_waiting_reader []
                empty_transactions_leave_no_trace []
                transaction_spans_partitions_and_topics []
                many_records_in_one_transaction []
                flush_reports_are_per_transaction []
                oldest_open_transaction_holds_the_stable_end []
                interleaved_producers_with_a_third_aborted []
                refused_record_makes_the_commit_an_abort []
                refused_record_shows_in_the_flush []
                record_refused_by_send_is_not_of_the_transaction []
                plain_producers_have_no_transactions []
                send_before_init_is_wrong []
                init_aborts_the_open_transaction []
                init_keeps_what_was_committed []
                fenced_at_commit []
                fenced_at_abort []
                fenced_at_flush []
                fenced_in_a_new_transaction []
                other_ids_are_not_fenced []
                init_again_ends_ones_own_transaction []
                transaction_times_out [Pass]
                transaction_lives_until_its_timeout [Pass]
            }
            offsets {
                nothing_committed_is_none []
                commit_keeps_epoch_and_metadata []
                commit_may_go_back []
                partitions_are_answered_in_order []
                groups_have_offsets_of_their_own []
                offsets_outlive_the_members []
                transaction_commits_records_and_offsets []
                transaction_of_offsets_alone []
                aborted_transaction_changes_no_offset []
                poisoned_transaction_changes_no_offset []
                fenced_producer_changes_no_offset []
                transactions_of_two_members []
            }
            fencing {
                current_member_commits []
                stale_and_future_generations_are_fenced []
                generation_of_before_a_rebalance_is_fenced []
                unknown_and_empty_ids_are_fenced []
                member_that_left_is_fenced []
                expired_member_is_fenced [Pass]
                former_incarnation_of_a_static_member_is_fenced []
                no_generation_and_no_id_in_a_live_group []
                no_generation_with_an_id_is_fenced []
                empty_group_fences_generations []
                empty_group_takes_commits_without_a_generation []
                group_that_never_was []
                partitions_of_others_are_not_fenced []
                commit_before_rejoining []
                commit_between_join_and_sync []
                member_left_while_its_transaction_was_open []
            }
            groups {
                first_join_is_given_an_id []
                single_member_leads []
                leader_sees_all_members []
                follower_waits_for_the_leaders_assignment []
                late_sync_gets_the_same_assignment []
                member_without_an_assignment_gets_no_bytes []
                bytes_are_opaque []
                assignment_of_more_than_a_megabyte_is_refused []
                newcomer_is_announced_by_the_next_heartbeat []
                generations_rise []
                heartbeat_between_join_and_sync_is_fine []
                leaving_is_announced_at_once []
                leaver_is_unknown []
                leader_that_leaves_is_replaced []
                leaver_ends_a_pending_rebalance []
                emptied_group_begins_anew []
                stale_generation_is_illegal []
                unknown_member_is_told_so []
                silent_member_expires [Pass]
                heartbeats_keep_a_member [Pass]
                member_that_does_not_rejoin_is_removed []
                pending_join_does_not_expire [Pass]
                leader_that_never_syncs_is_removed []
                follower_rejoins_unnoticed_with_the_same_data []
                follower_with_changed_data_starts_a_rebalance []
                leader_always_starts_a_rebalance []
                leader_sees_static_ids []
                static_member_takes_its_place_back []
                static_member_returns_unnoticed_with_changed_data []
                static_leader_returns_and_keeps_the_assignment []
                former_incarnation_is_fenced []
                static_member_may_leave []
                other_protocol_is_refused []
                session_timeout_has_limits []
                groups_are_independent []
                three_members_come_and_go []
                join_in_flight_answers_nothing_else []
            }
            members {
                machine_alone_becomes_stable []
                machines_share_a_generation []
                newcomer_lets_the_others_commit_first []
                machine_that_leaves_is_missed_at_once []
                new_user_data_reaches_the_leader []
                frozen_machine_is_lost_and_comes_back [Pass]
                static_machine_takes_its_place_back []
                twin_of_a_static_machine_stops []
                machine_of_another_protocol_is_refused []
            }
            retention {
                deleted_records_move_the_start []
                reading_below_the_start_is_a_fault []
                minus_one_deletes_all []
                deletion_beyond_the_end_is_out_of_range []
                deletion_does_not_go_back []
                deletion_depends_on_the_policy []
                deletion_answers_each_item []
                compaction_keeps_the_last_of_each_key [Compact]
                compaction_moves_neither_start_nor_end [Compact]
                reading_starts_inside_a_hole [Compact]
                tombstones_stay_then_go [Compact Pass]
                compaction_of_transactions [Compact]
                compaction_leaves_open_transactions_alone [Compact]
                old_records_expire [Expire]
                expiry_under_a_reader_is_a_fault [Expire]
                records_without_retention_stay [Expire]
                compacted_topics_do_not_expire [Expire]
            }
        }
    };
}

/// The list as a table.
#[doc(hidden)]
#[macro_export]
macro_rules! __broker_case_table {
    ([] $($file:ident { $($case:ident [$($need:ident)*])* })*) => {
        &[$($($crate::conformance::Case {
            name: concat!(stringify!($file), "::", stringify!($case)),
            needs: &[$($crate::conformance::Ability::$need),*],
            run: $file::$case,
        }),*),*]
    };
}

/// The list as tests.
#[doc(hidden)]
#[macro_export]
macro_rules! __broker_case_tests {
    ([] $($file:ident { $($case:ident [$($need:ident)*])* })*) => {
        $(mod $file {
            $(#[test]
            fn $case() {
                $crate::conformance::run(
                    concat!(stringify!($file), "::", stringify!($case)),
                    &mut super::broker_conformance_environment(),
                );
            })*
        })*
    };
}

/// Stamps one `#[test]` per case of the list, in a module per file of cases.
///
/// The expression makes the [`Environment`](crate::conformance::Environment); it is evaluated for every test anew. Call it
/// once, at the top of a file under `tests/`: `millpond_broker_api::broker_conformance!(MyEnvironment::new());`
#[macro_export]
macro_rules! broker_conformance {
    ($environment:expr) => {
        fn broker_conformance_environment() -> impl $crate::conformance::Environment {
            $environment
        }
        $crate::__broker_cases!([$crate::__broker_case_tests]);
    };
}
