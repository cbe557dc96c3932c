//! The whole demo in this process: January with every engine, guarantee and number of workers, against the CSV.

use std::fs;
use std::path::Path;
use std::time::Duration;

use millpond::broker::{Broker, Outgoing, ProducerOptions, Sent};
use millpond::prelude::*;
use millpond_example_flights::data::{Data, Input};
use millpond_example_flights::demo::demo;
use millpond_example_flights::error::Result;
use millpond_example_flights::load::create_topics;
use millpond_example_flights::options::{
    BrokerOption, DemoOptions, EngineOption, GuaranteeOption, ReplayOptions, RunOptions,
};
use millpond_example_flights::ports::Ports;
use millpond_example_flights::run;
use millpond_example_flights::view::{Style, View};

use crate::{assert_january, assert_results, expected};

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

fn results(options: &DemoOptions) -> Result<String> {
    demo(options, &Ports::default(), &mut nothing_to_see())?.to_json()
}

fn nothing_to_see() -> View {
    View::new(Style::Plain, Box::new(std::io::sink()))
}

fn every_way(mut options: DemoOptions, file: &Path) {
    for engine in ENGINES {
        for guarantee in GUARANTEES {
            for threads in [1, 2] {
                options.run = RunOptions { engine: *engine, guarantee, threads, state_dir: None };
                eprintln!("{:?}", options.run);
                assert_results(&results(&options).unwrap(), file, 1);
            }
        }
    }
}

#[test]
fn january_is_exact_with_every_engine_guarantee_and_number_of_workers() {
    every_way(january(), Path::new(expected::JANUARY));
}

#[test]
fn the_year_is_exact_in_every_way() {
    let slow = std::env::var_os("MILLPOND_SLOW").is_some();
    let (Ok(file), true) = (Input::find(&Data::Year), slow) else {
        eprintln!("not run: needs MILLPOND_SLOW=1 and the file of the year, see examples/flights/data/README.md");
        return;
    };
    let options = DemoOptions { replay: ReplayOptions { data: Data::Year, ..january().replay }, ..january() };
    every_way(options, Path::new(&file.to_string()));
}

#[test]
fn three_years_of_january_are_exact_too() {
    let options = DemoOptions { replay: ReplayOptions { repeat: 3, ..january().replay }, ..january() };
    assert_results(&results(&options).unwrap(), Path::new(expected::JANUARY), 3);
}

/// Nothing that leaves: there is no hour that could be over.
#[test]
fn without_departures_it_ends_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let january = expected::text(Path::new(expected::JANUARY));
    let header = january.lines().next().unwrap();
    let cancelled = "1357035300000,,AA,7,,JFK,MIA,,,,1089\n";
    for (rows, carriers) in [("", "{}"), (cancelled, "{\n    \"AA\": ")] {
        let file = folder.path().join("few.csv");
        fs::write(&file, format!("{header}\n{rows}")).unwrap();
        let replay = ReplayOptions { data: Data::Path(file), repeat: 1, rate: None };
        let json = results(&DemoOptions { replay, ..self::january() }).unwrap();
        assert!(json.starts_with(&format!("{{\n  \"carriers\": {carriers}")), "{json}");
        assert!(json.ends_with("\"hourly\": {},\n  \"legs\": {},\n  \"late\": 0\n}\n"), "{json}");
    }
}

#[test]
fn a_bad_row_ends_the_application_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.csv");
    let january = expected::text(Path::new(expected::JANUARY));
    let first = january.lines().take(5_000).collect::<Vec<_>>().join("\n");
    fs::write(&file, format!("{first}\nnot,a,flight\n")).unwrap();
    let replay = ReplayOptions { data: Data::Path(file), repeat: 1, rate: None };
    let error = results(&DemoOptions { replay, ..self::january() }).unwrap_err().report();
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

    let app = run::start(broker.clone(), Settings::new("flights"), &january().run, run::IDLE_AT_END, None).unwrap();
    let error = run::until_end_of_input(&app, &broker, None, &ports, &mut nothing_to_see()).unwrap_err().report();
    for part in ["the application failed", "flights", "partition=`2`", "offset=`0`"] {
        assert!(error.contains(part), "{error}");
    }
    assert!(!error.contains("secret"), "{error}");
    assert!(app.shutdown().is_err());
}

#[test]
fn without_its_topics_the_application_does_not_start() {
    let error = run::start(EmbeddedBroker::new(), Settings::new("flights"), &january().run, run::IDLE_AT_END, None)
        .unwrap_err()
        .report();
    assert!(error.contains("flights"), "{error}");
}

#[test]
fn a_state_directory_with_something_in_it_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("precious");
    fs::write(&file, "gold").unwrap();
    let run = RunOptions { state_dir: Some(folder.path().to_owned()), ..january().run };
    let error = results(&DemoOptions { run, ..january() }).unwrap_err().report();
    assert!(error.contains("not empty") && error.contains(&*folder.path().to_string_lossy()), "{error}");
    assert_eq!(fs::read_to_string(file).unwrap(), "gold");
}

#[test]
fn a_state_directory_is_made_where_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    for (n, engine) in ENGINES.iter().enumerate() {
        let state_dir = folder.path().join(format!("new/{n}"));
        let run = RunOptions { engine: *engine, state_dir: Some(state_dir.clone()), ..january().run };
        assert_january(&results(&DemoOptions { run, ..january() }).unwrap());
        assert!(state_dir.read_dir().unwrap().next().is_some(), "{engine:?}: the state stays there");
    }
}
