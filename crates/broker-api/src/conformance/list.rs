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
            }
            log {
                order_is_kept []
                keys_and_values_may_be_null_or_empty []
                headers_keep_order_duplicates_and_nulls []
                timestamps_are_kept []
                partitions_are_independent []
                more_than_one_poll_lends []
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
