//! The input: which file, and how its rows become flights.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::iter;
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

use crate::error::{Error, Result};
use crate::flight::Flight;

/// January comes with the program.
const JANUARY: &[u8] = include_bytes!("../data/flights-2013-01.csv.gz");
/// Names the file of the year, if it is somewhere else.
const YEAR_VARIABLE: &str = "MILLPOND_FLIGHTS_YEAR";
/// What the file of the year is called where it is looked for.
const YEAR_FILE: &str = "flights-2013.csv.gz";
/// The folder of the January file.
const DATA_FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data");

/// The columns that are read; others may be there.
const COLUMNS: [&str; 9] =
    ["scheduled_ms", "departed_ms", "carrier", "flight", "tailnum", "origin", "dest", "dep_delay_min", "distance_mi"];

/// Which flights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// January 2013, which is part of the program.
    January,
    /// All of 2013, from a file that is looked for.
    Year,
    /// A file: CSV with the same columns, gzipped or not.
    Path(PathBuf),
}

impl From<OsString> for Data {
    /// The two words, else a path.
    fn from(word: OsString) -> Self {
        match word.to_str() {
            Some("january") => Self::January,
            Some("year") => Self::Year,
            _ => Self::Path(word.into()),
        }
    }
}

/// A file of flights that is there.
#[derive(Clone, Debug)]
pub struct Input {
    /// `None`: January, from the program itself.
    path: Option<PathBuf>,
}

impl Input {
    /// Finds the file. The year is looked for where the variable `MILLPOND_FLIGHTS_YEAR` says, else beside the January file in
    /// the source tree, else in the folder `data` of the current one, as `flights-2013.csv.gz`.
    ///
    /// # Errors
    ///
    /// No such file; for the year with all places that were looked at.
    pub fn find(data: &Data) -> Result<Self> {
        let path = match data {
            Data::January => None,
            Data::Path(path) => Some(existing(path)?),
            Data::Year => Some(find_year(env::var_os(YEAR_VARIABLE).map(PathBuf::from), Path::new(DATA_FOLDER))?),
        };
        Ok(Self { path })
    }

    /// Opens the file and reads its header; the rows come one by one.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or its header lacks a column.
    pub fn flights(&self) -> Result<Flights> {
        let bytes: Box<dyn Read + Send> = match &self.path {
            None => Box::new(JANUARY),
            Some(path) => Box::new(File::open(path).map_err(|error| self.unreadable().caused_by(error))?),
        };
        let mut bytes = BufReader::with_capacity(64 << 10, bytes);
        let head = bytes.fill_buf().map_err(|error| self.unreadable().caused_by(error))?;
        // The content decides, not the name: the magic number of RFC 1952.
        let text: Box<dyn Read + Send> =
            if head.starts_with(&[0x1f, 0x8b]) { Box::new(MultiGzDecoder::new(bytes)) } else { Box::new(bytes) };
        Flights::new(csv::Reader::from_reader(text), self.to_string())
    }

    /// The file so many times, each time a year later.
    pub fn repeated(&self, times: u32) -> impl Iterator<Item = Result<Flight>> {
        (0..times).flat_map(|year| -> Box<dyn Iterator<Item = Result<Flight>>> {
            match self.flights() {
                Ok(flights) => Box::new(flights.map(move |flight| Ok(flight?.years_later(year)))),
                Err(error) => Box::new(iter::once(Err(error))),
            }
        })
    }

    fn unreadable(&self) -> Error {
        Error::failed("cannot read flights").with("file", self)
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            None => f.write_str("january (built in)"),
            Some(path) => path.display().fmt(f),
        }
    }
}

fn existing(path: &Path) -> Result<PathBuf> {
    if path.is_file() {
        return Ok(path.to_owned());
    }
    let remedy = "give `january`, `year` or the path of a CSV file";
    Err(Error::failed("no such file of flights").with("file", path.display()).with("remedy", remedy))
}

/// Looks for the year: only where the variable says, if it is set.
fn find_year(named: Option<PathBuf>, beside_january: &Path) -> Result<PathBuf> {
    let places = match named {
        Some(path) => vec![path],
        None => vec![beside_january.join(YEAR_FILE), Path::new("data").join(YEAR_FILE)],
    };
    if let Some(found) = places.iter().find(|place| place.is_file()) {
        return Ok(found.clone());
    }
    let looked = places.iter().map(|place| place.display().to_string()).collect::<Vec<_>>().join("`, `");
    let remedy =
        format!("put {YEAR_FILE} there, or set {YEAR_VARIABLE} to its path; see examples/flights/data/README.md");
    Err(Error::failed("the flights of the year are not there").with("looked_at", looked).with("remedy", remedy))
}

/// The flights of a file, in its order. After an error nothing more comes.
pub struct Flights {
    rows: csv::DeserializeRecordsIntoIter<Box<dyn Read + Send>, Flight>,
    headers: csv::StringRecord,
    file: String,
    is_over: bool,
}

impl Flights {
    fn new(mut reader: csv::Reader<Box<dyn Read + Send>>, file: String) -> Result<Self> {
        let headers = reader.headers().map_err(|error| bad_row(error, &file, &csv::StringRecord::new()))?.clone();
        if let Some(missing) = COLUMNS.iter().find(|column| !headers.iter().any(|header| header == **column)) {
            let error = Error::failed("not a file of flights: its header lacks a column");
            return Err(error.with("file", file).with("line", 1).with("column", missing));
        }
        Ok(Self { rows: reader.into_deserialize(), headers, file, is_over: false })
    }

    fn check(&self, flight: Flight) -> Result<Flight> {
        if flight.scheduled_ms >= 0 && flight.event_time() >= 0 {
            return Ok(flight);
        }
        let line = self.rows.reader().position().line().saturating_sub(1);
        Err(Error::failed("bad row: a time before 1970").with("file", &self.file).with("line", line))
    }
}

impl Iterator for Flights {
    type Item = Result<Flight>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let flight = match self.rows.next()? {
            Ok(flight) => self.check(flight),
            Err(error) => Err(bad_row(error, &self.file, &self.headers)),
        };
        self.is_over = flight.is_err();
        Some(flight)
    }
}

impl fmt::Debug for Flights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flights").field("file", &self.file).finish_non_exhaustive()
    }
}

/// Where in the file, and why. The text of the row is left out: a file may be anything.
fn bad_row(error: csv::Error, file: &str, headers: &csv::StringRecord) -> Error {
    let line = error.position().map(csv::Position::line);
    let located = |message, line: Option<u64>| {
        let error = Error::failed(message).with("file", file);
        line.into_iter().fold(error, |error, line| error.with("line", line))
    };
    match error.into_kind() {
        csv::ErrorKind::Io(cause) => located("cannot read flights", line).caused_by(cause),
        csv::ErrorKind::Utf8 { err, .. } => located("bad row: not UTF-8", line).with("field", err.field() + 1),
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            located("bad row: wrong number of fields", line).with("expected", expected_len).with("found", len)
        }
        csv::ErrorKind::Deserialize { err, .. } => {
            let column = err.field().and_then(|field| headers.get(usize::try_from(field).ok()?));
            let error = located("bad row", line);
            column.into_iter().fold(error, |error, column| error.with("column", column)).caused_by(err)
        }
        _ => located("bad row", line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_year_is_taken_where_the_variable_says_and_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let beside = folder.path().join(YEAR_FILE);
        std::fs::write(&beside, "").unwrap();
        let named = folder.path().join("elsewhere.csv");

        assert_eq!(find_year(None, folder.path()).unwrap(), beside);
        let error = find_year(Some(named.clone()), folder.path()).unwrap_err();
        assert!(error.to_string().contains("elsewhere.csv"), "{error}");
        assert!(!error.to_string().contains(&*beside.to_string_lossy()), "{error}");
        std::fs::write(&named, "").unwrap();
        assert_eq!(find_year(Some(named.clone()), folder.path()).unwrap(), named);
    }

    #[test]
    fn a_missing_year_names_all_places_and_the_remedy() {
        let error = find_year(None, Path::new("/nowhere")).unwrap_err().to_string();
        for part in ["/nowhere/flights-2013.csv.gz", "data/flights-2013.csv.gz", "MILLPOND_FLIGHTS_YEAR"] {
            assert!(error.contains(part), "{error}");
        }
    }
}
