//! The job on real Kafka, through every kind of crash: real processes, real kills, brokers of the tests' own.
//!
//! Each test has a short form, with all its kinds of fault, on January; with `MILLPOND_SLOW=1` the full one, on the year. What
//! was measured is printed; `docs/reliability.md` has the figures of a full run.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a panic is how a test reports")]
#![expect(
    clippy::disallowed_methods,
    reason = "processes and brokers have no clock that a test could move: they are watched and waited for"
)]

mod broker;
mod events;
#[path = "../suite/expected.rs"]
mod expected;
mod faults;
mod instances;
mod kills;
mod outputs;
mod rebalance;
mod totals;
mod world;

use std::process::ExitCode;

use millpond_kafka_dev::harness::{Needs, Test, run};

fn main() -> ExitCode {
    // `RUST_LOG` shows what the library tells, where a test runs the application in this process.
    let filter = tracing_subscriber::EnvFilter::from_default_env();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(std::io::stderr).init();
    let own = |name: &str, body: fn()| Test::new(name, Needs::OwnBroker, body);
    run(vec![
        own("totals::repeated_years_are_so_many_times_the_totals", totals::repeated_years_are_so_many_times_the_totals),
        own("totals::at_least_once_without_kills_is_exact", totals::at_least_once_without_kills_is_exact),
        own("kills::b134_no_duplicates_after_kill_9", kills::b134_no_duplicates_after_kill_9),
        own("kills::at_least_once_loses_nothing", kills::at_least_once_loses_nothing),
        own("instances::stopped_and_killed_in_turn", instances::stopped_and_killed_in_turn),
        own("instances::frozen_past_its_session", instances::frozen_past_its_session),
        own("broker::killed_in_mid_run", broker::killed_in_mid_run),
        own("broker::restarted_in_mid_run", broker::restarted_in_mid_run),
        own("broker::away_for_long", broker::away_for_long),
        own("rebalance::tasks_that_stay_do_not_wait_for_a_join", rebalance::tasks_that_stay_do_not_wait_for_a_join),
        own("faults::no_broker_at_start", faults::no_broker_at_start),
        own("faults::something_else_answers", faults::something_else_answers),
        own("faults::wrong_credentials", faults::wrong_credentials),
        own("faults::missing_acl", faults::missing_acl),
        own("faults::the_documented_acls_suffice", faults::the_documented_acls_suffice),
        own("faults::acl_taken_away_at_run_time", faults::acl_taken_away_at_run_time),
        own("faults::untrusted_certificate", faults::untrusted_certificate),
        own("faults::input_topic_deleted_under_the_application", faults::input_topic_deleted_under_the_application),
        own("faults::output_topic_deleted_under_the_application", faults::output_topic_deleted_under_the_application),
        own(
            "faults::internal_topic_deleted_under_the_application",
            faults::internal_topic_deleted_under_the_application,
        ),
        own("faults::too_old_a_broker", faults::too_old_a_broker),
    ])
}
