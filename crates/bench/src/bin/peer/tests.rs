//! Whole measurements over an embedded broker.

use millpond_broker_api::{At, Broker};
use millpond_broker_mem::EmbeddedBroker;
use serde_json::Value;

use crate::args::Args;
use crate::event::Events;
use crate::{embedded, raw, streams, workload};

const KEYS: usize = 1_000;
const RECORDS: usize = 20_000;

/// Runs one measurement; answers with its events and the broker.
fn measure(program: &str, words: &str) -> (Vec<Value>, EmbeddedBroker) {
    let state = tempfile::tempdir().unwrap();
    let line = format!("app=app input=in output=out keys={KEYS} state={} {words}", state.path().display());
    let args = Args::parse(&line.split_whitespace().collect::<Vec<_>>()).unwrap();
    let broker = embedded::filled(&args).unwrap();
    let mut told = Vec::new();
    let mut events = Events::to(&mut told);
    match program {
        "streams" => streams::run(broker.clone(), &args, &mut events).unwrap(),
        _ => raw::run(&broker, &args, &mut events).unwrap(),
    }
    drop(events);
    let lines = String::from_utf8(told).unwrap();
    (lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), broker)
}

fn event<'a>(events: &'a [Value], name: &str) -> &'a Value {
    events.iter().find(|event| event["event"] == name).unwrap_or_else(|| panic!("no event {name} in {events:?}"))
}

fn written(broker: &EmbeddedBroker, topic: &str) -> i64 {
    let of = [0, 1, 2, 3].map(|partition| (topic, partition, At::End));
    broker.admin().unwrap().offsets(&of).unwrap().into_iter().map(Result::unwrap).sum()
}

fn distinct() -> usize {
    let keys = workload::uniform(KEYS as u64).take(RECORDS).map(|record| record.key);
    keys.collect::<std::collections::BTreeSet<_>>().len()
}

/// The figures are there and are numbers that a run can have.
fn assert_figures(result: &Value) {
    let counted = result["records"].as_u64().unwrap();
    assert!(counted <= RECORDS as u64, "{result}");
    for field in ["seconds", "cpu", "drain_s", "cpu_whole_process"] {
        assert!(result[field].as_f64().unwrap() >= 0.0, "{field} of {result}");
    }
    assert!(result["peak_rss_mb"].as_f64().unwrap() > 1.0, "{result}");
}

#[test]
fn a_count_ends_committed_and_its_store_has_every_record() {
    for words in ["guarantee=alos commit=50", "guarantee=eos", "guarantee=eos conf.statestore.cache.max.bytes=0"] {
        let (events, _) = measure("streams", &format!("job=count records={RECORDS} {words}"));
        assert_figures(event(&events, "result"));
        let check = event(&events, "check");
        assert_eq!((&check["entries"], &check["sum"]), (&distinct().into(), &RECORDS.into()), "{words}");
    }
}

#[test]
fn a_copy_writes_every_record_and_has_no_store_to_check() {
    let (events, broker) = measure("streams", &format!("job=copy records={RECORDS} commit=50"));
    assert_figures(event(&events, "result"));
    assert_eq!(written(&broker, "out"), RECORDS as i64);
    assert!(events.iter().all(|event| event["event"] != "check"));
}

#[test]
fn a_restore_reads_the_whole_changelog() {
    let (events, _) = measure("streams", "job=reduce100 records=0 versions=2");
    let running = event(&events, "running");
    assert_eq!(running["restored"], 2 * KEYS, "{running}");
    assert!(running["restore_s"].as_f64().unwrap() <= running["seconds_to_running"].as_f64().unwrap(), "{running}");
    let check = event(&events, "check");
    assert_eq!((&check["entries"], &check["sum"]), (&KEYS.into(), &0.into()));
}

#[test]
fn the_raw_loops_write_what_they_read() {
    for (mode, factor) in [("consume", 0), ("copy", 1), ("copy-eos", 1)] {
        let (events, broker) = measure("raw", &format!("mode={mode} records={RECORDS} commit=5"));
        let result = event(&events, "result");
        assert_figures(result);
        assert_eq!(result["records"], RECORDS, "{mode}");
        let out = written(&broker, "out");
        // Markers of transactions take offsets, too.
        assert!(
            out >= factor * RECORDS as i64 && (mode == "copy-eos" || out == factor * RECORDS as i64),
            "{mode}: {out}"
        );
    }
}
