//! The file and its flights: January against an independent count, repeated years, bad rows.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use millpond_example_flights::data::{Data, Input};
use millpond_example_flights::error::Result;
use millpond_example_flights::flight::{Flight, Totals};
use millpond_example_flights::show::TotalsByCarrier;
use tempfile::TempDir;

use crate::expected;

const HEADER: &str =
    "scheduled_ms,departed_ms,carrier,flight,tailnum,origin,dest,dep_delay_min,arr_delay_min,air_time_min,distance_mi";
const GOOD: &str = "1357035300000,1357035420000,UA,1545,N14228,EWR,IAH,2,11,227,1400";
const CANCELLED: &str = "1357035300000,,AA,7,,JFK,MIA,,,,1089";

/// A file that is gone with its folder.
struct Sample {
    path: PathBuf,
    _folder: TempDir,
}

fn sample(bytes: &[u8]) -> Sample {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("some.csv");
    fs::write(&path, bytes).unwrap();
    Sample { path, _folder: folder }
}

fn read(bytes: &[u8]) -> Result<Vec<Flight>> {
    let sample = sample(bytes);
    Input::find(&Data::Path(sample.path.clone()))?.flights()?.collect()
}

fn refusal(rows: &[&str]) -> String {
    let text = format!("{HEADER}\n{}\n", rows.join("\n"));
    read(text.as_bytes()).unwrap_err().report()
}

#[test]
fn january_is_what_an_independent_count_says() {
    let mut totals = TotalsByCarrier::new();
    let mut rows = 0;
    for flight in Input::find(&Data::January).unwrap().flights().unwrap() {
        let flight = flight.unwrap();
        rows += 1;
        let of = totals.entry(flight.carrier.clone()).or_default();
        *of = of.add(&flight);
    }
    assert_eq!((rows, totals.len()), (27_004, 16));
    let expected = expected::carriers(&expected::text(Path::new(expected::JANUARY)), 1);
    assert_eq!(serde_json::to_value(totals).unwrap(), expected);
}

/// The figures of the data's page, by the means of the tests.
#[track_caller]
fn figures(text: &str) -> [usize; 6] {
    let results = expected::results(text, 1);
    let rows = |part: &str| results[part].as_object().unwrap().values().cloned().collect::<Vec<_>>();
    let hours =
        rows("hourly").iter().flat_map(|hours| hours.as_object().unwrap().values().cloned()).collect::<Vec<_>>();
    let left = hours.iter().map(|hour| hour["departures"].as_u64().unwrap()).sum::<u64>();
    let sessions = rows("legs").iter().flat_map(|sessions| sessions.as_array().unwrap().clone()).collect::<Vec<_>>();
    let legs = sessions.iter().map(|session| session["legs"].as_u64().unwrap()).sum::<u64>();
    let late = results["late"].as_u64().unwrap();
    let n = |n: u64| usize::try_from(n).unwrap();
    [n(left), n(legs), n(late), hours.len(), rows("legs").len(), sessions.len()]
}

#[test]
fn the_figures_of_the_page_are_the_files() {
    let january = figures(&expected::text(Path::new(expected::JANUARY)));
    assert_eq!(january, [26_483, 26_483, 23_459, 1_763, 3_141, 23_698]);
    if let Ok(file) = Input::find(&Data::Year) {
        let year = figures(&expected::text(Path::new(&file.to_string())));
        assert_eq!(year, [328_521, 328_521, 289_395, 21_105, 4_037, 293_787]);
    }
}

/// The order of `flights-ordered`.
#[test]
fn the_file_is_in_the_order_of_the_schedule() {
    let flights = Input::find(&Data::January).unwrap().flights().unwrap();
    let scheduled = flights.map(|flight| flight.unwrap().scheduled_ms).collect::<Vec<_>>();
    assert!(scheduled.is_sorted());
}

#[test]
fn a_row_is_a_flight() {
    let flights = read(format!("{HEADER}\n{GOOD}\n{CANCELLED}\n").as_bytes()).unwrap();
    let [left, cancelled] = &flights[..] else { panic!("two flights") };
    assert_eq!(left.number(), "UA1545");
    assert_eq!(left.event_time(), 1_357_035_420_000, "the departure");
    assert_eq!((left.tailnum.as_deref(), left.dep_delay_min), (Some("N14228"), Some(2)));
    assert_eq!(cancelled.event_time(), 1_357_035_300_000, "the schedule");
    assert!(left.has_left() && !cancelled.has_left());
    assert_eq!((&cancelled.tailnum, cancelled.departed_ms, cancelled.dep_delay_min), (&None, None, None));

    let json = serde_json::to_string(left).unwrap();
    assert_eq!(serde_json::from_str::<Flight>(&json).unwrap(), *left);
    let both = Totals::default().add(left).add(cancelled);
    assert_eq!(both, Totals { flights: 2, cancelled: 1, dep_delay_min_sum: 2, distance_mi_sum: 2_489 });
}

#[test]
fn a_file_may_be_gzipped_in_parts_and_its_columns_in_any_order() {
    let mut bytes = Vec::new();
    for part in [format!("{HEADER}\n"), format!("{GOOD}\n")] {
        let mut encoder = GzEncoder::new(&mut bytes, Compression::fast());
        encoder.write_all(part.as_bytes()).unwrap();
        encoder.finish().unwrap();
    }
    let backwards = |line: &str| line.split(',').rev().collect::<Vec<_>>().join(",");
    let reordered = format!("{}\n{}\n", backwards(HEADER), backwards(GOOD));
    let plain = read(format!("{HEADER}\n{GOOD}\n").as_bytes()).unwrap();
    assert_eq!(plain.len(), 1);
    assert_eq!(read(&bytes).unwrap(), plain);
    assert_eq!(read(reordered.as_bytes()).unwrap(), plain);
}

#[test]
fn each_repetition_is_a_year_later() {
    const YEAR_MS: i64 = 365 * 24 * 60 * 60 * 1_000;
    let sample = sample(format!("{HEADER}\n{GOOD}\n{CANCELLED}\n").as_bytes());
    let input = Input::find(&Data::Path(sample.path.clone())).unwrap();
    let once = input.flights().unwrap().collect::<Result<Vec<_>>>().unwrap();
    let thrice = input.repeated(3).collect::<Result<Vec<_>>>().unwrap();
    assert_eq!(thrice.len(), 6);
    for (n, flight) in (0..).zip(&thrice) {
        let (year, original) = (n / 2, &once[usize::try_from(n % 2).unwrap()]);
        assert_eq!(flight.scheduled_ms, original.scheduled_ms + year * YEAR_MS);
        assert_eq!(flight.departed_ms, original.departed_ms.map(|ms| ms + year * YEAR_MS));
        assert_eq!(flight.number(), original.number());
    }
    let numbers = thrice.iter().map(Flight::event_time).collect::<BTreeSet<_>>();
    assert_eq!(numbers.len(), 6, "no two at the same time");
}

#[test]
fn a_bad_row_names_file_line_and_column() {
    let late = refusal(&[GOOD, CANCELLED, &GOOD.replace("1357035420000", "soon")]);
    for part in ["bad row", "some.csv`", "line=`4`", "column=`departed_ms`", "invalid digit"] {
        assert!(late.contains(part), "{late}");
    }
    assert!(!late.contains("soon"), "the row itself is not shown: {late}");

    let short = refusal(&[GOOD, "1,2,3"]);
    assert!(short.contains("wrong number of fields") && short.contains("line=`3`"), "{short}");
    let missing = refusal(&[&GOOD.replace("1357035300000", "")]);
    assert!(missing.contains("column=`scheduled_ms`") && missing.contains("line=`2`"), "{missing}");
    let negative = refusal(&[GOOD, &GOOD.replace("1357035300000", "-1")]);
    assert!(negative.contains("before 1970") && negative.contains("line=`3`"), "{negative}");
    let fraction = refusal(&[&GOOD.replace(",1400", ",1400.5")]);
    assert!(fraction.contains("column=`distance_mi`"), "{fraction}");

    let garbage = [HEADER.as_bytes(), b"\n1357035300000,,\xff\xfe,7,,JFK,MIA,,,,1089\n"].concat();
    let garbage = read(&garbage).unwrap_err().report();
    assert!(garbage.contains("not UTF-8") && garbage.contains("line=`2`"), "{garbage}");
}

#[test]
fn nothing_comes_after_a_bad_row() {
    let sample = sample(format!("{HEADER}\n1,2,3\n{GOOD}\n").as_bytes());
    let mut flights = Input::find(&Data::Path(sample.path.clone())).unwrap().flights().unwrap();
    assert!(flights.next().unwrap().is_err());
    assert!(flights.next().is_none());
}

#[test]
fn a_file_of_something_else_is_refused_by_its_header() {
    for bytes in [&b""[..], b"tailnum,year\nN1,2001\n", b"{\"flights\": 1}"] {
        let error = read(bytes).unwrap_err().report();
        assert!(error.contains("not a file of flights") && error.contains("some.csv"), "{error}");
    }
}

#[test]
fn a_torn_gzip_file_is_an_error_and_not_an_end() {
    let whole = fs::read(expected::JANUARY).unwrap();
    let error = read(&whole[..whole.len() / 2]).unwrap_err().report();
    assert!(error.contains("cannot read flights") && error.contains("some.csv"), "{error}");
}

#[test]
fn a_file_that_is_not_there_is_named_with_the_remedy() {
    for path in ["/nowhere/flights.csv", "/"] {
        let error = Input::find(&Data::Path(path.into())).unwrap_err().report();
        assert!(error.contains(&format!("file=`{path}`")) && error.contains("january"), "{error}");
    }
}
