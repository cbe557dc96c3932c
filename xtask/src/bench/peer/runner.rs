//! One measurement after the other: topics, a fresh application, its figures, and nothing left behind.

use std::path::PathBuf;

use serde_json::Value;

use super::process::{Fields, Process, is, number};
use super::programs::{Argument, Programs};
use super::workload::{Contender, Group, Scale, Side, Workload};
use crate::cargo::target_directory;
use crate::clock::wall_ms;
use crate::error::{Error, Result};

const PARTITIONS: &str = "4";
/// Records have old timestamps on purpose, and must neither expire nor be compacted under a measurement. A record or marker
/// that is this much younger than the first of its segment would close the segment, and so give it to the cleaner.
pub(super) const TEN_YEARS_MS: &str = "315360000000";
/// How often each key is in the changelog that is restored.
const VERSIONS: u64 = 2;

/// Measures on one broker.
#[derive(Debug)]
pub(super) struct Runner {
    programs: Programs,
    bootstrap: String,
    scale: Scale,
    /// State directories; removed in the end.
    scratch: PathBuf,
    serial: u64,
}

impl Runner {
    pub(super) fn new(programs: Programs, bootstrap: &str, scale: Scale) -> Result<Self> {
        let scratch = target_directory()?.join(format!("peer-state-{}", std::process::id()));
        Ok(Self { programs, bootstrap: bootstrap.to_owned(), scale, scratch, serial: 0 })
    }

    /// Measures a contender once, under a new application id, and deletes what it made.
    pub(super) fn measure(&mut self, group: &Group, contender: &Contender) -> Result<Fields> {
        self.serial += 1;
        let app = format!("peer-app-{}-{}-{}", std::process::id(), self.serial, group.workload.name());
        let load = load_average();
        let figures = match group.workload {
            Workload::Copy | Workload::Count => self.throughput(group, contender, &app),
            Workload::Restore => self.restore(group, contender, &app),
            Workload::Crash => self.crash(group, contender, &app),
        };
        // After a failure as well; but then it is the failure that is told.
        let tidied = self.forget(&app);
        let mut figures = figures?;
        figures.extend(load.map(|load| ("load_before".to_owned(), load.into())));
        tidied.map(|()| figures)
    }

    fn forget(&self, app: &str) -> Result<()> {
        self.helper("Topics", &[("do", "delete".to_owned()), ("prefix", app.to_owned())])?;
        remove(&self.scratch.join(app))
    }

    fn throughput(&self, group: &Group, contender: &Contender, app: &str) -> Result<Fields> {
        let input = self.input(group.distribution)?;
        self.create(&[format!("{app}-out")], &[("config.retention.ms", "-1")])?;
        let records = self.scale.records;
        let events = self.start(group, contender, app, input, records.to_string())?.finish()?;
        let result = find(&events, "result")?;
        if group.workload == Workload::Count {
            let check = find(&events, "check")?;
            expect(check, "sum", records)?;
        }
        Ok(result.clone())
    }

    fn restore(&self, group: &Group, contender: &Contender, app: &str) -> Result<Fields> {
        self.changelog(app)?;
        let input = format!("{app}-in");
        self.create(&[input.clone(), format!("{app}-out")], &[("config.retention.ms", "-1")])?;
        let events = self.start(group, contender, app, input, "0".to_owned())?.finish()?;
        let running = find(&events, "running")?;
        expect(running, "restored", self.scale.keys * VERSIONS)?;
        expect(find(&events, "check")?, "entries", self.scale.keys)?;
        Ok(with_rates(running.clone()))
    }

    /// Loads the state, processes a tenth of the input, is killed, and starts again on the same state directory.
    fn crash(&self, group: &Group, contender: &Contender, app: &str) -> Result<Fields> {
        self.changelog(app)?;
        let input = self.input(group.distribution)?;
        self.create(&[format!("{app}-out")], &[("config.retention.ms", "-1")])?;
        let start = || self.start(group, contender, app, input.clone(), "-1".to_owned());
        let has_processed = |records: f64| {
            move |event: &Fields| is(event, "progress") && number(event, "processed").is_some_and(|n| n > records)
        };
        let mut first = start()?;
        let loaded = first.until(|event| is(event, "running"))?;
        let progress = first.until(has_processed(self.scale.records as f64 / 10.0))?;
        first.kill()?;
        let killed = wall_ms();
        let mut second = start()?;
        let mut running = second.until(|event| is(event, "running"))?;
        let working = second.until(has_processed(0.0))?;
        second.kill()?;
        let since = |event| Value::from(number(event, "ms").map(|ms| (ms - killed) / 1e3));
        let more = [
            ("kill_to_running_s", since(&running)),
            ("kill_to_first_record_s", since(&working)),
            ("loaded", loaded.get("restored").cloned().unwrap_or_default()),
            ("processed", progress.get("processed").cloned().unwrap_or_default()),
        ];
        running.extend(more.map(|(name, value)| (name.to_owned(), value)));
        Ok(with_rates(running))
    }

    fn start(
        &self,
        group: &Group,
        contender: &Contender,
        app: &str,
        input: String,
        records: String,
    ) -> Result<Process> {
        let state = self.scratch.join(app);
        let mut arguments = vec![
            ("bootstrap", self.bootstrap.clone()),
            ("app", app.to_owned()),
            ("input", input),
            ("output", format!("{app}-out")),
            ("records", records),
        ];
        if !matches!(contender.side, Side::Raw { .. }) {
            arguments.push(("state", state.display().to_string()));
            // For the changelogs that applications make: a transaction's marker has the time of day.
            arguments.push(("conf.topic.segment.ms", TEN_YEARS_MS.to_owned()));
        }
        if group.workload == Workload::Crash {
            arguments.push(("conf.session.timeout.ms", "10000".to_owned()));
            arguments.push(("conf.heartbeat.interval.ms", "3000".to_owned()));
        }
        Process::start(self.programs.contender(group, contender, &arguments))
    }

    /// The input topic of a distribution, written if it is not there. It is kept: another go finds it again.
    fn input(&self, distribution: &str) -> Result<String> {
        let Scale { records, keys } = self.scale;
        let topic = format!("peer-in-{distribution}-{records}-{keys}");
        let answers = self.helper("Topics", &[("do", "ends".to_owned()), ("topic", topic.clone())])?;
        let end = answers.iter().find_map(|answer| number(answer, "end"));
        match end {
            Some(end) if end == records as f64 => return Ok(topic),
            Some(end) if end < 0.0 => {}
            _ => {
                let found = end.map_or("something else".to_owned(), |end| format!("{end} records"));
                return Err(Error::failed(format!("topic {topic} has {found}, not {records}: delete it")));
            }
        }
        eprintln!("bench peer: writing {topic}");
        self.create(std::slice::from_ref(&topic), &[("config.retention.ms", "-1")])?;
        let arguments = [
            ("topic", topic.clone()),
            ("records", records.to_string()),
            ("keys", keys.to_string()),
            ("distribution", distribution.to_owned()),
        ];
        self.helper("Generate", &arguments)?;
        Ok(topic)
    }

    /// A changelog as the application would have left it.
    fn changelog(&self, app: &str) -> Result<()> {
        let topic = format!("{app}-store-changelog");
        let configs = [("config.cleanup.policy", "compact"), ("config.segment.ms", TEN_YEARS_MS)];
        self.create(std::slice::from_ref(&topic), &configs)?;
        let arguments = [
            ("topic", topic),
            ("order", "each".to_owned()),
            ("keys", self.scale.keys.to_string()),
            ("versions", VERSIONS.to_string()),
        ];
        self.helper("Generate", &arguments).map(drop)
    }

    fn create(&self, topics: &[String], configs: &[(&'static str, &str)]) -> Result<()> {
        let mut arguments =
            vec![("do", "create".to_owned()), ("topics", topics.join(",")), ("partitions", PARTITIONS.to_owned())];
        arguments.extend(configs.iter().map(|(name, value)| (*name, (*value).to_owned())));
        self.helper("Topics", &arguments).map(drop)
    }

    fn helper(&self, class: &str, arguments: &[Argument]) -> Result<Vec<Fields>> {
        let arguments: Vec<Argument> =
            [("bootstrap", self.bootstrap.clone())].into_iter().chain(arguments.iter().cloned()).collect();
        Process::start(self.programs.helper(class, &arguments))?.finish()
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.scratch) {
            eprintln!("bench peer: {}", error.message().unwrap_or_default());
        }
    }
}

fn remove(directory: &std::path::Path) -> Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io("cannot remove", directory, &error))
        }
        _ => Ok(()),
    }
}

fn find<'a>(events: &'a [Fields], name: &str) -> Result<&'a Fields> {
    let found = events.iter().find(|event| is(event, name));
    found.ok_or_else(|| Error::failed(format!("a program has ended well without the event `{name}`")))
}

/// What cannot be otherwise if the program did its work.
fn expect(event: &Fields, field: &str, value: u64) -> Result<()> {
    match number(event, field) {
        Some(found) if found == value as f64 => Ok(()),
        found => Err(Error::failed(format!("a measurement is void: {field} is {found:?}, not {value}"))),
    }
}

/// Adds the rates of a restore, if there was one.
fn with_rates(mut event: Fields) -> Fields {
    let figure = |field| number(&event, field).filter(|figure| *figure > 0.0);
    if let Some(restored) = figure("restored") {
        let per = |field| figure(field).map(|span| restored / span);
        let (per_s, per_cpu_s) = (per("restore_s"), per("restore_cpu"));
        event.insert("restored_per_s".to_owned(), per_s.into());
        event.insert("restored_per_cpu_s".to_owned(), per_cpu_s.into());
    }
    event
}

/// The load of the last minute; `None` where the system does not tell.
fn load_average() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(fields: &[(&str, f64)]) -> Fields {
        fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect()
    }

    #[test]
    fn rates_are_those_of_the_restore_and_absent_without_one() {
        let restored = with_rates(event(&[("restored", 300.0), ("restore_s", 2.0), ("restore_cpu", 0.0)]));
        assert_eq!(number(&restored, "restored_per_s"), Some(150.0));
        assert_eq!(number(&restored, "restored_per_cpu_s"), None);
        assert_eq!(with_rates(event(&[("restored", 0.0), ("restore_s", 2.0)])).len(), 2);
    }

    #[test]
    fn a_wrong_count_makes_a_measurement_void() {
        assert!(expect(&event(&[("sum", 7.0)]), "sum", 7).is_ok());
        assert!(expect(&event(&[("sum", 6.0)]), "sum", 7).unwrap_err().message().unwrap().contains("sum"));
        assert!(expect(&event(&[]), "sum", 7).is_err());
    }
}
