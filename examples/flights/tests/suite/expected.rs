//! The results straight from a file, by other means than the program's: no CSV reader, no record type, no Millpond.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use serde_json::{Map, Value, json};

/// The file of January, as it lies in the source tree.
pub(crate) const JANUARY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/flights-2013-01.csv.gz");

const HOUR: i64 = 3_600_000;
const YEAR: i64 = 365 * 24 * HOUR;

/// The text of a gzipped file.
pub(crate) fn text(path: &Path) -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text
}

/// What is printed for a file that is replayed so many times, each time a year later.
pub(crate) fn results(text: &str, times: i64) -> Value {
    let departures = departures(text, times);
    assert_eq!(late(&departures, 24 * HOUR), 0, "the data are not what they were: a flight left a day late");
    json!({
        "carriers": carriers(text, times),
        "hourly": hourly(&departures),
        "legs": legs(&departures),
        "late": late(&departures, 0),
    })
}

/// What was printed against what must be: the first difference is shown, and where it is.
#[track_caller]
pub(crate) fn assert_same(printed: &Value, expected: &Value) {
    if let Some(difference) = difference(printed, expected) {
        panic!("{difference}");
    }
}

fn difference(printed: &Value, expected: &Value) -> Option<String> {
    let (Some(left), Some(right)) = (printed.as_object(), expected.as_object()) else {
        return (printed != expected).then(|| format!(": printed {printed}, but it is {expected}"));
    };
    let mut keys = left.keys().chain(right.keys());
    let of = |object: &Map<String, Value>, key: &str| object.get(key).cloned().unwrap_or_default();
    keys.find_map(|key| Some(format!(" {key}{}", difference(&of(left, key), &of(right, key))?)))
}

/// Splits at commas: no field of the data has quotes.
fn rows(text: &str) -> (Vec<&str>, impl Iterator<Item = Vec<&str>>) {
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    (lines.next().unwrap(), lines)
}

fn column(header: &[&str], name: &str) -> usize {
    header.iter().position(|column| *column == name).unwrap()
}

pub(crate) fn carriers(text: &str, times: i64) -> Value {
    let (header, rows) = rows(text);
    let (carrier, departed) = (column(&header, "carrier"), column(&header, "departed_ms"));
    let (delay, distance) = (column(&header, "dep_delay_min"), column(&header, "distance_mi"));
    let mut carriers = BTreeMap::<_, [i64; 4]>::new();
    for row in rows {
        let [flights, cancelled, delays, distances] = carriers.entry(row[carrier].to_owned()).or_default();
        *flights += times;
        if row[departed].is_empty() {
            *cancelled += times;
        } else {
            *delays += times * row[delay].parse::<i64>().unwrap();
        }
        *distances += times * row[distance].parse::<i64>().unwrap();
    }
    let object = |(carrier, [flights, cancelled, delays, distances]): (String, [i64; 4])| {
        let totals = json!({
            "flights": flights,
            "cancelled": cancelled,
            "dep_delay_min_sum": delays,
            "distance_mi_sum": distances,
        });
        (carrier, totals)
    };
    carriers.into_iter().map(object).collect()
}

/// A flight that left, with a plane that is known.
struct Departure {
    at: i64,
    origin: String,
    plane: String,
    delay: i64,
    miles: i64,
}

/// In the order of the file.
fn departures(text: &str, times: i64) -> Vec<Departure> {
    let mut departures = Vec::new();
    for year in 0..times {
        let (header, rows) = rows(text);
        let [departed, origin, plane] = ["departed_ms", "origin", "tailnum"].map(|name| column(&header, name));
        let [delay, distance] = ["dep_delay_min", "distance_mi"].map(|name| column(&header, name));
        for row in rows.filter(|row| !row[departed].is_empty() && !row[plane].is_empty()) {
            departures.push(Departure {
                at: row[departed].parse::<i64>().unwrap() + year * YEAR,
                origin: row[origin].to_owned(),
                plane: row[plane].to_owned(),
                delay: row[delay].parse().unwrap(),
                miles: row[distance].parse().unwrap(),
            });
        }
    }
    departures
}

fn hourly(departures: &[Departure]) -> Value {
    let mut hours = BTreeMap::<_, BTreeMap<_, (i64, i64)>>::new();
    for flight in departures {
        let hours = hours.entry(flight.origin.clone()).or_default();
        let (count, delays) = hours.entry(flight.at / HOUR).or_default();
        (*count, *delays) = (*count + 1, *delays + flight.delay);
    }
    let hour = |(hour, (count, delays))| (name(hour), json!({ "departures": count, "delay_min_sum": delays }));
    hours.into_iter().map(|(origin, hours)| (origin, hours.into_iter().map(hour).collect::<Value>())).collect()
}

/// An hour since 1970, by going through the calendar from there.
fn name(hour: i64) -> String {
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let (mut days, mut year, mut month) = (hour / 24, 1970, 0);
    while days >= 365 + i64::from(is_leap(year)) {
        days -= 365 + i64::from(is_leap(year));
        year += 1;
    }
    let months = [31, 28 + i64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    while days >= months[month] {
        days -= months[month];
        month += 1;
    }
    format!("{year}-{:02}-{:02}T{:02}:00:00Z", month + 1, days + 1, hour % 24)
}

/// Each plane's departures in order, cut where it stood for more than six hours.
fn legs(departures: &[Departure]) -> Value {
    let mut planes = BTreeMap::<_, Vec<_>>::new();
    for flight in departures {
        planes.entry(flight.plane.clone()).or_default().push((flight.at, flight.miles));
    }
    let sessions = |mut flights: Vec<(i64, i64)>| {
        flights.sort_unstable();
        let sessions = flights.chunk_by(|(earlier, _), (later, _)| later - earlier <= 6 * HOUR);
        let session = |flights: &[(i64, i64)]| {
            let miles = flights.iter().map(|(_, miles)| miles).sum::<i64>();
            json!({ "from": flights[0].0, "to": flights[flights.len() - 1].0, "legs": flights.len(), "miles": miles })
        };
        sessions.map(session).collect::<Value>()
    };
    Value::Object(planes.into_iter().map(|(plane, flights)| (plane, sessions(flights))).collect::<Map<_, _>>())
}

/// How many left in an hour that was over, and as much more, by the latest departure before them.
fn late(departures: &[Departure], grace: i64) -> u64 {
    let (mut latest, mut late) = (i64::MIN, 0);
    for flight in departures {
        latest = latest.max(flight.at);
        late += u64::from(flight.at / HOUR * HOUR + HOUR + grace <= latest);
    }
    late
}
