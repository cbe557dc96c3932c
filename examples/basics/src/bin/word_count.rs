//! Counts words: lines come in, and for each word how often it has come goes out.
//!
//! ```sh
//! cargo run -p millpond-example-basics --bin word-count
//! ```
//!
//! Words are grouped by themselves, so they go through a topic of the library's own on the way (`word-count-words-repartition`):
//! behind it all that is one word comes to one task, whatever line it was in. The counts are kept in a store, which is logged
//! to a topic of its own (`word-count-counts-changelog`): an application that starts anew goes on from there.

use std::collections::BTreeMap;

use millpond::prelude::*;
use millpond::topology::BuildError;
use millpond_example_basics::Stage;

const APPLICATION: &str = "word-count";
const LINES: &str = "lines";
const COUNTS: &str = "counts";

fn topology() -> Result<Topology, BuildError> {
    let mut topology = Topology::builder();
    topology
        .stream(LINES, Consumed::with(Utf8, Utf8))
        .flat_map_values(|line| words(&line))
        .group_by(|_line_number, word| word.clone(), Grouped::named("words").key(Utf8).value(Utf8))
        .count(Materialized::named("counts"))
        .to_stream()
        .to(COUNTS, Produced::with(Utf8, I64));
    topology.build()
}

/// What is neither a letter nor an apostrophe stands between words.
fn words(line: &str) -> Vec<String> {
    let words = line.split(|c: char| !c.is_alphabetic() && c != '\'');
    words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

fn main() -> millpond_example_basics::Result {
    let stage = Stage::with_topics(&[LINES, COUNTS])?;
    let poem = [
        "The wind was a torrent of darkness among the gusty trees,",
        "The moon was a ghostly galleon tossed upon cloudy seas,",
        "The road was a ribbon of moonlight over the purple moor,",
    ];
    let lines = (0..).zip(poem).map(|(number, line)| (number.to_string(), line, number));
    stage.write(LINES, Utf8, Utf8, lines)?;

    let app = App::builder(APPLICATION)
        .broker(stage.broker())
        .engine(Memory::default())
        .guarantee(Guarantee::ExactlyOnce)
        .start(topology()?)?;
    stage.await_processed(APPLICATION, &[LINES, "word-count-words-repartition"])?;
    app.shutdown()?;

    // Each update of a count was written; the last one of a word stands.
    let updates = stage.output(COUNTS, Utf8, I64)?.ready()?;
    let counts: BTreeMap<_, _> = updates.into_iter().map(|update| (update.key, update.value)).collect();
    for (word, count) in counts {
        println!("{word} {count}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use millpond_testkit::Driver;

    use super::*;

    #[test]
    fn every_word_of_every_line_counts() {
        let driver = Driver::builder(topology().unwrap()).build().unwrap();
        let lines = driver.input(LINES, Utf8, Utf8);
        let counts = driver.output(COUNTS, Utf8, I64);
        let expected = |rows: &[(&str, i64)]| rows.iter().map(|(w, n)| ((*w).to_owned(), *n)).collect::<Vec<_>>();

        lines.pipe("1", "To be, or not to be", 1_000).unwrap();
        assert_eq!(
            counts.read_key_values(),
            expected(&[("to", 1), ("be", 1), ("or", 1), ("not", 1), ("to", 2), ("be", 2)])
        );
        lines.pipe("2", "Isn't that it? 'Tis - to BE.", 2_000).unwrap();
        assert_eq!(counts.read_latest()["be"], 3);
        assert_eq!(driver.store("counts", Utf8, I64).get("isn't"), Some(1));
    }

    #[test]
    fn counts_outlive_the_process() {
        let driver = Driver::builder(topology().unwrap()).build().unwrap();
        let lines = driver.input(LINES, Utf8, Utf8);
        lines.pipe("1", "again", 1_000).unwrap();
        driver.restart_without_state().unwrap();
        lines.pipe("2", "and again", 2_000).unwrap();
        assert_eq!(driver.output(COUNTS, Utf8, I64).read_latest()["again"], 2);
    }
}
