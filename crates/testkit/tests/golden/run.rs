//! Runs a case in the driver, and compares what comes out, what stores hold and what is logged.

use std::collections::BTreeMap;
use std::time::Duration;

use millpond_runtime::{Counter, Result};
use millpond_store_mem::MemEngine;
use millpond_testkit::{Driver, OutputTopic, RawRecord};
use millpond_topology::{ByteArray, Header, Nullable, Serde as _, StoreType, Topology};
use serde::Deserialize as _;
use serde_json::Value as Json;

use crate::build::{Built, Formats, Stop, build};
use crate::case::{self, Case, Output, Step};
use crate::compare::{self, Differences};
use crate::easings::{Easing, Help};
use crate::expiry::{self, Expiry};
use crate::finals::Finals;
use crate::hex::{hex, unhex};
use crate::readings::{Reading, reading};
use crate::value::{Cell, Key, Kind, Val, nullable};

pub(crate) enum Outcome {
    Passed(Help),
    /// Every difference.
    Failed(String),
    Waiting(&'static str),
}

/// How a case is run: each in every way.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// On a disk.
    Disk,
    /// In memory.
    Memory,
}

/// Runs a case; answers its name, too.
pub(crate) fn run(group: &str, json: &Json) -> (String, Outcome) {
    let name = json.get("name").and_then(Json::as_str).unwrap_or("?").to_owned();
    let outcome = match Case::deserialize(json) {
        Ok(case) => run_case(group, &case),
        Err(e) => Outcome::Failed(format!("the case is not understood: {e}\n")),
    };
    (name, outcome)
}

fn run_case(group: &str, case: &Case) -> Outcome {
    let reading = reading(group, &case.name);
    if case.java_deviates && case.reason.is_none() {
        return Outcome::Failed("it deviates for no reason\n".into());
    }
    let has_right = reading.is_some() || case.steps.iter().any(|step| step.right_out.is_some());
    let mut all = String::new();
    let mut help = Help { by_hand: reading.is_some(), ..Help::default() };
    for way in [Way::Disk, Way::Memory] {
        // A topology belongs to one driver, as its stores do.
        let built = match build(&case.topology) {
            Ok(built) => built,
            Err(Stop::Waits(why)) => return Outcome::Waiting(why),
            Err(Stop::Refused) if case.build_error.is_some() => {
                help.easings.insert(Easing::NotSayable);
                return Outcome::Passed(help);
            }
            Err(Stop::Refused) => return Outcome::Failed("it cannot be said\n".into()),
            Err(Stop::Broken(why)) => return Outcome::Failed(format!("the case is not understood: {why}\n")),
        };
        let Built { topology, formats } = built;
        let told = match (topology, &case.build_error) {
            _ if case.java_deviates && !has_right => "Kafka Streams deviates, and nothing says what is right\n".into(),
            (Err(_), Some(_)) => String::new(),
            (Ok(_), Some(error)) => format!("it could be built; Kafka Streams says {error}\n"),
            (Err(error), None) => format!("it cannot be built: {error}\n"),
            (Ok(topology), None) => {
                let finals = Finals::of(&case.topology, &case.steps);
                let run = Run { case, reading: &reading, formats: &formats, finals };
                let (told, easings) = run.differences(topology, way).into_parts();
                help.easings.extend(easings);
                told
            }
        };
        if !told.is_empty() {
            all.push_str(&format!("  {way:?}:\n{told}"));
        }
    }
    if all.is_empty() { Outcome::Passed(help) } else { Outcome::Failed(all) }
}

/// A case, and how its bytes are read.
struct Run<'a> {
    case: &'a Case,
    reading: &'a Option<Reading>,
    formats: &'a Formats,
    finals: Option<Finals>,
}

impl Run<'_> {
    /// All differences in one way.
    fn differences(&self, topology: Topology, way: Way) -> Differences {
        let mut found = Differences::default();
        match self.driver(topology.clone(), way) {
            Ok(driver) => {
                let mut expiry = Expiry::of(&self.case.topology.stores);
                let boundaries = self.steps(&driver, &topology, &mut expiry, &mut found);
                self.stores(&driver, &topology, expiry.as_ref(), &mut found);
                self.internal(&driver, &topology, &boundaries, &mut found);
            }
            Err(e) => found.say(format!("it does not start: {}", e.chain())),
        }
        found
    }

    fn driver(&self, topology: Topology, way: Way) -> Result<Driver> {
        let config = &self.case.topology.config;
        let builder = Driver::builder(topology)
            .application_id("app")
            .commit_each_record()
            .caching(config.cache_bytes)
            // Records of repartition topics are compared at the end.
            .setting("repartition.purge.interval.ms", "1000000000");
        let builder = if config.position_headers {
            builder.setting("__iq.consistency.offset.vector.enabled__", "true")
        } else {
            builder
        };
        match way {
            Way::Disk => builder.build(),
            Way::Memory => builder.engine(MemEngine::default()).build(),
        }
    }

    /// Takes the steps; answers how many records each internal topic had after each.
    fn steps(
        &self,
        driver: &Driver,
        topology: &Topology,
        expiry: &mut Option<Expiry>,
        found: &mut Differences,
    ) -> Boundaries {
        let outputs: BTreeMap<&String, Sink> = self
            .formats
            .sinks
            .keys()
            .map(|topic| (topic, driver.output(topic, Nullable(ByteArray), Nullable(ByteArray))))
            .collect();
        let mut boundaries = Boundaries::new();
        for (at, step) in self.case.steps.iter().enumerate() {
            let done = self.take(driver, step);
            let got = self.read(&outputs, found);
            let mut accepted = self.accepted(at, step, found);
            if let Some(expiry) = expiry
                && let Some(command) = expiry.observe(step)
            {
                let golden = accepted.clone();
                accepted.iter_mut().flatten().for_each(|output| without_gone(expiry, command, output));
                found.ease(Easing::Expired, accepted != golden);
            }
            let wants_error = step.error.is_some() && step.right_out.is_none() && self.by_hand(at).is_none();
            match (&done, wants_error) {
                (Err(e), false) => found.say(format!("step {at} {step}: {}", e.chain())),
                (Ok(()), true) => found.say(format!("step {at} {step}: an error was expected, {:?}", step.error)),
                _ => {}
            }
            compare::outputs(&format!("step {at} {step}"), &accepted, &got, found);
            for topic in internal_topics(topology) {
                boundaries.entry(topic.clone()).or_default().push(driver.records(&topic).len());
            }
            if done.is_err() {
                break;
            }
        }
        boundaries
    }

    fn take(&self, driver: &Driver, step: &Step) -> Result<()> {
        let Some(topic) = &step.topic else {
            return driver.advance(Duration::from_millis(step.advance_ms.unwrap_or_default()));
        };
        let (key, value) = self.formats.sources.get(topic).copied().unwrap_or_default();
        let mut record = RawRecord::new(bytes(key, &step.key), bytes(value, &step.value), step.ts.unwrap_or_default());
        for (name, value) in &step.headers {
            let value = value.as_ref().and_then(|hex| unhex(hex)).map(Into::into);
            record.headers.push(Header { name: name.as_str().into(), value });
        }
        driver.pipe(topic, None, &record)
    }

    /// What has come out, topic by topic.
    fn read(&self, outputs: &BTreeMap<&String, Sink>, found: &mut Differences) -> Vec<Output> {
        let mut all = Vec::new();
        for (topic, output) in outputs {
            let Some((key, value)) = self.formats.sinks.get(*topic).copied() else { continue };
            for record in output.read_all() {
                let read_key = Key::read(key, record.key.as_deref());
                let read_value = record.value.as_deref().map(|bytes| nullable(value).decode(bytes)).transpose();
                match (read_key, read_value) {
                    (Ok(key), Ok(value)) => all.push(Output {
                        topic: (*topic).clone(),
                        key,
                        value: value.flatten(),
                        ts: Some(record.timestamp),
                        headers: headers(&record.headers),
                    }),
                    (key, value) => found.say(format!("`{topic}` has bytes that cannot be read: {key:?} {value:?}")),
                }
            }
        }
        all
    }

    /// Our own reading of a step, where the case has none.
    fn by_hand(&self, at: usize) -> Option<&Vec<Output>> {
        self.reading.as_ref()?.steps.get(&at)
    }

    /// What may come out.
    fn accepted(&self, at: usize, step: &Step, found: &mut Differences) -> Vec<Vec<Output>> {
        if let Some(by_hand) = self.by_hand(at) {
            return vec![by_hand.clone()];
        }
        match &step.right_out {
            Some(right) if self.case.tolerable => vec![right.clone(), step.out.clone()],
            Some(right) => vec![right.clone()],
            None => {
                let out = self.finals.as_ref().and_then(|finals| finals.outputs(at)).unwrap_or(&step.out);
                found.ease(Easing::LaterFinals, *out != step.out);
                vec![out.clone()]
            }
        }
    }

    /// After an error nothing runs: then it is what the changelogs amount to that counts.
    fn stores(&self, driver: &Driver, topology: &Topology, expiry: Option<&Expiry>, found: &mut Differences) {
        let by_hand = self.reading.as_ref().and_then(|reading| reading.stores.as_ref());
        if self.case.java_deviates && by_hand.is_none() {
            return;
        }
        for (name, contents) in laid_over(&self.case.stores, by_hand) {
            let Some(format) = self.formats.stores.get(name).copied() else {
                found.say(format!("there is no store `{name}`"));
                continue;
            };
            let logged = self.case.internal.get(&format!("app-{name}-changelog")).map_or(&[][..], Vec::as_slice);
            let logged =
                if self.case.topology.config.cache_bytes > 0 || driver.tasks().is_empty() { logged } else { &[] };
            compare::store(driver, topology, (name, format), (contents, expiry, logged), found);
        }
    }

    fn internal(&self, driver: &Driver, topology: &Topology, boundaries: &Boundaries, found: &mut Differences) {
        let by_hand = self.reading.as_ref().and_then(|reading| reading.internal.as_ref());
        if self.case.java_deviates && by_hand.is_none() {
            return;
        }
        let expected = laid_over(&self.case.internal, by_hand);
        let ours = internal_topics(topology);
        for topic in expected.keys().filter(|topic| !ours.contains(topic)) {
            found.say(format!("there is no internal topic `{topic}`"));
        }
        let mut expired_puts = 0;
        for topic in &ours {
            let got: Vec<_> = driver.records(topic).iter().map(raw).collect();
            let expected = expected.get(topic).map_or(&[][..], |records| records.as_slice());
            let ends = boundaries.get(topic).map_or(&[][..], Vec::as_slice);
            let store = compare::store_of(topology, topic);
            let tail = compare::tail_of_keys(store);
            match (store, &self.finals) {
                _ if by_hand.is_some_and(|by_hand| by_hand.contains_key(topic)) => {
                    compare::internal((topic, ends), expected, &got, tail, found);
                }
                (Some(store), Some(finals)) if store.kind == StoreType::SuppressionBuffer => {
                    let ends = if finals.are_later() { &[][..] } else { ends };
                    compare::internal(
                        (topic, ends),
                        &finals.logged(expected, found),
                        &finals.made_once(&got),
                        tail,
                        found,
                    );
                }
                (Some(store), _) => {
                    let (puts, expired) = expiry::puts(store, expected);
                    expired_puts += expired;
                    found.ease(Easing::ExpiredPuts, expired > 0);
                    found.ease(Easing::DuplicatesStay, puts.len() + expired < expected.len());
                    compare::internal((topic, ends), &puts, &got, tail, found);
                }
                (None, _) => compare::internal((topic, ends), expected, &got, tail, found),
            }
        }
        if by_hand.is_none() && expiry::is_told_by_changelogs(topology) {
            // What nodes drop on purpose is counted there as well.
            let refused = driver.count(Counter::DroppedRecordsTotal) - driver.count(Counter::DroppedByNodeTotal);
            if refused != expired_puts as u64 {
                found.say(format!("{expired_puts} puts had expired, and {refused} were refused"));
            }
        }
    }
}

/// What a case says, with what we say of the same name instead.
fn laid_over<'a, T>(
    case: &'a BTreeMap<String, T>,
    by_hand: Option<&'a BTreeMap<String, T>>,
) -> BTreeMap<&'a String, &'a T> {
    case.iter().chain(by_hand.into_iter().flatten()).collect()
}

fn without_gone(expiry: &Expiry, command: &str, output: &mut Output) {
    if let Some(Val::Text(answer)) = &mut output.value {
        *answer = expiry.answer(command, answer);
    }
}

type Sink = OutputTopic<Option<Vec<u8>>, Option<Vec<u8>>>;

/// How many records each internal topic had after each step.
type Boundaries = BTreeMap<String, Vec<usize>>;

fn internal_topics(topology: &Topology) -> Vec<String> {
    topology.internal_topics().iter().map(|topic| topic.topic.full_name("app")).collect()
}

fn bytes(kind: Kind, cell: &Cell) -> Option<Vec<u8>> {
    let value = cell.as_ref()?;
    let mut bytes = Vec::new();
    crate::value::Dynamic(kind).encode(value, &mut bytes).ok()?;
    Some(bytes)
}

pub(crate) fn headers(headers: &millpond_topology::Headers) -> Vec<case::Header> {
    headers.iter().map(|h| (h.name.to_string(), h.value.as_deref().map(hex))).collect()
}

/// A record of an internal topic, without what only the library has to know.
fn raw(record: &RawRecord) -> case::RawRecord {
    let mut all = headers(&record.headers);
    all.retain(|(name, _)| name != "__cut");
    case::RawRecord {
        key_hex: record.key.as_deref().map(hex),
        value_hex: record.value.as_deref().map(hex),
        ts: Some(record.timestamp),
        headers: all,
    }
}
