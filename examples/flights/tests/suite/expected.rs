//! Totals straight from a file, by other means than the program's: no CSV reader, no record type, no Millpond.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use millpond_example_flights::flight::Totals;

/// The file of January, as it lies in the source tree.
pub(crate) const JANUARY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/flights-2013-01.csv.gz");

/// The text of a gzipped file.
pub(crate) fn text(path: &Path) -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text
}

/// Splits at commas: no field of the data has quotes.
pub(crate) fn totals(text: &str) -> BTreeMap<String, Totals> {
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let column = |name| header.iter().position(|column| *column == name).unwrap();
    let (carrier, departed) = (column("carrier"), column("departed_ms"));
    let (delay, distance) = (column("dep_delay_min"), column("distance_mi"));
    let mut totals = BTreeMap::<String, Totals>::new();
    for row in lines {
        let of = totals.entry(row[carrier].to_owned()).or_default();
        of.flights += 1;
        if row[departed].is_empty() {
            of.cancelled += 1;
        } else {
            of.dep_delay_min_sum += row[delay].parse::<i64>().unwrap();
        }
        of.distance_mi_sum += row[distance].parse::<u64>().unwrap();
    }
    totals
}

/// The totals of a file that is replayed so many times.
pub(crate) fn times(totals: &BTreeMap<String, Totals>, n: u64) -> BTreeMap<String, Totals> {
    let signed = i64::try_from(n).unwrap();
    let multiply = |t: &Totals| Totals {
        flights: t.flights * n,
        cancelled: t.cancelled * n,
        dep_delay_min_sum: t.dep_delay_min_sum * signed,
        distance_mi_sum: t.distance_mi_sum * n,
    };
    totals.iter().map(|(carrier, t)| (carrier.clone(), multiply(t))).collect()
}
