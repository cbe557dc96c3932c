//! The whole demo in this process: January with every engine, guarantee and number of workers, against the CSV.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use millpond::broker::{Broker, Outgoing, ProducerOptions, Sent};
use millpond::prelude::*;
use millpond_example_flights::data::{Data, Input};
use millpond_example_flights::demo::demo;
use millpond_example_flights::error::Result;
use millpond_example_flights::flight::Totals;
use millpond_example_flights::load::create_topics;
use millpond_example_flights::options::{
    BrokerOption, DemoOptions, EngineOption, GuaranteeOption, ReplayOptions, RunOptions,
};
use millpond_example_flights::ports::Ports;
use millpond_example_flights::run;
use millpond_example_flights::show::TotalsByCarrier;
use millpond_example_flights::view::{Style, View};

use crate::expected;

const ENGINES: &[EngineOption] = if cfg!(feature = "rocks") {
    &[EngineOption::Mem, EngineOption::Custom, EngineOption::Rocks]
} else {
    &[EngineOption::Mem, EngineOption::Custom]
};
const GUARANTEES: [GuaranteeOption; 2] = [GuaranteeOption::AtLeastOnce, GuaranteeOption::ExactlyOnce];

fn january() -> DemoOptions {
    DemoOptions {
        broker: BrokerOption::Embedded,
        replay: ReplayOptions { data: Data::January, repeat: 1, rate: None },
        run: RunOptions {
            engine: EngineOption::Mem,
            guarantee: GuaranteeOption::ExactlyOnce,
            state_dir: None,
            threads: 1,
        },
        json: None,
    }
}

fn totals(options: &DemoOptions) -> Result<TotalsByCarrier> {
    demo(options, &Ports::default(), &mut nothing_to_see())
}

fn nothing_to_see() -> View {
    View::new(Style::Plain, Box::new(std::io::sink()))
}

fn every_way(mut options: DemoOptions, expected: &BTreeMap<String, Totals>) {
    for engine in ENGINES {
        for guarantee in GUARANTEES {
            for threads in [1, 2] {
                options.run = RunOptions { engine: *engine, guarantee, threads, state_dir: None };
                assert_eq!(totals(&options).unwrap(), *expected, "{:?}", options.run);
            }
        }
    }
}

#[test]
fn january_is_exact_with_every_engine_guarantee_and_number_of_workers() {
    every_way(january(), &expected::totals(&expected::text(Path::new(expected::JANUARY))));
}

#[test]
fn the_year_is_exact_in_every_way() {
    let slow = std::env::var_os("MILLPOND_SLOW").is_some();
    let (Ok(file), true) = (Input::find(&Data::Year), slow) else {
        eprintln!("not run: needs MILLPOND_SLOW=1 and the file of the year, see examples/flights/data/README.md");
        return;
    };
    let options = DemoOptions { replay: ReplayOptions { data: Data::Year, ..january().replay }, ..january() };
    every_way(options, &expected::totals(&expected::text(Path::new(&file.to_string()))));
}

#[test]
fn three_years_of_january_are_three_times_the_totals() {
    let options = DemoOptions { replay: ReplayOptions { repeat: 3, ..january().replay }, ..january() };
    let once = expected::totals(&expected::text(Path::new(expected::JANUARY)));
    assert_eq!(totals(&options).unwrap(), expected::times(&once, 3));
}

#[test]
fn a_bad_row_ends_the_application_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.csv");
    let january = expected::text(Path::new(expected::JANUARY));
    let first = january.lines().take(5_000).collect::<Vec<_>>().join("\n");
    fs::write(&file, format!("{first}\nnot,a,flight\n")).unwrap();
    let replay = ReplayOptions { data: Data::Path(file), repeat: 1, rate: None };
    let error = totals(&DemoOptions { replay, ..self::january() }).unwrap_err().report();
    assert!(error.contains("wrong number of fields") && error.contains("line=`5001`"), "{error}");
}

#[test]
fn a_record_that_is_no_flight_ends_the_run_with_its_place() {
    let (broker, ports) = (EmbeddedBroker::new(), Ports::default());
    create_topics(&broker).unwrap();
    let mut producer = broker.producer(&ProducerOptions::default()).unwrap();
    let topic = producer.topic("flights");
    let (key, value) = (Some(&b"UA1"[..]), Some(&b"secret"[..]));
    let record = Outgoing { topic, partition: 2, timestamp: 1, key, value, headers: &[], tag: 0 };
    assert_eq!(producer.send(&record).unwrap(), Sent::Queued);
    assert_eq!(producer.flush(Duration::from_secs(1)).unwrap().outstanding, 0);

    let app = run::start(broker.clone(), Settings::new("flights"), &january().run, None).unwrap();
    let error = run::until_end_of_input(&app, &broker, None, &ports, &mut nothing_to_see()).unwrap_err().report();
    for part in ["the application failed", "flights", "partition=`2`", "offset=`0`"] {
        assert!(error.contains(part), "{error}");
    }
    assert!(!error.contains("secret"), "{error}");
    assert!(app.shutdown().is_err());
}

#[test]
fn without_its_topics_the_application_does_not_start() {
    let error = run::start(EmbeddedBroker::new(), Settings::new("flights"), &january().run, None).unwrap_err().report();
    assert!(error.contains("flights"), "{error}");
}

#[test]
fn a_state_directory_with_something_in_it_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("precious");
    fs::write(&file, "gold").unwrap();
    let run = RunOptions { state_dir: Some(folder.path().to_owned()), ..january().run };
    let error = totals(&DemoOptions { run, ..january() }).unwrap_err().report();
    assert!(error.contains("not empty") && error.contains(&*folder.path().to_string_lossy()), "{error}");
    assert_eq!(fs::read_to_string(file).unwrap(), "gold");
}

#[test]
fn a_state_directory_is_made_where_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    for (n, engine) in ENGINES.iter().enumerate() {
        let state_dir = folder.path().join(format!("new/{n}"));
        let run = RunOptions { engine: *engine, state_dir: Some(state_dir.clone()), ..january().run };
        let expected = expected::totals(&expected::text(Path::new(expected::JANUARY)));
        assert_eq!(totals(&DemoOptions { run, ..january() }).unwrap(), expected);
        assert!(state_dir.read_dir().unwrap().next().is_some(), "{engine:?}: the state stays there");
    }
}
