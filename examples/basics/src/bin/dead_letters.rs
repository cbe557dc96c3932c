//! Goes on where records are bad, and loses none of them: they go to a topic of dead letters, with the cause in their headers.
//!
//! ```sh
//! cargo run -p millpond-example-basics --bin dead-letters
//! ```
//!
//! A measurement may be no JSON at all (the source fails), or say what cannot be (the program's own code fails). By default the
//! first such record ends the application, which is right for most: it stands there until somebody has looked. Here three
//! settings say otherwise. A record that fails has no effect but its letter, which is written in the same transaction as the
//! others' results; somebody can mend it and write it to the input again.

use millpond::prelude::*;
use millpond::topology::{BuildError, Error};
use millpond_example_basics::Stage;
use serde::{Deserialize, Serialize};

const APPLICATION: &str = "dead-letters";
/// Sensors, and what they say.
const MEASUREMENTS: &str = "measurements";
/// The same in kelvin.
const KELVIN: &str = "kelvin";
/// What could not be processed.
const DEAD: &str = "measurements-dead";

/// What a sensor says, as JSON.
#[derive(Serialize, Deserialize)]
struct Measurement {
    celsius: f64,
}

fn topology() -> Result<Topology, BuildError> {
    let mut topology = Topology::builder();
    topology
        .stream(MEASUREMENTS, Consumed::with(Utf8, Json::<Measurement>::default()))
        .try_map_values(|measurement| {
            let kelvin = measurement.celsius + 273.15;
            if kelvin < 0.0 { Err(Error::other("colder than can be")) } else { Ok(kelvin) }
        })
        .to(KELVIN, Produced::with(Utf8, F64));
    topology.build()
}

/// `deserialization.exception.handler`, `processing.exception.handler` and `errors.dead.letter.queue.topic.name`.
fn settings() -> Settings {
    Settings {
        guarantee: Guarantee::ExactlyOnce,
        on_deserialization_error: ErrorPolicy::DeadLetter,
        on_processing_error: ErrorPolicy::DeadLetter,
        dead_letter_topic: Some(DEAD.to_owned()),
        ..Settings::new(APPLICATION)
    }
}

fn main() -> millpond_example_basics::Result {
    let stage = Stage::with_topics(&[MEASUREMENTS, KELVIN, DEAD])?;
    let measurements = [
        ("cellar", r#"{"celsius": 11.5}"#, 1),
        ("roof", "celsius: 24", 2),
        ("garden", r#"{"celsius": -400}"#, 3),
        ("roof", r#"{"celsius": 24.25}"#, 4),
    ];
    stage.write(MEASUREMENTS, Utf8, Utf8, measurements)?;

    let app = App::builder(APPLICATION)
        .broker(stage.broker())
        .engine(Memory::default())
        .settings(settings())
        .start(topology()?)?;
    stage.await_processed(APPLICATION, &[MEASUREMENTS])?;
    app.shutdown()?;

    for measured in stage.output(KELVIN, Utf8, F64)?.ready()? {
        println!("{}: {:.2} K", measured.key, measured.value);
    }
    for letter in stage.output(DEAD, Utf8, Utf8)?.ready()? {
        let header = |name| letter.headers.get(name).and_then(|header| header.value.as_deref()).unwrap_or_default();
        let cause = String::from_utf8_lossy(header("__streams.errors.exception"));
        let offset = String::from_utf8_lossy(header("__streams.errors.offset"));
        println!("{} of {} at offset {offset}: {cause}", letter.value, letter.key);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use millpond_testkit::{Driver, InputTopic};

    use super::*;

    fn driver() -> (Driver, InputTopic<String, String>) {
        let driver = Driver::builder(topology().unwrap())
            .guarantee(Guarantee::ExactlyOnce)
            .setting("deserialization.exception.handler", "dead-letter")
            .setting("processing.exception.handler", "dead-letter")
            .setting("errors.dead.letter.queue.topic.name", DEAD)
            .build()
            .unwrap();
        let measurements = driver.input(MEASUREMENTS, Utf8, Utf8);
        (driver, measurements)
    }

    #[test]
    fn a_bad_record_is_a_letter_and_the_next_one_is_processed() {
        let (driver, measurements) = driver();
        measurements.pipe("a", "{}", 1).unwrap();
        measurements.pipe("a", r#"{"celsius": -300}"#, 2).unwrap();
        measurements.pipe("a", r#"{"celsius": 0}"#, 3).unwrap();
        assert_eq!(driver.output(KELVIN, Utf8, F64).read_values(), [273.15]);

        let letters = driver.output(DEAD, Utf8, Utf8).read_all();
        assert_eq!(
            letters.iter().map(|letter| letter.value.as_str()).collect::<Vec<_>>(),
            ["{}", r#"{"celsius": -300}"#]
        );
        let cause = |n: usize| letters[n].headers.get("__streams.errors.exception").unwrap().value.clone().unwrap();
        assert!(cause(0).starts_with(b"deserialization: "), "{:?}", cause(0));
        assert_eq!(&cause(1)[..], b"processing: colder than can be");
    }

    #[test]
    fn without_the_settings_a_bad_record_ends_the_application() {
        let driver = Driver::builder(topology().unwrap()).build().unwrap();
        let error = driver.input(MEASUREMENTS, Utf8, Utf8).pipe("a", "{}", 1).unwrap_err();
        assert!(error.chain().to_string().contains(MEASUREMENTS), "{}", error.chain());
    }
}
